//! Log messages, compared with the specifications.

mod client;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bson::{Document, doc, oid::ObjectId, rawdoc};
use steadfast_core::{
    address::ServerAddress,
    description::TopologyDescription,
    event::cmap::{CmapEvent, ConnectionPoolOptions},
    pool::{self, CheckOutResult, ClearRequest, WaitCancellation},
    sdam::{self, TopologyInput, TopologySettings},
    selection::{SelectionCriteria, SelectionTarget},
};
use tracing::Level;

use super::{
    capture::{Captured, Value, capture, capture_one},
    *,
};
use crate::{
    error::{CommandError, Error, ErrorKind},
    event::{
        command::{
            CommandEvent, CommandFailedEvent, CommandStartedEvent, CommandSucceededEvent,
            ConnectionInfo, is_sensitive,
        },
        sdam::{Heartbeat, SdamEvent},
    },
};

fn id() -> ObjectId {
    ObjectId::from_bytes([1; 12])
}

fn address() -> ServerAddress {
    ServerAddress::parse("db.example").unwrap()
}

fn through(address: &str) -> ConnectionInfo {
    let address = ServerAddress::parse(address).unwrap();
    ConnectionInfo { id: 3, server_id: Some(77), address }
}

fn started(command: Document, connection: ConnectionInfo) -> CommandEvent {
    CommandEvent::Started(CommandStartedEvent {
        command,
        db: "shop".to_owned(),
        command_name: "insert".to_owned(),
        request_id: 11,
        operation_id: 12,
        connection,
        service_id: None,
    })
}

fn succeeded(reply: Document, service_id: Option<ObjectId>) -> CommandEvent {
    CommandEvent::Succeeded(CommandSucceededEvent {
        duration: Duration::from_micros(1500),
        reply,
        command_name: "insert".to_owned(),
        db: "shop".to_owned(),
        request_id: 11,
        operation_id: 12,
        connection: through("db.example"),
        service_id,
    })
}

fn failed(name: &str, failure: Error) -> CommandEvent {
    CommandEvent::Failed(CommandFailedEvent {
        duration: Duration::from_millis(2),
        failure,
        command_name: name.to_owned(),
        db: "admin".to_owned(),
        request_id: 11,
        operation_id: 12,
        connection: through("db.example"),
        service_id: None,
    })
}

fn expect(captured: &Captured, target: &str, message: &str, keys: &[&str]) {
    assert_eq!((captured.target, captured.level), (target, Level::DEBUG));
    assert_eq!(captured.text("message"), message);
    let mut expected = [keys, &["message", "topologyId"]].concat();
    expected.sort_unstable();
    assert_eq!(captured.keys(), expected, "{message}");
    assert_eq!(captured.text("topologyId"), id().to_hex());
}

const OF_COMMANDS: [&str; 8] = [
    "commandName",
    "databaseName",
    "requestId",
    "operationId",
    "driverConnectionId",
    "serverConnectionId",
    "serverHost",
    "serverPort",
];

#[test]
fn a_started_command_has_the_specified_keys_and_types() {
    let event = started(doc! { "insert": "books", "$db": "shop" }, through("db.example"));
    let captured = capture_one(|| command(&event, id(), None));
    let keys = [&OF_COMMANDS[..], &["command"]].concat();
    expect(&captured, "steadfast::command", "Command started", &keys);
    for (key, value) in [
        ("commandName", Value::from("insert")),
        ("databaseName", Value::from("shop")),
        ("requestId", Value::from(11)),
        ("operationId", Value::from(12)),
        ("driverConnectionId", Value::from(3)),
        ("serverConnectionId", Value::from(77)),
        ("serverHost", Value::from("db.example")),
        ("serverPort", Value::from(27017)),
        ("command", Value::from(r#"{"insert": "books", "$db": "shop"}"#)),
    ] {
        assert_eq!(captured.fields[key], value, "{key}");
    }
}

#[test]
fn a_succeeded_command_has_the_specified_keys_and_types() {
    let service = ObjectId::from_bytes([9; 12]);
    let event = succeeded(doc! { "ok": 1 }, Some(service));
    let captured = capture_one(|| command(&event, id(), None));
    let keys = [&OF_COMMANDS[..], &["durationMS", "reply", "serviceId"]].concat();
    expect(&captured, "steadfast::command", "Command succeeded", &keys);
    assert_eq!(captured.fields["durationMS"], Value::Double(1.5));
    assert_eq!(captured.text("reply"), r#"{"ok": 1}"#);
    assert_eq!(captured.text("serviceId"), service.to_hex());
}

#[test]
fn a_failed_command_has_the_specified_keys_and_types() {
    let failure = CommandError::from_reply(
        &rawdoc! { "ok": 0, "code": 2, "codeName": "BadValue", "errmsg": "no" },
    );
    let captured = capture_one(|| command(&failed("find", failure.unwrap()), id(), None));
    let keys = [&OF_COMMANDS[..], &["durationMS", "failure"]].concat();
    expect(&captured, "steadfast::command", "Command failed", &keys);
    assert_eq!(captured.fields["durationMS"], Value::Double(2.0));
    let shown = captured.text("failure");
    assert!(["2", "BadValue", "no"].iter().all(|part| shown.contains(part)), "{shown}");
}

#[test]
fn dropped_command_is_logged_as_cancelled() {
    let why = "the future of the operation was dropped";
    let failure = Error::new(ErrorKind::Custom(Arc::new(why.to_owned())));
    let captured = capture_one(|| command(&failed("find", failure), id(), None));
    assert_eq!(captured.text("failure"), why);
}

#[test]
fn unknown_values_are_omitted() {
    let mut connection = through("/tmp/mongodb.sock");
    connection.server_id = None;
    let captured = capture_one(|| command(&started(doc! {}, connection), id(), None));
    assert_eq!(captured.text("serverHost"), "/tmp/mongodb.sock");
    for key in ["serverPort", "serverConnectionId", "serviceId"] {
        assert!(!captured.fields.contains_key(key), "{key}");
    }
}

#[test]
fn documents_are_truncated_to_the_length_of_the_client_options() {
    let event = started(doc! { "insert": "x".repeat(5000) }, through("a"));
    let default = capture_one(|| command(&event, id(), None));
    assert_eq!(default.text("command").len(), 1003);
    let short = capture_one(|| command(&event, id(), Some(10)));
    assert_eq!(short.text("command"), "{\"insert\":...");
    let reply = succeeded(doc! { "x": "y".repeat(5000) }, None);
    let long = capture_one(|| command(&reply, id(), Some(100_000)));
    assert_eq!(long.text("reply").len(), 5000 + r#"{"x": ""}"#.len());
}

/// pitfall 40: the event of a sensitive command is empty, and so is its message.
#[test]
fn sensitive_commands_are_redacted() {
    let secret = "hunter2";
    assert!(is_sensitive("createUser", &rawdoc! { "createUser": "u", "pwd": secret }));
    let empty = capture_one(|| command(&started(doc! {}, through("a")), id(), None));
    assert_eq!(empty.text("command"), "{}");
    let empty = capture_one(|| command(&succeeded(doc! {}, None), id(), None));
    assert_eq!(empty.text("reply"), "{}");
}

/// pitfall 40: the failure of a sensitive command does not contain the server's message.
#[test]
fn failures_of_sensitive_commands_are_redacted() {
    let reply = rawdoc! {
        "ok": 0, "code": 18, "codeName": "AuthenticationFailed", "errmsg": "bad hunter2",
        "quoted": "hunter2", "errorLabels": ["RetryableError"],
    };
    let failure = CommandError::from_reply(&reply).unwrap().redacted();
    let captured = capture_one(|| command(&failed("saslContinue", failure), id(), None));
    let shown = captured.text("failure");
    assert!(!format!("{captured:?}").contains("hunter2"), "{captured:?}");
    assert!(shown.contains("REDACTED") && shown.contains("18"), "{shown}");
}

type Pool = pool::Pool<(), String>;
type Effects = Vec<pool::PoolEffect<(), String>>;

fn pool_of(options: &ConnectionPoolOptions, load_balanced: bool) -> (Pool, Effects) {
    let mut effects = Effects::new();
    let pool = Pool::new(address(), options, load_balanced, true, &mut effects);
    (pool, effects)
}

/// Returns the log messages of the events in the effects.
fn logged(effects: &mut Effects) -> Vec<Captured> {
    let events: Vec<CmapEvent> = effects
        .drain(..)
        .filter_map(|effect| match effect {
            pool::PoolEffect::Emit(event) => Some(event),
            _ => None,
        })
        .collect();
    capture(Level::DEBUG, || {
        for event in &events {
            connection(event, id());
        }
    })
}

fn messages(captured: &[Captured]) -> Vec<&str> {
    captured.iter().map(|captured| captured.text("message")).collect()
}

fn expect_connection(captured: &Captured, message: &str, own: &[&str]) {
    let keys = [own, &["serverHost", "serverPort"]].concat();
    expect(captured, "steadfast::connection", message, &keys);
    assert_eq!(captured.fields["serverPort"], Value::from(27017));
}

#[test]
fn pool_created_is_logged_with_its_options() {
    let (_, mut effects) = pool_of(&ConnectionPoolOptions::default(), false);
    expect_connection(&logged(&mut effects)[0], "Connection pool created", &[]);

    let mut options = ConnectionPoolOptions::default();
    options.max_idle_time = Some(Duration::from_secs(10));
    options.max_pool_size = Some(5);
    options.min_pool_size = Some(1);
    options.max_connecting = Some(4);
    options.wait_queue_timeout = Some(Duration::from_millis(500));
    let (_, mut effects) = pool_of(&options, false);
    let created = logged(&mut effects).remove(0);
    let expected = [
        ("maxIdleTimeMS", 10_000),
        ("maxPoolSize", 5),
        ("minPoolSize", 1),
        ("maxConnecting", 4),
        ("waitQueueTimeoutMS", 500),
    ];
    expect_connection(&created, "Connection pool created", &expected.map(|(key, _)| key));
    for (key, value) in expected {
        assert_eq!(created.fields[key], Value::from(value), "{key}");
    }
}

#[test]
fn connection_lifecycle_is_logged() {
    let now = Instant::now();
    let (mut pool, mut effects) = pool_of(&ConnectionPoolOptions::default(), false);
    effects.clear();
    pool.ready(now, &mut effects);
    let CheckOutResult::Wait(_) = pool.check_out(now, &mut effects) else {
        panic!("none is there yet")
    };
    let connecting = effects.iter().find_map(|effect| match effect {
        pool::PoolEffect::Connect { id, .. } => Some(*id),
        _ => None,
    });
    let later = now + Duration::from_millis(7);
    pool.connected(connecting.unwrap(), (), None, later, &mut effects);
    let at = effects.iter().position(|effect| matches!(effect, pool::PoolEffect::Deliver(..)));
    let pool::PoolEffect::Deliver(_, conn) = effects.remove(at.unwrap()) else { unreachable!() };
    pool.check_in(conn, later, &mut effects);
    pool.close(later, &mut effects);

    let captured = logged(&mut effects);
    for (captured, (message, own)) in captured.iter().zip([
        ("Connection pool ready", &[][..]),
        ("Connection checkout started", &[]),
        ("Connection created", &["driverConnectionId"]),
        ("Connection ready", &["driverConnectionId", "durationMS"]),
        ("Connection checked out", &["driverConnectionId", "durationMS"]),
        ("Connection checked in", &["driverConnectionId"]),
        ("Connection closed", &["driverConnectionId", "reason"]),
        ("Connection pool closed", &[]),
    ]) {
        expect_connection(captured, message, own);
    }
    assert_eq!(captured.len(), 8, "{:?}", messages(&captured));
    assert_eq!(captured[3].fields["driverConnectionId"], Value::from(1));
    assert_eq!(captured[3].fields["durationMS"], Value::Double(7.0));
    assert_eq!(captured[6].text("reason"), "Connection pool was closed");
}

#[test]
fn failed_connection_establishment_is_logged_with_its_error() {
    let now = Instant::now();
    let (mut pool, mut effects) = pool_of(&ConnectionPoolOptions::default(), false);
    pool.ready(now, &mut effects);
    effects.clear();
    let _waits = pool.check_out(now, &mut effects);
    let connecting = effects.iter().find_map(|effect| match effect {
        pool::PoolEffect::Connect { id, .. } => Some(*id),
        _ => None,
    });
    pool.connect_failed(connecting.unwrap(), "refused".to_owned(), now, &mut effects);
    let captured = logged(&mut effects);
    let of =
        |message| captured.iter().find(|captured| captured.text("message") == message).unwrap();
    let closed = of("Connection closed");
    expect_connection(closed, "Connection closed", &["driverConnectionId", "reason", "error"]);
    assert_eq!(closed.text("reason"), "An error occurred while using the connection");
    assert_eq!(closed.text("error"), "refused");
    let failed = of("Connection checkout failed");
    expect_connection(failed, "Connection checkout failed", &["reason", "error", "durationMS"]);
    let reason = "An error occurred while trying to establish a new connection";
    assert_eq!(failed.text("reason"), reason);
}

#[test]
fn failed_checkout_is_logged_with_its_reason() {
    for (why, reason) in [
        (
            WaitCancellation::TimedOut,
            "Wait queue timeout elapsed without a connection becoming available",
        ),
        (WaitCancellation::Dropped, "The operation was dropped while it waited for a connection"),
    ] {
        let now = Instant::now();
        let (mut pool, mut effects) = pool_of(&ConnectionPoolOptions::default(), false);
        pool.ready(now, &mut effects);
        let CheckOutResult::Wait(waiter) = pool.check_out(now, &mut effects) else { panic!() };
        effects.clear();
        assert!(pool.cancel(waiter, why, now, &mut effects));
        assert_eq!(logged(&mut effects)[0].text("reason"), reason);
    }
}

#[test]
fn pool_cleared_is_logged_with_its_service_id() {
    let now = Instant::now();
    let (mut pool, mut effects) = pool_of(&ConnectionPoolOptions::default(), false);
    pool.ready(now, &mut effects);
    effects.clear();
    pool.clear(ClearRequest::default(), now, &mut effects);
    expect_connection(&logged(&mut effects)[0], "Connection pool cleared", &[]);

    let (mut pool, mut effects) = pool_of(&ConnectionPoolOptions::default(), true);
    pool.ready(now, &mut effects);
    effects.clear();
    let service_id = Some(ObjectId::from_bytes([9; 12]));
    pool.clear(ClearRequest { service_id, ..ClearRequest::default() }, now, &mut effects);
    let captured = logged(&mut effects).remove(0);
    expect_connection(&captured, "Connection pool cleared", &["serviceId"]);
    assert_eq!(captured.text("serviceId"), "090909090909090909090909");
}

fn logged_topology(events: &[SdamEvent]) -> Vec<Captured> {
    capture(Level::DEBUG, || {
        for event in events {
            topology(event, id(), None);
        }
    })
}

fn emitted(effects: Vec<sdam::TopologyEffect>) -> Vec<SdamEvent> {
    let events = effects.into_iter().filter_map(|effect| match effect {
        sdam::TopologyEffect::Emit(event) => Some(event.into()),
        _ => None,
    });
    events.collect()
}

#[test]
fn topology_lifecycle_is_logged() {
    let now = Instant::now();
    let settings = TopologySettings::discovering(id(), vec![address()]);
    let (mut deployment, effects) = sdam::Topology::new(settings, now);
    let mut events = emitted(effects);
    events.extend(emitted(deployment.apply(TopologyInput::Close, now)));
    let captured = logged_topology(&events);
    let server = ["serverHost", "serverPort"];
    let change = ["previousDescription", "newDescription"];
    for (captured, (message, keys)) in captured.iter().zip([
        ("Starting topology monitoring", &[][..]),
        ("Topology description changed", &change),
        ("Starting server monitoring", &server),
        ("Stopped server monitoring", &server),
        ("Topology description changed", &change),
        ("Stopped topology monitoring", &[]),
    ]) {
        expect(captured, "steadfast::topology", message, keys);
    }
    assert_eq!(captured.len(), 6, "{:?}", messages(&captured));
    assert_eq!(
        captured[1].text("newDescription"),
        "{ Type: Unknown, Servers: [ { Address: db.example:27017, Type: Unknown } ] }"
    );
    assert_eq!(captured[1].text("previousDescription"), "{ Type: Unknown, Servers: [] }");
}

#[test]
fn heartbeats_are_logged() {
    let mut heartbeat = Heartbeat {
        server_address: address(),
        awaited: false,
        driver_connection_id: 4,
        server_connection_id: None,
    };
    let started = heartbeat.started();
    heartbeat.awaited = true;
    heartbeat.server_connection_id = Some(5);
    let answered = heartbeat.succeeded(Duration::from_millis(3), doc! { "ok": 1.0 });
    let refused = heartbeat.failed(Duration::from_millis(3), Error::authentication("no"));
    let captured = logged_topology(&[started, answered, refused]);
    let common = ["serverHost", "serverPort", "driverConnectionId", "awaited"];
    let target = "steadfast::topology";
    expect(&captured[0], target, "Server heartbeat started", &common);
    assert_eq!(captured[0].fields["awaited"], Value::Boolean(false));
    let keys = [&common[..], &["serverConnectionId", "durationMS", "reply"]].concat();
    expect(&captured[1], target, "Server heartbeat succeeded", &keys);
    assert_eq!(captured[1].text("reply"), r#"{"ok": 1.0}"#);
    assert_eq!(captured[1].fields["awaited"], Value::Boolean(true));
    let keys = [&common[..], &["serverConnectionId", "durationMS", "failure"]].concat();
    expect(&captured[2], target, "Server heartbeat failed", &keys);
    assert_eq!(captured[2].text("failure"), "authentication failed: no");
}

const FIND: Operation<'_> = Operation { name: "find", id: 12 };
const OF_SELECTION: [&str; 4] = ["selector", "operation", "operationId", "topologyDescription"];

fn expect_selection(captured: &Captured, message: &str, own: &[&str]) {
    let keys = [own, &OF_SELECTION].concat();
    expect(captured, "steadfast::server_selection", message, &keys);
    assert_eq!(captured.text("operation"), "find");
    assert_eq!(captured.fields["operationId"], Value::from(12));
    assert_eq!(captured.text("topologyDescription"), "{ Type: Unknown, Servers: [] }");
}

#[test]
fn server_selection_is_logged() {
    let criteria = SelectionCriteria::default();
    let target = SelectionTarget::Read(&criteria);
    let captured = capture_one(|| selection_started(id(), FIND, target, Arc::default));
    expect_selection(&captured, "Server selection started", &[]);
    assert_eq!(captured.text("selector"), "read preference primary");

    let known = TopologyDescription::default();
    let captured =
        capture_one(|| selection_succeeded(id(), FIND, SelectionTarget::Write, &address(), &known));
    expect_selection(&captured, "Server selection succeeded", &["serverHost", "serverPort"]);
    assert_eq!(captured.text("selector"), "writable server");

    let message = "no primary: a:27017 is RSSecondary".to_owned();
    let error = Error::new(ErrorKind::ServerSelection { message });
    let captured = capture_one(|| selection_failed(id(), FIND, target, &error, Arc::default));
    expect_selection(&captured, "Server selection failed", &["failure"]);
    // The specification: the error does not repeat the topology description.
    assert!(!captured.text("failure").contains("RSSecondary"));

    let closed = Error::new(ErrorKind::Shutdown);
    let captured = capture_one(|| selection_failed(id(), FIND, target, &closed, Arc::default));
    assert_eq!(captured.text("failure"), "the client was shut down; create a new one");
}

#[test]
fn waiting_for_a_server_is_logged_at_level_info() {
    let left = Duration::from_millis(1999);
    let captured = capture(Level::INFO, || {
        selection_started(id(), FIND, SelectionTarget::Write, || panic!("nobody reads it"));
        selection_waits(id(), FIND, SelectionTarget::Write, left, Arc::default);
    });
    let [waits] = &captured[..] else { panic!("{captured:?}") };
    assert_eq!(waits.level, Level::INFO);
    assert_eq!(waits.text("message"), "Waiting for suitable server to become available");
    assert_eq!(waits.fields["remainingTimeMS"], Value::from(1999));
    assert_eq!(waits.keys().len(), OF_SELECTION.len() + 3);
}

#[test]
fn messages_are_not_formatted_without_a_subscriber() {
    let captured = capture(Level::ERROR, || {
        assert!(
            !command_logging_enabled()
                && !connection_logging_enabled()
                && !topology_logging_enabled()
        );
        let never = || -> Arc<TopologyDescription> { panic!("nobody reads it") };
        let error = Error::new(ErrorKind::Shutdown);
        selection_started(id(), FIND, SelectionTarget::Write, never);
        selection_waits(id(), FIND, SelectionTarget::Write, Duration::ZERO, never);
        selection_failed(id(), FIND, SelectionTarget::Write, &error, never);
        command(&started(doc! {}, through("a")), id(), None);
    });
    assert!(captured.is_empty());
}
