//! Transactions of several documents on one member: what they see, what they keep others from, how
//! they end.

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
    change::{Change, Changes, Statement},
    log::{OpTime, Record, Recorded, SessionId},
    namespace::Namespace,
    session::{self, Active, Phase},
    set::{Member, State},
    store::Store,
};

/// The `_id` of a document, in order.
#[derive(Clone, Debug)]
struct Id(Bson);

impl Ord for Id {
    fn cmp(&self, other: &Self) -> Ordering {
        value::compare(&self.0, &other.0, &Collation::simple())
    }
}

impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Id {}

/// A transaction that goes on.
#[derive(Debug)]
pub(crate) struct Transaction {
    number: i64,
    began: Instant,
    /// The data when it began.
    base: Store,
    /// The same with its changes.
    draft: Store,
    changes: Vec<Change>,
    /// What nobody else may change until it ends.
    reserved: BTreeMap<Namespace, BTreeSet<Id>>,
    /// The entry that prepared it, once a two-phase commit decides its outcome.
    prepared: Option<OpTime>,
}

impl Transaction {
    /// One that sees this data.
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

    /// The data as it sees it.
    pub(crate) fn store(&self) -> &Store {
        &self.draft
    }

    /// Whether a change of somebody else stands against it.
    pub(crate) fn has_reserved(&self, namespace: &Namespace, id: &Bson) -> bool {
        self.reserved.get(namespace).is_some_and(|ids| ids.contains(&Id(id.clone())))
    }

    /// Whether it changes anything in a collection.
    fn touches(&self, namespace: &Namespace) -> bool {
        self.reserved.contains_key(namespace)
    }
}

/// A transaction's means to change data: all is kept until it commits.
pub(crate) struct InTransaction<'a> {
    pub(crate) transaction: &'a mut Transaction,
    /// The primary, without this transaction.
    pub(crate) member: &'a Member,
}

impl Changes for InTransaction<'_> {
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
        reserved.extend(ids.iter().map(|id| Id((*id).clone())));
        Ok(())
    }

    fn make(&mut self, change: Change, _: Option<Statement>) -> Result<(), Fault> {
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

impl Member {
    /// Whether an open transaction has reserved a document.
    pub(crate) fn is_reserved(&self, namespace: &Namespace, id: &Bson) -> bool {
        self.open_transactions().any(|open| open.has_reserved(namespace, id))
    }

    /// Whether an open transaction stands against a change that somebody else is about to make.
    pub(crate) fn stands_against(&self, change: &Change) -> bool {
        match change {
            Change::Insert { .. } | Change::Replace { .. } | Change::CreateCollection { .. } => {
                self.open_transactions()
                    .any(|open| open.is_prepared() && !open.survives(change, self))
            }
            // What was reserved is asked for before.
            Change::Delete { .. } | Change::DropDatabase { .. } | Change::Note(_) => false,
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
    /// Whether it could still commit after this change.
    fn survives(&self, change: &Change, member: &Member) -> bool {
        let mut store = member.store().clone();
        // A change that cannot be made harms nobody.
        store.check_and_apply(change).is_err() || self.fits(store)
    }

    /// Whether its changes can be made to this data.
    fn fits(&self, mut store: Store) -> bool {
        self.changes.iter().all(|change| store.check_and_apply(change).is_ok())
    }
}

impl State {
    /// Commits a session's transaction: all of its changes are one entry. One that has committed has
    /// committed.
    pub(crate) fn commit_transaction(
        &mut self,
        index: usize,
        session: &SessionId,
        number: i64,
        now: Instant,
    ) -> Result<OpTime, Fault> {
        let active = self.check_not_older(index, session, number)?;
        if let Some(Active { number: known, phase: Phase::Committed(at) }) = active
            && known == number
        {
            return Ok(at);
        }
        self.check_goes_on(active, number)?;
        self.check_not_prepared(index, session)?;
        let Some(transaction) = self.member_mut(index).end_transaction(session) else {
            return Err(session::aborted(number));
        };
        let last = self.member(index).last();
        let at = if transaction.changes.is_empty() {
            last
        } else {
            let record = Record { session: session.clone(), number, what: Recorded::Committed };
            // What was not reserved can still be in the way: a key that must be unique, a collection
            // that was made meanwhile.
            self.append(index, transaction.changes, Some(record), now)
                .map_err(|_| write_conflict())?
        };
        let committed = Active { number, phase: Phase::Committed(at) };
        self.member_mut(index).set_active(session, committed);
        Ok(at)
    }

    /// Ends a session's transaction without its changes.
    pub(crate) fn abort_transaction(
        &mut self,
        index: usize,
        session: &SessionId,
        number: i64,
    ) -> Result<(), Fault> {
        let active = self.check_not_older(index, session, number)?;
        self.check_goes_on(active, number)?;
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
