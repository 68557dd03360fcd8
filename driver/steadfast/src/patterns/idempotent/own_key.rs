//! Whether a duplicate key is the `_id` of the very document that was sent.

use bson::{Bson, Document};

use crate::{
    error::{Error, ErrorKind, History, Outcome, WriteConcernError, WriteError, WriteFailure},
    namespace::Namespace,
};

/// Whose key a unique index has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The document's own: a document with exactly its `_id` is there.
    Own,
    /// That of another document, on another index.
    Others,
    /// It cannot be told.
    Unsure,
}

/// Whether this is the refusal of a unique index.
pub(super) fn is_duplicate(error: &WriteError) -> bool {
    matches!(error.code, 11000 | 11001 | 12582)
}

/// Whose key it is that the index has, after an insert of a document with this `_id`.
///
/// Servers from 4.2 on say which index it is, and the key. The key is the one that was to be added. If
/// the index has a collation, strings in it are no longer themselves, and what was there may be another
/// string.
pub(super) fn whose(error: &WriteError, namespace: &Namespace, id: &Bson) -> Whose {
    let Some(pattern) = &error.key_pattern else {
        return whose_by_message(&error.message, namespace, id);
    };
    if !is_index_on_id(pattern) {
        return Whose::Others;
    }
    match &error.key_value {
        Some(key) if key.len() == 1 && key.get("_id") == Some(id) => Whose::Own,
        Some(_) | None => Whose::Unsure,
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

/// The same of an older server's words, if they are exactly what it says of an `_id` that can have no
/// other spelling.
fn whose_by_message(message: &str, namespace: &Namespace, id: &Bson) -> Whose {
    let collection = format!("E11000 duplicate key error collection: {namespace} index: ");
    let Some(index) = message.strip_prefix(&collection) else { return Whose::Unsure };
    let Some(key) = index.strip_prefix("_id_ dup key: { ") else {
        // With a collation, the index's name is not followed by the key.
        let other = index.split_once(" dup key: { ").is_some_and(|(name, _)| !name.contains(' '));
        return if other { Whose::Others } else { Whose::Unsure };
    };
    let key = key.strip_prefix("_id").unwrap_or(key);
    let key = key.strip_prefix(": ").and_then(|key| key.strip_suffix(" }"));
    if key.is_some() && key == spelling(id).as_deref() { Whose::Own } else { Whose::Unsure }
}

/// How a server spells a value in its messages, if it is sure to be spelled so.
fn spelling(value: &Bson) -> Option<String> {
    match value {
        Bson::ObjectId(id) => Some(format!("ObjectId('{}')", id.to_hex())),
        Bson::Int32(number) => Some(number.to_string()),
        Bson::Int64(number) => Some(number.to_string()),
        Bson::String(text) => {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/ ".contains(c);
            // A long one is cut off.
            (text.len() < 64 && text.chars().all(is_plain)).then(|| format!("\"{text}\""))
        }
        _ => None,
    }
}

/// The failure that stands beside a refusal in the same reply: what is there already is not as durable
/// as was asked. A server waits for the write concern also if it has written nothing.
pub(super) fn not_durable(error: &Error) -> Option<Error> {
    let reply = error.server_response()?;
    let failure = reply.get_document("writeConcernError").ok()?;
    let failure: WriteConcernError = bson::deserialize_from_slice(failure.as_bytes()).ok()?;
    Some(of_write_concern(failure, error))
}

/// The error of a write concern that was not met, of a write that another error told of.
pub(super) fn of_write_concern(failure: WriteConcernError, told: &Error) -> Error {
    let mut error = Error::new(ErrorKind::Write(WriteFailure::WriteConcernError(failure)));
    if let Some(server) = told.server_address() {
        error = error.with_server(server);
    }
    if let Some(reply) = told.server_response() {
        error = error.with_response(reply.clone());
    }
    for label in told.labels() {
        error.add_label(label);
    }
    error.with_history(History { outcome: Outcome::AppliedNotDurable, ..History::of(told) })
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

    fn said(error: Document, id: impl Into<Bson>) -> Whose {
        whose(&duplicate(error), &Namespace::new("shop", "orders"), &id.into())
    }

    fn in_words(words: &str, id: impl Into<Bson>) -> Whose {
        let message = format!("E11000 duplicate key error collection: {words}");
        said(doc! { "errmsg": message }, id)
    }

    #[test]
    fn the_index_on_id_with_exactly_this_id_is_the_documents_own() {
        let id = ObjectId::new();
        let own = doc! { "keyPattern": { "_id": 1 }, "keyValue": { "_id": id } };
        assert_eq!(said(own.clone(), id), Whose::Own);
        assert_eq!(said(own, ObjectId::new()), Whose::Unsure);
    }

    #[test]
    fn another_unique_index_is_not() {
        for (pattern, value) in [
            (doc! { "email": 1 }, doc! { "email": "a" }),
            (doc! { "_id": 1, "x": 1 }, doc! { "_id": 1, "x": 1 }),
            (doc! { "_id": -1 }, doc! { "_id": 1 }),
        ] {
            let told = doc! { "keyPattern": pattern, "keyValue": value };
            assert_eq!(said(told.clone(), 1), Whose::Others, "{told}");
        }
    }

    #[test]
    fn a_key_that_a_collation_has_changed_is_nobodys_for_certain() {
        let told = doc! {
            "keyPattern": { "_id": 1 }, "keyValue": { "_id": "292b2d0107" },
            "hexEncoded": [true], "collation": { "locale": "en", "strength": 2 },
        };
        assert_eq!(said(told, "abc"), Whose::Unsure);
    }

    #[test]
    fn an_older_servers_words_are_taken_strictly() {
        let id = ObjectId::parse_str("5e9f1b7c8d3e4a0001abcdef").unwrap();
        let own = "shop.orders index: _id_ dup key: { : ObjectId('5e9f1b7c8d3e4a0001abcdef') }";
        assert_eq!(in_words(own, id), Whose::Own);
        assert_eq!(in_words("shop.orders index: _id_ dup key: { : 7 }", 7), Whose::Own);
        assert_eq!(in_words("shop.orders index: _id_ dup key: { _id: 7 }", 7_i64), Whose::Own);
        let day = "shop.orders index: _id_ dup key: { : \"2016-06-28\" }";
        assert_eq!(in_words(day, "2016-06-28"), Whose::Own);
        let email = "shop.orders index: email_1 dup key: { : \"a\" }";
        assert_eq!(in_words(email, id), Whose::Others);
        for unsure in [
            "shop.orders index: _id_ dup key: { : 8 }",
            "shop.orders index: _id_ dup key: { : 7, : 7 }",
            "shop.others index: _id_ dup key: { : 7 }",
            "shop.orders.index: _id_ dup key: { : 7 }",
            "shop.orders index: _id_ collation: { locale: \"en\" } dup key: { : 7 }",
        ] {
            assert_eq!(in_words(unsure, 7), Whose::Unsure, "{unsure}");
        }
        let quoted = "shop.orders index: _id_ dup key: { : \"a\" }";
        assert_eq!(in_words(quoted, "a\""), Whose::Unsure);
    }

    #[test]
    fn a_name_that_looks_like_the_end_of_the_message_deceives_nobody() {
        let words = "shop.orders index: _id_ dup key: { : 7 } index: email_1 dup key: { : 7 }";
        assert_eq!(in_words(words, 7), Whose::Unsure);
    }
}
