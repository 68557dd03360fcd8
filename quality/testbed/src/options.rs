//! Options of servers.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use bson::{Bson, Document, doc};

#[cfg(feature = "certificates")]
use crate::TestCa;
use crate::{MemberConfig, Version};

/// Options of a deployment.
///
/// Every server listens on loopback only, and has a small cache, enabled test commands and no diagnostic data collection.
///
/// ```no_run
/// use testbed::{Mongod, Options, User};
///
/// let options = Options::new().user(User::new("ada", "secret")).parameter("ttlMonitorSleepSecs=1");
/// let server = Mongod::standalone(options)?;
/// # Ok::<(), testbed::TestbedError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Options {
    version: Option<Version>,
    pub(crate) arguments: Vec<String>,
    pub(crate) users: Vec<User>,
    pub(crate) auth: bool,
    pub(crate) tls: Option<Tls>,
    pub(crate) election_timeout: Option<Duration>,
    pub(crate) members: BTreeMap<usize, MemberConfig>,
}

/// Files of a server with TLS.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) ca_file: PathBuf,
    pub(crate) certificate_key_file: PathBuf,
}

impl Options {
    /// Creates default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Version of the servers. Defaults to [`Version::V6_0`], and to [`Version::V8_2`] in a sharded cluster.
    pub fn version(mut self, version: Version) -> Self {
        self.version = Some(version);
        self
    }

    /// Priority and tags of a member of a replica set, by its number from 0. Defaults to priority 1 and no tags.
    pub fn member(mut self, member: usize, config: MemberConfig) -> Self {
        self.members.insert(member, config);
        self
    }

    pub(crate) fn chosen_version(&self) -> Version {
        self.version.unwrap_or_default()
    }

    pub(crate) fn or_version(mut self, version: Version) -> Self {
        self.version.get_or_insert(version);
        self
    }

    /// Adds an argument of `mongod`.
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds a server parameter, `name=value`.
    pub fn parameter(self, parameter: impl Into<String>) -> Self {
        self.argument("--setParameter").argument(parameter)
    }

    /// Election time-out of a replica set (`electionTimeoutMillis`). Defaults to one second, which a busy machine may exceed
    /// although the primary is healthy.
    pub fn election_timeout(mut self, timeout: Duration) -> Self {
        self.election_timeout = Some(timeout);
        self
    }

    /// Creates a user and makes the deployment require authentication. Commands sent through the testbed then run as
    /// `__system`.
    pub fn user(mut self, user: User) -> Self {
        self.users.push(user);
        self.auth = true;
        self
    }

    /// Enables TLS with a certificate and key file (`tlsCertificateKeyFile`) and a CA file (`tlsCAFile`). A standalone
    /// server requires TLS, members of a replica set prefer it. Client certificates are optional.
    pub fn tls_files(
        mut self,
        ca_file: impl Into<PathBuf>,
        certificate_key_file: impl Into<PathBuf>,
    ) -> Self {
        let (ca_file, certificate_key_file) = (ca_file.into(), certificate_key_file.into());
        self.tls = Some(Tls { ca_file, certificate_key_file });
        self
    }

    /// Like [`tls_files`](Self::tls_files), with the CA's certificate for `localhost` and `127.0.0.1`.
    #[cfg(feature = "certificates")]
    pub fn tls(self, ca: &TestCa) -> Self {
        self.tls_with_certificate(ca, ca.server_file())
    }

    /// Like [`tls`](Self::tls), with another certificate and key, for example of [`TestCa::certificate_for`].
    #[cfg(feature = "certificates")]
    pub fn tls_with_certificate(self, ca: &TestCa, file: impl Into<PathBuf>) -> Self {
        self.tls_files(ca.ca_file(), file)
    }
}

/// A user of a deployment.
#[derive(Clone, Debug)]
#[must_use]
pub struct User {
    db: String,
    name: String,
    password: Option<String>,
    roles: Vec<Bson>,
    mechanisms: Vec<String>,
}

impl User {
    /// Creates a user of the database `admin` with the role `root`.
    pub fn new(name: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            db: "admin".to_owned(),
            name: name.into(),
            password: Some(password.into()),
            roles: vec![doc! { "role": "root", "db": "admin" }.into()],
            mechanisms: Vec::new(),
        }
    }

    /// Creates a MONGODB-X509 user with the role `root`, by the subject of its client certificate.
    pub fn x509(subject: impl Into<String>) -> Self {
        Self { db: "$external".to_owned(), password: None, ..Self::new(subject, "") }
    }

    /// Database of the user. Defaults to `admin`.
    pub fn db(mut self, db: impl Into<String>) -> Self {
        self.db = db.into();
        self
    }

    /// Roles. Defaults to `root`.
    pub fn roles(mut self, roles: impl IntoIterator<Item = Document>) -> Self {
        self.roles = roles.into_iter().map(Bson::from).collect();
        self
    }

    /// Authentication mechanisms (`mechanisms`), such as `SCRAM-SHA-1`. Defaults to those of the server.
    pub fn mechanisms(mut self, mechanisms: &[&str]) -> Self {
        self.mechanisms = mechanisms.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// Database and `createUser` command.
    pub(crate) fn creation(&self) -> (&str, Document) {
        let mut command = doc! { "createUser": &self.name, "roles": self.roles.clone() };
        if let Some(password) = &self.password {
            command.insert("pwd", password);
        }
        if !self.mechanisms.is_empty() {
            command.insert("mechanisms", self.mechanisms.clone());
        }
        (&self.db, command)
    }
}
