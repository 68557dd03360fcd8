//! Comparison of events with expected events (`expectEvents`).

use bson::{Document, oid::ObjectId};
use steadfast::event::{
    cmap::CmapEvent,
    command::{CommandEvent, ConnectionInfo},
    sdam::SdamEvent,
};

use super::{Event, EventRecorder, editions};
use crate::unified::{
    matching::Matcher,
    schema::{CommandExpectation, EventExpectation, ExpectedEventsForClient},
    test_error::{TestError, TestResult},
};

/// Fails unless the client's events are the expected ones, in order.
pub(crate) fn expect(
    matcher: &Matcher<'_>,
    expected: &ExpectedEventsForClient,
    recorder: &EventRecorder,
) -> TestResult<()> {
    let mut events = recorder.events();
    events.retain(|event| event.family() == expected.family);
    for (at, expectation) in expected.events.iter().enumerate() {
        let Some(event) = events.get(at) else {
            let found = events.len();
            let names = names_of(&events);
            return Err(TestError::failed(format!(
                "expected {} events, found {found}: missing {expectation:?}; {names}",
                expected.events.len()
            )));
        };
        matches(matcher, expectation, event)
            .map_err(|error| error.within(format!("event {at} of {}", names_of(&events))))?;
    }
    match events.get(expected.events.len()) {
        Some(extra) if !expected.ignore_extra_events => {
            Err(TestError::failed(format!("unexpected event {extra:?} of {}", names_of(&events))))
        }
        _ => Ok(()),
    }
}

/// Names of the events, for messages.
fn names_of(events: &[Event]) -> String {
    let word = |event: &Event| {
        let name = event.name().map_or_else(String::new, |name| format!("{name:?}"));
        match event {
            Event::Command(CommandEvent::Started(event)) => {
                format!("{name} {}", event.command_name)
            }
            _ => name,
        }
    };
    format!("[{}]", events.iter().map(word).collect::<Vec<_>>().join(", "))
}

/// Fails unless the event is the expected one.
pub(crate) fn matches(
    matcher: &Matcher<'_>,
    expected: &EventExpectation,
    event: &Event,
) -> TestResult<()> {
    match event {
        Event::Command(event) => command(matcher, expected, event),
        Event::Cmap(event) => connection(expected, event),
        Event::Sdam(event) => topology(expected, event),
    }
}

fn command(
    matcher: &Matcher<'_>,
    expected: &EventExpectation,
    event: &CommandEvent,
) -> TestResult<()> {
    use EventExpectation as Expect;
    // Fields that all command events have. There is no common type.
    macro_rules! common_fields {
        ($event:ident) => {
            (&*$event.command_name, &*$event.db, $event.service_id, &$event.connection)
        };
    }
    let (wanted, found) = match (expected, event) {
        (Expect::CommandStartedEvent(wanted), CommandEvent::Started(event)) => {
            let command = wanted.command.as_ref().map(editions::pymongo_edition);
            document(matcher, "command", command.as_ref(), &event.command)?;
            (wanted.common(), common_fields!(event))
        }
        (Expect::CommandSucceededEvent(wanted), CommandEvent::Succeeded(event)) => {
            document(matcher, "reply", wanted.reply.as_ref(), &event.reply)?;
            (wanted.common(), common_fields!(event))
        }
        (Expect::CommandFailedEvent(wanted), CommandEvent::Failed(event)) => {
            (wanted.common(), common_fields!(event))
        }
        _ => return Err(unexpected(expected, event)),
    };
    common(wanted, found)
}

fn document(
    matcher: &Matcher<'_>,
    what: &str,
    expected: Option<&Document>,
    actual: &Document,
) -> TestResult<()> {
    let Some(expected) = expected else { return Ok(()) };
    matcher.root(expected, actual).map_err(|error| error.within(format!("{what} {actual}")))
}

fn common(
    wanted: CommandExpectation<'_>,
    (name, db, service, connection): (&str, &str, Option<ObjectId>, &ConnectionInfo),
) -> TestResult<()> {
    same("commandName", wanted.command_name, name)?;
    same("databaseName", wanted.database_name, db)?;
    same("hasServiceId", wanted.has_service_id.as_ref(), &has_service(service))?;
    let has_id = connection.server_id.is_some_and(|id| id > 0);
    same("hasServerConnectionId", wanted.has_server_connection_id.as_ref(), &has_id)
}

fn has_service(id: Option<ObjectId>) -> bool {
    id.is_some_and(|id| id.bytes() != [0; 12])
}

fn connection(expected: &EventExpectation, event: &CmapEvent) -> TestResult<()> {
    use EventExpectation as Expect;
    match (expected, event) {
        (Expect::PoolCreatedEvent(_), CmapEvent::PoolCreated(_))
        | (Expect::PoolReadyEvent(_), CmapEvent::PoolReady(_))
        | (Expect::PoolClosedEvent(_), CmapEvent::PoolClosed(_))
        | (Expect::ConnectionCreatedEvent(_), CmapEvent::ConnectionCreated(_))
        | (Expect::ConnectionReadyEvent(_), CmapEvent::ConnectionReady(_))
        | (Expect::ConnectionCheckOutStartedEvent(_), CmapEvent::ConnectionCheckoutStarted(_))
        | (Expect::ConnectionCheckedOutEvent(_), CmapEvent::ConnectionCheckedOut(_))
        | (Expect::ConnectionCheckedInEvent(_), CmapEvent::ConnectionCheckedIn(_)) => Ok(()),
        (Expect::PoolClearedEvent(wanted), CmapEvent::PoolCleared(event)) => {
            same("hasServiceId", wanted.has_service_id.as_ref(), &has_service(event.service_id))?;
            let interrupts = wanted.interrupt_in_use_connections.as_ref();
            same("interruptInUseConnections", interrupts, &event.interrupt_in_use_connections)
        }
        (Expect::ConnectionClosedEvent(wanted), CmapEvent::ConnectionClosed(event)) => {
            same("reason", wanted.reason.as_deref(), event.reason.as_str())
        }
        (
            Expect::ConnectionCheckOutFailedEvent(wanted),
            CmapEvent::ConnectionCheckoutFailed(event),
        ) => same("reason", wanted.reason.as_deref(), event.reason.as_str()),
        _ => Err(unexpected(expected, event)),
    }
}

fn topology(expected: &EventExpectation, event: &SdamEvent) -> TestResult<()> {
    use EventExpectation as Expect;
    match (expected, event) {
        (Expect::TopologyOpeningEvent(_), SdamEvent::TopologyOpening(_))
        | (Expect::TopologyClosedEvent(_), SdamEvent::TopologyClosed(_)) => Ok(()),
        (
            Expect::ServerDescriptionChangedEvent(wanted),
            SdamEvent::ServerDescriptionChanged(event),
        ) => {
            let before = event.previous_description.server_type.name();
            let after = event.new_description.server_type.name();
            let fits = wanted.previous_description.as_ref().is_none_or(|kind| kind.allows(before))
                && wanted.new_description.as_ref().is_none_or(|kind| kind.allows(after));
            if fits { Ok(()) } else { Err(unexpected(expected, &format!("{before} to {after}"))) }
        }
        (
            Expect::TopologyDescriptionChangedEvent(wanted),
            SdamEvent::TopologyDescriptionChanged(event),
        ) => {
            let before = event.previous_description.topology_type.name();
            let after = event.new_description.topology_type.name();
            let fits = wanted.previous_description.as_ref().is_none_or(|kind| kind.allows(before))
                && wanted.new_description.as_ref().is_none_or(|kind| kind.allows(after));
            if fits { Ok(()) } else { Err(unexpected(expected, &format!("{before} to {after}"))) }
        }
        (Expect::ServerHeartbeatStartedEvent(wanted), SdamEvent::ServerHeartbeatStarted(event)) => {
            same("awaited", wanted.awaited.as_ref(), &event.awaited)
        }
        (
            Expect::ServerHeartbeatSucceededEvent(wanted),
            SdamEvent::ServerHeartbeatSucceeded(event),
        ) => same("awaited", wanted.awaited.as_ref(), &event.awaited),
        (Expect::ServerHeartbeatFailedEvent(wanted), SdamEvent::ServerHeartbeatFailed(event)) => {
            same("awaited", wanted.awaited.as_ref(), &event.awaited)
        }
        _ => Err(unexpected(expected, event)),
    }
}

fn same<T: PartialEq + std::fmt::Debug + ?Sized>(
    what: &str,
    expected: Option<&T>,
    actual: &T,
) -> TestResult<()> {
    match expected {
        Some(expected) if expected != actual => {
            Err(TestError::failed(format!("{what} is {actual:?}, not {expected:?}")))
        }
        _ => Ok(()),
    }
}

fn unexpected(expected: &EventExpectation, found: &dyn std::fmt::Debug) -> TestError {
    TestError::failed(format!("expected {expected:?}, found {found:?}"))
}
