//! Credentials: user name, password, authentication mechanism, and the rules of each mechanism.
//!
//! `Debug` shows neither the password nor the mechanism properties. The password is erased from
//! memory on drop.

use std::{fmt, str::FromStr};

use bson::Document;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use zeroize::Zeroize;

/// Authentication database of users that are managed outside of the deployment.
pub const EXTERNAL: &str = "$external";

const SERVICE_NAME: &str = "SERVICE_NAME";
const SERVICE_REALM: &str = "SERVICE_REALM";
const SERVICE_HOST: &str = "SERVICE_HOST";
const CANONICALIZE_HOST_NAME: &str = "CANONICALIZE_HOST_NAME";
const AWS_SESSION_TOKEN: &str = "AWS_SESSION_TOKEN";
const ENVIRONMENT: &str = "ENVIRONMENT";
const TOKEN_RESOURCE: &str = "TOKEN_RESOURCE";

/// Credential of a client. See [authentication
/// mechanisms](https://www.mongodb.com/docs/manual/core/authentication/).
///
/// ```
/// use steadfast_core::credential::Credential;
///
/// let alice = Credential::builder()
///     .username("alice".to_owned())
///     .password("open sesame".to_owned())
///     .build();
/// assert!(!format!("{alice:?}").contains("sesame"));
/// ```
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Credential {
    /// User name. Optional for mechanisms that determine it themselves.
    pub username: Option<String>,
    /// Authentication database (`authSource`). The default depends on the mechanism.
    pub source: Option<String>,
    /// Password.
    pub password: Option<String>,
    /// Authentication mechanism (`authMechanism`). Defaults to SCRAM-SHA-256 or SCRAM-SHA-1,
    /// negotiated with the server.
    pub mechanism: Option<AuthMechanism>,
    /// Additional properties of the mechanism (`authMechanismProperties`).
    pub mechanism_properties: Option<Document>,
}

/// Authentication mechanism (`authMechanism`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AuthMechanism {
    /// Challenge and response of MongoDB before 3.0 (`MONGODB-CR`). Always rejected: MongoDB 4.0
    /// removed it.
    MongoDbCr,
    /// SCRAM with SHA-1 (`SCRAM-SHA-1`).
    ScramSha1,
    /// SCRAM with SHA-256 (`SCRAM-SHA-256`).
    ScramSha256,
    /// X.509 client certificate of the TLS connection (`MONGODB-X509`).
    MongoDbX509,
    /// Password in clear text, for LDAP (`PLAIN`). Use it over TLS only.
    Plain,
    /// Kerberos (`GSSAPI`).
    Gssapi,
    /// AWS IAM (`MONGODB-AWS`).
    MongoDbAws,
    /// OpenID Connect (`MONGODB-OIDC`).
    MongoDbOidc,
}

/// Error of an invalid credential. Contains no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCredential {
    /// The mechanism is unknown.
    #[error(
        "unknown authentication mechanism: expected SCRAM-SHA-256, SCRAM-SHA-1, MONGODB-X509, \
         PLAIN, GSSAPI, MONGODB-AWS or MONGODB-OIDC"
    )]
    UnknownMechanism,
    /// The mechanism was removed from servers.
    #[error("{0} was removed in MongoDB 4.0; use SCRAM-SHA-256")]
    RemovedMechanism(&'static str),
    /// The mechanism requires a user name.
    #[error("{0} requires a user name")]
    MissingUsername(&'static str),
    /// The mechanism requires a password.
    #[error("{0} requires a password")]
    MissingPassword(&'static str),
    /// The mechanism has no password.
    #[error("{0} does not accept a password")]
    UnexpectedPassword(&'static str),
    /// The mechanism has no user name in this environment.
    #[error("{0} does not accept a user name in this environment")]
    UnexpectedUsername(&'static str),
    /// The mechanism requires the authentication database `$external`.
    #[error("{0} requires the authentication database $external; set authSource=$external")]
    NotExternal(&'static str),
    /// The authentication database is not a database name.
    #[error("the authentication database (authSource) must not be empty or contain a NUL")]
    InvalidSource,
    /// The mechanism does not have the property.
    #[error("{0} does not accept one of the given authMechanismProperties")]
    UnknownProperty(&'static str),
    /// The property has an invalid value.
    #[error("the mechanism property {0} has an unknown value")]
    InvalidProperty(&'static str),
    /// The mechanism requires the property in this environment.
    #[error("{mechanism} requires the mechanism property {property}")]
    MissingProperty {
        /// Name of the mechanism.
        mechanism: &'static str,
        /// Name of the property.
        property: &'static str,
    },
    /// The mechanism does not accept the property in this environment.
    #[error("{mechanism} does not accept the mechanism property {property} in this environment")]
    UnexpectedProperty {
        /// Name of the mechanism.
        mechanism: &'static str,
        /// Name of the property.
        property: &'static str,
    },
}

impl Credential {
    /// Returns a builder of credentials.
    pub fn builder() -> CredentialBuilder {
        CredentialBuilder::default()
    }

    /// Fills in the defaults of the mechanism: the authentication database, which can depend on the
    /// database of the connection string, and `SERVICE_NAME` of GSSAPI.
    #[must_use]
    pub fn with_defaults(mut self, database: Option<&str>) -> Self {
        if self.source.is_none() {
            self.source = Some(default_source(self.mechanism, database).to_owned());
        }
        if self.mechanism == Some(AuthMechanism::Gssapi) {
            let properties = self.mechanism_properties.get_or_insert_default();
            if !properties.contains_key(SERVICE_NAME) {
                properties.insert(SERVICE_NAME, "mongodb");
            }
        }
        self
    }

    /// Checks the credential against the rules of its mechanism.
    ///
    /// # Errors
    ///
    /// The first rule that it violates.
    pub fn validate(&self) -> Result<(), InvalidCredential> {
        if self.source.as_ref().is_some_and(|source| source.is_empty() || source.contains('\0')) {
            return Err(InvalidCredential::InvalidSource);
        }
        match self.mechanism {
            // Without a mechanism, a missing password is detected after the negotiation.
            None => self.require_username("authentication"),
            Some(AuthMechanism::MongoDbCr) => Err(InvalidCredential::RemovedMechanism(self.name())),
            Some(AuthMechanism::ScramSha1 | AuthMechanism::ScramSha256 | AuthMechanism::Plain) => {
                self.require_username(self.name())?;
                self.require_password()?;
                self.allow_properties(&[])
            }
            Some(AuthMechanism::MongoDbX509) => {
                self.require_external_source()?;
                self.reject_password()?;
                self.allow_properties(&[])
            }
            Some(AuthMechanism::Gssapi) => self.validate_gssapi(),
            Some(AuthMechanism::MongoDbAws) => self.validate_aws(),
            Some(AuthMechanism::MongoDbOidc) => self.validate_oidc(),
        }
    }

    fn validate_gssapi(&self) -> Result<(), InvalidCredential> {
        self.require_username(self.name())?;
        self.require_external_source()?;
        self.allow_properties(&[
            SERVICE_NAME,
            SERVICE_REALM,
            SERVICE_HOST,
            CANONICALIZE_HOST_NAME,
        ])?;
        match self.property(CANONICALIZE_HOST_NAME) {
            None | Some("none" | "forward" | "forwardAndReverse" | "true" | "false") => Ok(()),
            Some(_) => Err(InvalidCredential::InvalidProperty(CANONICALIZE_HOST_NAME)),
        }
    }

    fn validate_aws(&self) -> Result<(), InvalidCredential> {
        self.require_external_source()?;
        self.allow_properties(&[AWS_SESSION_TOKEN])?;
        let explicit = self.password.is_some() || self.property(AWS_SESSION_TOKEN).is_some();
        match &self.username {
            Some(_) => self.require_password(),
            None if explicit => Err(InvalidCredential::MissingUsername(self.name())),
            None => Ok(()),
        }
    }

    fn validate_oidc(&self) -> Result<(), InvalidCredential> {
        let mechanism = self.name();
        self.require_external_source()?;
        self.reject_password()?;
        self.allow_properties(&[ENVIRONMENT, TOKEN_RESOURCE])?;
        let has_resource = self.property(TOKEN_RESOURCE).is_some();
        match self.property(ENVIRONMENT) {
            None => Err(InvalidCredential::MissingProperty { mechanism, property: ENVIRONMENT }),
            Some("azure" | "gcp") if !has_resource => {
                Err(InvalidCredential::MissingProperty { mechanism, property: TOKEN_RESOURCE })
            }
            Some("test" | "k8s") if has_resource => {
                Err(InvalidCredential::UnexpectedProperty { mechanism, property: TOKEN_RESOURCE })
            }
            // Only Azure uses the user name, to select an identity.
            Some("test" | "gcp" | "k8s") if self.username.is_some() => {
                Err(InvalidCredential::UnexpectedUsername(mechanism))
            }
            Some("test" | "azure" | "gcp" | "k8s") => Ok(()),
            Some(_) => Err(InvalidCredential::InvalidProperty(ENVIRONMENT)),
        }
    }

    fn name(&self) -> &'static str {
        self.mechanism.as_ref().map_or("authentication", AuthMechanism::as_str)
    }

    fn property(&self, name: &str) -> Option<&str> {
        self.mechanism_properties.as_ref()?.get_str(name).ok()
    }

    fn require_username(&self, who: &'static str) -> Result<(), InvalidCredential> {
        match self.username.as_deref() {
            None | Some("") => Err(InvalidCredential::MissingUsername(who)),
            Some(_) => Ok(()),
        }
    }

    fn require_password(&self) -> Result<(), InvalidCredential> {
        match self.password {
            None => Err(InvalidCredential::MissingPassword(self.name())),
            Some(_) => Ok(()),
        }
    }

    fn reject_password(&self) -> Result<(), InvalidCredential> {
        match self.password {
            None => Ok(()),
            Some(_) => Err(InvalidCredential::UnexpectedPassword(self.name())),
        }
    }

    fn require_external_source(&self) -> Result<(), InvalidCredential> {
        match self.source.as_deref() {
            None | Some(EXTERNAL) => Ok(()),
            Some(_) => Err(InvalidCredential::NotExternal(self.name())),
        }
    }

    fn allow_properties(&self, known: &[&str]) -> Result<(), InvalidCredential> {
        let properties = self.mechanism_properties.iter().flat_map(Document::keys);
        match properties.into_iter().all(|name| known.contains(&name.as_str())) {
            true => Ok(()),
            false => Err(InvalidCredential::UnknownProperty(self.name())),
        }
    }
}

fn default_source(mechanism: Option<AuthMechanism>, database: Option<&str>) -> &str {
    match mechanism {
        None
        | Some(AuthMechanism::MongoDbCr | AuthMechanism::ScramSha1 | AuthMechanism::ScramSha256) => {
            database.unwrap_or("admin")
        }
        Some(AuthMechanism::Plain) => database.unwrap_or(EXTERNAL),
        Some(
            AuthMechanism::MongoDbX509
            | AuthMechanism::Gssapi
            | AuthMechanism::MongoDbAws
            | AuthMechanism::MongoDbOidc,
        ) => EXTERNAL,
    }
}

impl Drop for Credential {
    fn drop(&mut self) {
        self.password.zeroize();
    }
}

/// Replacement of secrets in `Debug` output.
pub(crate) const REDACTED: &str = "[redacted]";

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("username", &self.username)
            .field("source", &self.source)
            .field("password", &self.password.as_ref().map(|_| REDACTED))
            .field("mechanism", &self.mechanism)
            .field("mechanism_properties", &self.mechanism_properties.as_ref().map(|_| REDACTED))
            .finish()
    }
}

/// Builder of [`Credential`].
#[derive(Clone, Debug, Default)]
pub struct CredentialBuilder(Credential);

impl CredentialBuilder {
    /// Sets the user name.
    #[must_use]
    pub fn username(mut self, username: impl Into<Option<String>>) -> Self {
        self.0.username = username.into();
        self
    }

    /// Sets the authentication database (`authSource`).
    #[must_use]
    pub fn source(mut self, source: impl Into<Option<String>>) -> Self {
        self.0.source = source.into();
        self
    }

    /// Sets the password.
    #[must_use]
    pub fn password(mut self, password: impl Into<Option<String>>) -> Self {
        self.0.password.zeroize();
        self.0.password = password.into();
        self
    }

    /// Sets the authentication mechanism (`authMechanism`).
    #[must_use]
    pub fn mechanism(mut self, mechanism: impl Into<Option<AuthMechanism>>) -> Self {
        self.0.mechanism = mechanism.into();
        self
    }

    /// Sets the properties of the mechanism (`authMechanismProperties`).
    #[must_use]
    pub fn mechanism_properties(mut self, properties: impl Into<Option<Document>>) -> Self {
        self.0.mechanism_properties = properties.into();
        self
    }

    /// Returns the credential.
    pub fn build(self) -> Credential {
        self.0
    }
}

impl AuthMechanism {
    /// Returns the name used in commands and connection strings.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::MongoDbCr => "MONGODB-CR",
            Self::ScramSha1 => "SCRAM-SHA-1",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::MongoDbX509 => "MONGODB-X509",
            Self::Plain => "PLAIN",
            Self::Gssapi => "GSSAPI",
            Self::MongoDbAws => "MONGODB-AWS",
            Self::MongoDbOidc => "MONGODB-OIDC",
        }
    }

    /// Checks a credential against the rules of this mechanism, whatever the mechanism of the
    /// credential.
    ///
    /// # Errors
    ///
    /// The first rule that it violates.
    pub fn validate_credential(&self, credential: &Credential) -> Result<(), InvalidCredential> {
        let mut credential = credential.clone();
        credential.mechanism = Some(*self);
        credential.validate()
    }
}

impl fmt::Display for AuthMechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AuthMechanism {
    type Err = InvalidCredential;

    fn from_str(name: &str) -> Result<Self, InvalidCredential> {
        match name {
            "MONGODB-CR" => Ok(Self::MongoDbCr),
            "SCRAM-SHA-1" => Ok(Self::ScramSha1),
            "SCRAM-SHA-256" => Ok(Self::ScramSha256),
            "MONGODB-X509" => Ok(Self::MongoDbX509),
            "PLAIN" => Ok(Self::Plain),
            "GSSAPI" => Ok(Self::Gssapi),
            "MONGODB-AWS" => Ok(Self::MongoDbAws),
            "MONGODB-OIDC" => Ok(Self::MongoDbOidc),
            _ => Err(InvalidCredential::UnknownMechanism),
        }
    }
}

impl Serialize for AuthMechanism {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for AuthMechanism {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn credential(mechanism: AuthMechanism) -> CredentialBuilder {
        Credential::builder().mechanism(mechanism)
    }

    #[test]
    fn credential_debug_contains_neither_password_nor_properties() {
        // pitfall 40
        let shown = format!(
            "{:?}",
            credential(AuthMechanism::MongoDbAws)
                .username("key".to_owned())
                .password("hunter2".to_owned())
                .mechanism_properties(doc! { AWS_SESSION_TOKEN: "tok3n" })
                .build()
        );
        assert!(shown.contains("key") && shown.contains(REDACTED));
        assert!(!shown.contains("hunter2") && !shown.contains("tok3n"), "{shown}");
    }

    #[test]
    fn auth_source_defaults_by_mechanism() {
        use AuthMechanism as Mechanism;
        for (mechanism, without, with) in [
            (None, "admin", "db"),
            (Some(Mechanism::ScramSha1), "admin", "db"),
            (Some(Mechanism::ScramSha256), "admin", "db"),
            (Some(Mechanism::Plain), EXTERNAL, "db"),
            (Some(Mechanism::MongoDbX509), EXTERNAL, EXTERNAL),
            (Some(Mechanism::Gssapi), EXTERNAL, EXTERNAL),
            (Some(Mechanism::MongoDbAws), EXTERNAL, EXTERNAL),
            (Some(Mechanism::MongoDbOidc), EXTERNAL, EXTERNAL),
        ] {
            let credential = || Credential::builder().mechanism(mechanism).build();
            assert_eq!(credential().with_defaults(None).source.as_deref(), Some(without));
            assert_eq!(credential().with_defaults(Some("db")).source.as_deref(), Some(with));
        }
    }

    #[test]
    fn mechanism_names_round_trip() {
        for name in [
            "MONGODB-CR",
            "SCRAM-SHA-1",
            "SCRAM-SHA-256",
            "MONGODB-X509",
            "PLAIN",
            "GSSAPI",
            "MONGODB-AWS",
            "MONGODB-OIDC",
        ] {
            assert_eq!(name.parse::<AuthMechanism>().unwrap().as_str(), name);
        }
        assert!("SCRAM-SHA-512".parse::<AuthMechanism>().is_err());
    }

    #[test]
    fn removed_mechanism_is_rejected_whatever_the_credential() {
        let removed = Err(InvalidCredential::RemovedMechanism("MONGODB-CR"));
        let whole = credential(AuthMechanism::MongoDbCr)
            .username("u".to_owned())
            .password("p".to_owned())
            .build();
        assert_eq!(whole.validate(), removed);
        assert_eq!(AuthMechanism::ScramSha1.validate_credential(&whole), Ok(()));
        assert_eq!(AuthMechanism::MongoDbCr.validate_credential(&whole), removed);
    }

    #[test]
    fn scram_and_plain_require_username_and_password_without_properties() {
        for mechanism in
            [AuthMechanism::ScramSha1, AuthMechanism::ScramSha256, AuthMechanism::Plain]
        {
            let user = || credential(mechanism).username("u".to_owned());
            let whole = || user().password("p".to_owned());
            assert_eq!(whole().build().validate(), Ok(()));
            assert!(credential(mechanism).build().validate().is_err());
            assert!(user().build().validate().is_err());
            let with_property = whole().mechanism_properties(doc! { "A": "b" });
            assert!(with_property.build().validate().is_err());
        }
    }

    #[test]
    fn aws_session_token_alone_is_rejected() {
        let token = credential(AuthMechanism::MongoDbAws)
            .mechanism_properties(doc! { AWS_SESSION_TOKEN: "t" });
        assert!(token.build().validate().is_err());
    }

    #[test]
    fn auth_source_with_nul_is_rejected() {
        // pitfall 41
        let credential =
            Credential::builder().username("u".to_owned()).source("a\0b".to_owned()).build();
        assert_eq!(credential.validate(), Err(InvalidCredential::InvalidSource));
    }
}
