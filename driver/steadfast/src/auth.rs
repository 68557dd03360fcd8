//! Proving to a server who we are: the conversations that open a connection for its user.
//!
//! One [`Authenticator`] serves all connections of a client. For each connection it makes an
//! [`Opening`], which rides on the `hello` (mechanism negotiation and speculative authentication),
//! and [`finish`](Authenticator::finish)es from what the server answered. Commands travel through
//! an [`Exchange`], so nothing here knows of sockets; the conversations themselves
//! ([`scram`], [`plain`], [`x509`]) are bytes in and bytes out.
//!
//! Not here: which connections authenticate (all that operations use, and no monitor's), deadlines, and what a failure does to the pool.

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

/// A credential that can be used: complete, and of a mechanism that we speak.
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
    /// The hash that the application chose; negotiated if it did not.
    hash: Option<Hash>,
    username: String,
    password: Zeroizing<String>,
    source: String,
}

impl Authenticator {
    /// Reads a credential.
    ///
    /// # Errors
    ///
    /// When a part is missing or out of place, or when the mechanism is one that connection strings
    /// may name but this driver does not speak.
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
            // The enum may grow, and what is new there is not spoken here.
            Some(unsupported) => return Err(AuthError::new(unsupported, Cause::Unsupported)),
        };
        Ok(Self { identity, keys: KeyCache::default() })
    }

    /// Begins on a new connection: what to add to its `hello`.
    pub(crate) fn open(&self) -> Result<Opening, AuthError> {
        match &self.identity {
            Identity::Scram(scram) => {
                // Without a mechanism, the handshake specification wants SHA-256 tried at once.
                let client = scram.client(scram.hash.unwrap_or(Hash::Sha256))?;
                let negotiate =
                    scram.hash.is_none().then(|| format!("{}.{}", scram.source, scram.username));
                let source = scram.source.clone();
                Ok(Opening { first: First::Scram { client, source }, negotiate })
            }
            Identity::X509 { username } => {
                let command = x509::command(username.as_deref());
                Ok(Opening { first: First::X509(command), negotiate: None })
            }
            // Not one of the mechanisms that can be tried with the `hello`.
            Identity::Plain { .. } => Ok(Opening { first: First::Nothing, negotiate: None }),
        }
    }

    /// Authenticates a connection whose `hello`, with the opening added to it, was answered.
    pub(crate) async fn finish<X: Exchange>(
        &self,
        opening: Opening,
        hello_reply: &RawDocument,
        exchange: &mut X,
    ) -> Result<(), X::Error> {
        let speculative = hello_reply.get_document("speculativeAuthenticate").ok();
        match (&self.identity, opening.first, speculative) {
            (Identity::Scram(scram), First::Scram { client, .. }, Some(reply)) => {
                let reply = sasl::Reply::read(client.hash().mechanism(), reply)?;
                self.converse(scram, client, reply, exchange).await
            }
            (Identity::Scram(scram), _, _) => {
                let hash = scram.hash.unwrap_or_else(|| negotiated(hello_reply));
                self.scram(scram, hash, exchange).await
            }
            // The answer itself is the success: a failed attempt is left out of the reply.
            (Identity::X509 { .. }, First::X509(_), Some(reply)) => {
                Ok(sasl::refuse_failure(AuthMechanism::MongoDbX509, reply)?)
            }
            (Identity::X509 { username }, _, _) => {
                let command = x509::command(username.as_deref());
                let reply = exchange.command(EXTERNAL, command).await?;
                Ok(sasl::refuse_failure(AuthMechanism::MongoDbX509, &reply)?)
            }
            (Identity::Plain { username, password, source }, _, _) => {
                let payload = plain::message(username, password)?;
                let command = sasl::start(AuthMechanism::Plain, payload);
                let reply = exchange.command(source, command).await?;
                match sasl::Reply::read(AuthMechanism::Plain, &reply)?.done {
                    true => Ok(()),
                    false => Err(AuthError::new(AuthMechanism::Plain, Cause::NeverEnds).into()),
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
        let reply = sasl::Reply::read(hash.mechanism(), &reply)?;
        self.converse(scram, client, reply, exchange).await
    }

    /// The conversation from the server's challenge on.
    async fn converse<X: Exchange>(
        &self,
        scram: &ScramIdentity,
        client: ClientFirst,
        challenge: sasl::Reply,
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
        let command = sasl::proceed(&challenge.conversation, answer);
        let reply = exchange.command(&scram.source, command).await?;
        let reply = sasl::Reply::read(mechanism, &reply)?;
        answered.verify(&reply.payload)?;
        self.keys.keep(&request, keys);
        if reply.done {
            return Ok(());
        }

        // Servers before 4.4 want one more, empty exchange.
        let command = sasl::proceed(&challenge.conversation, Vec::new());
        let last = exchange.command(&scram.source, command).await?;
        match sasl::Reply::read(mechanism, &last)?.done {
            true => Ok(()),
            false => Err(fail(Cause::NeverEnds)),
        }
    }

    /// The keys, from memory or derived where the thousands of hash rounds delay no other task.
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
    let name = mechanism.map_or("SCRAM", AuthMechanism::as_str);
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

/// The default mechanism, by the rule of the authentication specification: SHA-256 if the server
/// lists it for the user, otherwise SHA-1. This is the only way to SHA-1 without asking for it: a
/// SHA-256 conversation that fails is never followed by another.
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
    first: First,
    negotiate: Option<String>,
}

enum First {
    Scram { client: ClientFirst, source: String },
    X509(RawDocumentBuf),
    Nothing,
}

impl Opening {
    /// Adds `saslSupportedMechs` and `speculativeAuthenticate`, as far as they apply.
    pub(crate) fn append_to(&self, hello: &mut RawDocumentBuf) {
        if let Some(user) = &self.negotiate {
            hello.append(cstr!("saslSupportedMechs"), user.as_str());
        }
        match &self.first {
            First::Scram { client, source } => {
                let mut command = sasl::start_scram(client.hash().mechanism(), client.message());
                command.append(cstr!("db"), source.as_str());
                hello.append(cstr!("speculativeAuthenticate"), command);
            }
            First::X509(command) => {
                hello.append(cstr!("speculativeAuthenticate"), command.clone());
            }
            First::Nothing => {}
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
