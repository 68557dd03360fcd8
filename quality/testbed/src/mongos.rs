//! A `mongos` process of a sharded cluster.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use bson::Document;

use crate::{
    Options, Result, TestbedError, binaries,
    ports::{ReservedPort, free_ports},
    process::{ServerProcess, process_methods},
    server_folder::ServerKind,
};

/// A running `mongos`.
///
/// It is killed when its [`ShardedCluster`](crate::ShardedCluster) is dropped or the process ends.
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
            // A new port for each attempt: the previous one may be in use.
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

    /// Returns a connection string for this `mongos` only.
    pub fn uri(&self) -> String {
        format!("mongodb://{}/", self.address())
    }

    process_methods!();

    /// Returns the address of `loadBalancerPort`, if the cluster is started with
    /// [`load_balanced`](crate::ClusterOptions::load_balanced).
    ///
    /// `mongos` closes connections to this port that do not begin with a header of the PROXY protocol. Clients connect to
    /// [`ShardedCluster::load_balancer`](crate::ShardedCluster::load_balancer) instead.
    pub fn load_balancer_address(&self) -> Option<SocketAddr> {
        let port = self.load_balancer_port.as_ref()?.number();
        Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }
}
