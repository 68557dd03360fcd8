//! A `mongod` process.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use bson::Document;

use crate::{
    Options, Result, binaries,
    process::{ServerProcess, path_text, process_methods},
    server_folder::ServerKind,
};

/// A running `mongod`.
///
/// The server is killed and its data are removed when this value is dropped or the process ends.
#[derive(Debug)]
pub struct Mongod {
    server: ServerProcess,
}

impl Mongod {
    /// Starts a server that belongs to no replica set.
    ///
    /// # Errors
    ///
    /// Fails if the server programs are not available, or if a server does not start.
    pub fn standalone(options: Options) -> Result<Self> {
        let server = Self::start(&options, &[])?;
        for user in &options.users {
            let (db, command) = user.creation();
            server.run_command(db, command)?;
        }
        server.server.require_tls(&options)?;
        Ok(server)
    }

    /// Starts a server that accepts connections of other servers without TLS.
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

    /// Returns a connection string for this server alone (`directConnection=true`).
    pub fn uri(&self) -> String {
        format!("mongodb://{}/?directConnection=true", self.address())
    }

    process_methods!();

    /// Returns the fatal message in the log of a server that crashed, or `None` if it runs or was killed.
    pub(crate) fn fatal_message(&self) -> Option<String> {
        self.server.fatal_message()
    }
}
