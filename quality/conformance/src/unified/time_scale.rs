//! Scaled times: a test that measures time, with all its times multiplied by a factor.

use bson::{Bson, Document};

/// Multiplies all times of a document. Times are numbers in fields `ms` and `…MS`, also within matching operators.
pub(super) fn scaled(document: Document, factor: i32) -> Document {
    let scale = |(name, value): (String, Bson)| {
        let value = if is_time(&name) {
            scaled_time(value, factor)
        } else {
            scaled_times_within(value, factor)
        };
        (name, value)
    };
    document.into_iter().map(scale).collect()
}

fn is_time(name: &str) -> bool {
    name == "ms" || name.ends_with("MS")
}

fn scaled_time(time: Bson, factor: i32) -> Bson {
    match time {
        Bson::Int32(time) => Bson::Int64(i64::from(time) * i64::from(factor)),
        Bson::Int64(time) => Bson::Int64(time.saturating_mul(i64::from(factor))),
        Bson::Document(condition) => {
            let scale = |(name, bound)| (name, scaled_time(bound, factor));
            Bson::Document(condition.into_iter().map(scale).collect())
        }
        other => other,
    }
}

fn scaled_times_within(value: Bson, factor: i32) -> Bson {
    match value {
        Bson::Document(document) => Bson::Document(scaled(document, factor)),
        Bson::Array(items) => {
            Bson::Array(items.into_iter().map(|item| scaled_times_within(item, factor)).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn only_times_are_scaled() {
        let test = doc! {
            "description": "timeoutMS is 20",
            "tests": [{
                "operations": [
                    { "name": "find", "arguments": { "timeoutMS": 20, "limit": 20 } },
                    { "name": "wait", "arguments": { "ms": 5 } },
                ],
                "expected": { "maxTimeMS": { "$$lte": 20_i64 }, "other": { "$$lte": 20 } },
                "typed": { "maxTimeMS": { "$$type": ["int", "long"] }, "timeoutMS": 0 },
            }],
        };
        let expected = doc! {
            "description": "timeoutMS is 20",
            "tests": [{
                "operations": [
                    { "name": "find", "arguments": { "timeoutMS": 200_i64, "limit": 20 } },
                    { "name": "wait", "arguments": { "ms": 50_i64 } },
                ],
                "expected": { "maxTimeMS": { "$$lte": 200_i64 }, "other": { "$$lte": 20 } },
                "typed": { "maxTimeMS": { "$$type": ["int", "long"] }, "timeoutMS": 0_i64 },
            }],
        };
        assert_eq!(scaled(test, 10), expected);
    }
}
