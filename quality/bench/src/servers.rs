//! Servers of a comparison, started when the first case needs them.

#[cfg(feature = "mongod")]
mod mongod;

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, ChildStdin, Command, Stdio},
};

use crate::{Result, canned, case::ServerKind, workload::Workload};
#[cfg(feature = "mongod")]
use mongod::Mongod;

/// Error of a build without real servers.
#[cfg(not(feature = "mongod"))]
pub(crate) const NO_MONGOD: &str = "built without the feature `mongod`";

/// Running servers.
#[derive(Default)]
pub(crate) struct Servers {
    #[cfg(feature = "mongod")]
    mongod: Option<Mongod>,
    canned: Option<Canned>,
}

/// Process of the server with canned replies. It ends when its standard input is closed.
struct Canned {
    address: SocketAddr,
    _stdin: ChildStdin,
    _process: Child,
}

/// Address of a server and name of its replica set.
#[derive(Clone, Debug)]
pub(crate) struct ServerAddress {
    pub(crate) address: SocketAddr,
    pub(crate) set: String,
}

impl Servers {
    /// Returns the server for a case, started if necessary, with the documents of the workload only.
    pub(crate) fn prepare(
        &mut self,
        kind: ServerKind,
        workload: Workload,
    ) -> Result<ServerAddress> {
        match kind {
            ServerKind::Canned => {
                let canned = match &mut self.canned {
                    Some(canned) => canned,
                    none => none.insert(start_canned()?),
                };
                Ok(ServerAddress { address: canned.address, set: canned::SET.to_owned() })
            }
            #[cfg(feature = "mongod")]
            ServerKind::Mongod => {
                let mongod = match &mut self.mongod {
                    Some(mongod) => mongod,
                    none => none.insert(Mongod::start()?),
                };
                mongod.prepare(workload)
            }
            #[cfg(not(feature = "mongod"))]
            ServerKind::Mongod => Err(format!("{NO_MONGOD}: {}", workload.name()).into()),
        }
    }
}

fn start_canned() -> Result<Canned> {
    let mut process = Command::new(std::env::current_exe()?)
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let stdin = process.stdin.take().ok_or("no standard input")?;
    let mut line = String::new();
    BufReader::new(process.stdout.take().ok_or("no standard output")?).read_line(&mut line)?;
    Ok(Canned { address: line.trim().parse()?, _stdin: stdin, _process: process })
}
