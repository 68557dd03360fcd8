//! Atomic changes on several shards: the states of all shards are locked, then changed.
//!
//! Real shards achieve this with messages. Here they share a process.

use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard},
    time::Duration,
};

use bson::{Bson, Document, Uuid};
use steadfast_query::{Code, Fault};
use tokio::time::Instant;

use super::{cluster::Cluster, key::ShardKey, shard::ShardClient};
use crate::{
    call::ReadConcern,
    change::{Change, Statement},
    namespace::Namespace,
    oplog::{
        OpTime, PreparedTransaction, SessionId, SessionUpdate, SessionUpdateKind, TransactionId,
    },
    set::{SharedSet, State},
    store::Store,
    transaction::write_conflict,
};

/// Locked states of shards, by shard name.
struct LockedShards<'a> {
    states: BTreeMap<&'a str, (&'a SharedSet, MutexGuard<'a, State>)>,
    now: Instant,
}

impl<'a> LockedShards<'a> {
    /// Primary of a shard and the shard's state.
    fn primary(&mut self, shard: &str) -> Result<(usize, &mut State), Fault> {
        let state = self.states.get_mut(shard).map(|(_, guard)| &mut **guard);
        let found = state.and_then(|state| Some((majority_primary(state)?, state)));
        found.ok_or_else(|| no_primary(shard))
    }

    /// Appends an entry to the oplog of a shard.
    fn append(
        &mut self,
        shard: &str,
        changes: Vec<Change>,
        record: Option<SessionUpdate>,
    ) -> Result<OpTime, Fault> {
        let now = self.now;
        let (primary, state) = self.primary(shard)?;
        state.append(primary, changes, record, now)
    }
}

/// Primary of a shard, if it reaches a majority.
pub(super) fn majority_primary(state: &State) -> Option<usize> {
    state.primary().filter(|primary| state.member(*primary).has_contact())
}

/// Locks the states of shards in a fixed order, runs a function, and replicates its writes.
/// Watchers are notified after the locks are released.
fn with_locked_shards<T>(
    shards: &[&ShardClient],
    now: Instant,
    act: impl FnOnce(&mut LockedShards<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let mut order: Vec<&ShardClient> = shards.to_vec();
    order.sort_by(|one, other| one.name.cmp(&other.name));
    let mut locked = LockedShards { states: BTreeMap::new(), now };
    for shard in &order {
        let shared = shard.set.shared();
        locked.states.insert(&shard.name, (shared, shared.lock()));
    }
    let result = act(&mut locked);
    for (_, state) in locked.states.values_mut() {
        state.settle(now);
    }
    for (shared, state) in locked.states.into_values() {
        shared.publish(state);
    }
    result
}

/// Update of the shard key that moves a document to another shard, as a transaction on both shards.
pub(super) struct DocumentMove<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) from: &'a ShardClient,
    pub(super) to: &'a ShardClient,
    pub(super) id: &'a Bson,
    /// Document that the update was computed from.
    pub(super) before: &'a Document,
    pub(super) after: Document,
    pub(super) session: &'a SessionId,
    pub(super) number: i64,
    pub(super) statement: Statement,
}

impl DocumentMove<'_> {
    /// Id of the internal transaction.
    pub(super) fn transaction(&self) -> TransactionId {
        TransactionId::internal(self.session, self.number, self.statement.id)
    }
}

/// Prepares the move on both shards. Returns `WriteConflict` if the document has changed or a
/// transaction holds it.
pub(super) fn prepare_move(it: DocumentMove<'_>) -> Result<(), Fault> {
    let id = it.transaction();
    with_locked_shards(&[it.from, it.to], Instant::now(), |locked| {
        let now = locked.now;
        let (primary, state) = locked.primary(&it.from.name)?;
        let found = state.member(primary).store().collection(it.namespace);
        let found = found.and_then(|all| all.by_id(it.id));
        if found.is_none_or(|document| **document != *it.before) {
            return Err(write_conflict());
        }
        let record = SessionUpdate {
            session: it.session.clone(),
            number: it.number,
            what: SessionUpdateKind::Statement(it.statement),
        };
        let insert =
            Change::Insert { namespace: it.namespace.clone(), document: Arc::new(it.after) };
        let delete = Change::Delete { namespace: it.namespace.clone(), id: it.id.clone() };
        let parts = [(it.to, insert, Some(record)), (it.from, delete, None)];
        for (shard, change, _) in &parts {
            let (primary, state) = locked.primary(&shard.name)?;
            state.check_change(primary, change)?;
        }
        for (shard, change, record) in parts {
            let (primary, state) = locked.primary(&shard.name)?;
            let part = PreparedTransaction { id: id.clone(), changes: vec![change], record };
            state.prepare_changes(primary, part, now)?;
        }
        Ok(())
    })
}

/// The shard that has recorded a statement of a retryable write.
pub(super) fn recorded(
    cluster: &Cluster,
    session: &SessionId,
    number: i64,
    statement: i32,
) -> Option<String> {
    let has = |shard: &&ShardClient| {
        let state = shard.set.shared().lock();
        let Some(primary) = state.primary() else { return false };
        let record = state.member(primary).store().session(session);
        record.is_some_and(|it| it.number() == number && it.statement(statement).is_some())
    };
    cluster.shards().iter().find(has).map(|shard| shard.name.clone())
}

/// Documents that a migration has copied.
#[derive(Debug)]
pub(super) struct CopiedRange {
    pub(super) ids: Vec<Bson>,
    pub(super) at: OpTime,
}

/// Copies documents from one shard to another. A missing collection is created with its indexes.
///
/// Records of retryable writes are copied, too, as by real shards. A retry after the migration
/// finds its record on the new shard.
pub(super) fn copy(
    namespace: &Namespace,
    from: &ShardClient,
    to: &ShardClient,
    is_included: impl Fn(&Document) -> bool,
) -> Result<CopiedRange, Fault> {
    with_locked_shards(&[from, to], Instant::now(), |locked| {
        let (primary, state) = locked.primary(&from.name)?;
        let source = state.member(primary).store().clone();
        let (primary, state) = locked.primary(&to.name)?;
        let target = state.member(primary).store().clone();
        let mut changes = vec![Change::migration(&namespace.to_string())];
        let mut ids = Vec::new();
        if let Some(collection) = source.collection(namespace) {
            if target.collection(namespace).is_none() {
                changes.push(Change::CreateCollection {
                    namespace: namespace.clone(),
                    uuid: collection.uuid(),
                    options: collection.options().clone(),
                });
                changes.extend(collection.indexes().iter().skip(1).map(|index| {
                    let specification = index.specification().clone();
                    Change::CreateIndex { namespace: namespace.clone(), specification }
                }));
            }
            for document in collection.documents().filter(|document| is_included(document)) {
                ids.extend(document.get("_id").cloned());
                let (namespace, document) = (namespace.clone(), document.clone());
                changes.push(Change::Insert { namespace, document });
            }
        }
        let mut at = locked.append(&to.name, changes, None)?;
        for (session, record) in source.sessions() {
            let known = target.session(session).filter(|it| it.number() >= record.number());
            let newer = known.is_some_and(|it| it.number() > record.number());
            let is_new = |id: &i32| known.is_none_or(|it| it.statement(*id).is_none());
            for (id, outcome) in record.statements().filter(|(id, _)| !newer && is_new(id)) {
                let statement = Statement { id: *id, outcome: outcome.clone() };
                let record = SessionUpdate {
                    session: session.clone(),
                    number: record.number(),
                    what: SessionUpdateKind::Statement(statement),
                };
                at = locked.append(
                    &to.name,
                    vec![Change::migration(&namespace.to_string())],
                    Some(record),
                )?;
            }
        }
        Ok(CopiedRange { ids, at })
    })
}

/// Writes a no-op entry to the oplog of a shard.
pub(super) fn append_noop(shard: &ShardClient, note: Document) -> Result<OpTime, Fault> {
    with_locked_shards(&[shard], Instant::now(), |locked| {
        locked.append(&shard.name, vec![Change::Noop(note)], None)
    })
}

/// Deletes documents of a shard by `_id`. Missing ones are ignored.
pub(super) fn delete(
    namespace: &Namespace,
    shard: &ShardClient,
    ids: &[Bson],
) -> Result<Option<OpTime>, Fault> {
    with_locked_shards(&[shard], Instant::now(), |locked| {
        let (primary, state) = locked.primary(&shard.name)?;
        let Some(collection) = state.member(primary).store().collection(namespace) else {
            return Ok(None);
        };
        let changes: Vec<Change> = ids
            .iter()
            .filter(|id| collection.by_id(id).is_some())
            .map(|id| Change::Delete { namespace: namespace.clone(), id: id.clone() })
            .collect();
        if changes.is_empty() {
            return Ok(None);
        }
        let changes =
            [Change::migration(&namespace.to_string())].into_iter().chain(changes).collect();
        locked.append(&shard.name, changes, None).map(Some)
    })
}

/// Returns `true` if a majority of the shard's members has none of these documents.
pub(super) fn is_durably_empty(namespace: &Namespace, shard: &ShardClient, ids: &[Bson]) -> bool {
    let majority = ReadConcern { level: Some(String::from("majority")), ..ReadConcern::default() };
    let mut state = shard.set.shared().lock();
    let Some(primary) = state.primary() else { return false };
    let Ok(Some(read_snapshot)) = state.read_snapshot(primary, &majority, Instant::now()) else {
        return false;
    };
    let has = |store: &Store| {
        let collection = store.collection(namespace);
        collection.is_some_and(|collection| ids.iter().any(|id| collection.by_id(id).is_some()))
    };
    !has(&read_snapshot.store) && !has(state.member(primary).store())
}

/// Waits until an entry is majority-committed on a shard.
pub(super) async fn wait_until_durable(
    shard: &ShardClient,
    at: OpTime,
    timeout: Duration,
) -> Result<(), Fault> {
    let shared = shard.set.shared();
    let mut watch = shared.watch();
    let durable = async {
        loop {
            watch.mark_unchanged();
            if shared.lock().is_committed(at) {
                return;
            }
            // The set holds the sender.
            let _ = watch.changed().await;
        }
    };
    tokio::time::timeout(timeout, durable).await.map_err(|_| {
        Fault::new(
            Code::WRITE_CONCERN_TIMEOUT,
            format!("most members of {} did not get it in time", shard.name),
        )
    })
}

fn no_primary(shard: &str) -> Fault {
    Fault::new(Code::NOT_WRITABLE_PRIMARY, format!("there is no primary of shard {shard}"))
}

/// A collection on the primary of a shard.
#[derive(Debug)]
pub(super) struct ShardCollection {
    pub(super) uuid: Uuid,
    pub(super) documents: Vec<Arc<Document>>,
    pub(super) collation: Option<Document>,
    is_view: bool,
    is_capped: bool,
    /// Key patterns of its indexes, and whether each is unique.
    indexes: Vec<(Document, bool)>,
}

/// Reads the metadata and documents of a collection on a shard.
pub(super) fn collection(
    shard: &ShardClient,
    namespace: &Namespace,
) -> Result<Option<ShardCollection>, Fault> {
    let state = shard.set.shared().lock();
    let primary = state.primary().ok_or_else(|| no_primary(&shard.name))?;
    let found = state.member(primary).store().collection(namespace);
    Ok(found.map(|it| ShardCollection {
        uuid: it.uuid(),
        documents: it.documents().cloned().collect(),
        collation: it.options().get_document("collation").ok().cloned(),
        is_view: it.is_view(),
        is_capped: it.is_capped(),
        indexes: it.indexes().iter().map(|it| (it.pattern().clone(), it.unique())).collect(),
    }))
}

impl ShardCollection {
    /// Checks that the collection can be sharded by this key.
    pub(super) fn check(
        &self,
        namespace: &Namespace,
        key: &ShardKey,
        unique: bool,
        collation: Option<&Document>,
    ) -> Result<(), Fault> {
        let invalid = |message: String| Err(Fault::new(Code::INVALID_OPTIONS, message));
        if self.is_view {
            return Err(Fault::new(
                Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                "Views cannot be sharded.",
            ));
        }
        if self.is_capped {
            return invalid(String::from("can't shard capped collection"));
        }
        if self.collation.is_some() && collation.is_none() {
            return Err(Fault::bad_value(format!(
                "Collection has default collation: {}. Must specify collation {{locale: 'simple'}}",
                Bson::from(self.collation.clone().unwrap_or_default())
            )));
        }
        let is_id = |pattern: &Document| pattern.len() == 1 && pattern.contains_key("_id");
        for (pattern, is_unique) in &self.indexes {
            if *is_unique && !is_id(pattern) && !key.is_prefix_of(pattern) {
                return invalid(format!(
                    "can't shard collection '{namespace}' with unique index on {} and proposed \
                     shard key {}. Uniqueness can't be maintained unless shard key is a prefix",
                    Bson::from(pattern),
                    Bson::from(key.pattern())
                ));
            }
        }
        if self.documents.is_empty() {
            return Ok(());
        }
        let expected = key.pattern();
        let serves = |(pattern, is_unique): &(Document, bool)| {
            let starts = pattern.iter().zip(&expected).all(|(one, other)| one == other);
            pattern.len() >= expected.len() && starts && (!unique || *is_unique || is_id(pattern))
        };
        if !self.indexes.iter().any(serves) {
            return invalid(String::from(
                "Please create an index that starts with the proposed shard key before sharding \
                 the collection",
            ));
        }
        self.documents.iter().try_for_each(|document| key.of(document).map(|_| ()))
    }
}
