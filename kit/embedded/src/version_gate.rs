//! Differences between server versions: fields that older versions reject, and their errors.

use bson::{Bson, Document};
use steadfast_query::{Code, Fault, value::type_name};

use super::call::Call;

/// Server version for comparison: `(4, 4, 13)`.
pub(crate) type ServerVersion = (u32, u32, u32);

/// Newest supported version. Versions before it have the error codes of 6.0.
pub(crate) const V8_2: ServerVersion = (8, 2, 0);
/// First version with `let` on commands and with dollar-prefixed field names.
const V5_0: ServerVersion = (5, 0, 0);
/// First version with `hint` on deletes, `comment` on writes, and `RetryableWriteError` labels.
const V4_4: ServerVersion = (4, 4, 0);
/// First version that accepts comments of any type on all commands.
const V4_4_14: ServerVersion = (4, 4, 14);

/// Form of the error for an unknown field.
#[derive(Clone, Copy)]
enum UnknownFieldError {
    /// Error of `find`.
    Unrecognized,
    /// Error of `aggregate`.
    Pipeline,
    /// Error of `findAndModify`.
    Modify,
    /// Error of commands that are defined in IDL.
    Field(&'static str),
}

/// Fields of commands and the first version that accepts them.
const FIELD_VERSIONS: &[(&str, &str, ServerVersion, UnknownFieldError)] = &[
    ("aggregate", "let", V5_0, UnknownFieldError::Pipeline),
    ("find", "let", V5_0, UnknownFieldError::Unrecognized),
    ("find", "allowDiskUse", V4_4, UnknownFieldError::Unrecognized),
    ("findAndModify", "let", V5_0, UnknownFieldError::Modify),
    ("findAndModify", "hint", V4_4, UnknownFieldError::Modify),
    ("findAndModify", "comment", V4_4, UnknownFieldError::Modify),
    ("insert", "comment", V4_4, UnknownFieldError::Field("insert")),
    ("update", "let", V5_0, UnknownFieldError::Field("update")),
    ("update", "comment", V4_4, UnknownFieldError::Field("update")),
    ("delete", "let", V5_0, UnknownFieldError::Field("delete")),
    ("delete", "comment", V4_4, UnknownFieldError::Field("delete")),
];

/// Rejects fields that this version does not accept.
pub(crate) fn check(call: &Call, version: &str) -> Result<(), Fault> {
    let version = parse(version);
    if version >= V5_0 {
        return Ok(());
    }
    let name = if call.name == "findandmodify" { "findAndModify" } else { call.name.as_str() };
    for &(command, field, since, unknown) in FIELD_VERSIONS {
        if command == name && version < since && call.body.contains_key(field) {
            return Err(unknown.fault(field));
        }
    }
    check_comment(call, version)?;
    let hinted = |delete: &Bson| delete.as_document().is_some_and(|it| it.contains_key("hint"));
    if name == "delete"
        && version < V4_4
        && call.body.get_array("deletes").is_ok_and(|deletes| deletes.iter().any(hinted))
    {
        return Err(UnknownFieldError::Field("delete.deletes").fault("hint"));
    }
    Ok(())
}

/// Rejects comments that are not strings in older versions.
fn check_comment(call: &Call, version: ServerVersion) -> Result<(), Fault> {
    let since = match call.name.as_str() {
        "aggregate" | "find" => V4_4,
        "count" | "distinct" => V4_4_14,
        _ => return Ok(()),
    };
    match call.body.get("comment") {
        Some(Bson::String(_)) | None => Ok(()),
        Some(_) if version >= since => Ok(()),
        Some(other) => Err(Fault::type_mismatch(format!(
            "BSON field '{}.comment' is the wrong type '{}', expected type 'string'",
            call.name,
            type_name(other)
        ))),
    }
}

impl UnknownFieldError {
    fn fault(self, field: &str) -> Fault {
        match self {
            Self::Unrecognized => Fault::failed_to_parse(format!(
                "Failed to parse: {{ {field}: ... }}. Unrecognized field '{field}'."
            )),
            Self::Pipeline => Fault::failed_to_parse(format!("unrecognized field '{field}'")),
            Self::Modify => {
                Fault::location(51177, format!("BSON field '{field}' is an unknown field."))
            }
            Self::Field(of) => {
                Fault::location(40415, format!("BSON field '{of}.{field}' is an unknown field."))
            }
        }
    }
}

/// Rejects an inserted document that this version does not store.
pub(crate) fn check_insert(document: &Document, version: &str) -> Result<(), Fault> {
    if parse(version) >= V5_0 {
        return Ok(());
    }
    match document.keys().find(|key| key.starts_with('$')) {
        Some(key) => {
            Err(Fault::bad_value(format!("Document can't have $ prefixed field names: {key}")))
        }
        None => Ok(()),
    }
}

/// Rejects an updated document that this version does not store.
pub(crate) fn check_updated(document: &Document, version: &str) -> Result<(), Fault> {
    if parse(version) >= V5_0 {
        return Ok(());
    }
    match dollar_path(document) {
        // Dollar-prefixed fields of a DBRef are allowed.
        Some((_, "$ref" | "$id" | "$db")) | None => Ok(()),
        Some((path, key)) => Err(Fault::new(
            Code::named(52, "DollarPrefixedFieldName"),
            format!("The dollar ($) prefixed field '{key}' in '{path}' is not valid for storage."),
        )),
    }
}

/// Path and name of the first dollar-prefixed field.
fn dollar_path(document: &Document) -> Option<(String, &str)> {
    document.iter().find_map(|(key, value)| {
        if key.starts_with('$') {
            return Some((key.clone(), key.as_str()));
        }
        let (path, found) = dollar_path(value.as_document()?)?;
        Some((format!("{key}.{path}"), found))
    })
}

/// Error codes of 6.0 with their code and name in 8.2.
const CHANGED_CODES: [(i32, i32, &str); 3] =
    [(40414, 40414, "IDLFailedToParse"), (40415, 40415, "IDLUnknownField"), (51024, 2, "BadValue")];

/// Rejects generic arguments with a wrong type, as 8.2 does. Earlier versions use other error
/// codes.
pub(crate) fn check_generic_arguments(body: &Document, version: &str) -> Result<(), Fault> {
    if parse(version) < V8_2 {
        return Ok(());
    }
    let mistyped = |field: &str, value: &Bson, expected: &str| {
        let found = type_name(value);
        Err(Fault::type_mismatch(format!(
            "BSON field '{field}' is the wrong type '{found}', expected type '{expected}'"
        )))
    };
    match body.get("$clusterTime") {
        None | Some(Bson::Document(_)) => {}
        Some(other) => return mistyped("$clusterTime", other, "object"),
    }
    match body.get("maxTimeMS") {
        Some(Bson::Double(value)) if value.fract() != 0.0 || !value.is_finite() => {
            return Err(Fault::failed_to_parse("maxTimeMS has non-integral value"));
        }
        None | Some(Bson::Null | Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_)) => {}
        Some(other) => {
            return mistyped("maxTimeMS", other, "types '[long, int, decimal, double]");
        }
    }
    let concern = match body.get("readConcern") {
        None => return Ok(()),
        Some(Bson::Document(concern)) => concern,
        Some(other) => return mistyped("readConcern", other, "object"),
    };
    const FIELDS: [&str; 6] =
        ["level", "afterClusterTime", "atClusterTime", "provenance", "$afterOpTime", "afterOpTime"];
    if let Some(field) = concern.keys().find(|field| !FIELDS.contains(&field.as_str())) {
        let message = format!("BSON field 'readConcern.{field}' is an unknown field.");
        return Err(Fault::location(40415, message));
    }
    const LEVELS: [&str; 5] = ["local", "majority", "linearizable", "available", "snapshot"];
    match concern.get("level") {
        Some(Bson::String(level)) if !LEVELS.contains(&level.as_str()) => {
            Err(Fault::bad_value(format!(
                "Enumeration value '{level}' for field 'readConcern.level' is not a valid value."
            )))
        }
        _ => Ok(()),
    }
}

/// Adapts a reply to a server version: error codes, labels, `topologyVersion`.
pub(crate) fn adapt_reply(mut reply: Document, version: &str) -> Document {
    if parse(version) >= V8_2
        && let Ok(code) = reply.get_i32("code")
        && let Some((_, code, name)) = CHANGED_CODES.iter().find(|(old, ..)| *old == code)
    {
        reply.insert("code", *code);
        reply.insert("codeName", *name);
    }
    if parse(version) >= V4_4 {
        return reply;
    }
    reply.remove("topologyVersion");
    if let Ok(labels) = reply.get_array_mut("errorLabels") {
        labels.retain(|label| label.as_str() == Some("TransientTransactionError"));
        if labels.is_empty() {
            reply.remove("errorLabels");
        }
    }
    reply
}

/// Returns `true` if `version` is `first` or later.
pub(crate) fn is_at_least(version: &str, first: ServerVersion) -> bool {
    parse(version) >= first
}

fn parse(version: &str) -> ServerVersion {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn rejection(version: &str, name: &str, body: Document) -> Option<String> {
        let call = Call::read(name, "db", body).unwrap();
        check(&call, version).err().map(|fault| fault.message)
    }

    #[test]
    fn new_fields_are_rejected_by_older_versions() {
        let find = doc! { "find": "c", "let": {} };
        assert!(rejection("4.4.20", "find", find.clone()).unwrap().contains("Unrecognized field"));
        assert_eq!(rejection("5.0.0", "find", find), None);
        let delete = doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 1, "hint": "a" }] };
        let unknown = "BSON field 'delete.deletes.hint' is an unknown field.";
        assert_eq!(rejection("4.2.0", "delete", delete.clone()).as_deref(), Some(unknown));
        assert_eq!(rejection("4.4.0", "delete", delete), None);
    }

    #[test]
    fn older_versions_accept_string_comments_only() {
        let count = |comment: Bson| doc! { "count": "c", "comment": comment };
        assert!(rejection("4.4.13", "count", count(doc! {}.into())).is_some());
        assert_eq!(rejection("4.4.13", "count", count("why".into())), None);
        assert_eq!(rejection("4.4.14", "count", count(doc! {}.into())), None);
    }

    #[test]
    fn older_versions_reject_dollar_prefixed_fields() {
        assert!(check_insert(&doc! { "$a": 1 }, "4.4.0").is_err());
        assert!(check_insert(&doc! { "a": { "$a": 1 } }, "4.4.0").is_ok());
        assert!(check_insert(&doc! { "$a": 1 }, "5.0.0").is_ok());
        assert_eq!(check_updated(&doc! { "a": { "$b": 1 } }, "4.4.0").unwrap_err().code.number, 52);
        assert!(check_updated(&doc! { "a": { "$ref": "c", "$id": 1 } }, "4.4.0").is_ok());
        assert!(check_updated(&doc! { "a": { "$b": 1 } }, "5.0.0").is_ok());
    }

    #[test]
    fn older_versions_add_fewer_error_labels() {
        let reply = doc! { "ok": 0, "errorLabels": ["RetryableWriteError"], "topologyVersion": {} };
        assert_eq!(adapt_reply(reply.clone(), "4.2.0"), doc! { "ok": 0 });
        assert_eq!(adapt_reply(reply.clone(), "4.4.0"), reply);
    }
}
