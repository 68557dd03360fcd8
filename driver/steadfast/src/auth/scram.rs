//! The SCRAM conversation (RFC 5802, RFC 7677), as types that can only be used in order.
//!
//! [`ClientFirst`] reads the server's challenge and becomes [`Challenged`]; with the keys derived it
//! makes the answer and becomes [`Answered`], which verifies that the server knows the password,
//! too. Bytes in, bytes out: no I/O and no randomness, the nonce is passed in.

mod keys;

use std::{iter::Peekable, str::Split, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

pub(crate) use self::keys::{Hash, KeyCache, KeyRequest, Keys};
use super::error::{AuthError, Cause};

/// The fewest rounds that the authentication specification lets a driver accept.
pub(crate) const MIN_ITERATIONS: u32 = 4096;
/// The most rounds accepted. Servers default to 10,000 and 15,000, and the counts advised for
/// password storage are near one million; beyond it only a hostile server asks.
pub(crate) const MAX_ITERATIONS: u32 = 2_000_000;

/// "No channel binding, no authorization identity": the start of the first message, and what the
/// final message repeats in base64. MongoDB's servers support no channel binding.
const GS2_HEADER: &str = "n,,";
const GS2_HEADER_BASE64: &str = "biws";

/// A conversation whose first message is ready.
pub(crate) struct ClientFirst {
    hash: Hash,
    password: Zeroizing<Vec<u8>>,
    nonce: String,
    bare: String,
}

impl ClientFirst {
    /// Opens a conversation. The nonce must be fresh, random and free of commas.
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

    /// The first message to the server.
    pub(crate) fn message(&self) -> Vec<u8> {
        format!("{GS2_HEADER}{}", self.bare).into_bytes()
    }

    /// Reads the server's challenge: `r=<nonce>,s=<salt>,i=<iterations>`.
    pub(crate) fn challenge(self, server_first: &[u8]) -> Result<Challenged, AuthError> {
        let challenge = self.read_challenge(server_first);
        let Challenge { nonce, salt, iterations } =
            challenge.map_err(|cause| AuthError::new(self.hash.mechanism(), cause))?;
        // The signed text of RFC 5802's AuthMessage; the parts are joined by commas.
        let without_proof = format!("c={GS2_HEADER_BASE64},r={nonce}");
        let server_first = String::from_utf8_lossy(server_first);
        let auth_message = format!("{},{server_first},{without_proof}", self.bare);
        let request = KeyRequest { hash: self.hash, password: self.password, salt, iterations };
        Ok(Challenged { request: Arc::new(request), without_proof, auth_message })
    }

    fn read_challenge(&self, server_first: &[u8]) -> Result<Challenge, Cause> {
        let mut attributes = attributes(server_first)?;
        // An extension that has to be understood would come before the nonce; we know none.
        let nonce = attributes.expect("r=", "no nonce in the challenge")?;
        let salt = attributes.expect("s=", "no salt in the challenge")?;
        let iterations = attributes.expect("i=", "no iteration count in the challenge")?;

        if !(nonce.starts_with(&self.nonce) && nonce.len() > self.nonce.len()) {
            return Err(Cause::ForeignNonce);
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

/// A conversation that has the server's challenge and needs the keys to answer it.
pub(crate) struct Challenged {
    request: Arc<KeyRequest>,
    without_proof: String,
    auth_message: String,
}

impl Challenged {
    /// The keys that the answer needs: to be derived, or found in a [`KeyCache`].
    pub(crate) fn key_request(&self) -> Arc<KeyRequest> {
        self.request.clone()
    }

    /// The second message, which proves to the server that we know the password.
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

/// A conversation that waits for the server to prove that it knows the password, too.
pub(crate) struct Answered {
    hash: Hash,
    server_signature: Zeroizing<Vec<u8>>,
}

impl Answered {
    /// Reads the server's last message, `v=<signature>` or `e=<error>`, and verifies the signature.
    /// Without a right one the server may be anybody.
    pub(crate) fn verify(self, server_final: &[u8]) -> Result<(), AuthError> {
        self.check(server_final).map_err(|cause| AuthError::new(self.hash.mechanism(), cause))
    }

    /// Server signature that a server with the right credential sends.
    #[cfg(test)]
    pub(crate) fn server_signature(&self) -> &[u8] {
        &self.server_signature
    }

    fn check(&self, server_final: &[u8]) -> Result<(), Cause> {
        let mut attributes = attributes(server_final)?;
        if let Some(error) = attributes.peek("e=") {
            return Err(Cause::Refused(error.to_owned()));
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

/// The comma-separated attributes of a message.
struct Attributes<'m>(Peekable<Split<'m, char>>);

fn attributes(message: &[u8]) -> Result<Attributes<'_>, Cause> {
    let text = str::from_utf8(message).map_err(|_| Cause::Malformed("a message is not UTF-8"))?;
    Ok(Attributes(text.split(',').peekable()))
}

impl<'m> Attributes<'m> {
    fn peek(&mut self, name: &str) -> Option<&'m str> {
        self.0.peek()?.strip_prefix(name)
    }

    /// The next attribute, which must have that name: their order is fixed.
    fn expect(&mut self, name: &str, missing: &'static str) -> Result<&'m str, Cause> {
        let attribute = self.0.next().and_then(|attribute| attribute.strip_prefix(name));
        attribute.ok_or(Cause::Malformed(missing))
    }
}

#[cfg(test)]
mod tests;
