//! Sessions and open transactions in the memory of a primary.

use std::time::Duration;

use tokio::time::Instant;

use super::state::{MemberState, State};
use crate::{
    oplog::SessionId,
    session::{ActiveTxn, TxnPhase},
    store::Store,
    transaction::Transaction,
};

/// Number of sessions above which expired ones are removed.
pub(super) const SESSION_CLEANUP_THRESHOLD: usize = 10_000;

impl MemberState {
    pub(crate) fn active(&self, session: &SessionId) -> Option<ActiveTxn> {
        self.sessions.get(session).copied()
    }

    pub(crate) fn set_active(&mut self, session: &SessionId, active: ActiveTxn) {
        match self.sessions.get_mut(session) {
            Some(entry) => *entry = active,
            None => drop(self.sessions.insert(session.clone(), active)),
        }
    }

    pub(crate) fn open_transactions(&self) -> impl Iterator<Item = &Transaction> {
        self.transactions.values()
    }

    pub(crate) fn transaction(&self, session: &SessionId) -> Option<&Transaction> {
        self.transactions.get(session)
    }

    pub(crate) fn transaction_mut(&mut self, session: &SessionId) -> Option<&mut Transaction> {
        self.transactions.get_mut(session)
    }

    /// Starts a transaction. An older one of the session ends.
    pub(crate) fn begin_transaction(
        &mut self,
        session: &SessionId,
        number: i64,
        base: &Store,
        now: Instant,
    ) {
        let transaction = Transaction::new(number, base, now);
        self.transactions.insert(session.clone(), transaction);
        self.set_active(session, ActiveTxn { number, phase: TxnPhase::Open });
    }

    /// Takes a session's transaction out, so that its statement does not conflict with itself.
    pub(crate) fn take_transaction(&mut self, session: &SessionId) -> Option<Transaction> {
        self.transactions.remove(session)
    }

    pub(crate) fn put_transaction(&mut self, session: &SessionId, transaction: Transaction) {
        self.transactions.insert(session.clone(), transaction);
    }

    /// Ends a session's transaction as aborted. A prepared one continues.
    pub(crate) fn end_transaction(&mut self, session: &SessionId) -> Option<Transaction> {
        if self.transaction(session)?.is_prepared() {
            return None;
        }
        let transaction = self.transactions.remove(session)?;
        let aborted = ActiveTxn { number: transaction.number(), phase: TxnPhase::Aborted };
        self.set_active(session, aborted);
        Some(transaction)
    }
}

impl State {
    pub(crate) fn session_timeout(&self) -> Duration {
        self.session_timeout
    }

    pub(crate) fn last_use(&self, session: &SessionId) -> Option<Instant> {
        self.session_last_use.get(session).copied()
    }

    pub(crate) fn set_last_use(&mut self, session: &SessionId, now: Instant) {
        match self.session_last_use.get_mut(session) {
            Some(entry) => *entry = now,
            None => drop(self.session_last_use.insert(session.clone(), now)),
        }
    }

    /// Notifies waiters that a transaction may have ended.
    pub(crate) fn bump_revision(&mut self) {
        self.revision += 1;
    }

    /// Ends an older transaction of a session that has started something new.
    pub(crate) fn replace_transaction(&mut self, index: usize, session: &SessionId) {
        if self.members[index].end_transaction(session).is_some() {
            self.revision += 1;
        }
    }

    /// Removes expired sessions when there are many.
    pub(crate) fn remove_expired_sessions(&mut self, now: Instant) {
        if self.session_last_use.len() < self.session_cleanup_threshold {
            return;
        }
        let timeout = self.session_timeout;
        let expired: Vec<SessionId> = self
            .session_last_use
            .iter()
            .filter(|(_, last_use)| now.saturating_duration_since(**last_use) > timeout)
            .map(|(session, _)| session.clone())
            .collect();
        for session in expired {
            self.remove_session(&session);
        }
        self.session_cleanup_threshold =
            SESSION_CLEANUP_THRESHOLD.max(2 * self.session_last_use.len());
    }

    /// Removes an expired session and its records.
    pub(crate) fn remove_session(&mut self, session: &SessionId) {
        self.revision += 1;
        self.session_last_use.remove(session);
        for member in &mut self.members {
            if member.transaction(session).is_some_and(Transaction::is_prepared) {
                continue;
            }
            member.transactions.remove(session);
            member.sessions.remove(session);
            member.store.remove_session(session);
        }
    }

    /// Runs `endSessions` for a session. Its record stays. An open transaction ends with
    /// `transactionLifetimeLimitSeconds`.
    pub(crate) fn end_session(&mut self, session: &SessionId) {
        self.session_last_use.remove(session);
    }

    /// Aborts the transaction of one session, or of all.
    pub(crate) fn kill_transactions(&mut self, index: usize, session: Option<&SessionId>) {
        let member = &mut self.members[index];
        let sessions: Vec<SessionId> = match session {
            Some(session) => vec![session.clone()],
            None => member.transactions.keys().cloned().collect(),
        };
        for session in sessions {
            member.end_transaction(&session);
        }
    }

    /// Aborts transactions that exceed `transactionLifetimeLimitSeconds`.
    pub(super) fn end_old_transactions(&mut self, now: Instant) {
        let lifetime = self.transaction_lifetime;
        for member in &mut self.members {
            let old: Vec<SessionId> = member
                .transactions
                .iter()
                .filter(|(_, open)| !open.is_prepared() && open.began() + lifetime <= now)
                .map(|(session, _)| session.clone())
                .collect();
            for session in old {
                member.end_transaction(&session);
            }
        }
    }
}
