//! Server of the topology: its pool, its monitor, and the number of operations in progress.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use steadfast_core::address::ServerAddress;

use super::monitor::Monitor;
use crate::pool::Pool;

/// Server of the topology, which it may have left.
pub(crate) struct Server {
    pub(crate) address: Arc<ServerAddress>,
    pub(crate) pool: Arc<Pool>,
    monitor: Option<Monitor>,
    operations: AtomicUsize,
}

impl Server {
    pub(super) fn new(address: ServerAddress, pool: Arc<Pool>, monitor: Option<Monitor>) -> Self {
        Self { address: Arc::new(address), pool, monitor, operations: AtomicUsize::new(0) }
    }

    /// Number of operations of this client in progress on the server.
    pub(super) fn operation_count(&self) -> usize {
        self.operations.load(Ordering::Relaxed)
    }

    /// Counts an operation until the returned guard is dropped.
    pub(crate) fn begin_operation(&self) -> OperationCount<'_> {
        self.operations.fetch_add(1, Ordering::Relaxed);
        OperationCount(self)
    }

    pub(super) fn check_now(&self) {
        if let Some(monitor) = &self.monitor {
            monitor.check_now();
        }
    }

    pub(super) fn cancel_check(&self) {
        if let Some(monitor) = &self.monitor {
            monitor.cancel_check();
        }
    }

    pub(super) fn stop_monitor(&self) {
        if let Some(monitor) = &self.monitor {
            monitor.stop();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.address)
    }
}

/// Operation in progress on a server.
#[derive(Debug)]
pub(crate) struct OperationCount<'a>(&'a Server);

impl Drop for OperationCount<'_> {
    fn drop(&mut self) {
        self.0.operations.fetch_sub(1, Ordering::Relaxed);
    }
}
