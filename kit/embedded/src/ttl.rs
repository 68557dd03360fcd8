//! TTL indexes (`expireAfterSeconds`).

use bson::{Bson, DateTime, Document};
use steadfast_query::{Fault, path};

use super::{
    change::Change,
    store::{Collection, Index, Store},
};

/// Deletions of the documents that have expired at a time.
pub(crate) fn expire(store: &Store, now: DateTime) -> Result<Vec<Change>, Fault> {
    let mut changes = Vec::new();
    for database in store.databases() {
        for (namespace, collection) in store.collections(database) {
            for id in expired(collection, now)? {
                changes.push(Change::Delete { namespace: namespace.clone(), id });
            }
        }
    }
    Ok(changes)
}

fn expired(collection: &Collection, now: DateTime) -> Result<Vec<Bson>, Fault> {
    let rules: Vec<(&Index, &str, i64)> = collection
        .indexes()
        .iter()
        .filter_map(|index| {
            let path = index.pattern().keys().next()?;
            let age = age(index.specification().get("expireAfterSeconds")?)?;
            Some((index, path.as_str(), now.timestamp_millis().saturating_sub(age)))
        })
        .collect();
    let mut ids = Vec::new();
    // TTL indexes do not delete from capped collections.
    if rules.is_empty() || collection.is_capped() {
        return Ok(ids);
    }
    for document in collection.documents() {
        for (index, path, before) in &rules {
            if has_expired(document, path, *before) && index.holds(document)? {
                ids.extend(document.get("_id").cloned());
                break;
            }
        }
    }
    Ok(ids)
}

/// Returns `true` if a date under the path has expired. One of several dates is enough. A document
/// without a date never expires.
fn has_expired(document: &Document, path: &str, before: i64) -> bool {
    path::index_values(document, path)
        .iter()
        .any(|value| matches!(value, Bson::DateTime(date) if date.timestamp_millis() <= before))
}

#[allow(clippy::cast_possible_truncation)] // saturates
fn age(seconds: &Bson) -> Option<i64> {
    let seconds = match seconds {
        Bson::Int32(seconds) => i64::from(*seconds),
        Bson::Int64(seconds) => *seconds,
        Bson::Double(seconds) => *seconds as i64,
        _ => return None,
    };
    Some(seconds.saturating_mul(1000))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bson::{Uuid, doc};

    use super::*;
    use crate::namespace::Namespace;

    fn store(index: Document, documents: impl IntoIterator<Item = Document>) -> Store {
        let namespace = Namespace::new("d", "c");
        let mut store = Store::default();
        let mut changes = vec![
            Change::CreateCollection {
                namespace: namespace.clone(),
                uuid: Uuid::from_bytes([1; 16]),
                options: doc! {},
            },
            Change::CreateIndex { namespace: namespace.clone(), specification: index },
        ];
        changes.extend(
            documents
                .into_iter()
                .map(|it| Change::Insert { namespace: namespace.clone(), document: Arc::new(it) }),
        );
        for change in changes {
            store.check_and_apply(&change).unwrap();
        }
        store
    }

    fn at(seconds: i64) -> DateTime {
        DateTime::from_millis(seconds * 1000)
    }

    fn gone(store: &Store, now: DateTime) -> Vec<Bson> {
        let id = |change| match change {
            Change::Delete { id, .. } => id,
            other => panic!("{other:?}"),
        };
        expire(store, now).unwrap().into_iter().map(id).collect()
    }

    #[test]
    fn document_expires_after_ttl() {
        let index = doc! { "v": 2, "key": { "at": 1 }, "name": "at_1", "expireAfterSeconds": 10 };
        let store = store(
            index,
            [
                doc! { "_id": 1, "at": at(100) },
                doc! { "_id": 2, "at": at(101) },
                doc! { "_id": 3, "at": [at(200), at(50)] },
                doc! { "_id": 4, "at": "never" },
                doc! { "_id": 5 },
            ],
        );
        assert_eq!(gone(&store, at(109)), [Bson::Int32(3)]);
        assert_eq!(gone(&store, at(110)), [Bson::Int32(1), Bson::Int32(3)]);
    }

    #[test]
    fn index_without_ttl_deletes_nothing() {
        let index = doc! { "v": 2, "key": { "at": 1 }, "name": "at_1" };
        let store = store(index, [doc! { "_id": 1, "at": at(0) }]);
        assert_eq!(gone(&store, at(1_000_000)), []);
    }
}
