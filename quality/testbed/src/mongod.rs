//! One `mongod`: started, killed, frozen and started again.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use bson::Document;

use crate::{
    Options, Result, binaries,
    process::{ServerProcess, path_text},
    server_folder::ServerKind,
};

/// A running `mongod`.
///
/// It ends, and its data are removed, when this value is dropped or when the process ends, for whatever reason.
#[derive(Debug)]
pub struct Mongod {
    server: ServerProcess,
}

impl Mongod {
    /// Starts a server that belongs to no replica set.
    pub fn standalone(options: Options) -> Result<Self> {
        let server = Self::start(&options, &[])?;
        for user in &options.users {
            let (db, command) = user.creation();
            server.run_command(db, command)?;
        }
        server.server.require_tls(&options)?;
        Ok(server)
    }

    /// Starts a server that other servers may connect to without TLS.
    pub(crate) fn start(options: &Options, extra: &[&str]) -> Result<Self> {
        let program = binaries::mongod(options.chosen_version())?;
        let arguments = |folder: &Path| {
            let mut arguments = vec!["--dbpath".to_owned(), path_text(folder)];
            arguments.extend(["--wiredTigerCacheSizeGB".to_owned(), "0.25".to_owned()]);
            arguments.extend(extra.iter().map(|&argument| argument.to_owned()));
            arguments.extend(options.arguments.iter().cloned());
            arguments
        };
        let server = ServerProcess::start(&program, ServerKind::Mongod, options, arguments)?;
        Ok(Self { server })
    }

    /// Returns the address, `127.0.0.1:port`.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns a connection string for this server alone (`directConnection=true`).
    pub fn uri(&self) -> String {
        format!("mongodb://{}/?directConnection=true", self.address())
    }

    /// Returns the server's Unix socket, or `None` if its path would be too long for one.
    pub fn unix_socket(&self) -> Option<PathBuf> {
        self.server.unix_socket()
    }

    /// Returns the process id of the server that was started last.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Returns the path of the server's log.
    pub fn log_file(&self) -> PathBuf {
        self.server.log_file()
    }

    /// Kills the server with SIGKILL; returns when it is gone. Its data stay.
    pub fn kill(&self) -> Result<()> {
        self.server.kill()
    }

    /// Starts the server again on its port and data, after killing it if it runs; returns when it listens.
    pub fn restart(&self) -> Result<()> {
        self.server.restart()
    }

    /// Stops the server with SIGSTOP: its connections stay open and nothing answers.
    pub fn freeze(&self) -> Result<()> {
        self.server.freeze()
    }

    /// Continues a frozen server with SIGCONT.
    pub fn thaw(&self) -> Result<()> {
        self.server.thaw()
    }

    /// Runs a command on the server; a reply with `ok: 0` is an error.
    ///
    /// If the server requires authentication, the command runs as `__system`. It fails on a standalone server that
    /// requires TLS.
    pub fn run_command(&self, db: &str, command: Document) -> Result<Document> {
        self.server.run_command(db, command)
    }

    /// Returns the fatal message in the log of a server that ended by itself, or `None` if it runs or was killed.
    pub(crate) fn fatal_message(&self) -> Option<String> {
        self.server.fatal_message()
    }
}
