//! SCRAM conversation (RFC 5802, RFC 7677) as a chain of types.
//!
//! [`ClientFirst`] reads the server's first message and becomes [`Challenged`]; with the derived
//! keys it computes the proof and becomes [`Answered`], which verifies the server's signature. No
//! I/O and no random numbers: the nonce is a parameter.

mod keys;

use std::{iter::Peekable, str::Split, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

pub(crate) use self::keys::{Hash, KeyCache, KeyRequest, Keys};
use super::error::{AuthError, Cause};

/// Minimum number of iterations, by the authentication specification.
pub(crate) const MIN_ITERATIONS: u32 = 4096;
/// Maximum number of iterations. Servers default to 10,000 and 15,000; recommendations for password
/// storage reach about one million.
pub(crate) const MAX_ITERATIONS: u32 = 2_000_000;

/// GS2 header: no channel binding (MongoDB does not support it) and no authorization identity. It
/// begins the first message, and the final message contains it in base64.
const GS2_HEADER: &str = "n,,";
const GS2_HEADER_BASE64: &str = "biws";

/// Conversation before its first message.
pub(crate) struct ClientFirst {
    hash: Hash,
    password: Zeroizing<Vec<u8>>,
    nonce: String,
    bare: String,
}

impl ClientFirst {
    /// Starts a conversation. The nonce must be fresh, random and free of commas.
    pub(crate) fn new(
        hash: Hash,
        username: &str,
        password: &str,
        nonce: String,
    ) -> Result<Self, AuthError> {
        let password = hash.prepare_password(username, password)?;
        Ok(Self::with_prepared_password(hash, username, password, nonce))
    }

    fn with_prepared_password(
        hash: Hash,
        username: &str,
        password: Zeroizing<Vec<u8>>,
        nonce: String,
    ) -> Self {
        let username = username.replace('=', "=3D").replace(',', "=2C");
        let bare = format!("n={username},r={nonce}");
        Self { hash, password, nonce, bare }
    }

    pub(crate) fn hash(&self) -> Hash {
        self.hash
    }

    /// Returns the client's first message.
    pub(crate) fn message(&self) -> Vec<u8> {
        format!("{GS2_HEADER}{}", self.bare).into_bytes()
    }

    /// Reads the server's first message: `r=<nonce>,s=<salt>,i=<iterations>`.
    pub(crate) fn challenge(self, server_first: &[u8]) -> Result<Challenged, AuthError> {
        let challenge = self.read_challenge(server_first);
        let Challenge { nonce, salt, iterations } =
            challenge.map_err(|cause| AuthError::new(self.hash.mechanism(), cause))?;
        // `AuthMessage` of RFC 5802: the parts, joined by commas.
        let without_proof = format!("c={GS2_HEADER_BASE64},r={nonce}");
        let server_first = String::from_utf8_lossy(server_first);
        let auth_message = format!("{},{server_first},{without_proof}", self.bare);
        let request = KeyRequest { hash: self.hash, password: self.password, salt, iterations };
        Ok(Challenged { request: Arc::new(request), without_proof, auth_message })
    }

    fn read_challenge(&self, server_first: &[u8]) -> Result<Challenge, Cause> {
        let mut attributes = attributes(server_first)?;
        // A mandatory extension would come before the nonce; this driver supports none.
        let nonce = attributes.expect("r=", "no nonce in the challenge")?;
        let salt = attributes.expect("s=", "no salt in the challenge")?;
        let iterations = attributes.expect("i=", "no iteration count in the challenge")?;

        if !(nonce.starts_with(&self.nonce) && nonce.len() > self.nonce.len()) {
            return Err(Cause::NonceMismatch);
        }
        let salt = BASE64.decode(salt).map_err(|_| Cause::Malformed("the salt is not base64"))?;
        if salt.is_empty() {
            return Err(Cause::Malformed("the salt is empty"));
        }
        let iterations = read_iterations(iterations)?;
        Ok(Challenge { nonce: nonce.to_owned(), salt, iterations })
    }
}

struct Challenge {
    nonce: String,
    salt: Vec<u8>,
    iterations: u32,
}

fn read_iterations(text: &str) -> Result<u32, Cause> {
    const NOT_A_NUMBER: Cause = Cause::Malformed("the iteration count is not a number");
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NOT_A_NUMBER);
    }
    match text.parse().unwrap_or(u32::MAX) {
        few if few < MIN_ITERATIONS => Err(Cause::TooFewIterations(few)),
        many if many > MAX_ITERATIONS => Err(Cause::TooManyIterations(many)),
        iterations => Ok(iterations),
    }
}

/// Conversation that has the server's challenge and needs the derived keys.
pub(crate) struct Challenged {
    request: Arc<KeyRequest>,
    without_proof: String,
    auth_message: String,
}

impl Challenged {
    /// Returns the request for the keys: to be found in a [`KeyCache`] or derived.
    pub(crate) fn key_request(&self) -> Arc<KeyRequest> {
        self.request.clone()
    }

    /// Returns the client's final message with the proof of the password.
    pub(crate) fn answer(self, keys: &Keys) -> (Vec<u8>, Answered) {
        let hash = self.request.hash;
        let stored_key = hash.digest(&keys.client);
        let client_signature = hash.hmac(&stored_key, self.auth_message.as_bytes());
        let proof: Zeroizing<Vec<u8>> = Zeroizing::new(
            keys.client.iter().zip(client_signature.iter()).map(|(key, sign)| key ^ sign).collect(),
        );
        let message = format!("{},p={}", self.without_proof, BASE64.encode(&proof));
        let server_signature = hash.hmac(&keys.server, self.auth_message.as_bytes());
        (message.into_bytes(), Answered { hash, server_signature })
    }
}

/// Conversation after the client's final message, with the expected server signature.
pub(crate) struct Answered {
    hash: Hash,
    server_signature: Zeroizing<Vec<u8>>,
}

impl Answered {
    /// Reads the server's final message, `v=<signature>` or `e=<error>`, and verifies the
    /// signature, which proves that the server knows the password.
    pub(crate) fn verify(self, server_final: &[u8]) -> Result<(), AuthError> {
        self.check(server_final).map_err(|cause| AuthError::new(self.hash.mechanism(), cause))
    }

    /// Returns the signature of a server with the right credential.
    #[cfg(test)]
    pub(crate) fn server_signature(&self) -> &[u8] {
        &self.server_signature
    }

    fn check(&self, server_final: &[u8]) -> Result<(), Cause> {
        let mut attributes = attributes(server_final)?;
        if let Some(error) = attributes.peek("e=") {
            return Err(Cause::ServerError(error.to_owned()));
        }
        let signature = attributes.expect("v=", "no signature in the final message")?;
        let signature = BASE64
            .decode(signature)
            .map_err(|_| Cause::Malformed("the server's signature is not base64"))?;
        match bool::from(signature.ct_eq(&self.server_signature)) {
            true => Ok(()),
            false => Err(Cause::WrongSignature),
        }
    }
}

/// Comma-separated attributes of a message.
struct Attributes<'m>(Peekable<Split<'m, char>>);

fn attributes(message: &[u8]) -> Result<Attributes<'_>, Cause> {
    let text = str::from_utf8(message).map_err(|_| Cause::Malformed("a message is not UTF-8"))?;
    Ok(Attributes(text.split(',').peekable()))
}

impl<'m> Attributes<'m> {
    fn peek(&mut self, name: &str) -> Option<&'m str> {
        self.0.peek()?.strip_prefix(name)
    }

    /// Returns the next attribute, which must have this name: the order is fixed.
    fn expect(&mut self, name: &str, missing: &'static str) -> Result<&'m str, Cause> {
        let attribute = self.0.next().and_then(|attribute| attribute.strip_prefix(name));
        attribute.ok_or(Cause::Malformed(missing))
    }
}

#[cfg(test)]
mod tests;
