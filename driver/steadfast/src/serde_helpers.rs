//! Serialization of durations, counts and names in the form of commands and replies.

use serde::Serializer;

/// Serializes a value as its text.
pub(crate) fn as_text<S: Serializer>(
    value: &impl std::fmt::Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Durations in milliseconds (`maxTimeMS`).
pub(crate) mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => {
                serializer.serialize_i64(i64::try_from(value.as_millis()).unwrap_or(i64::MAX))
            }
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

/// Durations in seconds (`expireAfterSeconds`).
pub(crate) mod seconds {
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
}

/// Counts, which servers send as any numeric BSON type.
pub(crate) mod number {
    use bson::Bson;
    use serde::{Deserialize, Deserializer, de::Error};

    /// Deserializes a required count.
    pub(crate) fn required<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let value = Bson::deserialize(deserializer)?;
        whole(&value)
            .ok_or_else(|| D::Error::custom(format!("{value} is not a non-negative integer")))
    }

    /// Deserializes an optional count.
    pub(crate) fn optional<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u64>, D::Error> {
        match Bson::deserialize(deserializer)? {
            Bson::Null => Ok(None),
            value => whole(&value)
                .map(Some)
                .ok_or_else(|| D::Error::custom(format!("{value} is not a non-negative integer"))),
        }
    }

    /// Converts a number into a count; `None` if it is negative or has a fraction.
    pub(crate) fn whole(value: &Bson) -> Option<u64> {
        /// Largest double below which all integers are exact: 2^53.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        match *value {
            Bson::Int32(number) => u64::try_from(number).ok(),
            Bson::Int64(number) => u64::try_from(number).ok(),
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Bson::Double(number) if (0.0..=EXACT).contains(&number) && number.fract() == 0.0 => {
                Some(number as u64)
            }
            _ => None,
        }
    }

    #[cfg(test)]
    mod tests {
        use bson::Bson;

        use super::whole;

        #[test]
        fn whole_non_negative_numbers_are_counts() {
            assert_eq!(whole(&Bson::Int32(7)), Some(7));
            assert_eq!(whole(&Bson::Int64(1 << 40)), Some(1 << 40));
            assert_eq!(whole(&Bson::Double(4096.0)), Some(4096));
            for no in [
                Bson::Int32(-1),
                Bson::Int64(-1),
                Bson::Double(1.5),
                Bson::Double(f64::NAN),
                Bson::Double(1e300),
                Bson::String("7".to_owned()),
            ] {
                assert_eq!(whole(&no), None, "{no}");
            }
        }
    }
}

/// Implements conversions between strings and an enum with a variant `Other(String)`.
macro_rules! words {
    ($choice:ty { $($variant:ident = $word:literal),* $(,)? }) => {
        impl $choice {
            fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Other(other) => other,
                }
            }
        }

        impl From<String> for $choice {
            fn from(text: String) -> Self {
                match text.as_str() {
                    $($word => Self::$variant,)*
                    _ => Self::Other(text),
                }
            }
        }

        impl serde::Serialize for $choice {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $choice {
            fn deserialize<D: serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                <String as serde::Deserialize>::deserialize(deserializer).map(Self::from)
            }
        }
    };
}
pub(crate) use words;
