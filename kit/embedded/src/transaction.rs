//! Multi-document transactions on one member: snapshots, conflicts, commit and abort.

mod two_phase;

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bson::{Bson, Document};
use steadfast_query::{Code, Collation, Fault, value};
use tokio::time::Instant;

use super::{
    change::{Change, ChangeWriter, Statement},
    namespace::Namespace,
    oplog::{OpTime, SessionId, SessionUpdate, SessionUpdateKind},
    session::{self, ActiveTxn, TxnPhase},
    set::{MemberState, State},
    store::Store,
};

/// An `_id`, ordered by value.
#[derive(Clone, Debug)]
struct OrderedId(Bson);

impl Ord for OrderedId {
    fn cmp(&self, other: &Self) -> Ordering {
        value::compare(&self.0, &other.0, &Collation::simple())
    }
}

impl PartialOrd for OrderedId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedId {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for OrderedId {}

/// A transaction in progress.
#[derive(Debug)]
pub(crate) struct Transaction {
    number: i64,
    began: Instant,
    /// Data at its start.
    base: Store,
    /// The same data with its changes.
    draft: Store,
    changes: Vec<Change>,
    /// Documents that others cannot change until it ends.
    reserved: BTreeMap<Namespace, BTreeSet<OrderedId>>,
    /// Prepare entry. From then on the coordinator of the two-phase commit decides the outcome.
    prepared: Option<OpTime>,
}

impl Transaction {
    /// A transaction that reads this data.
    pub(crate) fn new(number: i64, base: &Store, now: Instant) -> Self {
        Self {
            number,
            began: now,
            base: base.clone(),
            draft: base.clone(),
            changes: Vec::new(),
            reserved: BTreeMap::new(),
            prepared: None,
        }
    }

    pub(crate) fn number(&self) -> i64 {
        self.number
    }

    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    pub(crate) fn is_prepared(&self) -> bool {
        self.prepared.is_some()
    }

    /// Data as the transaction sees it.
    pub(crate) fn store(&self) -> &Store {
        &self.draft
    }

    /// Returns `true` if the transaction has reserved a document.
    pub(crate) fn has_reserved(&self, namespace: &Namespace, id: &Bson) -> bool {
        self.reserved.get(namespace).is_some_and(|ids| ids.contains(&OrderedId(id.clone())))
    }

    /// Returns `true` if the transaction changes a collection.
    fn touches(&self, namespace: &Namespace) -> bool {
        self.reserved.contains_key(namespace)
    }
}

/// Buffers the changes of a transaction until it commits.
pub(crate) struct InTransaction<'a> {
    pub(crate) transaction: &'a mut Transaction,
    /// The primary, without this transaction.
    pub(crate) member: &'a MemberState,
}

impl ChangeWriter for InTransaction<'_> {
    fn store(&self) -> &Store {
        &self.transaction.draft
    }

    fn reserve(&mut self, namespace: &Namespace, ids: &[&Bson]) -> Result<(), Fault> {
        for id in ids {
            if self.transaction.has_reserved(namespace, id) {
                continue;
            }
            let now = document(self.member.store(), namespace, id);
            let then = document(&self.transaction.base, namespace, id);
            if !same(now, then) || self.member.is_reserved(namespace, id) {
                return Err(write_conflict());
            }
        }
        let reserved = self.transaction.reserved.entry(namespace.clone()).or_default();
        reserved.extend(ids.iter().map(|id| OrderedId((*id).clone())));
        Ok(())
    }

    fn apply_change(&mut self, change: Change, _: Option<Statement>) -> Result<(), Fault> {
        if let Change::CreateIndex { namespace, .. } = &change
            && self.transaction.base.collection(namespace).is_some()
        {
            return Err(Fault::new(
                Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                format!(
                    "Cannot create new indexes on existing collection {namespace} in a \
                     multi-document transaction."
                ),
            ));
        }
        self.transaction.draft.check_and_apply(&change)?;
        self.transaction.changes.push(change);
        Ok(())
    }

    fn recorded(&self, _: i32) -> Option<Document> {
        None
    }
}

impl MemberState {
    /// Returns `true` if an open transaction has reserved a document.
    pub(crate) fn is_reserved(&self, namespace: &Namespace, id: &Bson) -> bool {
        self.open_transactions().any(|open| open.has_reserved(namespace, id))
    }

    /// Returns `true` if an open transaction conflicts with a change of another session.
    pub(crate) fn conflicts_with(&self, change: &Change) -> bool {
        match change {
            Change::Insert { .. } | Change::Replace { .. } | Change::CreateCollection { .. } => {
                self.open_transactions()
                    .any(|open| open.is_prepared() && !open.can_commit_after(change, self))
            }
            // Reserved documents were checked before.
            Change::Delete { .. } | Change::DropDatabase { .. } | Change::Noop(_) => false,
            Change::ModifyCollection { namespace, .. }
            | Change::DropCollection { namespace }
            | Change::CreateIndex { namespace, .. }
            | Change::ModifyIndex { namespace, .. }
            | Change::DropIndex { namespace, .. } => {
                self.open_transactions().any(|open| open.touches(namespace))
            }
            Change::RenameCollection { from, to } => {
                self.open_transactions().any(|open| open.touches(from) || open.touches(to))
            }
        }
    }
}

impl Transaction {
    /// Returns `true` if the transaction can still commit after this change.
    fn can_commit_after(&self, change: &Change, member: &MemberState) -> bool {
        let mut store = member.store().clone();
        // An invalid change has no effect.
        store.check_and_apply(change).is_err() || self.applies_to(store)
    }

    /// Returns `true` if the changes are valid on this data.
    fn applies_to(&self, mut store: Store) -> bool {
        self.changes.iter().all(|change| store.check_and_apply(change).is_ok())
    }
}

impl State {
    /// Commits a session's transaction as one entry. A repeated commit returns the same entry.
    pub(crate) fn commit_transaction(
        &mut self,
        index: usize,
        session: &SessionId,
        number: i64,
        now: Instant,
    ) -> Result<OpTime, Fault> {
        let active = self.check_not_older(index, session, number)?;
        if let Some(ActiveTxn { number: known, phase: TxnPhase::Committed(at) }) = active
            && known == number
        {
            return Ok(at);
        }
        self.check_in_progress(active, number)?;
        self.check_not_prepared(index, session)?;
        let Some(transaction) = self.member_mut(index).end_transaction(session) else {
            return Err(session::aborted(number));
        };
        let last = self.member(index).last();
        let at = if transaction.changes.is_empty() {
            last
        } else {
            let record = SessionUpdate {
                session: session.clone(),
                number,
                what: SessionUpdateKind::Committed,
            };
            // Conflicts without a reservation: a duplicate key, or a collection created meanwhile.
            self.append(index, transaction.changes, Some(record), now)
                .map_err(|_| write_conflict())?
        };
        let committed = ActiveTxn { number, phase: TxnPhase::Committed(at) };
        self.member_mut(index).set_active(session, committed);
        Ok(at)
    }

    /// Aborts a session's transaction.
    pub(crate) fn abort_transaction(
        &mut self,
        index: usize,
        session: &SessionId,
        number: i64,
    ) -> Result<(), Fault> {
        let active = self.check_not_older(index, session, number)?;
        self.check_in_progress(active, number)?;
        self.check_not_prepared(index, session)?;
        self.member_mut(index).end_transaction(session);
        Ok(())
    }
}

pub(crate) fn write_conflict() -> Fault {
    Fault::new(
        Code::WRITE_CONFLICT,
        "WriteConflict error: this operation conflicted with another operation. Please retry your \
         operation or multi-document transaction.",
    )
}

fn document<'a>(store: &'a Store, namespace: &Namespace, id: &Bson) -> Option<&'a Arc<Document>> {
    store.collection(namespace)?.by_id(id)
}

fn same(one: Option<&Arc<Document>>, other: Option<&Arc<Document>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}
