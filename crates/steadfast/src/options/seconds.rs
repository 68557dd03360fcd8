//! Durations as the whole seconds that commands speak of (`expireAfterSeconds` and the like).

use std::time::Duration;

use serde::{Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(
    value: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => {
            let seconds = i64::try_from(value.as_secs()).unwrap_or(i64::MAX);
            match i32::try_from(seconds) {
                Ok(seconds) => serializer.serialize_i32(seconds),
                Err(_) => serializer.serialize_i64(seconds),
            }
        }
        None => serializer.serialize_none(),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    Ok(super::number::optional(deserializer)?.map(Duration::from_secs))
}
