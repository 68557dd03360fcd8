//! Log messages of connection pools and connections.

use bson::oid::ObjectId;
use steadfast_core::event::cmap::{
    CmapEvent, ConnectionCheckoutFailedReason, ConnectionClosedReason, ConnectionPoolOptions,
};
use tracing::Level;

use super::{as_millis, as_whole_millis};

const TARGET: &str = "steadfast::connection";

/// Returns `true` if a subscriber receives messages about connections.
pub(crate) fn connection_logging_enabled() -> bool {
    tracing::enabled!(target: TARGET, Level::DEBUG)
}

/// Emits a message with the common fields of connection messages.
macro_rules! log {
    ($message:literal, $topology_id:expr, $event:expr $(, $($own:tt)*)?) => {
        tracing::debug!(
            target: TARGET,
            topologyId = $topology_id.to_hex(),
            serverHost = &*$event.address.host(),
            serverPort = $event.address.port(),
            $($($own)*)?
            $message
        )
    };
}

/// Logs an event of a pool or connection.
pub(crate) fn connection(event: &CmapEvent, topology_id: ObjectId) {
    if !connection_logging_enabled() {
        return;
    }
    match event {
        CmapEvent::PoolCreated(event) => {
            let none_set = ConnectionPoolOptions::default();
            let options = event.options.as_ref().unwrap_or(&none_set);
            log!(
                "Connection pool created",
                topology_id,
                event,
                maxIdleTimeMS = options.max_idle_time.map(as_whole_millis),
                minPoolSize = options.min_pool_size,
                maxPoolSize = options.max_pool_size,
                maxConnecting = options.max_connecting,
                waitQueueTimeoutMS = options.wait_queue_timeout.map(as_whole_millis),
            );
        }
        CmapEvent::PoolReady(event) => log!("Connection pool ready", topology_id, event),
        CmapEvent::PoolCleared(event) => log!(
            "Connection pool cleared",
            topology_id,
            event,
            serviceId = event.service_id.map(|id| id.to_hex()),
        ),
        CmapEvent::PoolClosed(event) => log!("Connection pool closed", topology_id, event),
        CmapEvent::ConnectionCreated(event) => {
            log!(
                "Connection created",
                topology_id,
                event,
                driverConnectionId = event.connection_id,
            );
        }
        CmapEvent::ConnectionReady(event) => log!(
            "Connection ready",
            topology_id,
            event,
            driverConnectionId = event.connection_id,
            durationMS = as_millis(event.duration),
        ),
        CmapEvent::ConnectionClosed(event) => log!(
            "Connection closed",
            topology_id,
            event,
            driverConnectionId = event.connection_id,
            reason = closed_reason(event.reason),
            error = event.error.as_deref(),
        ),
        CmapEvent::ConnectionCheckoutStarted(event) => {
            log!("Connection checkout started", topology_id, event);
        }
        CmapEvent::ConnectionCheckoutFailed(event) => log!(
            "Connection checkout failed",
            topology_id,
            event,
            reason = checkout_failed_reason(event.reason),
            error = event.error.as_deref(),
            durationMS = as_millis(event.duration),
        ),
        CmapEvent::ConnectionCheckedOut(event) => log!(
            "Connection checked out",
            topology_id,
            event,
            driverConnectionId = event.connection_id,
            durationMS = as_millis(event.duration),
        ),
        CmapEvent::ConnectionCheckedIn(event) => log!(
            "Connection checked in",
            topology_id,
            event,
            driverConnectionId = event.connection_id,
        ),
        other => debug_assert!(false, "event without a log message: {other:?}"),
    }
}

/// Returns the text of the specification, or this driver's for additional reasons.
fn closed_reason(reason: ConnectionClosedReason) -> &'static str {
    match reason {
        ConnectionClosedReason::Stale => "Connection became stale because the pool was cleared",
        ConnectionClosedReason::Idle => {
            "Connection has been available but unused for longer than the configured max idle time"
        }
        ConnectionClosedReason::Error => "An error occurred while using the connection",
        ConnectionClosedReason::PoolClosed => "Connection pool was closed",
        ConnectionClosedReason::Dropped => {
            "The operation that used the connection was dropped halfway through a message"
        }
        other => other.as_str(),
    }
}

/// Returns the text of the specification, or this driver's for additional reasons.
fn checkout_failed_reason(reason: ConnectionCheckoutFailedReason) -> &'static str {
    match reason {
        ConnectionCheckoutFailedReason::Timeout => {
            "Wait queue timeout elapsed without a connection becoming available"
        }
        ConnectionCheckoutFailedReason::ConnectionError => {
            "An error occurred while trying to establish a new connection"
        }
        ConnectionCheckoutFailedReason::PoolClosed => "Connection pool was closed",
        ConnectionCheckoutFailedReason::Abandoned => {
            "The operation was dropped while it waited for a connection"
        }
        other => other.as_str(),
    }
}
