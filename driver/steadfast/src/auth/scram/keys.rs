//! Derivation of the two keys of a SCRAM conversation from a password, and a cache of derived keys.
//!
//! Derivation takes thousands of hash rounds. It happens once for each salt of a server.
//! [`KeyRequest`] is separate from the conversation, so that it can run on a blocking thread.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use steadfast_core::credential::AuthMechanism;
use zeroize::{Zeroize, Zeroizing};

use crate::auth::error::{AuthError, Cause};

/// Hash function of a SCRAM mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    /// SCRAM-SHA-1.
    Sha1,
    /// SCRAM-SHA-256.
    Sha256,
}

impl Hash {
    /// Returns the mechanism with this hash function.
    pub(crate) fn mechanism(self) -> AuthMechanism {
        match self {
            Self::Sha1 => AuthMechanism::ScramSha1,
            Self::Sha256 => AuthMechanism::ScramSha256,
        }
    }

    /// Prepares the password: a digest of user name and password for SCRAM-SHA-1, the password
    /// after SASLprep for SCRAM-SHA-256. The authentication specification forbids SASLprep of user
    /// names, and of passwords in SCRAM-SHA-1.
    pub(crate) fn prepare_password(
        self,
        username: &str,
        password: &str,
    ) -> Result<Zeroizing<Vec<u8>>, AuthError> {
        match self {
            Self::Sha1 => Ok(digested_password(username, password)),
            Self::Sha256 => match stringprep::saslprep(password) {
                Ok(prepared) => Ok(Zeroizing::new(prepared.into_owned().into_bytes())),
                Err(_) => Err(AuthError::new(self.mechanism(), Cause::ForbiddenPassword)),
            },
        }
    }

    pub(super) fn digest(self, data: &[u8]) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(match self {
            Self::Sha1 => Sha1::digest(data).to_vec(),
            Self::Sha256 => Sha256::digest(data).to_vec(),
        })
    }

    pub(super) fn hmac(self, key: &[u8], data: &[u8]) -> Zeroizing<Vec<u8>> {
        match self {
            Self::Sha1 => mac::<Hmac<Sha1>>(key, data),
            Self::Sha256 => mac::<Hmac<Sha256>>(key, data),
        }
    }

    /// `Hi` of RFC 5802.
    fn salted_password(self, password: &[u8], salt: &[u8], iterations: u32) -> Zeroizing<Vec<u8>> {
        match self {
            Self::Sha1 => {
                let mut salted = Zeroizing::new(vec![0; 20]);
                pbkdf2::pbkdf2_hmac::<Sha1>(password, salt, iterations, &mut salted);
                salted
            }
            Self::Sha256 => {
                let mut salted = Zeroizing::new(vec![0; 32]);
                pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut salted);
                salted
            }
        }
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(data);
    Zeroizing::new(mac.finalize().into_bytes().to_vec())
}

fn digested_password(username: &str, password: &str) -> Zeroizing<Vec<u8>> {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut md5 = Md5::new();
    md5.update(username);
    md5.update(":mongo:");
    md5.update(password);
    let mut digest = md5.finalize();
    let mut hex = Zeroizing::new(Vec::with_capacity(2 * digest.len()));
    for byte in &digest {
        hex.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]]);
    }
    digest.as_mut_slice().zeroize();
    hex
}

/// Input of the key derivation: hash, password, salt and iterations.
pub(crate) struct KeyRequest {
    pub(super) hash: Hash,
    pub(super) password: Zeroizing<Vec<u8>>,
    pub(super) salt: Vec<u8>,
    pub(super) iterations: u32,
}

impl KeyRequest {
    /// Derives the keys. Takes between some milliseconds and a second.
    pub(crate) fn derive(&self) -> Keys {
        let salted = self.hash.salted_password(&self.password, &self.salt, self.iterations);
        Keys {
            client: self.hash.hmac(&salted, b"Client Key"),
            server: self.hash.hmac(&salted, b"Server Key"),
        }
    }
}

impl fmt::Debug for KeyRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRequest")
            .field("hash", &self.hash)
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

/// Keys of one password, salt and iteration count; zeroized when dropped.
pub(crate) struct Keys {
    pub(super) client: Zeroizing<Vec<u8>>,
    pub(super) server: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys([redacted])")
    }
}

/// Cache of the keys derived for one credential. The authentication specification requires it:
/// without it, each new connection would run thousands of hash rounds.
///
/// The members of a deployment share the users and so the salts: one entry for each hash function
/// suffices. The capacity bounds servers that send a new salt each time.
#[derive(Debug, Default)]
pub(crate) struct KeyCache {
    entries: Mutex<VecDeque<CachedKeys>>,
}

struct CachedKeys {
    hash: Hash,
    salt: Vec<u8>,
    iterations: u32,
    keys: Arc<Keys>,
}

impl CachedKeys {
    fn answers(&self, request: &KeyRequest) -> bool {
        self.hash == request.hash
            && self.iterations == request.iterations
            && self.salt == request.salt
    }
}

impl fmt::Debug for CachedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{}", self.hash, self.iterations)
    }
}

impl KeyCache {
    /// Maximum number of cached keys. The oldest are evicted.
    const CAPACITY: usize = 8;

    /// Returns the keys if they were derived before.
    pub(crate) fn find(&self, request: &KeyRequest) -> Option<Arc<Keys>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().find(|entry| entry.answers(request)).map(|entry| entry.keys.clone())
    }

    /// Adds keys to the cache. Only call it after the server proved that it knows the password:
    /// another server must not evict valid keys.
    pub(crate) fn insert(&self, request: &KeyRequest, keys: Arc<Keys>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.iter().any(|entry| entry.answers(request)) {
            return;
        }
        if entries.len() == Self::CAPACITY {
            entries.pop_front();
        }
        let KeyRequest { hash, salt, iterations, .. } = request;
        entries.push_back(CachedKeys {
            hash: *hash,
            salt: salt.clone(),
            iterations: *iterations,
            keys,
        });
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.lock().unwrap().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(salt: u8) -> KeyRequest {
        KeyRequest {
            hash: Hash::Sha256,
            password: Zeroizing::new(b"pencil".to_vec()),
            salt: vec![salt],
            iterations: 1,
        }
    }

    #[test]
    fn sha_256_prepares_passwords_with_saslprep() {
        // Examples of the authentication specification: soft hyphens are removed, compatibility
        // characters are replaced.
        for (typed, prepared) in [("I\u{AD}X", "IX"), ("\u{2168}", "IX"), ("\u{2163}", "IV")] {
            let found = Hash::Sha256.prepare_password("user", typed).unwrap();
            assert_eq!(found.as_slice(), prepared.as_bytes());
        }
        let error = Hash::Sha256.prepare_password("user", "bell\u{7}").unwrap_err();
        assert_eq!(error.cause(), &Cause::ForbiddenPassword);
        assert!(!error.to_string().contains("bell"));
    }

    #[test]
    fn sha_1_digests_passwords_with_the_user_name_without_saslprep() {
        let found = Hash::Sha1.prepare_password("user", "pencil").unwrap();
        assert_eq!(found.as_slice(), b"1c33006ec1ffd90f9cadcbcc0e118200");
        assert!(Hash::Sha1.prepare_password("user", "bell\u{7}").is_ok());
    }

    #[test]
    fn cached_keys_are_found_by_hash_salt_and_iterations() {
        let cache = KeyCache::default();
        cache.insert(&request(1), Arc::new(request(1).derive()));
        assert!(cache.find(&request(1)).is_some());
        assert!(cache.find(&request(2)).is_none());
        assert!(cache.find(&KeyRequest { iterations: 2, ..request(1) }).is_none());
        assert!(cache.find(&KeyRequest { hash: Hash::Sha1, ..request(1) }).is_none());
    }

    #[test]
    fn key_cache_has_a_maximum_size() {
        let cache = KeyCache::default();
        for salt in 0..20 {
            cache.insert(&request(salt), Arc::new(request(salt).derive()));
            cache.insert(&request(salt), Arc::new(request(salt).derive()));
        }
        assert_eq!(cache.len(), KeyCache::CAPACITY);
        assert!(cache.find(&request(19)).is_some());
        assert!(cache.find(&request(0)).is_none());
    }

    #[test]
    fn debug_output_omits_keys() {
        // pitfall 40
        let shown = format!("{:?} {:?}", request(1), request(1).derive());
        assert!(shown.contains("[redacted]"), "{shown}");
        assert!(!shown.contains("112, 101"), "{shown}");
    }
}
