//! SCRAM (RFC 5802, RFC 7677), the server's role. It does no I/O.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::users::UserName;

/// Hash function of a SCRAM mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ScramHash {
    Sha1,
    Sha256,
}

impl ScramHash {
    /// Name of the mechanism.
    pub(crate) fn mechanism(self) -> &'static str {
        match self {
            Self::Sha1 => "SCRAM-SHA-1",
            Self::Sha256 => "SCRAM-SHA-256",
        }
    }

    /// Length of a salt in bytes, as in a real server.
    pub(crate) fn salt_length(self) -> usize {
        match self {
            Self::Sha1 => 16,
            Self::Sha256 => 28,
        }
    }

    /// Password as SCRAM uses it. SHA-1: the MD5 digest of user and password. SHA-256: the password
    /// after SASLprep.
    pub(crate) fn prepare(self, user: &str, password: &str) -> Option<Vec<u8>> {
        match self {
            Self::Sha1 => {
                let digest = Md5::digest(format!("{user}:mongo:{password}"));
                let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                Some(hex.into_bytes())
            }
            Self::Sha256 => Some(stringprep::saslprep(password).ok()?.into_owned().into_bytes()),
        }
    }

    fn digest(self, data: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => Sha1::digest(data).to_vec(),
            Self::Sha256 => Sha256::digest(data).to_vec(),
        }
    }

    fn hmac(self, key: &[u8], data: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => mac::<Hmac<Sha1>>(key, data),
            Self::Sha256 => mac::<Hmac<Sha256>>(key, data),
        }
    }

    /// The function `Hi` of RFC 5802.
    fn salted(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        match self {
            Self::Sha1 => {
                let mut salted = vec![0; 20];
                pbkdf2::pbkdf2_hmac::<Sha1>(password, salt, iterations, &mut salted);
                salted
            }
            Self::Sha256 => {
                let mut salted = vec![0; 32];
                pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut salted);
                salted
            }
        }
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(data);
    mac.finalize().into_bytes().to_vec()
}

/// Stored credential of a user for one mechanism.
pub(crate) struct ScramCredential {
    hash: ScramHash,
    prepared: Vec<u8>,
    salt: Vec<u8>,
    pub(crate) iterations: u32,
    /// Derived when they are first needed, because the derivation takes thousands of hash rounds.
    keys: OnceLock<Keys>,
}

struct Keys {
    stored: Vec<u8>,
    server: Vec<u8>,
}

impl ScramCredential {
    pub(crate) fn new(hash: ScramHash, prepared: Vec<u8>, salt: Vec<u8>, iterations: u32) -> Self {
        Self { hash, prepared, salt, iterations, keys: OnceLock::new() }
    }

    fn keys(&self) -> &Keys {
        self.keys.get_or_init(|| {
            let salted = self.hash.salted(&self.prepared, &self.salt, self.iterations);
            let client = self.hash.hmac(&salted, b"Client Key");
            Keys {
                stored: self.hash.digest(&client),
                server: self.hash.hmac(&salted, b"Server Key"),
            }
        })
    }

    /// Credential as `usersInfo` shows it with `showCredentials`.
    pub(crate) fn to_document(&self) -> bson::Document {
        let keys = self.keys();
        bson::doc! {
            "iterationCount": i64::from(self.iterations),
            "salt": BASE64.encode(&self.salt),
            "storedKey": BASE64.encode(&keys.stored),
            "serverKey": BASE64.encode(&keys.server),
        }
    }
}

impl fmt::Debug for ScramCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({})", self.hash.mechanism())
    }
}

/// A SCRAM conversation.
#[derive(Debug)]
pub(crate) struct ScramConversation {
    hash: ScramHash,
    database: String,
    user: String,
    credential: Arc<ScramCredential>,
    nonce: String,
    /// The `AuthMessage` of RFC 5802, which both sides sign.
    auth_message: String,
    is_verified: bool,
}

/// The server's response to a message of the client.
pub(crate) enum ScramResponse {
    /// Server signature. The client's proof was valid.
    ServerSignature(Vec<u8>),
    /// Empty message that ends the conversation.
    Empty,
}

impl ScramConversation {
    /// Reads the client's first message, `n,,n=<user>,r=<nonce>`, and returns the server's first
    /// message.
    pub(crate) fn begin(
        hash: ScramHash,
        first: &[u8],
        nonce: &str,
        find: impl FnOnce(&str) -> Option<Arc<ScramCredential>>,
    ) -> Option<(Self, Vec<u8>)> {
        let first = str::from_utf8(first).ok()?;
        // Channel binding and an authorization identity are not supported.
        let bare = first.strip_prefix("n,,").or_else(|| first.strip_prefix("y,,"))?;
        let mut attributes = bare.split(',');
        let user = attributes.next()?.strip_prefix("n=")?;
        let user = user.replace("=2C", ",").replace("=3D", "=");
        let of_client = attributes.next()?.strip_prefix("r=")?;
        let credential = find(&user)?;
        let nonce = format!("{of_client}{nonce}");
        let salt = BASE64.encode(&credential.salt);
        let challenge = format!("r={nonce},s={salt},i={}", credential.iterations);
        let auth_message = format!("{bare},{challenge}");
        let scram = Self {
            hash,
            database: String::new(),
            user,
            credential,
            nonce,
            auth_message,
            is_verified: false,
        };
        Some((scram, challenge.into_bytes()))
    }

    /// Sets the database of the user.
    pub(crate) fn in_database(mut self, database: &str) -> Self {
        database.clone_into(&mut self.database);
        self
    }

    /// The user that the conversation authenticates.
    pub(crate) fn user(&self) -> UserName {
        UserName { database: self.database.clone(), user: self.user.clone() }
    }

    /// Processes the client's next message. Returns `None` if the proof is wrong.
    pub(crate) fn advance(&mut self, message: &[u8]) -> Option<ScramResponse> {
        if self.is_verified {
            return message.is_empty().then_some(ScramResponse::Empty);
        }
        let message = str::from_utf8(message).ok()?;
        let (without_proof, proof) = message.rsplit_once(",p=")?;
        let nonce = without_proof.split(',').find_map(|part| part.strip_prefix("r="))?;
        if nonce != self.nonce || !without_proof.starts_with("c=") {
            return None;
        }
        let auth_message = format!("{},{without_proof}", self.auth_message);
        let keys = self.credential.keys();
        let signature = self.hash.hmac(&keys.stored, auth_message.as_bytes());
        let proof = BASE64.decode(proof).ok()?;
        if proof.len() != signature.len() {
            return None;
        }
        let client: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        if self.hash.digest(&client) != keys.stored {
            return None;
        }
        self.is_verified = true;
        let signature = self.hash.hmac(&keys.server, auth_message.as_bytes());
        Some(ScramResponse::ServerSignature(format!("v={}", BASE64.encode(signature)).into_bytes()))
    }
}
