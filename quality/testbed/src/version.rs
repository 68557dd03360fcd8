//! Versions of MongoDB that the testbed can fetch and start.

use std::{fmt, str::FromStr};

use crate::TestbedError;

/// A version of MongoDB that the testbed can fetch and start.
///
/// ```
/// use testbed::Version;
///
/// assert_eq!(Version::V8_2.to_string(), "8.2.0");
/// assert_eq!("8.2".parse::<Version>()?, Version::V8_2);
/// # Ok::<(), testbed::TestbedError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Version {
    /// MongoDB 6.0.5: `mongod` alone. The default for standalone servers and replica sets.
    #[default]
    V6_0,
    /// MongoDB 8.2.0: `mongod` and `mongos`. The default for sharded clusters.
    V8_2,
}

impl Version {
    /// All versions, oldest first.
    pub const ALL: [Self; 2] = [Self::V6_0, Self::V8_2];

    /// Full version number, as `buildInfo` reports it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V6_0 => "6.0.5",
            Self::V8_2 => "8.2.0",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Parses a full version number or its first two parts: `8.2.0` or `8.2`.
impl FromStr for Version {
    type Err = TestbedError;

    fn from_str(text: &str) -> Result<Self, TestbedError> {
        let is_meant = |version: &Self| {
            let full = version.as_str();
            text == full || full.rsplit_once('.').is_some_and(|(series, _)| text == series)
        };
        Self::ALL.into_iter().find(is_meant).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            TestbedError::new(format!("MongoDB {text:?} is not a version that can be fetched"))
                .advise(format!("choose one of {known}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_round_trip_through_display() {
        for version in Version::ALL {
            assert_eq!(version.to_string().parse::<Version>().unwrap(), version);
        }
        assert_eq!("6.0".parse::<Version>().unwrap(), Version::V6_0);
        for unknown in ["", "8", "8.2.1", "6.0.5.", "5.0"] {
            let error = unknown.parse::<Version>().unwrap_err().to_string();
            assert!(error.contains("6.0.5, 8.2.0"), "{error}");
        }
    }
}
