//! Command errors: error replies of servers.

use std::time::Duration;

use bson::{RawDocument, ToStr, raw::RawBsonRef};
use serde::Deserialize;
use steadfast_core::{description::TopologyVersion, sdam::CommandFailure};
use steadfast_wire::{Field, field};

use super::{CommandError, Error, ErrorKind, Result, WriteConcernError};
use crate::decode;

impl CommandError {
    /// Returns the error of a reply, if the command as a whole failed.
    pub(crate) fn from_reply(reply: &RawDocument) -> Option<Error> {
        if field(reply, "ok").is_some_and(|ok| is_ok(&ok)) {
            return None;
        }
        let mut error = Self {
            code: 0,
            code_name: String::new(),
            message: String::new(),
            topology_version: None,
            base_backoff: None,
        };
        let mut labels = Vec::new();
        for (key, value) in reply.iter().flatten() {
            match key.to_str() {
                "code" => error.code = integer(value).unwrap_or_default(),
                "codeName" => error.code_name = text(value),
                "errmsg" | "$err" => error.message = text(value),
                "topologyVersion" => error.topology_version = TopologyVersion::read(value),
                "errorLabels" => labels = texts(value),
                "baseBackoffMS" => error.base_backoff = millis(value),
                _ => {}
            }
        }
        let mut error = Error::new(ErrorKind::Command(error)).with_response(reply.to_owned());
        for label in labels {
            error.add_label(label);
        }
        Some(error)
    }
}

/// Returns the write concern error of a successful reply, for the topology: it may report a state
/// change of the server.
pub(crate) fn write_concern_failure(reply: &RawDocument) -> Option<CommandFailure> {
    let failure = field(reply, "writeConcernError")?.as_document()?;
    let topology_version = reply.get("topologyVersion").ok().flatten();
    Some(CommandFailure {
        code: failure.get("code").ok().flatten().and_then(integer),
        message: failure.get_str("errmsg").unwrap_or_default().to_owned(),
        topology_version: topology_version.and_then(TopologyVersion::read),
    })
}

/// Returns the error labels at the top level of a reply.
pub(crate) fn labels(reply: &RawDocument) -> Vec<String> {
    reply.get("errorLabels").ok().flatten().map(texts).unwrap_or_default()
}

/// Returns the write concern error of an otherwise successful reply.
pub(crate) fn write_concern_error(body: &RawDocument) -> Result<Option<WriteConcernError>> {
    let error = match body.get("writeConcernError") {
        Ok(Some(RawBsonRef::Document(error))) => error,
        Ok(Some(other)) => {
            return Err(Error::invalid_response(format!(
                "writeConcernError of the reply is a {:?}, not a document",
                other.element_type()
            )));
        }
        Ok(None) => return Ok(None),
        Err(error) => return Err(Error::invalid_response(format!("malformed reply: {error}"))),
    };
    parse(error).map(Some)
}

/// Deserializes the body of a reply.
pub(crate) fn parse<'de, T: Deserialize<'de>>(body: &'de RawDocument) -> Result<T> {
    decode::document(body.as_bytes())
        .map_err(|error| Error::invalid_response(format!("unexpected reply: {error}")))
}

/// Returns `true` if the field `ok` of a reply reports success.
pub(crate) fn is_ok(ok: &Field<'_>) -> bool {
    ok.as_f64() == Some(1.0)
        || ok.as_i32() == Some(1)
        || ok.as_i64() == Some(1)
        || ok.as_bool() == Some(true)
}

fn integer(value: RawBsonRef<'_>) -> Option<i32> {
    match value {
        RawBsonRef::Int32(value) => Some(value),
        RawBsonRef::Int64(value) => i32::try_from(value).ok(),
        #[expect(clippy::cast_possible_truncation, reason = "codes are small")]
        RawBsonRef::Double(value) => Some(value as i32),
        _ => None,
    }
}

fn millis(value: RawBsonRef<'_>) -> Option<Duration> {
    let millis = match value {
        RawBsonRef::Int32(millis) => u64::try_from(millis).ok()?,
        RawBsonRef::Int64(millis) => u64::try_from(millis).ok()?,
        RawBsonRef::Double(millis) => return Duration::try_from_secs_f64(millis / 1000.0).ok(),
        _ => return None,
    };
    Some(Duration::from_millis(millis))
}

fn text(value: RawBsonRef<'_>) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: RawBsonRef<'_>) -> Vec<String> {
    let Some(array) = value.as_array() else { return Vec::new() };
    array.into_iter().flatten().filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn ok_may_have_any_numeric_type() {
        for reply in [rawdoc! { "ok": 1 }, rawdoc! { "ok": 1.0 }, rawdoc! { "ok": 1_i64 }] {
            assert!(CommandError::from_reply(&reply).is_none());
        }
        for reply in [rawdoc! { "ok": 0 }, rawdoc! {}, rawdoc! { "ok": "1" }] {
            assert!(CommandError::from_reply(&reply).is_some());
        }
    }

    #[test]
    fn command_error_keeps_code_labels_and_reply() {
        let reply = rawdoc! {
            "ok": 0.0, "errmsg": "no", "code": 462, "codeName": "Overloaded",
            "errorLabels": ["SystemOverloadedError", "RetryableError"],
        };
        let error = CommandError::from_reply(&reply).unwrap();
        assert_eq!(error.code(), Some(462));
        assert!(error.contains_label("RetryableError"));
        assert!(error.contains_label("SystemOverloadedError"));
        assert_eq!(error.server_response(), Some(&reply));
        assert_eq!(error.base_backoff(), None);
    }

    #[test]
    fn base_backoff_may_have_any_numeric_type() {
        for (reply, expected) in [
            (rawdoc! { "baseBackoffMS": 5 }, Some(5)),
            (rawdoc! { "baseBackoffMS": 5_i64 }, Some(5)),
            (rawdoc! { "baseBackoffMS": 5.0 }, Some(5)),
            (rawdoc! { "baseBackoffMS": -5 }, None),
            (rawdoc! { "baseBackoffMS": "5" }, None),
        ] {
            let error = CommandError::from_reply(&reply).unwrap();
            assert_eq!(error.base_backoff(), expected.map(Duration::from_millis), "{reply:?}");
        }
    }

    #[test]
    fn command_error_serializes_to_the_fields_of_a_reply() {
        let mut error = CommandError::deserialize(bson::Deserializer::new(bson::bson!({
            "code": 462, "codeName": "Overloaded", "errmsg": "no", "baseBackoffMS": 5,
        })))
        .unwrap();
        assert_eq!(error.base_backoff, Some(Duration::from_millis(5)));
        let expected = bson::doc! {
            "code": 462, "codeName": "Overloaded", "errmsg": "no", "baseBackoffMS": 5_i64,
        };
        assert_eq!(bson::serialize_to_document(&error).unwrap(), expected);
        error.base_backoff = None;
        assert!(!bson::serialize_to_document(&error).unwrap().contains_key("baseBackoffMS"));
    }
}
