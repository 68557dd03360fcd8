//! Deprecated traits of event handlers. [`EventHandler`] replaces them; they exist for applications
//! that implement them.

#![expect(deprecated, reason = "the traits refer to each other's module")]

use std::sync::Arc;

use steadfast_core::event::cmap::{
    CmapEvent, ConnectionCheckedInEvent, ConnectionCheckedOutEvent, ConnectionCheckoutFailedEvent,
    ConnectionCheckoutStartedEvent, ConnectionClosedEvent, ConnectionCreatedEvent,
    ConnectionReadyEvent, PoolClearedEvent, PoolClosedEvent, PoolCreatedEvent, PoolReadyEvent,
};

use super::{
    EventHandler,
    command::{CommandEvent, CommandFailedEvent, CommandStartedEvent, CommandSucceededEvent},
    sdam::{
        SdamEvent, ServerClosedEvent, ServerDescriptionChangedEvent, ServerHeartbeatFailedEvent,
        ServerHeartbeatStartedEvent, ServerHeartbeatSucceededEvent, ServerOpeningEvent,
        TopologyClosedEvent, TopologyDescriptionChangedEvent, TopologyOpeningEvent,
    },
};

/// Declares a trait with a method for each event, and the conversion of its implementors into an
/// [`EventHandler`].
macro_rules! handlers {
    (
        $(#[doc = $doc:expr])+
        $name:ident of $event:ident {
            $( $variant:ident($kind:ident) => $method:ident $(, $boxed:tt)? ; )+
        }
    ) => {
        $(#[doc = $doc])+
        #[deprecated = "use EventHandler"]
        pub trait $name: Send + Sync {
            $(
                #[doc = concat!("Handles a [`", stringify!($kind), "`]. Does nothing by default.")]
                fn $method(&self, event: $kind) {
                    let _ = event;
                }
            )+
        }

        impl<T: $name + 'static> From<Arc<T>> for EventHandler<$event> {
            fn from(handler: Arc<T>) -> Self {
                Self::callback(move |event| match event {
                    $( $event::$variant(event) => handler.$method(handlers!(@event event $($boxed)?)), )+
                    #[allow(unreachable_patterns, reason = "events of other crates may grow")]
                    _ => {}
                })
            }
        }
    };
    (@event $event:ident) => { $event };
    (@event $event:ident boxed) => { *$event };
}

handlers! {
    /// Handler of command events.
    CommandEventHandler of CommandEvent {
        Started(CommandStartedEvent) => handle_command_started_event;
        Succeeded(CommandSucceededEvent) => handle_command_succeeded_event;
        Failed(CommandFailedEvent) => handle_command_failed_event;
    }
}

handlers! {
    /// Handler of CMAP events.
    CmapEventHandler of CmapEvent {
        PoolCreated(PoolCreatedEvent) => handle_pool_created_event;
        PoolReady(PoolReadyEvent) => handle_pool_ready_event;
        PoolCleared(PoolClearedEvent) => handle_pool_cleared_event;
        PoolClosed(PoolClosedEvent) => handle_pool_closed_event;
        ConnectionCreated(ConnectionCreatedEvent) => handle_connection_created_event;
        ConnectionReady(ConnectionReadyEvent) => handle_connection_ready_event;
        ConnectionClosed(ConnectionClosedEvent) => handle_connection_closed_event;
        ConnectionCheckoutStarted(ConnectionCheckoutStartedEvent) => handle_connection_checkout_started_event;
        ConnectionCheckoutFailed(ConnectionCheckoutFailedEvent) => handle_connection_checkout_failed_event;
        ConnectionCheckedOut(ConnectionCheckedOutEvent) => handle_connection_checked_out_event;
        ConnectionCheckedIn(ConnectionCheckedInEvent) => handle_connection_checked_in_event;
    }
}

handlers! {
    /// Handler of SDAM events.
    SdamEventHandler of SdamEvent {
        ServerDescriptionChanged(ServerDescriptionChangedEvent) => handle_server_description_changed_event, boxed;
        ServerOpening(ServerOpeningEvent) => handle_server_opening_event;
        ServerClosed(ServerClosedEvent) => handle_server_closed_event;
        TopologyDescriptionChanged(TopologyDescriptionChangedEvent) => handle_topology_description_changed_event, boxed;
        TopologyOpening(TopologyOpeningEvent) => handle_topology_opening_event;
        TopologyClosed(TopologyClosedEvent) => handle_topology_closed_event;
        ServerHeartbeatStarted(ServerHeartbeatStartedEvent) => handle_server_heartbeat_started_event;
        ServerHeartbeatSucceeded(ServerHeartbeatSucceededEvent) => handle_server_heartbeat_succeeded_event;
        ServerHeartbeatFailed(ServerHeartbeatFailedEvent) => handle_server_heartbeat_failed_event;
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Mutex, time::Duration};

    use steadfast_core::address::ServerAddress;

    use super::*;
    use crate::{error::Error, event::sdam::Heartbeat};

    #[derive(Default)]
    struct Failures(Mutex<Vec<String>>);

    impl SdamEventHandler for Failures {
        fn handle_server_heartbeat_failed_event(&self, event: ServerHeartbeatFailedEvent) {
            self.0.lock().unwrap().push(event.failure.to_string());
        }
    }

    #[test]
    fn handler_trait_receives_its_events() {
        let failures = Arc::new(Failures::default());
        let handler = EventHandler::<SdamEvent>::from(Arc::clone(&failures));
        let heartbeat = Heartbeat {
            server_address: ServerAddress::default(),
            awaited: false,
            driver_connection_id: 1,
            server_connection_id: None,
        };
        handler.handle(heartbeat.started());
        handler.handle(heartbeat.failed(Duration::ZERO, Error::authentication("no")));
        assert_eq!(*failures.0.lock().unwrap(), ["authentication failed: no"]);
    }
}
