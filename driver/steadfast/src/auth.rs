//! Authentication of new connections: SCRAM, PLAIN and X.509.
//!
//! One [`Authenticator`] serves all connections of a client. For each connection,
//! [`open`](Authenticator::open) creates the fields added to `hello` (mechanism negotiation and
//! speculative authentication), and [`finish`](Authenticator::finish) runs the rest of the
//! conversation after the reply. Commands are sent through an [`Exchange`]. The modules [`scram`],
//! [`plain`] and [`x509`] convert bytes to bytes, without I/O.
//!
//! The connection decides whether to authenticate (monitoring connections do not) and has the
//! deadline; the pool handles failures.

mod error;
mod plain;
mod sasl;
mod scram;
mod x509;

use std::{fmt, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bson::{RawDocument, RawDocumentBuf, raw::RawBsonRef, raw::cstr};
use steadfast_core::credential::{AuthMechanism, Credential, EXTERNAL, InvalidCredential};
use zeroize::Zeroizing;

pub(crate) use self::error::{AuthError, Cause};
use self::scram::{ClientFirst, Hash, KeyCache, KeyRequest, Keys};

/// Transport of an authentication conversation: a connection that is not in use yet.
pub(crate) trait Exchange: Send {
    /// Error of a command: an error reply, a network error, or an error of the conversation.
    type Error: From<AuthError> + Send;

    /// Runs one command against a database and returns the server's reply.
    fn command(
        &mut self,
        db: &str,
        command: RawDocumentBuf,
    ) -> impl Future<Output = Result<RawDocumentBuf, Self::Error>> + Send;
}

/// Validated credential with a supported mechanism, and its cached keys.
pub(crate) struct Authenticator {
    identity: Identity,
    keys: KeyCache,
}

enum Identity {
    Scram(ScramIdentity),
    X509 { username: Option<String> },
    Plain { username: String, password: Zeroizing<String>, source: String },
}

struct ScramIdentity {
    /// Hash function of the credential's mechanism. `None`: negotiated.
    hash: Option<Hash>,
    username: String,
    password: Zeroizing<String>,
    source: String,
}

impl Authenticator {
    /// Validates a credential.
    ///
    /// # Errors
    ///
    /// If a part is missing or not allowed, or if the driver does not support the mechanism.
    pub(crate) fn new(credential: &Credential) -> Result<Self, AuthError> {
        let mechanism = credential.mechanism;
        credential.validate().map_err(|cause| AuthError::of_credential(mechanism, cause))?;
        let identity = match mechanism {
            None => Identity::Scram(ScramIdentity::read(credential, None)?),
            Some(AuthMechanism::ScramSha1) => {
                Identity::Scram(ScramIdentity::read(credential, Some(Hash::Sha1))?)
            }
            Some(AuthMechanism::ScramSha256) => {
                Identity::Scram(ScramIdentity::read(credential, Some(Hash::Sha256))?)
            }
            Some(AuthMechanism::MongoDbX509) => {
                Identity::X509 { username: credential.username.clone() }
            }
            Some(AuthMechanism::Plain) => {
                let (username, password) = name_and_password(credential)?;
                let source = credential.source.as_deref().unwrap_or(EXTERNAL).to_owned();
                Identity::Plain { username, password, source }
            }
            // `AuthMechanism` is non-exhaustive.
            Some(unsupported) => return Err(AuthError::new(unsupported, Cause::Unsupported)),
        };
        Ok(Self { identity, keys: KeyCache::default() })
    }

    /// Returns the fields for the `hello` of a new connection.
    pub(crate) fn open(&self) -> Result<Opening, AuthError> {
        match &self.identity {
            Identity::Scram(scram) => {
                // The handshake specification: without a mechanism, attempt SHA-256 speculatively.
                let client = scram.client(scram.hash.unwrap_or(Hash::Sha256))?;
                let negotiate =
                    scram.hash.is_none().then(|| format!("{}.{}", scram.source, scram.username));
                let source = scram.source.clone();
                Ok(Opening { speculative: SpeculativeRequest::Scram { client, source }, negotiate })
            }
            Identity::X509 { username } => {
                let command = x509::command(username.as_deref());
                Ok(Opening { speculative: SpeculativeRequest::X509(command), negotiate: None })
            }
            // PLAIN has no speculative authentication.
            Identity::Plain { .. } => {
                Ok(Opening { speculative: SpeculativeRequest::Nothing, negotiate: None })
            }
        }
    }

    /// Authenticates a connection after the reply to its `hello`.
    pub(crate) async fn finish<X: Exchange>(
        &self,
        opening: Opening,
        hello_reply: &RawDocument,
        exchange: &mut X,
    ) -> Result<(), X::Error> {
        let speculative = hello_reply.get_document("speculativeAuthenticate").ok();
        match (&self.identity, opening.speculative, speculative) {
            (Identity::Scram(scram), SpeculativeRequest::Scram { client, .. }, Some(reply)) => {
                let reply = sasl::SaslReply::read(client.hash().mechanism(), reply)?;
                self.converse(scram, client, reply, exchange).await
            }
            (Identity::Scram(scram), _, _) => {
                let hash = scram.hash.unwrap_or_else(|| negotiated(hello_reply));
                self.scram(scram, hash, exchange).await
            }
            // Servers omit `speculativeAuthenticate` from the reply if the attempt failed.
            (Identity::X509 { .. }, SpeculativeRequest::X509(_), Some(reply)) => {
                Ok(sasl::check_ok(AuthMechanism::MongoDbX509, reply)?)
            }
            (Identity::X509 { username }, _, _) => {
                let command = x509::command(username.as_deref());
                let reply = exchange.command(EXTERNAL, command).await?;
                Ok(sasl::check_ok(AuthMechanism::MongoDbX509, &reply)?)
            }
            (Identity::Plain { username, password, source }, _, _) => {
                let payload = plain::message(username, password)?;
                let command = sasl::start(AuthMechanism::Plain, payload);
                let reply = exchange.command(source, command).await?;
                match sasl::SaslReply::read(AuthMechanism::Plain, &reply)?.done {
                    true => Ok(()),
                    false => Err(AuthError::new(AuthMechanism::Plain, Cause::NotDone).into()),
                }
            }
        }
    }

    async fn scram<X: Exchange>(
        &self,
        scram: &ScramIdentity,
        hash: Hash,
        exchange: &mut X,
    ) -> Result<(), X::Error> {
        let client = scram.client(hash)?;
        let command = sasl::start_scram(hash.mechanism(), client.message());
        let reply = exchange.command(&scram.source, command).await?;
        let reply = sasl::SaslReply::read(hash.mechanism(), &reply)?;
        self.converse(scram, client, reply, exchange).await
    }

    /// Runs the conversation from the server's first message on.
    async fn converse<X: Exchange>(
        &self,
        scram: &ScramIdentity,
        client: ClientFirst,
        challenge: sasl::SaslReply,
        exchange: &mut X,
    ) -> Result<(), X::Error> {
        let mechanism = client.hash().mechanism();
        let fail = |cause| X::Error::from(AuthError::new(mechanism, cause));
        let challenged = client.challenge(&challenge.payload)?;
        if challenge.done {
            return Err(fail(Cause::EndedEarly));
        }
        let request = challenged.key_request();
        let keys = self.derive(&request).await.ok_or_else(|| fail(Cause::Interrupted))?;

        let (answer, answered) = challenged.answer(&keys);
        let command = sasl::continuation(&challenge.conversation, answer);
        let reply = exchange.command(&scram.source, command).await?;
        let reply = sasl::SaslReply::read(mechanism, &reply)?;
        answered.verify(&reply.payload)?;
        self.keys.insert(&request, keys);
        if reply.done {
            return Ok(());
        }

        // Servers before 4.4 require another, empty exchange.
        let command = sasl::continuation(&challenge.conversation, Vec::new());
        let last = exchange.command(&scram.source, command).await?;
        match sasl::SaslReply::read(mechanism, &last)?.done {
            true => Ok(()),
            false => Err(fail(Cause::NotDone)),
        }
    }

    /// Returns the keys from the cache, or derives them on a blocking thread.
    async fn derive(&self, request: &Arc<KeyRequest>) -> Option<Arc<Keys>> {
        if let Some(keys) = self.keys.find(request) {
            return Some(keys);
        }
        let request = request.clone();
        tokio::task::spawn_blocking(move || Arc::new(request.derive())).await.ok()
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mechanism = match &self.identity {
            Identity::Scram(scram) => scram.hash.map_or("SCRAM", |hash| hash.mechanism().as_str()),
            Identity::X509 { .. } => AuthMechanism::MongoDbX509.as_str(),
            Identity::Plain { .. } => AuthMechanism::Plain.as_str(),
        };
        f.debug_struct("Authenticator").field("mechanism", &mechanism).finish_non_exhaustive()
    }
}

impl ScramIdentity {
    fn read(credential: &Credential, hash: Option<Hash>) -> Result<Self, AuthError> {
        let (username, password) = name_and_password(credential)?;
        let source = credential.source.as_deref().unwrap_or("admin").to_owned();
        Ok(Self { hash, username, password, source })
    }

    fn client(&self, hash: Hash) -> Result<ClientFirst, AuthError> {
        let nonce = random_nonce()
            .map_err(|error| AuthError::new(hash.mechanism(), Cause::NoRandomness(error)))?;
        ClientFirst::new(hash, &self.username, &self.password, nonce)
    }
}

fn name_and_password(credential: &Credential) -> Result<(String, Zeroizing<String>), AuthError> {
    let mechanism = credential.mechanism;
    let name = mechanism.as_ref().map_or("SCRAM", AuthMechanism::as_str);
    let missing = |what: InvalidCredential| AuthError::of_credential(mechanism, what);
    let username = credential.username.clone();
    let username = username.ok_or_else(|| missing(InvalidCredential::MissingUsername(name)))?;
    let password = credential.password.clone();
    let password = password.ok_or_else(|| missing(InvalidCredential::MissingPassword(name)))?;
    Ok((username, Zeroizing::new(password)))
}

/// 24 random bytes in base64, which has no commas.
fn random_nonce() -> Result<String, String> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
    Ok(BASE64.encode(bytes))
}

/// Returns the negotiated hash by the rule of the authentication specification: SHA-256 if the
/// server lists it for the user, otherwise SHA-1. A failed SHA-256 conversation is never followed
/// by SHA-1.
fn negotiated(hello_reply: &RawDocument) -> Hash {
    let listed = hello_reply.get_array("saslSupportedMechs").is_ok_and(|mechanisms| {
        mechanisms.into_iter().any(|mechanism| {
            matches!(mechanism, Ok(RawBsonRef::String(name))
                if name == AuthMechanism::ScramSha256.as_str())
        })
    });
    match listed {
        true => Hash::Sha256,
        false => {
            tracing::debug!("the server offers no SCRAM-SHA-256 for the user: using SCRAM-SHA-1");
            Hash::Sha1
        }
    }
}

/// Fields that authentication adds to the `hello` of a new connection.
pub(crate) struct Opening {
    speculative: SpeculativeRequest,
    negotiate: Option<String>,
}

enum SpeculativeRequest {
    Scram { client: ClientFirst, source: String },
    X509(RawDocumentBuf),
    Nothing,
}

impl Opening {
    /// Adds `saslSupportedMechs` and `speculativeAuthenticate`, if they apply.
    pub(crate) fn append_to(&self, hello: &mut RawDocumentBuf) {
        if let Some(user) = &self.negotiate {
            hello.append(cstr!("saslSupportedMechs"), user.as_str());
        }
        match &self.speculative {
            SpeculativeRequest::Scram { client, source } => {
                let mut command = sasl::start_scram(client.hash().mechanism(), client.message());
                command.append(cstr!("db"), source.as_str());
                hello.append(cstr!("speculativeAuthenticate"), command);
            }
            SpeculativeRequest::X509(command) => {
                hello.append(cstr!("speculativeAuthenticate"), command.clone());
            }
            SpeculativeRequest::Nothing => {}
        }
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening").field("negotiate", &self.negotiate).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
