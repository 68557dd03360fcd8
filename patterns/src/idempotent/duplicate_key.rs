//! Duplicate key errors, and the document that has the key.

use bson::{Bson, Document};

use steadfast::{
    Namespace,
    error::{Error, ErrorKind, Outcome, WriteConcernError, WriteError, WriteFailure},
};

/// Document that has the key of a duplicate key error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DuplicateKeyOwner {
    /// The document itself: one with exactly its `_id` exists.
    Own,
    /// Another document, on another index.
    Other,
    /// Unknown.
    Unknown,
}

/// Returns `true` for a duplicate key error.
pub(super) fn is_duplicate(error: &WriteError) -> bool {
    matches!(error.code, 11000 | 11001 | 12582)
}

/// Returns the document that has the key, after an insert of a document with this `_id`.
///
/// Servers from 4.2 on return the index and the key that was to be added. If the index has a collation, strings
/// in the key are transformed, and the existing one may be another string.
pub(super) fn duplicate_key_owner(
    error: &WriteError,
    namespace: &Namespace,
    id: &Bson,
) -> DuplicateKeyOwner {
    let Some(pattern) = &error.key_pattern else {
        return owner_by_message(&error.message, namespace, id);
    };
    if !is_index_on_id(pattern) {
        return DuplicateKeyOwner::Other;
    }
    match &error.key_value {
        Some(key) if key.len() == 1 && key.get("_id") == Some(id) => DuplicateKeyOwner::Own,
        Some(_) | None => DuplicateKeyOwner::Unknown,
    }
}

fn is_index_on_id(pattern: &Document) -> bool {
    let ascending = |value: &Bson| match value {
        Bson::Int32(1) | Bson::Int64(1) => true,
        Bson::Double(value) => *value == 1.0,
        _ => false,
    };
    pattern.len() == 1 && pattern.get("_id").is_some_and(ascending)
}

/// Reads the message of an older server, if it has exactly the form for an `_id` of a single spelling.
fn owner_by_message(message: &str, namespace: &Namespace, id: &Bson) -> DuplicateKeyOwner {
    let collection = format!("E11000 duplicate key error collection: {namespace} index: ");
    let Some(index) = message.strip_prefix(&collection) else { return DuplicateKeyOwner::Unknown };
    let Some(key) = index.strip_prefix("_id_ dup key: { ") else {
        // With a collation, the key does not follow the name of the index.
        let other = index.split_once(" dup key: { ").is_some_and(|(name, _)| !name.contains(' '));
        return if other { DuplicateKeyOwner::Other } else { DuplicateKeyOwner::Unknown };
    };
    let key = key.strip_prefix("_id").unwrap_or(key);
    let key = key.strip_prefix(": ").and_then(|key| key.strip_suffix(" }"));
    if key.is_some() && key == spelling(id).as_deref() {
        DuplicateKeyOwner::Own
    } else {
        DuplicateKeyOwner::Unknown
    }
}

/// Returns the spelling of a value in server messages, if it is certain.
fn spelling(value: &Bson) -> Option<String> {
    match value {
        Bson::ObjectId(id) => Some(format!("ObjectId('{}')", id.to_hex())),
        Bson::Int32(number) => Some(number.to_string()),
        Bson::Int64(number) => Some(number.to_string()),
        Bson::String(text) => {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/ ".contains(c);
            // Long strings are truncated.
            (text.len() < 64 && text.chars().all(is_plain)).then(|| format!("\"{text}\""))
        }
        _ => None,
    }
}

/// Returns the write concern error in the same reply as a write error: the existing document is not as durable
/// as requested. A server waits for the write concern even if it has written nothing.
pub(super) fn not_durable(error: &Error) -> Option<Error> {
    let reply = error.server_response()?;
    let failure = reply.get_document("writeConcernError").ok()?;
    let failure: WriteConcernError = bson::deserialize_from_slice(failure.as_bytes()).ok()?;
    Some(of_write_concern(failure, error))
}

/// Error of a write concern, with the context of the error that has it in its reply.
pub(super) fn of_write_concern(failure: WriteConcernError, error: &Error) -> Error {
    Error::from(ErrorKind::Write(WriteFailure::WriteConcernError(failure)))
        .with_context_of(error)
        .with_source(error.clone())
        .with_outcome(Outcome::AppliedNotDurable)
}

#[cfg(test)]
mod tests {
    use bson::{doc, oid::ObjectId};

    use super::*;

    fn duplicate(more: Document) -> WriteError {
        let mut error = doc! { "code": 11000, "errmsg": "E11000 duplicate key error" };
        error.extend(more);
        bson::deserialize_from_document(error).unwrap()
    }

    fn owner(error: Document, id: impl Into<Bson>) -> DuplicateKeyOwner {
        duplicate_key_owner(&duplicate(error), &Namespace::new("shop", "orders"), &id.into())
    }

    fn owner_by_words(words: &str, id: impl Into<Bson>) -> DuplicateKeyOwner {
        let message = format!("E11000 duplicate key error collection: {words}");
        owner(doc! { "errmsg": message }, id)
    }

    #[test]
    fn duplicate_of_exactly_this_id_in_the_index_on_id_is_own() {
        let id = ObjectId::new();
        let own = doc! { "keyPattern": { "_id": 1 }, "keyValue": { "_id": id } };
        assert_eq!(owner(own.clone(), id), DuplicateKeyOwner::Own);
        assert_eq!(owner(own, ObjectId::new()), DuplicateKeyOwner::Unknown);
    }

    #[test]
    fn duplicate_in_another_unique_index_is_not_own() {
        for (pattern, value) in [
            (doc! { "email": 1 }, doc! { "email": "a" }),
            (doc! { "_id": 1, "x": 1 }, doc! { "_id": 1, "x": 1 }),
            (doc! { "_id": -1 }, doc! { "_id": 1 }),
        ] {
            let error = doc! { "keyPattern": pattern, "keyValue": value };
            assert_eq!(owner(error.clone(), 1), DuplicateKeyOwner::Other, "{error}");
        }
    }

    #[test]
    fn owner_of_a_key_with_a_collation_is_unknown() {
        let error = doc! {
            "keyPattern": { "_id": 1 }, "keyValue": { "_id": "292b2d0107" },
            "hexEncoded": [true], "collation": { "locale": "en", "strength": 2 },
        };
        assert_eq!(owner(error, "abc"), DuplicateKeyOwner::Unknown);
    }

    #[test]
    fn messages_of_older_servers_must_match_exactly() {
        let id = ObjectId::parse_str("5e9f1b7c8d3e4a0001abcdef").unwrap();
        let own = "shop.orders index: _id_ dup key: { : ObjectId('5e9f1b7c8d3e4a0001abcdef') }";
        assert_eq!(owner_by_words(own, id), DuplicateKeyOwner::Own);
        assert_eq!(
            owner_by_words("shop.orders index: _id_ dup key: { : 7 }", 7),
            DuplicateKeyOwner::Own
        );
        assert_eq!(
            owner_by_words("shop.orders index: _id_ dup key: { _id: 7 }", 7_i64),
            DuplicateKeyOwner::Own
        );
        let day = "shop.orders index: _id_ dup key: { : \"2016-06-28\" }";
        assert_eq!(owner_by_words(day, "2016-06-28"), DuplicateKeyOwner::Own);
        let email = "shop.orders index: email_1 dup key: { : \"a\" }";
        assert_eq!(owner_by_words(email, id), DuplicateKeyOwner::Other);
        for unsure in [
            "shop.orders index: _id_ dup key: { : 8 }",
            "shop.orders index: _id_ dup key: { : 7, : 7 }",
            "shop.others index: _id_ dup key: { : 7 }",
            "shop.orders.index: _id_ dup key: { : 7 }",
            "shop.orders index: _id_ collation: { locale: \"en\" } dup key: { : 7 }",
        ] {
            assert_eq!(owner_by_words(unsure, 7), DuplicateKeyOwner::Unknown, "{unsure}");
        }
        let quoted = "shop.orders index: _id_ dup key: { : \"a\" }";
        assert_eq!(owner_by_words(quoted, "a\""), DuplicateKeyOwner::Unknown);
    }

    #[test]
    fn index_name_that_imitates_the_message_has_an_unknown_owner() {
        let words = "shop.orders index: _id_ dup key: { : 7 } index: email_1 dup key: { : 7 }";
        assert_eq!(owner_by_words(words, 7), DuplicateKeyOwner::Unknown);
    }
}
