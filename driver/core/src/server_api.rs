//! The versioned API: a promise by the server to keep a command's behaviour as it was in a version.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which version of the API the commands of a client declare.
///
/// ```
/// use steadfast_core::server_api::{ServerApi, ServerApiVersion};
///
/// let api = ServerApi::builder().version(ServerApiVersion::V1).strict(true).build();
/// assert_eq!(api.strict, Some(true));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerApi {
    /// The version.
    #[serde(rename = "apiVersion")]
    pub version: ServerApiVersion,
    /// Whether the server refuses commands outside of that version.
    #[serde(rename = "apiStrict", default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// Whether the server refuses what is deprecated in that version.
    #[serde(rename = "apiDeprecationErrors", default, skip_serializing_if = "Option::is_none")]
    pub deprecation_errors: Option<bool>,
}

/// The versions there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ServerApiVersion {
    /// Version 1.
    #[serde(rename = "1")]
    V1,
}

/// There is no version of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown server API version; the only one is \"1\"")]
pub struct UnknownServerApiVersion;

impl ServerApi {
    /// An API declaration to be filled in field by field.
    pub fn builder() -> ServerApiBuilder {
        ServerApiBuilder(ServerApiVersion::V1.into())
    }
}

impl From<ServerApiVersion> for ServerApi {
    fn from(version: ServerApiVersion) -> Self {
        Self { version, strict: None, deprecation_errors: None }
    }
}

/// Fills in a [`ServerApi`]; the version is 1 unless told otherwise.
#[derive(Clone, Debug)]
pub struct ServerApiBuilder(ServerApi);

impl ServerApiBuilder {
    /// The version.
    #[must_use]
    pub fn version(mut self, version: ServerApiVersion) -> Self {
        self.0.version = version;
        self
    }

    /// Whether the server refuses commands outside of that version.
    #[must_use]
    pub fn strict(mut self, strict: impl Into<Option<bool>>) -> Self {
        self.0.strict = strict.into();
        self
    }

    /// Whether the server refuses what is deprecated in that version.
    #[must_use]
    pub fn deprecation_errors(mut self, deprecation_errors: impl Into<Option<bool>>) -> Self {
        self.0.deprecation_errors = deprecation_errors.into();
        self
    }

    /// The finished declaration.
    pub fn build(self) -> ServerApi {
        self.0
    }
}

impl ServerApiVersion {
    /// The version's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "1",
        }
    }
}

impl FromStr for ServerApiVersion {
    type Err = UnknownServerApiVersion;

    fn from_str(name: &str) -> Result<Self, UnknownServerApiVersion> {
        match name {
            "1" => Ok(Self::V1),
            _ => Err(UnknownServerApiVersion),
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn serde_form_has_the_fields_of_commands() {
        let api = ServerApi::builder().strict(true).deprecation_errors(false).build();
        let fields = doc! { "apiVersion": "1", "apiStrict": true, "apiDeprecationErrors": false };
        assert_eq!(bson::serialize_to_document(&api).unwrap(), fields);
        assert_eq!(bson::deserialize_from_document::<ServerApi>(fields).unwrap(), api);
    }

    #[test]
    fn unknown_versions_are_refused() {
        assert_eq!("1".parse(), Ok(ServerApiVersion::V1));
        assert!("2".parse::<ServerApiVersion>().is_err());
    }
}
