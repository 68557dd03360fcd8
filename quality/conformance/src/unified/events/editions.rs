//! Expected commands of the specification's edition of the suites that are older than those of PyMongo's edition.

use bson::{Bson, Document, doc};

/// Converts an expected command to PyMongo's edition: `find` of a GridFS file by `_id` uses `$eq`, because the id may be
/// a document that looks like an operator.
pub(super) fn pymongo_edition(expected: &Document) -> Document {
    let mut expected = expected.clone();
    if expected.get_str("find").is_ok_and(|name| name.ends_with(".files"))
        && let Ok(filter) = expected.get_document_mut("filter")
        && let Some(id @ Bson::ObjectId(_)) = filter.get("_id").cloned()
    {
        filter.insert("_id", doc! { "$eq": id });
    }
    expected
}

#[cfg(test)]
mod tests {
    use bson::oid::ObjectId;

    use super::*;

    #[test]
    fn only_a_find_of_a_gridfs_file_by_id_is_changed() {
        let id = ObjectId::new();
        let plain = doc! { "find": "fs.files", "filter": { "_id": id } };
        let with_operator = doc! { "find": "fs.files", "filter": { "_id": { "$eq": id } } };
        assert_eq!(pymongo_edition(&plain), with_operator);
        assert_eq!(pymongo_edition(&with_operator), with_operator);
        for other in [
            doc! { "find": "books", "filter": { "_id": id } },
            doc! { "find": "fs.files", "filter": { "filename": "abc" } },
            doc! { "ping": 1 },
        ] {
            assert_eq!(pymongo_edition(&other), other);
        }
    }
}
