//! Users of a deployment. All its servers share them.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bson::{Bson, Document, Uuid, doc};
use sha2::{Digest, Sha256};
use steadfast_query::Fault;

use super::{
    MECHANISMS,
    scram::{ScramCredential, ScramHash},
};
use blackpipe_base::rng::Rng;

/// Name of a user and its authentication database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UserName {
    pub(crate) database: String,
    pub(crate) user: String,
}

impl UserName {
    pub(crate) fn new(database: &str, user: &str) -> Self {
        Self { database: database.to_owned(), user: user.to_owned() }
    }

    pub(crate) fn to_document(&self) -> Document {
        doc! { "user": &self.user, "db": &self.database }
    }

    /// SHA-256 digest that session ids carry (`uid`).
    pub(crate) fn digest(&self) -> Vec<u8> {
        Sha256::digest(self.to_string()).to_vec()
    }
}

/// `user@database`.
impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.user, self.database)
    }
}

/// A role on a database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GrantedRole {
    pub(crate) role: String,
    pub(crate) database: String,
}

impl From<&GrantedRole> for Bson {
    fn from(role: &GrantedRole) -> Self {
        doc! { "role": &role.role, "db": &role.database }.into()
    }
}

/// A user's credentials, roles and custom data.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) id: Uuid,
    pub(crate) credentials: BTreeMap<ScramHash, Arc<ScramCredential>>,
    pub(crate) roles: Vec<GrantedRole>,
    pub(crate) custom_data: Option<Document>,
}

impl User {
    /// The user as `usersInfo` shows it.
    pub(crate) fn to_document(&self, name: &UserName, with_credentials: bool) -> Document {
        let UserName { database, user } = name;
        let mut shown = doc! {
            "_id": format!("{database}.{user}"), "userId": self.id, "user": user, "db": database,
        };
        if with_credentials {
            let credentials: Document = self
                .credentials
                .iter()
                .map(|(hash, credential)| {
                    (hash.mechanism().to_owned(), credential.to_document().into())
                })
                .collect();
            shown.insert("credentials", credentials);
        }
        if let Some(data) = &self.custom_data {
            shown.insert("customData", data.clone());
        }
        shown.insert("roles", self.roles.iter().map(Bson::from).collect::<Vec<_>>());
        let mechanisms: Vec<_> = self.credentials.keys().map(|hash| hash.mechanism()).collect();
        shown.insert("mechanisms", mechanisms);
        shown
    }
}

/// All users of a deployment.
#[derive(Debug)]
pub(crate) struct Users {
    known: Mutex<BTreeMap<UserName, User>>,
    rng: Mutex<Rng>,
    /// Hash iterations of a new password.
    pub(crate) iterations: u32,
}

impl Users {
    pub(crate) fn new(seed: u64, iterations: u32) -> Self {
        Self { known: Mutex::default(), rng: Mutex::new(Rng::new(seed)), iterations }
    }

    /// Adds a user with the role `root`.
    pub(crate) fn add_root(&self, user: &str, password: &str) -> Result<(), Fault> {
        let credentials = self.credentials(user, password, &MECHANISMS)?;
        let root = GrantedRole { role: "root".to_owned(), database: "admin".to_owned() };
        let roles = vec![root];
        let user_id = self.uuid();
        let known = User { id: user_id, credentials, roles, custom_data: None };
        self.lock().insert(UserName::new("admin", user), known);
        Ok(())
    }

    /// Derives a credential for each mechanism.
    pub(crate) fn credentials(
        &self,
        user: &str,
        password: &str,
        mechanisms: &[ScramHash],
    ) -> Result<BTreeMap<ScramHash, Arc<ScramCredential>>, Fault> {
        let made = mechanisms.iter().map(|hash| {
            let prepared = hash.prepare(user, password).ok_or_else(|| {
                Fault::bad_value("the password has characters that SASLprep does not allow")
            })?;
            let salt = self.bytes(hash.salt_length());
            Ok((*hash, Arc::new(ScramCredential::new(*hash, prepared, salt, self.iterations))))
        });
        made.collect()
    }

    /// A user's credential for a mechanism.
    pub(crate) fn credential(
        &self,
        database: &str,
        user: &str,
        hash: ScramHash,
    ) -> Option<Arc<ScramCredential>> {
        self.lock().get(&UserName::new(database, user))?.credentials.get(&hash).cloned()
    }

    /// A user's mechanisms, in the order of preference. `None` if the user does not exist.
    pub(crate) fn mechanisms(&self, name: &UserName) -> Option<Vec<&'static str>> {
        let known = self.lock();
        let credentials = &known.get(name)?.credentials;
        let has = MECHANISMS.into_iter().filter(|hash| credentials.contains_key(hash));
        Some(has.map(ScramHash::mechanism).collect())
    }

    pub(crate) fn roles(&self, name: &UserName) -> Vec<Bson> {
        let known = self.lock();
        known.get(name).map(|user| user.roles.iter().map(Bson::from).collect()).unwrap_or_default()
    }

    /// Calls a function with a user. Returns `None` if the user does not exist.
    pub(crate) fn with<T>(&self, name: &UserName, look: impl FnOnce(&mut User) -> T) -> Option<T> {
        self.lock().get_mut(name).map(look)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<UserName, User>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn uuid(&self) -> Uuid {
        let mut bytes: [u8; 16] = self.bytes(16).try_into().expect("sixteen bytes");
        (bytes[6], bytes[8]) = (bytes[6] & 0x0f | 0x40, bytes[8] & 0x3f | 0x80);
        Uuid::from_bytes(bytes)
    }

    /// A random nonce for a SCRAM conversation.
    pub(crate) fn nonce(&self) -> String {
        self.bytes(24).iter().map(|byte| char::from(b'A' + byte % 26)).collect()
    }

    /// Sixteen random hexadecimal digits (`getnonce`).
    pub(crate) fn short_nonce(&self) -> String {
        self.bytes(8).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn bytes(&self, count: usize) -> Vec<u8> {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        (0..count).map(|_| rng.byte()).collect()
    }
}
