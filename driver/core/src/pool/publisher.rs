//! CMAP events of a pool, created only for a listener.

use std::{fmt::Display, time::Duration};

use bson::oid::ObjectId;

use super::{CheckOutError, ConnectionId, PoolEffect, WaitCancellation};
use crate::{
    address::ServerAddress,
    event::cmap::{
        CmapEvent, ConnectionCheckedInEvent, ConnectionCheckedOutEvent,
        ConnectionCheckoutFailedEvent, ConnectionCheckoutFailedReason, ConnectionClosedEvent,
        ConnectionClosedReason,
    },
};

#[derive(Debug)]
pub(super) struct EventPublisher {
    address: ServerAddress,
    listening: bool,
}

impl EventPublisher {
    pub(super) fn new(address: ServerAddress, listening: bool) -> Self {
        Self { address, listening }
    }

    /// Publishes an event. Without a listener, nothing is created or allocated.
    pub(super) fn publish<C, E>(
        &self,
        effects: &mut Vec<PoolEffect<C, E>>,
        event: impl FnOnce(ServerAddress) -> CmapEvent,
    ) {
        if self.listening {
            effects.push(PoolEffect::Emit(event(self.address.clone())));
        }
    }

    pub(super) fn checked_out<C, E>(
        &self,
        effects: &mut Vec<PoolEffect<C, E>>,
        id: ConnectionId,
        duration: Duration,
    ) {
        self.publish(effects, |address| {
            let connection_id = id.number();
            CmapEvent::ConnectionCheckedOut(ConnectionCheckedOutEvent {
                address,
                connection_id,
                duration,
            })
        });
    }

    pub(super) fn checked_in<C, E>(&self, effects: &mut Vec<PoolEffect<C, E>>, id: ConnectionId) {
        self.publish(effects, |address| {
            let connection_id = id.number();
            CmapEvent::ConnectionCheckedIn(ConnectionCheckedInEvent { address, connection_id })
        });
    }

    pub(super) fn closed<C, E: Display>(
        &self,
        effects: &mut Vec<PoolEffect<C, E>>,
        id: ConnectionId,
        reason: ConnectionClosedReason,
        service_id: Option<ObjectId>,
        error: Option<&E>,
    ) {
        self.publish(effects, |address| {
            CmapEvent::ConnectionClosed(ConnectionClosedEvent {
                address,
                connection_id: id.number(),
                reason,
                service_id,
                error: error.map(ToString::to_string),
            })
        });
    }

    pub(super) fn check_out_failed<C, E: Display>(
        &self,
        effects: &mut Vec<PoolEffect<C, E>>,
        error: &CheckOutError<E>,
        duration: Duration,
    ) {
        let reason = match error {
            CheckOutError::Closed => ConnectionCheckoutFailedReason::PoolClosed,
            CheckOutError::TimedOut => ConnectionCheckoutFailedReason::Timeout,
            CheckOutError::Cleared { .. } | CheckOutError::Connect(_) => {
                ConnectionCheckoutFailedReason::ConnectionError
            }
        };
        self.publish(effects, |address| {
            let error = Some(error.to_string());
            CmapEvent::ConnectionCheckoutFailed(ConnectionCheckoutFailedEvent {
                address,
                reason,
                duration,
                error,
            })
        });
    }

    pub(super) fn abandoned<C, E>(
        &self,
        effects: &mut Vec<PoolEffect<C, E>>,
        why: WaitCancellation,
        duration: Duration,
    ) {
        let reason = match why {
            WaitCancellation::TimedOut => ConnectionCheckoutFailedReason::Timeout,
            WaitCancellation::Dropped => ConnectionCheckoutFailedReason::Abandoned,
        };
        self.publish(effects, |address| {
            let error = None;
            CmapEvent::ConnectionCheckoutFailed(ConnectionCheckoutFailedEvent {
                address,
                reason,
                duration,
                error,
            })
        });
    }
}
