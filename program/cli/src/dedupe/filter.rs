//! Value of `--filter`: Extended JSON.

use steadfast::bson::{Bson, Document};

/// Parses a filter document.
pub(super) fn parse(text: &str) -> Result<Document, String> {
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    match Bson::try_from(value).map_err(|error| format!("not Extended JSON: {error}"))? {
        Bson::Document(filter) => Ok(filter),
        other => Err(format!("a filter is a document, such as {{\"userid\": 123}}, not {other}")),
    }
}

#[cfg(test)]
mod tests {
    use steadfast::bson::{DateTime, doc, oid::ObjectId};

    use super::*;

    #[test]
    fn filter_can_contain_values_of_all_types() {
        assert_eq!(parse("{}"), Ok(doc! {}));
        assert_eq!(
            parse(r#"{"userid": 123, "at": {"$lt": {"$date": "1970-01-01T00:00:01Z"}}}"#),
            Ok(doc! { "userid": 123, "at": { "$lt": DateTime::from_millis(1_000) } })
        );
        let id = ObjectId::from_bytes([1; 12]);
        assert_eq!(
            parse(r#"{"$or": [{"a": {"$oid": "010101010101010101010101"}}]}"#),
            Ok(doc! { "$or": [{ "a": id }] })
        );
    }

    #[test]
    fn invalid_filter_is_rejected_with_the_reason() {
        for (text, part) in [
            ("{userid: 1}", "not JSON"),
            ("[1]", "a filter is a document"),
            ("1", "a filter is a document"),
            (r#"{"a": {"$oid": "x"}}"#, "not Extended JSON"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
