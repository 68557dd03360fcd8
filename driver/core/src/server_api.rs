//! [Stable API](https://www.mongodb.com/docs/manual/reference/stable-api/): the version of the
//! server API that a client declares.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Stable API declaration of a client, added to every command. Clients declare none by default.
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
    /// API version (`apiVersion`).
    #[serde(rename = "apiVersion")]
    pub version: ServerApiVersion,
    /// Rejects commands and options that are not part of the version (`apiStrict`). Defaults to the
    /// server's `false`.
    #[serde(rename = "apiStrict", default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// Rejects deprecated commands and options of the version (`apiDeprecationErrors`). Defaults to
    /// the server's `false`.
    #[serde(rename = "apiDeprecationErrors", default, skip_serializing_if = "Option::is_none")]
    pub deprecation_errors: Option<bool>,
}

/// Version of the Stable API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ServerApiVersion {
    /// Version 1 (`"1"`).
    #[serde(rename = "1")]
    V1,
}

/// Error for an unknown version of the Stable API.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown server API version; the only supported version is \"1\"")]
pub struct UnknownServerApiVersion;

impl ServerApi {
    /// Returns a builder of declarations.
    pub fn builder() -> ServerApiBuilder {
        ServerApiBuilder(ServerApiVersion::V1.into())
    }
}

impl From<ServerApiVersion> for ServerApi {
    fn from(version: ServerApiVersion) -> Self {
        Self { version, strict: None, deprecation_errors: None }
    }
}

/// Builder of [`ServerApi`]. The default version is 1.
#[derive(Clone, Debug)]
pub struct ServerApiBuilder(ServerApi);

impl ServerApiBuilder {
    /// Sets the API version (`apiVersion`).
    #[must_use]
    pub fn version(mut self, version: ServerApiVersion) -> Self {
        self.0.version = version;
        self
    }

    /// Rejects commands and options that are not part of the version if `true` (`apiStrict`).
    #[must_use]
    pub fn strict(mut self, strict: impl Into<Option<bool>>) -> Self {
        self.0.strict = strict.into();
        self
    }

    /// Rejects deprecated commands and options of the version if `true` (`apiDeprecationErrors`).
    #[must_use]
    pub fn deprecation_errors(mut self, deprecation_errors: impl Into<Option<bool>>) -> Self {
        self.0.deprecation_errors = deprecation_errors.into();
        self
    }

    /// Returns the declaration.
    pub fn build(self) -> ServerApi {
        self.0
    }
}

impl ServerApiVersion {
    /// Returns the value of `apiVersion`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "1",
        }
    }
}

impl fmt::Display for ServerApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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
    fn unknown_server_api_versions_are_rejected() {
        assert_eq!("1".parse(), Ok(ServerApiVersion::V1));
        assert_eq!(ServerApiVersion::V1.to_string(), "1");
        assert!("2".parse::<ServerApiVersion>().is_err());
    }
}
