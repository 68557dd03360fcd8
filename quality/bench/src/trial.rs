//! Trials: behaviour of a driver under failures, cancellation and overload.

pub(crate) mod churn;
#[cfg(feature = "mongod")]
pub(crate) mod failover;
pub(crate) mod idle;
#[cfg(feature = "mongod")]
pub(crate) mod overload;
pub(crate) mod shed;

use std::{net::SocketAddr, time::Duration};

use bson::RawDocumentBuf;
use tokio::{net::TcpStream, runtime::Runtime};

use crate::{
    Result, case::ServerKind, contender::floor::round_trip, op_msg, servers::Servers,
    workload::Workload,
};

/// A new server with canned replies, which ends when this is dropped.
struct CannedServer {
    address: SocketAddr,
    uri: String,
    _servers: Servers,
}

impl CannedServer {
    fn start() -> Result<Self> {
        let mut servers = Servers::default();
        let canned = servers.prepare(ServerKind::Canned, Workload::Ping)?;
        let uri = format!("mongodb://{}/?replicaSet={}", canned.address, canned.set);
        Ok(Self { address: canned.address, uri, _servers: servers })
    }
}

/// Runs a trial in its own runtime, and does not wait for tasks that are left.
fn in_own_runtime<T>(trial: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = Runtime::new()?;
    let outcome = runtime.block_on(trial);
    runtime.shutdown_background();
    outcome
}

/// Client that reads the counters of a server with canned replies.
struct CannedCounters(TcpStream);

impl CannedCounters {
    async fn connect(server: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    /// Returns the number of connections accepted, this one included.
    async fn accepted(&mut self) -> Result<i32> {
        self.counter_value("accepted").await
    }

    /// Returns the number of inserts received for the collection `shed`.
    async fn attempted(&mut self) -> Result<i32> {
        self.counter_value("attempted").await
    }

    async fn counter_value(&mut self, command_name: &str) -> Result<i32> {
        let mut command = RawDocumentBuf::new();
        command.append(bson::raw::CString::try_from(command_name)?, 1);
        command.append(bson::raw::cstr!("$db"), "admin");
        let mut buffer = Vec::new();
        round_trip(&mut self.0, &op_msg::message(&command, None), &mut buffer).await?;
        let at = op_msg::offset_after(&buffer, b"\x10n\0").ok_or("the reply has no count")?;
        Ok(op_msg::i32_at(&buffer, at))
    }
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
