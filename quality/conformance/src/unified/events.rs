//! Events of a client: recorded, and compared with those that a test expects.

mod editions;
mod expect;
mod recorder;

pub(super) use self::{
    expect::{expect, matches},
    recorder::{EventRecorder, ObservedEvents},
};

use steadfast::event::{cmap::CmapEvent, command::CommandEvent, sdam::SdamEvent};

use super::schema::{EventFamily, EventName};

/// An event of a client.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Command(CommandEvent),
    Cmap(CmapEvent),
    Sdam(SdamEvent),
}

impl Event {
    pub(super) fn family(&self) -> EventFamily {
        match self {
            Self::Command(_) => EventFamily::Command,
            Self::Cmap(_) => EventFamily::Cmap,
            Self::Sdam(_) => EventFamily::Sdam,
        }
    }

    /// Returns the event's name in test files, if it has one.
    pub(super) fn name(&self) -> Option<EventName> {
        Some(match self {
            Self::Command(CommandEvent::Started(_)) => EventName::CommandStartedEvent,
            Self::Command(CommandEvent::Succeeded(_)) => EventName::CommandSucceededEvent,
            Self::Command(CommandEvent::Failed(_)) => EventName::CommandFailedEvent,
            Self::Cmap(CmapEvent::PoolCreated(_)) => EventName::PoolCreatedEvent,
            Self::Cmap(CmapEvent::PoolReady(_)) => EventName::PoolReadyEvent,
            Self::Cmap(CmapEvent::PoolCleared(_)) => EventName::PoolClearedEvent,
            Self::Cmap(CmapEvent::PoolClosed(_)) => EventName::PoolClosedEvent,
            Self::Cmap(CmapEvent::ConnectionCreated(_)) => EventName::ConnectionCreatedEvent,
            Self::Cmap(CmapEvent::ConnectionReady(_)) => EventName::ConnectionReadyEvent,
            Self::Cmap(CmapEvent::ConnectionClosed(_)) => EventName::ConnectionClosedEvent,
            Self::Cmap(CmapEvent::ConnectionCheckoutStarted(_)) => {
                EventName::ConnectionCheckOutStartedEvent
            }
            Self::Cmap(CmapEvent::ConnectionCheckoutFailed(_)) => {
                EventName::ConnectionCheckOutFailedEvent
            }
            Self::Cmap(CmapEvent::ConnectionCheckedOut(_)) => EventName::ConnectionCheckedOutEvent,
            Self::Cmap(CmapEvent::ConnectionCheckedIn(_)) => EventName::ConnectionCheckedInEvent,
            Self::Sdam(SdamEvent::ServerDescriptionChanged(_)) => {
                EventName::ServerDescriptionChangedEvent
            }
            Self::Sdam(SdamEvent::TopologyDescriptionChanged(_)) => {
                EventName::TopologyDescriptionChangedEvent
            }
            Self::Sdam(SdamEvent::TopologyOpening(_)) => EventName::TopologyOpeningEvent,
            Self::Sdam(SdamEvent::TopologyClosed(_)) => EventName::TopologyClosedEvent,
            Self::Sdam(SdamEvent::ServerHeartbeatStarted(_)) => {
                EventName::ServerHeartbeatStartedEvent
            }
            Self::Sdam(SdamEvent::ServerHeartbeatSucceeded(_)) => {
                EventName::ServerHeartbeatSucceededEvent
            }
            Self::Sdam(SdamEvent::ServerHeartbeatFailed(_)) => {
                EventName::ServerHeartbeatFailedEvent
            }
            Self::Command(_) | Self::Cmap(_) | Self::Sdam(_) => return None,
        })
    }
}
