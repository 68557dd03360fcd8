//! What change streams read: the logs of members, up to what most members have.

use std::{fmt, sync::Arc};

use bson::{Bson, Document, Uuid};
use steadfast_query::{Code, Fault};

use super::{Entry, Log, OpTime, TimestampOrder};
use crate::{change::Change, namespace::Namespace, store::Store};

/// A member's log as a reader may see it, up to what most members have.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    log: Log,
    committed: OpTime,
    data: Store,
}

impl History {
    /// The log of a member that knows most to have it up to here, and the data then.
    pub(crate) fn new(log: &Log, committed: OpTime, data: &Store) -> Self {
        Self { log: log.clone(), committed, data: data.clone() }
    }

    /// The data after the newest entry of it.
    pub(crate) fn data(&self) -> &Store {
        &self.data
    }

    /// The newest entry of the log, whoever has it.
    pub(crate) fn last(&self) -> OpTime {
        self.log.last()
    }

    /// The newest entry of it.
    pub(crate) fn committed(&self) -> OpTime {
        self.committed
    }

    /// Its entries after a time, in order, if none of them has been forgotten yet.
    pub(super) fn after(&self, at: TimestampOrder) -> Result<Vec<Arc<Entry>>, Fault> {
        if at < self.log.before().timestamp {
            return Err(Fault::new(
                Code::named(286, "ChangeStreamHistoryLost"),
                "Resume of change stream was not possible, as the resume point may no longer be in \
                 the oplog.",
            ));
        }
        let mut entries = self.log.after(at);
        entries.truncate(entries.partition_point(|entry| entry.at <= self.committed));
        Ok(entries)
    }

    /// The time of the newest entry after a time that changes something.
    fn newest_change(&self, after: TimestampOrder) -> Option<TimestampOrder> {
        let changes = |entry: &Arc<Entry>| {
            entry.changes.iter().any(|change| !matches!(change, Change::Note(_)))
        };
        let entries = self.after(after).unwrap_or_default();
        entries.into_iter().rev().find(changes).map(|entry| entry.at.timestamp)
    }
}

/// Where the documents of a sharded cluster are.
pub(crate) trait Sharding: fmt::Debug + Send + Sync {
    /// The paths of the shard key that a collection had at a time, if it was sharded.
    fn shard_key(&self, collection: Uuid, at: TimestampOrder) -> Option<Vec<String>>;

    /// The shard that owns a document of a collection, by its number.
    fn owner(&self, namespace: &Namespace, document: &Document) -> Option<usize>;
}

/// The log that a change stream reads: that of one member, or those of one member of each shard.
#[derive(Clone, Debug)]
pub(crate) struct Histories {
    parts: Vec<History>,
    sharding: Option<Arc<dyn Sharding>>,
}

impl From<History> for Histories {
    fn from(history: History) -> Self {
        Self { parts: vec![history], sharding: None }
    }
}

impl Histories {
    /// The logs of all shards, in the order of their numbers.
    pub(crate) fn of_shards(parts: Vec<History>, sharding: Arc<dyn Sharding>) -> Self {
        Self { parts, sharding: Some(sharding) }
    }

    /// The data after the newest entry of one of the logs.
    pub(crate) fn data(&self, number: usize) -> &Store {
        self.parts[number].data()
    }

    /// The time of the newest entry of all, whoever has it.
    pub(crate) fn last(&self) -> TimestampOrder {
        self.parts.iter().map(|part| part.last().timestamp).max().unwrap_or_default()
    }

    /// The time up to which every log is known: no entry of any shard that comes later is older.
    pub(crate) fn horizon(&self) -> TimestampOrder {
        self.parts.iter().map(|part| part.committed().timestamp).min().unwrap_or_default()
    }

    /// The time of the newest change that cannot be shown yet, because another log is not known up to
    /// there.
    pub(crate) fn held_up(&self) -> Option<TimestampOrder> {
        let horizon = self.horizon();
        self.parts.iter().filter_map(|part| part.newest_change(horizon)).max()
    }

    /// The entries of each log after a time, up to the horizon.
    pub(crate) fn after(&self, at: TimestampOrder) -> Result<Vec<Vec<Arc<Entry>>>, Fault> {
        let horizon = self.horizon();
        let part = |part: &History| {
            let mut entries = part.after(at)?;
            entries.truncate(entries.partition_point(|entry| entry.at.timestamp <= horizon));
            Ok(entries)
        };
        self.parts.iter().map(part).collect()
    }

    /// The `documentKey` of a document: the fields of its shard key that it has, and its `_id`.
    pub(crate) fn document_key(
        &self,
        collection: Option<Uuid>,
        at: TimestampOrder,
        document: Option<&Document>,
        id: &Bson,
    ) -> Document {
        let paths = self
            .sharding
            .as_ref()
            .zip(collection)
            .and_then(|(sharding, collection)| sharding.shard_key(collection, at))
            .unwrap_or_default();
        let mut key = Document::new();
        for path in paths {
            if let Some(value) = document.and_then(|document| value_at(document, &path)) {
                key.insert(path, value.clone());
            }
        }
        key.entry(String::from("_id")).or_insert_with(|| id.clone());
        key
    }

    /// The document that has a key now, if the collection is still the same.
    pub(crate) fn lookup(
        &self,
        namespace: &Namespace,
        collection: Option<Uuid>,
        key: &Document,
    ) -> Option<&Arc<Document>> {
        let id = key.get("_id")?;
        let has_key = |document: &Document| {
            key.iter().all(|(path, value)| value_at(document, path) == Some(value))
        };
        self.parts.iter().enumerate().find_map(|(number, part)| {
            let all = part.data().collection(namespace)?;
            let document = all.by_id(id).filter(|_| Some(all.uuid()) == collection)?;
            let owner = self.sharding.as_ref().and_then(|it| it.owner(namespace, document));
            let is_there = owner.is_none_or(|owner| owner == number) && has_key(document);
            is_there.then_some(document)
        })
    }
}

fn value_at<'a>(document: &'a Document, path: &str) -> Option<&'a Bson> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(one, two)| (one, Some(two)));
    let value = document.get(first)?;
    match rest {
        None => Some(value),
        Some(rest) => value_at(value.as_document()?, rest),
    }
}
