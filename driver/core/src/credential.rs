//! Who a client is: user name, password, mechanism, and the rules each mechanism has for them.
//!
//! A credential never shows its password or its mechanism's properties in `Debug`, and wipes the
//! password from memory when dropped.

use std::{fmt, str::FromStr};

use bson::Document;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use zeroize::Zeroize;

/// The database that stands for users kept outside of the deployment.
pub const EXTERNAL: &str = "$external";

const SERVICE_NAME: &str = "SERVICE_NAME";
const SERVICE_REALM: &str = "SERVICE_REALM";
const SERVICE_HOST: &str = "SERVICE_HOST";
const CANONICALIZE_HOST_NAME: &str = "CANONICALIZE_HOST_NAME";
const AWS_SESSION_TOKEN: &str = "AWS_SESSION_TOKEN";
const ENVIRONMENT: &str = "ENVIRONMENT";
const TOKEN_RESOURCE: &str = "TOKEN_RESOURCE";

/// What a client authenticates with.
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
    /// The user's name; some mechanisms find it out for themselves.
    pub username: Option<String>,
    /// The database that knows the user.
    pub source: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// The mechanism; negotiated with the server if not given.
    pub mechanism: Option<AuthMechanism>,
    /// What else the mechanism needs.
    pub mechanism_properties: Option<Document>,
}

/// The ways to authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AuthMechanism {
    /// Challenge and response with SHA-1.
    ScramSha1,
    /// Challenge and response with SHA-256.
    ScramSha256,
    /// The client certificate of the TLS connection.
    MongoDbX509,
    /// The password in clear, for LDAP; only sensible over TLS.
    Plain,
    /// Kerberos.
    Gssapi,
    /// AWS access keys.
    MongoDbAws,
    /// OpenID Connect tokens.
    MongoDbOidc,
}

/// Why a credential cannot work. Secrets are not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCredential {
    /// There is no mechanism of that name.
    #[error(
        "unknown authentication mechanism: expected SCRAM-SHA-256, SCRAM-SHA-1, MONGODB-X509, \
         PLAIN, GSSAPI, MONGODB-AWS or MONGODB-OIDC"
    )]
    UnknownMechanism,
    /// The mechanism needs a user name.
    #[error("{0} needs a user name")]
    MissingUsername(&'static str),
    /// The mechanism needs a password.
    #[error("{0} needs a password")]
    MissingPassword(&'static str),
    /// The mechanism takes no password.
    #[error("{0} takes no password")]
    UnexpectedPassword(&'static str),
    /// The mechanism takes no user name as it is set up.
    #[error("{0} takes no user name in this environment")]
    UnexpectedUsername(&'static str),
    /// The mechanism's users are never kept in a database.
    #[error("{0} needs the authentication source $external")]
    NotExternal(&'static str),
    /// A source that no database can be called.
    #[error("the authentication source must not be empty or contain a NUL character")]
    InvalidSource,
    /// The mechanism has no such property.
    #[error("{0} was given a mechanism property that it does not have")]
    UnknownProperty(&'static str),
    /// The property's value is none of those it can have.
    #[error("the mechanism property {0} has an unknown value")]
    InvalidProperty(&'static str),
    /// The mechanism needs that property as it is set up.
    #[error("{mechanism} needs the mechanism property {property}")]
    MissingProperty {
        /// The mechanism's name.
        mechanism: &'static str,
        /// The property's name.
        property: &'static str,
    },
    /// The mechanism does not take that property as it is set up.
    #[error("{mechanism} does not take the mechanism property {property} here")]
    UnexpectedProperty {
        /// The mechanism's name.
        mechanism: &'static str,
        /// The property's name.
        property: &'static str,
    },
}

impl Credential {
    /// A credential to be filled in field by field.
    pub fn builder() -> CredentialBuilder {
        CredentialBuilder::default()
    }

    /// The same with the mechanism's defaults for what is not given: the source (which may depend
    /// on the connection string's database) and GSSAPI's service name.
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

    /// Refuses what the mechanism could never work with.
    pub fn validate(&self) -> Result<(), InvalidCredential> {
        if self.source.as_ref().is_some_and(|source| source.is_empty() || source.contains('\0')) {
            return Err(InvalidCredential::InvalidSource);
        }
        match self.mechanism {
            // Whether a password is missing shows when a mechanism has been negotiated.
            None => self.needs_username("authentication"),
            Some(AuthMechanism::ScramSha1 | AuthMechanism::ScramSha256 | AuthMechanism::Plain) => {
                self.needs_username(self.name())?;
                self.needs_password()?;
                self.takes_properties(&[])
            }
            Some(AuthMechanism::MongoDbX509) => {
                self.needs_external_source()?;
                self.takes_no_password()?;
                self.takes_properties(&[])
            }
            Some(AuthMechanism::Gssapi) => self.validate_gssapi(),
            Some(AuthMechanism::MongoDbAws) => self.validate_aws(),
            Some(AuthMechanism::MongoDbOidc) => self.validate_oidc(),
        }
    }

    fn validate_gssapi(&self) -> Result<(), InvalidCredential> {
        self.needs_username(self.name())?;
        self.needs_external_source()?;
        self.takes_properties(&[
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
        self.needs_external_source()?;
        self.takes_properties(&[AWS_SESSION_TOKEN])?;
        let explicit = self.password.is_some() || self.property(AWS_SESSION_TOKEN).is_some();
        match &self.username {
            Some(_) => self.needs_password(),
            None if explicit => Err(InvalidCredential::MissingUsername(self.name())),
            None => Ok(()),
        }
    }

    fn validate_oidc(&self) -> Result<(), InvalidCredential> {
        let mechanism = self.name();
        self.needs_external_source()?;
        self.takes_no_password()?;
        self.takes_properties(&[ENVIRONMENT, TOKEN_RESOURCE])?;
        let has_resource = self.property(TOKEN_RESOURCE).is_some();
        match self.property(ENVIRONMENT) {
            None => Err(InvalidCredential::MissingProperty { mechanism, property: ENVIRONMENT }),
            Some("azure" | "gcp") if !has_resource => {
                Err(InvalidCredential::MissingProperty { mechanism, property: TOKEN_RESOURCE })
            }
            Some("test" | "k8s") if has_resource => {
                Err(InvalidCredential::UnexpectedProperty { mechanism, property: TOKEN_RESOURCE })
            }
            // Only Azure's identities can be chosen among by name.
            Some("test" | "gcp" | "k8s") if self.username.is_some() => {
                Err(InvalidCredential::UnexpectedUsername(mechanism))
            }
            Some("test" | "azure" | "gcp" | "k8s") => Ok(()),
            Some(_) => Err(InvalidCredential::InvalidProperty(ENVIRONMENT)),
        }
    }

    fn name(&self) -> &'static str {
        self.mechanism.map_or("authentication", AuthMechanism::as_str)
    }

    fn property(&self, name: &str) -> Option<&str> {
        self.mechanism_properties.as_ref()?.get_str(name).ok()
    }

    fn needs_username(&self, who: &'static str) -> Result<(), InvalidCredential> {
        match self.username.as_deref() {
            None | Some("") => Err(InvalidCredential::MissingUsername(who)),
            Some(_) => Ok(()),
        }
    }

    fn needs_password(&self) -> Result<(), InvalidCredential> {
        match self.password {
            None => Err(InvalidCredential::MissingPassword(self.name())),
            Some(_) => Ok(()),
        }
    }

    fn takes_no_password(&self) -> Result<(), InvalidCredential> {
        match self.password {
            None => Ok(()),
            Some(_) => Err(InvalidCredential::UnexpectedPassword(self.name())),
        }
    }

    fn needs_external_source(&self) -> Result<(), InvalidCredential> {
        match self.source.as_deref() {
            None | Some(EXTERNAL) => Ok(()),
            Some(_) => Err(InvalidCredential::NotExternal(self.name())),
        }
    }

    fn takes_properties(&self, known: &[&str]) -> Result<(), InvalidCredential> {
        let properties = self.mechanism_properties.iter().flat_map(Document::keys);
        match properties.into_iter().all(|name| known.contains(&name.as_str())) {
            true => Ok(()),
            false => Err(InvalidCredential::UnknownProperty(self.name())),
        }
    }
}

fn default_source(mechanism: Option<AuthMechanism>, database: Option<&str>) -> &str {
    match mechanism {
        None | Some(AuthMechanism::ScramSha1 | AuthMechanism::ScramSha256) => {
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

/// What replaces a secret where a value is shown.
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

/// Fills in a [`Credential`].
#[derive(Clone, Debug, Default)]
pub struct CredentialBuilder(Credential);

impl CredentialBuilder {
    /// The user's name.
    #[must_use]
    pub fn username(mut self, username: impl Into<Option<String>>) -> Self {
        self.0.username = username.into();
        self
    }

    /// The database that knows the user.
    #[must_use]
    pub fn source(mut self, source: impl Into<Option<String>>) -> Self {
        self.0.source = source.into();
        self
    }

    /// The password.
    #[must_use]
    pub fn password(mut self, password: impl Into<Option<String>>) -> Self {
        self.0.password.zeroize();
        self.0.password = password.into();
        self
    }

    /// The mechanism.
    #[must_use]
    pub fn mechanism(mut self, mechanism: impl Into<Option<AuthMechanism>>) -> Self {
        self.0.mechanism = mechanism.into();
        self
    }

    /// What else the mechanism needs.
    #[must_use]
    pub fn mechanism_properties(mut self, properties: impl Into<Option<Document>>) -> Self {
        self.0.mechanism_properties = properties.into();
        self
    }

    /// The finished credential.
    pub fn build(self) -> Credential {
        self.0
    }
}

impl AuthMechanism {
    /// The mechanism's name on the wire and in a connection string.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ScramSha1 => "SCRAM-SHA-1",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::MongoDbX509 => "MONGODB-X509",
            Self::Plain => "PLAIN",
            Self::Gssapi => "GSSAPI",
            Self::MongoDbAws => "MONGODB-AWS",
            Self::MongoDbOidc => "MONGODB-OIDC",
        }
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
    fn debug_shows_neither_password_nor_properties() {
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
    fn the_source_defaults_by_mechanism() {
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
        assert!("MONGODB-CR".parse::<AuthMechanism>().is_err());
    }

    #[test]
    fn scram_and_plain_need_user_and_password_and_take_no_properties() {
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
    fn a_session_token_alone_is_no_aws_credential() {
        let token = credential(AuthMechanism::MongoDbAws)
            .mechanism_properties(doc! { AWS_SESSION_TOKEN: "t" });
        assert!(token.build().validate().is_err());
    }

    #[test]
    fn a_source_with_nul_is_refused() {
        // pitfall 41
        let credential =
            Credential::builder().username("u".to_owned()).source("a\0b".to_owned()).build();
        assert_eq!(credential.validate(), Err(InvalidCredential::InvalidSource));
    }
}
