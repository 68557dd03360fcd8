//! Sessions on a primary: transaction numbers and their state.
//!
//! State that must survive a failover is in the store, replicated by the oplog. This module has the
//! state that a primary keeps in memory, and the rules about both.

use bson::Uuid;
use steadfast_query::{Code, Fault};
use tokio::time::Instant;

use super::{
    call::TransactionArguments,
    oplog::{OpTime, OrderedTimestamp, SessionId},
    set::State,
};

/// Newest `txnNumber` of a session, with its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ActiveTxn {
    pub(crate) number: i64,
    pub(crate) phase: TxnPhase,
}

/// State of a `txnNumber`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TxnPhase {
    /// A retryable write.
    Retryable,
    /// A transaction in progress.
    Open,
    /// A committed transaction, with its commit entry.
    Committed(OpTime),
    /// An aborted transaction.
    Aborted,
}

impl State {
    /// Marks a session as used. An expired session starts anew.
    pub(crate) fn use_session(&mut self, session: &SessionId, now: Instant) {
        let timeout = self.session_timeout();
        let expired = match self.last_use(session) {
            Some(used) => now.saturating_duration_since(used) > timeout,
            None => self.primary().is_some_and(|primary| {
                let record = self.member(primary).store().session(session);
                let today = self.wall_time(primary, now);
                record.is_some_and(|it| today.saturating_duration_since(it.last_use()) > timeout)
            }),
        };
        if expired {
            self.remove_session(session);
        }
        self.set_last_use(session, now);
        self.remove_expired_sessions(now);
    }

    /// Newest `txnNumber` of a session on a primary.
    pub(crate) fn active(&self, index: usize, session: &SessionId) -> Option<ActiveTxn> {
        let member = self.member(index);
        let remembered = member.active(session);
        let recorded = member.store().session(session).map(|record| ActiveTxn {
            number: record.number(),
            phase: if record.committed() {
                TxnPhase::Committed(member.last())
            } else {
                TxnPhase::Retryable
            },
        });
        match (remembered, recorded) {
            (Some(remembered), Some(recorded)) if recorded.number > remembered.number => {
                Some(recorded)
            }
            (Some(remembered), _) => Some(remembered),
            (None, recorded) => recorded,
        }
    }

    /// Starts or retries a retryable write.
    pub(crate) fn begin_retryable_write(
        &mut self,
        index: usize,
        session: &SessionId,
        number: i64,
    ) -> Result<(), Fault> {
        match self.active(index, session) {
            Some(active) if active.number > number => Err(Fault::new(
                Code::TRANSACTION_TOO_OLD,
                format!(
                    "Retryable write with txnNumber {number} is prohibited on session {} because a \
                     newer {} with txnNumber {} has already started on this session.",
                    show(session),
                    active.kind(),
                    active.number
                ),
            )),
            Some(active) if active.number == number && active.phase != TxnPhase::Retryable => {
                Err(Fault::new(
                    Code::named(217, "IncompleteTransactionHistory"),
                    "Cannot retry a retryable write that has been converted into a transaction",
                ))
            }
            _ => {
                self.replace_transaction(index, session);
                let active = ActiveTxn { number, phase: TxnPhase::Retryable };
                self.member_mut(index).set_active(session, active);
                Ok(())
            }
        }
    }

    /// Starts or continues a transaction. A new one reads the current data, or a snapshot at `at`.
    pub(crate) fn enter_transaction(
        &mut self,
        index: usize,
        session: &SessionId,
        arguments: TransactionArguments,
        at: Option<OrderedTimestamp>,
        now: Instant,
    ) -> Result<(), Fault> {
        let active = self.check_not_older(index, session, arguments.number)?;
        if !arguments.starts {
            self.check_in_progress(active, arguments.number)?;
            return self.check_not_prepared(index, session);
        }
        if let Some(active) = active
            && active.number == arguments.number
            // A mongos starts the transaction again if the shard rejected its first command.
            && !(self.config().is_shard && matches!(active.phase, TxnPhase::Open | TxnPhase::Aborted))
        {
            return Err(Fault::new(
                Code::named(117, "ConflictingOperationInProgress"),
                "Only servers in a sharded cluster can start a new transaction at the active \
                 transaction number",
            ));
        }
        let base = match at {
            Some(at) => self.snapshot(index, Some(at))?.store,
            None => self.member(index).store().clone(),
        };
        self.member_mut(index).begin_transaction(session, arguments.number, &base, now);
        Ok(())
    }

    /// Checks that a number is not older than the newest one of the session, and returns the newest
    /// one.
    pub(crate) fn check_not_older(
        &self,
        index: usize,
        session: &SessionId,
        number: i64,
    ) -> Result<Option<ActiveTxn>, Fault> {
        let active = self.active(index, session);
        match active {
            Some(newer) if newer.number > number => Err(Fault::new(
                Code::TRANSACTION_TOO_OLD,
                format!(
                    "Cannot start transaction with {{ txnNumber: {number} }} on session {} because \
                     a newer {} with txnNumberAndRetryCounter {{ txnNumber: {}, txnRetryCounter: \
                     {} }} has already started on this session.",
                    show(session),
                    newer.kind(),
                    newer.number,
                    if newer.phase == TxnPhase::Retryable { -1 } else { 0 },
                ),
            )),
            _ => Ok(active),
        }
    }

    /// Checks that the newest number of the session is that of an open transaction.
    pub(crate) fn check_in_progress(
        &self,
        active: Option<ActiveTxn>,
        number: i64,
    ) -> Result<(), Fault> {
        match active.filter(|active| active.number == number).map(|active| active.phase) {
            Some(TxnPhase::Open) => Ok(()),
            Some(TxnPhase::Committed(_)) => Err(committed(number)),
            Some(TxnPhase::Aborted) => Err(aborted(number)),
            Some(TxnPhase::Retryable) | None => {
                Err(no_such_transaction(number, active.map_or(-1, |active| active.number)))
            }
        }
    }
}

impl ActiveTxn {
    fn kind(self) -> &'static str {
        match self.phase {
            TxnPhase::Retryable => "retryable write",
            TxnPhase::Open | TxnPhase::Committed(_) | TxnPhase::Aborted => "transaction",
        }
    }
}

pub(crate) fn committed(number: i64) -> Fault {
    Fault::new(
        Code::TRANSACTION_COMMITTED,
        format!("Transaction with {{ txnNumber: {number} }} has been committed."),
    )
}

pub(crate) fn aborted(number: i64) -> Fault {
    Fault::new(
        Code::NO_SUCH_TRANSACTION,
        format!("Transaction with {{ txnNumber: {number} }} has been aborted."),
    )
}

fn no_such_transaction(number: i64, active: i64) -> Fault {
    Fault::new(
        Code::NO_SUCH_TRANSACTION,
        format!(
            "Given transaction number {number} does not match any in-progress transactions. The \
             active transaction number is {active}"
        ),
    )
}

/// A session as a server's messages show it: UUID and user digest.
fn show(session: &SessionId) -> String {
    let id = <[u8; 16]>::try_from(session.id.as_slice());
    let id = id.map_or_else(|_| String::new(), |bytes| Uuid::from_bytes(bytes).to_string());
    format!("{id} - {} -  - ", base64(&session.user))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit <= chunk.len() { char::from(DIGITS[value as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::ANONYMOUS_DIGEST;

    #[test]
    fn error_messages_show_session_as_server_does() {
        let session = SessionId { id: vec![0xab; 16], user: ANONYMOUS_DIGEST.to_vec() };
        assert_eq!(
            show(&session),
            "abababab-abab-abab-abab-abababababab - \
             47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU= -  - "
        );
    }
}
