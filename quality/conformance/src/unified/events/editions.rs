//! Where the specification's own edition of the suites is older than PyMongo's.

use bson::{Bson, Document, doc};

/// The command as PyMongo's edition expects it: a file of GridFS is looked for with `$eq`, because
/// its id may be a document that looks like an operator.
pub(super) fn newer(expected: &Document) -> Document {
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
    fn a_file_is_looked_for_with_an_operator_and_nothing_else_is_changed() {
        let id = ObjectId::new();
        let plain = doc! { "find": "fs.files", "filter": { "_id": id } };
        let with_operator = doc! { "find": "fs.files", "filter": { "_id": { "$eq": id } } };
        assert_eq!(newer(&plain), with_operator);
        assert_eq!(newer(&with_operator), with_operator);
        for other in [
            doc! { "find": "books", "filter": { "_id": id } },
            doc! { "find": "fs.files", "filter": { "filename": "abc" } },
            doc! { "ping": 1 },
        ] {
            assert_eq!(newer(&other), other);
        }
    }
}
