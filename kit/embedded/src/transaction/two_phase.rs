//! Two-phase commit on one shard. Each step is an oplog entry, so a new primary continues from the
//! last one.

use std::{collections::BTreeMap, sync::Arc};

use steadfast_query::{Code, Fault};
use tokio::time::Instant;

use super::{OrderedId, Transaction, write_conflict};
use crate::{
    change::Change,
    namespace::Namespace,
    oplog::{
        CommitStep, OpTime, OrderedTimestamp, PreparedTransaction, SessionId, SessionUpdate,
        SessionUpdateKind, TransactionId,
    },
    session::{self, ActiveTxn, TxnPhase},
    set::State,
    store::{Prepared, Store},
};

impl State {
    /// Prepares a transaction: its commit cannot fail any more, and it does not expire. Returns the
    /// prepare entry, also when it is repeated.
    pub(crate) fn prepare_transaction(
        &mut self,
        index: usize,
        id: &TransactionId,
        now: Instant,
    ) -> Result<OpTime, Fault> {
        if let Some(prepared) = self.member(index).store().prepared_transaction(id) {
            return Ok(prepared.at);
        }
        let active = self.check_not_older(index, &id.session, id.number)?;
        self.check_in_progress(active, id.number)?;
        let member = self.member_mut(index);
        let store = member.store().clone();
        let Some(transaction) = member.transaction_mut(&id.session) else {
            return Err(session::aborted(id.number));
        };
        if !transaction.applies_to(store) {
            member.end_transaction(&id.session);
            return Err(write_conflict());
        }
        let record = (!transaction.changes.is_empty()).then(|| SessionUpdate {
            session: id.session.clone(),
            number: id.number,
            what: SessionUpdateKind::Committed,
        });
        let changes = transaction.changes.clone();
        self.append_prepared(index, PreparedTransaction { id: id.clone(), changes, record }, now)
    }

    /// Checks a change that is prepared without a transaction statement. Returns `WriteConflict` if
    /// a transaction conflicts.
    pub(crate) fn check_change(&self, index: usize, change: &Change) -> Result<(), Fault> {
        let member = self.member(index);
        let reserved = change
            .target()
            .is_some_and(|(namespace, id)| id.is_some_and(|id| member.is_reserved(namespace, id)));
        if reserved || member.conflicts_with(change) {
            return Err(write_conflict());
        }
        member.store().clone().check_and_apply(change)
    }

    /// Prepares changes that were [checked](Self::check_change).
    pub(crate) fn prepare_changes(
        &mut self,
        index: usize,
        prepared: PreparedTransaction,
        now: Instant,
    ) -> Result<(), Fault> {
        let member = self.member_mut(index);
        let base = member.store().clone();
        let PreparedTransaction { id, changes, .. } = &prepared;
        let transaction = Transaction::of_changes(id.number, &base, changes, now);
        member.put_transaction(&id.session, transaction);
        self.append_prepared(index, prepared, now).map(drop)
    }

    fn append_prepared(
        &mut self,
        index: usize,
        prepared: PreparedTransaction,
        now: Instant,
    ) -> Result<OpTime, Fault> {
        let session = prepared.id.session.clone();
        let step = CommitStep::Prepared(Arc::new(prepared));
        let at = self.append_step(index, Vec::new(), None, Some(step), now)?;
        if let Some(transaction) = self.member_mut(index).transaction_mut(&session) {
            transaction.prepared = Some(at);
        }
        Ok(at)
    }

    /// Commits a prepared transaction, unless it is committed already. A majority must have its
    /// prepare entry. Returns the entry that must be majority-committed for the commit to be
    /// durable.
    pub(crate) fn commit_prepared(
        &mut self,
        index: usize,
        id: &TransactionId,
        visible: OrderedTimestamp,
        now: Instant,
    ) -> Result<OpTime, Fault> {
        // The prepare entry is majority-committed, so this primary has it. If the transaction is
        // not prepared any more, a later entry has committed it.
        let member = self.member_mut(index);
        let Some(Prepared { transaction, .. }) = member.store().prepared_transaction(id).cloned()
        else {
            return Ok(member.last());
        };
        member.cluster_time = member.cluster_time.max(visible);
        let PreparedTransaction { changes, record, .. } = transaction.as_ref().clone();
        let step = CommitStep::Committed { id: id.clone(), visible };
        let at = self.append_step(index, changes, record, Some(step), now)?;
        self.end_prepared(index, id, TxnPhase::Committed(at));
        Ok(at)
    }

    /// Aborts a transaction, prepared or not. Returns the entry that must be majority-committed for
    /// the abort to be durable.
    pub(crate) fn abort_prepared(
        &mut self,
        index: usize,
        id: &TransactionId,
        now: Instant,
    ) -> Result<OpTime, Fault> {
        if self.member(index).store().prepared_transaction(id).is_none() {
            // The transaction was never prepared, or is unknown.
            let _ = self.abort_transaction(index, &id.session, id.number);
            return Ok(self.member(index).last());
        }
        let step = CommitStep::Aborted(id.clone());
        let at = self.append_step(index, Vec::new(), None, Some(step), now)?;
        self.end_prepared(index, id, TxnPhase::Aborted);
        Ok(at)
    }

    fn end_prepared(&mut self, index: usize, id: &TransactionId, phase: TxnPhase) {
        let member = self.member_mut(index);
        drop(member.take_transaction(&id.session));
        if member.active(&id.session).is_some() {
            member.set_active(&id.session, ActiveTxn { number: id.number, phase });
        }
    }

    /// Restores the prepared transactions on a new primary.
    pub(crate) fn restore_prepared(&mut self, index: usize, now: Instant) {
        let member = self.member_mut(index);
        let base = member.store().clone();
        for Prepared { at, transaction } in base.prepared() {
            let PreparedTransaction { id, changes, .. } = &**transaction;
            let mut restored = Transaction::of_changes(id.number, &base, changes, now);
            restored.prepared = Some(*at);
            member.put_transaction(&id.session, restored);
            if !id.is_internal() {
                member.set_active(
                    &id.session,
                    ActiveTxn { number: id.number, phase: TxnPhase::Open },
                );
            }
        }
    }

    /// Returns `true` if a session must wait for the decision about a prepared transaction before
    /// it uses another number.
    pub(crate) fn must_wait(&self, index: usize, session: &SessionId, number: i64) -> bool {
        let open = self.member(index).transaction(session);
        open.is_some_and(|open| open.is_prepared() && open.number() != number)
    }

    /// Rejects statements in a prepared transaction. Only its coordinator ends it.
    pub(crate) fn check_not_prepared(
        &self,
        index: usize,
        session: &SessionId,
    ) -> Result<(), Fault> {
        match self.member(index).transaction(session) {
            Some(open) if open.is_prepared() => Err(Fault::new(
                PREPARED_TRANSACTION_IN_PROGRESS,
                format!("transaction {} of this session is prepared", open.number()),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns `true` if a read at a time must wait for the decision about a prepared transaction.
    pub(crate) fn awaits_decision(
        &self,
        index: usize,
        namespace: Option<&Namespace>,
        at: OrderedTimestamp,
    ) -> bool {
        let concerns = |change: &Change| {
            change.target().is_none_or(|(it, _)| namespace.is_none_or(|namespace| it == namespace))
        };
        let mut prepared = self.member(index).store().prepared();
        prepared.any(|it| it.at.timestamp <= at && it.transaction.changes.iter().any(concerns))
    }
}

/// Error `PreparedTransactionInProgress`.
pub(crate) const PREPARED_TRANSACTION_IN_PROGRESS: Code =
    Code::named(267, "PreparedTransactionInProgress");

/// Length of a client's session id, a UUID.
const CLIENT_ID: usize = 16;

impl TransactionId {
    /// Id of the internal transaction that executes a statement of a retryable write. Its session
    /// is a child of the client's session.
    pub(crate) fn internal(session: &SessionId, number: i64, statement: i32) -> Self {
        let mut id = session.id.clone();
        id.extend(number.to_be_bytes());
        id.extend(statement.to_be_bytes());
        Self { session: SessionId { id, user: session.user.clone() }, number: 0 }
    }

    fn is_internal(&self) -> bool {
        self.session.id.len() > CLIENT_ID
    }

    /// Session and number of the client. The same id for a client's own transaction.
    pub(crate) fn of_client(&self) -> Self {
        let Some((id, rest)) = self.session.id.split_at_checked(CLIENT_ID) else {
            return self.clone();
        };
        let number = rest.first_chunk().map_or(self.number, |bytes| i64::from_be_bytes(*bytes));
        Self { session: SessionId { id: id.to_vec(), user: self.session.user.clone() }, number }
    }
}

impl Transaction {
    /// A transaction with these changes.
    fn of_changes(number: i64, base: &Store, changes: &[Change], now: Instant) -> Self {
        let mut reserved: BTreeMap<Namespace, _> = BTreeMap::new();
        for (namespace, id) in changes.iter().filter_map(Change::target) {
            let ids: &mut std::collections::BTreeSet<OrderedId> =
                reserved.entry(namespace.clone()).or_default();
            ids.extend(id.cloned().map(OrderedId));
        }
        let changes = changes.to_vec();
        Self { changes, reserved, ..Self::new(number, base, now) }
    }
}
