//! Directory of a server: data, configuration file and the files that it names.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::{Options, Result, TestbedError, account::Account, cache, folders, scram};

/// Kind of server that a configuration is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    /// A `mongod`. Other servers and set-up commands may connect to it without TLS.
    Mongod,
    /// A `mongod` that rejects connections without TLS.
    StandaloneRequiringTls,
    Mongos,
}

/// Directory of a server, owned by the server's user. The watchdog removes it.
#[derive(Debug)]
pub(crate) struct ServerFolder {
    pub(crate) path: PathBuf,
    account: Option<Account>,
}

impl ServerFolder {
    /// Creates an empty directory for the server on this port.
    pub(crate) fn new(port: u16, account: Option<Account>) -> Result<Self> {
        let name = format!("{}-{port}", std::process::id());
        let path = match account {
            None => folders::folder("run")?.join(name),
            Some(account) => parent_for(account)?.join(format!("steadfast-{name}")),
        };
        // A process with the same id in an earlier container may have left data.
        cache::empty(&path)?;
        if let Some(account) = account {
            account.own(&path)?;
        }
        Ok(Self { path, account })
    }

    /// Writes the configuration file with authentication and TLS.
    pub(crate) fn write_config(&self, kind: ServerKind, options: &Options) -> Result<PathBuf> {
        let mut lines = Vec::new();
        if options.auth {
            // A key file also enables authentication.
            let key_file = self.write_file("deployment.key", scram::KEY.as_bytes())?;
            lines.push(format!("security:\n  keyFile: {key_file:?}"));
        }
        if let Some(tls) = &options.tls {
            let mode = match kind {
                ServerKind::StandaloneRequiringTls => "requireTLS",
                ServerKind::Mongod | ServerKind::Mongos => "preferTLS",
            };
            lines.push(format!("net:\n  tls:\n    mode: {mode}"));
            let ca = self.copy_file(&tls.ca_file, "ca.pem")?;
            lines.push(format!("    CAFile: {ca:?}"));
            let certificate = self.copy_file(&tls.certificate_key_file, "server.pem")?;
            lines.push(format!("    certificateKeyFile: {certificate:?}"));
            lines.push("    allowConnectionsWithoutCertificates: true".to_owned());
        }
        self.write_file("server.yaml", (lines.join("\n") + "\n").as_bytes())
    }

    fn copy_file(&self, from: &Path, name: &str) -> Result<PathBuf> {
        let content = fs::read(from).map_err(|error| TestbedError::at(from, &error))?;
        self.write_file(name, &content)
    }

    /// Writes a file that only the server can read, as servers require of a key file.
    fn write_file(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let file = self.path.join(name);
        fs::write(&file, content)
            .and_then(|()| fs::set_permissions(&file, fs::Permissions::from_mode(0o600)))
            .map_err(|error| TestbedError::at(&file, &error))?;
        if let Some(account) = self.account {
            account.own(&file)?;
        }
        Ok(file)
    }
}

/// Directory that the user can enter, and in which it can remove its files.
fn parent_for(account: Account) -> Result<PathBuf> {
    let own = folders::folder("run-unprivileged")?;
    if account.can_enter(&own) {
        account.own(&own)?;
        return Ok(own);
    }
    let temporary = env::temp_dir();
    if account.can_enter(&temporary) {
        return Ok(temporary);
    }
    Err(TestbedError::new("there is no directory for the data of servers that run as user nobody")
        .because(format!("it can enter neither {} nor {}", own.display(), temporary.display()))
        .advise("set CARGO_TARGET_DIR or TMPDIR to a directory that every user can enter"))
}
