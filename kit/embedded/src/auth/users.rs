//! The users of a deployment. All its servers know the same ones.

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
    scram::{Credential, Hash},
};
use blackpipe_base::rng::Rng;

/// A user and the database that it belongs to.
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

    /// What sessions know it by.
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

/// A role, and the database that it is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Role {
    pub(crate) role: String,
    pub(crate) database: String,
}

impl From<&Role> for Bson {
    fn from(role: &Role) -> Self {
        doc! { "role": &role.role, "db": &role.database }.into()
    }
}

/// What is known of a user.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) id: Uuid,
    pub(crate) credentials: BTreeMap<Hash, Arc<Credential>>,
    pub(crate) roles: Vec<Role>,
    pub(crate) custom_data: Option<Document>,
}

impl User {
    /// As `usersInfo` shows it.
    pub(crate) fn shown(&self, name: &UserName, with_credentials: bool) -> Document {
        let UserName { database, user } = name;
        let mut shown = doc! {
            "_id": format!("{database}.{user}"), "userId": self.id, "user": user, "db": database,
        };
        if with_credentials {
            let credentials: Document = self
                .credentials
                .iter()
                .map(|(hash, credential)| (hash.mechanism().to_owned(), credential.shown().into()))
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

/// All users.
#[derive(Debug)]
pub(crate) struct Users {
    known: Mutex<BTreeMap<UserName, User>>,
    rng: Mutex<Rng>,
    /// How many rounds of hashing a new password gets.
    pub(crate) iterations: u32,
}

impl Users {
    pub(crate) fn new(seed: u64, iterations: u32) -> Self {
        Self { known: Mutex::default(), rng: Mutex::new(Rng::new(seed)), iterations }
    }

    /// A user who may do everything.
    pub(crate) fn add_root(&self, user: &str, password: &str) -> Result<(), Fault> {
        let credentials = self.credentials(user, password, &MECHANISMS)?;
        let root = Role { role: "root".to_owned(), database: "admin".to_owned() };
        let roles = vec![root];
        let user_id = self.uuid();
        let known = User { id: user_id, credentials, roles, custom_data: None };
        self.known().insert(UserName::new("admin", user), known);
        Ok(())
    }

    /// What servers keep of a password, for these mechanisms.
    pub(crate) fn credentials(
        &self,
        user: &str,
        password: &str,
        mechanisms: &[Hash],
    ) -> Result<BTreeMap<Hash, Arc<Credential>>, Fault> {
        let made = mechanisms.iter().map(|hash| {
            let prepared = hash.prepare(user, password).ok_or_else(|| {
                Fault::bad_value("the password has characters that SASLprep does not allow")
            })?;
            let salt = self.bytes(hash.salt_length());
            Ok((*hash, Arc::new(Credential::new(*hash, prepared, salt, self.iterations))))
        });
        made.collect()
    }

    /// What is known of a user's password for a mechanism.
    pub(crate) fn credential(
        &self,
        database: &str,
        user: &str,
        hash: Hash,
    ) -> Option<Arc<Credential>> {
        self.known().get(&UserName::new(database, user))?.credentials.get(&hash).cloned()
    }

    /// The mechanisms of a user, the better one first; `None` if there is no such user.
    pub(crate) fn mechanisms(&self, name: &UserName) -> Option<Vec<&'static str>> {
        let known = self.known();
        let credentials = &known.get(name)?.credentials;
        let has = MECHANISMS.into_iter().filter(|hash| credentials.contains_key(hash));
        Some(has.map(Hash::mechanism).collect())
    }

    pub(crate) fn roles(&self, name: &UserName) -> Vec<Bson> {
        let known = self.known();
        known.get(name).map(|user| user.roles.iter().map(Bson::from).collect()).unwrap_or_default()
    }

    /// Looks at a user, if there is such a one.
    pub(crate) fn with<T>(&self, name: &UserName, look: impl FnOnce(&mut User) -> T) -> Option<T> {
        self.known().get_mut(name).map(look)
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, BTreeMap<UserName, User>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn uuid(&self) -> Uuid {
        let mut bytes: [u8; 16] = self.bytes(16).try_into().expect("as many as were asked for");
        (bytes[6], bytes[8]) = (bytes[6] & 0x0f | 0x40, bytes[8] & 0x3f | 0x80);
        Uuid::from_bytes(bytes)
    }

    /// Some characters that no other conversation has.
    pub(crate) fn nonce(&self) -> String {
        self.bytes(24).iter().map(|byte| char::from(b'A' + byte % 26)).collect()
    }

    /// Sixteen hexadecimal digits that nobody else has.
    pub(crate) fn short_nonce(&self) -> String {
        self.bytes(8).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn bytes(&self, count: usize) -> Vec<u8> {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        (0..count).map(|_| rng.byte()).collect()
    }
}
