//! Measurement of the round-trip time, for servers monitored with the streaming protocol.

use std::sync::Arc;

use steadfast_core::{
    address::ServerAddress,
    monitor::{MIN_HEARTBEAT_FREQUENCY, MonitorSettings},
    sdam::TopologyInput,
};
use tokio::task::AbortHandle;

use super::{
    super::WeakTopology,
    check::{hello, poll_hello},
    next_monitor_connection,
};
use crate::{
    connection::{Connection, Establisher},
    error::{Error, Result},
};

/// Task that measures the round-trip time until this is dropped.
pub(super) struct RoundTripMonitor(AbortHandle);

impl RoundTripMonitor {
    pub(super) fn start(
        address: ServerAddress,
        settings: MonitorSettings,
        establisher: Arc<Establisher>,
        topology: WeakTopology,
    ) -> Self {
        let task = ping(address, settings, Arc::clone(&establisher), topology);
        Self(establisher.spawn(task))
    }
}

impl Drop for RoundTripMonitor {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Measures in a loop. An error only closes the connection: the monitor detects failures of the
/// server.
async fn ping(
    address: ServerAddress,
    settings: MonitorSettings,
    establisher: Arc<Establisher>,
    topology: WeakTopology,
) {
    let mut connection = None;
    loop {
        let pinging = ping_once(&address, &establisher, &mut connection);
        let sample = match settings.connect_timeout.filter(|limit| !limit.is_zero()) {
            None => pinging.await,
            Some(limit) => tokio::time::timeout(limit, pinging)
                .await
                .unwrap_or_else(|_| Err(Error::timed_out("no reply"))),
        };
        match sample {
            Ok(Some(sample)) => {
                topology.apply(TopologyInput::RoundTrip { address: address.clone(), sample }, None);
            }
            Ok(None) => {}
            Err(_) => connection = None,
        }
        tokio::time::sleep(settings.heartbeat_frequency.max(MIN_HEARTBEAT_FREQUENCY)).await;
    }
}

async fn ping_once(
    address: &ServerAddress,
    establisher: &Establisher,
    connection: &mut Option<Connection>,
) -> Result<Option<std::time::Duration>> {
    match connection {
        None => {
            let mut new = establisher.open(address).await?;
            new.id = next_monitor_connection();
            new.run_hello(&establisher.hello(), establisher.uses_modern_hello()).await?;
            // Not measured: the first reply includes the handshake.
            *connection = Some(new);
            Ok(None)
        }
        Some(connection) => {
            let hello = hello(establisher, connection.hello.hello_ok, None);
            Ok(Some(poll_hello(connection, &hello).await?.duration))
        }
    }
}
