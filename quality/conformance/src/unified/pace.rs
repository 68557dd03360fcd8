//! Tests that measure times, with more time: the same test, in which everything takes longer.

use bson::{Bson, Document};

/// The document with all its times this many times as long. A time is what a field holds whose name says
/// that it counts milliseconds, be it a number or a condition for one.
pub(super) fn slowed(document: Document, times: i32) -> Document {
    let slow = |(name, value): (String, Bson)| {
        let value = if is_time(&name) { longer(value, times) } else { within(value, times) };
        (name, value)
    };
    document.into_iter().map(slow).collect()
}

fn is_time(name: &str) -> bool {
    name == "ms" || name.ends_with("MS")
}

fn longer(time: Bson, times: i32) -> Bson {
    match time {
        Bson::Int32(time) => Bson::Int64(i64::from(time) * i64::from(times)),
        Bson::Int64(time) => Bson::Int64(time.saturating_mul(i64::from(times))),
        Bson::Document(condition) => {
            let longer = |(name, bound)| (name, longer(bound, times));
            Bson::Document(condition.into_iter().map(longer).collect())
        }
        other => other,
    }
}

fn within(value: Bson, times: i32) -> Bson {
    match value {
        Bson::Document(document) => Bson::Document(slowed(document, times)),
        Bson::Array(items) => {
            Bson::Array(items.into_iter().map(|item| within(item, times)).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn all_times_are_longer_and_nothing_else_is() {
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
        let slow = doc! {
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
        assert_eq!(slowed(test, 10), slow);
    }
}
