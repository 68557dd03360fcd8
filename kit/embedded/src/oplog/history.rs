//! Majority-committed oplogs, the input of change streams.

use std::{fmt, sync::Arc};

use bson::{Bson, Document, Uuid};
use steadfast_query::{Code, Fault};

use super::{OpTime, Oplog, OplogEntry, OrderedTimestamp};
use crate::{change::Change, namespace::Namespace, store::Store};

/// Oplog of a member up to its majority commit point.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemberHistory {
    oplog: Oplog,
    committed: OpTime,
    data: Store,
}

impl MemberHistory {
    /// `data` is the data at the commit point.
    pub(crate) fn new(oplog: &Oplog, committed: OpTime, data: &Store) -> Self {
        Self { oplog: oplog.clone(), committed, data: data.clone() }
    }

    /// Data at the commit point.
    pub(crate) fn data(&self) -> &Store {
        &self.data
    }

    /// Optime of the newest entry, committed or not.
    pub(crate) fn last(&self) -> OpTime {
        self.oplog.last()
    }

    /// Commit point.
    pub(crate) fn committed(&self) -> OpTime {
        self.committed
    }

    /// Committed entries after a timestamp. Returns an error if some of them are truncated.
    pub(super) fn after(&self, at: OrderedTimestamp) -> Result<Vec<Arc<OplogEntry>>, Fault> {
        if at < self.oplog.before().timestamp {
            return Err(Fault::new(
                Code::named(286, "ChangeStreamHistoryLost"),
                "Resume of change stream was not possible, as the resume point may no longer be in \
                 the oplog.",
            ));
        }
        let mut entries = self.oplog.after(at);
        entries.truncate(entries.partition_point(|entry| entry.at <= self.committed));
        Ok(entries)
    }

    /// Timestamp of the newest committed change after a timestamp.
    fn newest_change(&self, after: OrderedTimestamp) -> Option<OrderedTimestamp> {
        let changes = |entry: &Arc<OplogEntry>| {
            entry.changes.iter().any(|change| !matches!(change, Change::Noop(_)))
        };
        let entries = self.after(after).unwrap_or_default();
        entries.into_iter().rev().find(changes).map(|entry| entry.at.timestamp)
    }
}

/// Location of documents in a sharded cluster.
pub(crate) trait ShardLocator: fmt::Debug + Send + Sync {
    /// Paths of the shard key that a collection had at a timestamp, if it was sharded.
    fn shard_key(&self, collection: Uuid, at: OrderedTimestamp) -> Option<Vec<String>>;

    /// Index of the shard that owns a document.
    fn owner(&self, namespace: &Namespace, document: &Document) -> Option<usize>;
}

/// Input of a change stream: the oplog of one member, or of one member per shard.
#[derive(Clone, Debug)]
pub(crate) struct StreamHistory {
    parts: Vec<MemberHistory>,
    sharding: Option<Arc<dyn ShardLocator>>,
}

impl From<MemberHistory> for StreamHistory {
    fn from(history: MemberHistory) -> Self {
        Self { parts: vec![history], sharding: None }
    }
}

impl StreamHistory {
    /// Oplogs of all shards, in the order of their indexes.
    pub(crate) fn of_shards(parts: Vec<MemberHistory>, sharding: Arc<dyn ShardLocator>) -> Self {
        Self { parts, sharding: Some(sharding) }
    }

    /// Data of a shard at its commit point.
    pub(crate) fn data(&self, number: usize) -> &Store {
        self.parts[number].data()
    }

    /// Timestamp of the newest entry of all oplogs, committed or not.
    pub(crate) fn last(&self) -> OrderedTimestamp {
        self.parts.iter().map(|part| part.last().timestamp).max().unwrap_or_default()
    }

    /// Timestamp up to which all oplogs are known. No later entry of any shard has a lower
    /// timestamp.
    pub(crate) fn horizon(&self) -> OrderedTimestamp {
        self.parts.iter().map(|part| part.committed().timestamp).min().unwrap_or_default()
    }

    /// Timestamp of the newest change that waits because another shard's oplog is behind.
    pub(crate) fn delayed_until(&self) -> Option<OrderedTimestamp> {
        let horizon = self.horizon();
        self.parts.iter().filter_map(|part| part.newest_change(horizon)).max()
    }

    /// Entries of each oplog after a timestamp, up to the horizon.
    pub(crate) fn after(&self, at: OrderedTimestamp) -> Result<Vec<Vec<Arc<OplogEntry>>>, Fault> {
        let horizon = self.horizon();
        let part = |part: &MemberHistory| {
            let mut entries = part.after(at)?;
            entries.truncate(entries.partition_point(|entry| entry.at.timestamp <= horizon));
            Ok(entries)
        };
        self.parts.iter().map(part).collect()
    }

    /// The `documentKey` of an event: the fields of the shard key that the document has, and its
    /// `_id`.
    pub(crate) fn document_key(
        &self,
        collection: Option<Uuid>,
        at: OrderedTimestamp,
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

    /// Current document with a key, if the collection still has the same UUID.
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
