//! One `mongos` of a sharded cluster: started, killed, frozen and started again.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use bson::Document;

use crate::{
    Options, Result, TestbedError, binaries,
    ports::{ReservedPort, free_ports},
    process::ServerProcess,
    server_folder::ServerKind,
};

/// A running `mongos`.
///
/// It ends when its [`ShardedCluster`](crate::ShardedCluster) is dropped or when the process ends, for whatever
/// reason.
#[derive(Debug)]
pub struct Mongos {
    server: ServerProcess,
    load_balancer_port: Option<ReservedPort>,
}

impl Mongos {
    /// Starts a `mongos` for these config servers, `set/host:port`.
    pub(crate) fn start(
        options: &Options,
        extra: &[String],
        config_servers: &str,
        load_balanced: bool,
    ) -> Result<Self> {
        let program = binaries::mongos(options.chosen_version())?;
        let mut load_balancer_port = None;
        let arguments = |_: &Path| {
            let mut arguments = vec!["--configdb".to_owned(), config_servers.to_owned()];
            // A new one at each attempt: it may be the one that is in use.
            load_balancer_port = load_balanced.then(|| free_ports().next()).flatten();
            if let Some(port) = &load_balancer_port {
                let parameter = format!("loadBalancerPort={}", port.number());
                arguments.extend(["--setParameter".to_owned(), parameter]);
            }
            arguments.extend_from_slice(extra);
            arguments
        };
        let server = ServerProcess::start(&program, ServerKind::Mongos, options, arguments)?;
        if load_balanced && load_balancer_port.is_none() {
            return Err(TestbedError::new("no free port was found for loadBalancerPort"));
        }
        Ok(Self { server, load_balancer_port })
    }

    /// Returns the address, `127.0.0.1:port`.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns a connection string for this `mongos` alone.
    pub fn uri(&self) -> String {
        format!("mongodb://{}/", self.address())
    }

    /// Returns the address of `loadBalancerPort`, if the cluster is started with
    /// [`load_balanced`](crate::ClusterOptions::load_balanced).
    ///
    /// Connections to it begin with a header of the PROXY protocol. A client that sends none has its connection
    /// closed: it connects to [`ShardedCluster::load_balancer`](crate::ShardedCluster::load_balancer) instead.
    pub fn load_balancer_address(&self) -> Option<SocketAddr> {
        let port = self.load_balancer_port.as_ref()?.number();
        Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
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

    /// Kills the server with SIGKILL; returns when it is gone.
    pub fn kill(&self) -> Result<()> {
        self.server.kill()
    }

    /// Starts the server again on its ports, after killing it if it runs; returns when it listens.
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

    /// Runs a command on the server, as `__system` if it requires authentication; a reply with `ok: 0` is an error.
    pub fn run_command(&self, db: &str, command: Document) -> Result<Document> {
        self.server.run_command(db, command)
    }
}
