//! Trials: what an application notices of a driver when something is wrong, rather than how fast it is.

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

/// A server with canned replies that nobody has used yet, for as long as this is held.
struct Fresh {
    address: SocketAddr,
    uri: String,
    _servers: Servers,
}

impl Fresh {
    fn start() -> Result<Self> {
        let mut servers = Servers::default();
        let place = servers.prepare(ServerKind::Canned, Workload::Ping)?;
        let uri = format!("mongodb://{}/?replicaSet={}", place.address, place.set);
        Ok(Self { address: place.address, uri, _servers: servers })
    }
}

/// Runs a trial in a runtime of its own, and does not wait for what it leaves behind.
fn apart<T>(trial: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = Runtime::new()?;
    let outcome = runtime.block_on(trial);
    runtime.shutdown_background();
    outcome
}

/// Asks a server with canned replies what it has counted.
struct Counter(TcpStream);

impl Counter {
    async fn connect(server: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    /// How many connections were made to it, this one included.
    async fn accepted(&mut self) -> Result<i32> {
        self.ask("accepted").await
    }

    /// How many inserts came that it may turn away.
    async fn attempted(&mut self) -> Result<i32> {
        self.ask("attempted").await
    }

    async fn ask(&mut self, what: &str) -> Result<i32> {
        let mut command = RawDocumentBuf::new();
        command.append(bson::raw::CString::try_from(what)?, 1);
        command.append(bson::raw::cstr!("$db"), "admin");
        let mut inbox = Vec::new();
        round_trip(&mut self.0, &op_msg::message(&command, None), &mut inbox).await?;
        let at = op_msg::place_after(&inbox, b"\x10n\0").ok_or("no count came")?;
        Ok(op_msg::i32_at(&inbox, at))
    }
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
