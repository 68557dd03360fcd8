//! Tells of what happens in a pool, if anybody listens.

use std::{fmt::Display, time::Duration};

use bson::oid::ObjectId;

use super::{Abandonment, CheckOutError, ConnectionId, Effect};
use crate::{
    address::ServerAddress,
    event::cmap::{
        CmapEvent, ConnectionCheckedInEvent, ConnectionCheckedOutEvent,
        ConnectionCheckoutFailedEvent, ConnectionCheckoutFailedReason, ConnectionClosedEvent,
        ConnectionClosedReason,
    },
};

#[derive(Debug)]
pub(super) struct Announcer {
    address: ServerAddress,
    listening: bool,
}

impl Announcer {
    pub(super) fn new(address: ServerAddress, listening: bool) -> Self {
        Self { address, listening }
    }

    /// Nothing is made, and nothing allocated, when nobody listens.
    pub(super) fn tell<C, E>(
        &self,
        effects: &mut Vec<Effect<C, E>>,
        event: impl FnOnce(ServerAddress) -> CmapEvent,
    ) {
        if self.listening {
            effects.push(Effect::Emit(event(self.address.clone())));
        }
    }

    pub(super) fn checked_out<C, E>(
        &self,
        effects: &mut Vec<Effect<C, E>>,
        id: ConnectionId,
        duration: Duration,
    ) {
        self.tell(effects, |address| {
            let connection_id = id.number();
            CmapEvent::ConnectionCheckedOut(ConnectionCheckedOutEvent {
                address,
                connection_id,
                duration,
            })
        });
    }

    pub(super) fn checked_in<C, E>(&self, effects: &mut Vec<Effect<C, E>>, id: ConnectionId) {
        self.tell(effects, |address| {
            let connection_id = id.number();
            CmapEvent::ConnectionCheckedIn(ConnectionCheckedInEvent { address, connection_id })
        });
    }

    pub(super) fn closed<C, E: Display>(
        &self,
        effects: &mut Vec<Effect<C, E>>,
        id: ConnectionId,
        reason: ConnectionClosedReason,
        service_id: Option<ObjectId>,
        error: Option<&E>,
    ) {
        self.tell(effects, |address| {
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
        effects: &mut Vec<Effect<C, E>>,
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
        self.tell(effects, |address| {
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
        effects: &mut Vec<Effect<C, E>>,
        why: Abandonment,
        duration: Duration,
    ) {
        let reason = match why {
            Abandonment::TimedOut => ConnectionCheckoutFailedReason::Timeout,
            Abandonment::Dropped => ConnectionCheckoutFailedReason::Abandoned,
        };
        self.tell(effects, |address| {
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
