//! Scenarios of the test plan.

use std::time::Instant;

use steadfast::options::{ReadPreference, SelectionCriteria};

use super::*;
use crate::common::{Role, Server, Step};

#[tokio::test]
async fn prose_1_a_client_is_created_without_a_reachable_server() {
    // The bound socket reserves the port.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let reserved = socket.local_addr().unwrap();
    let mut options = ClientOptions::parse(format!("mongodb://{reserved}")).await.unwrap();
    options.server_selection_timeout = Some(Duration::from_millis(100));
    let client = Client::with_options(options).expect("a client");
    let admin = client.database("admin");
    let error = bounded(admin.run_command(doc! { "ping": 1 })).await.unwrap_err();
    assert!(error.is_server_selection_error(), "{error:?}");
}

#[tokio::test]
async fn prose_2_a_network_error_marks_the_primary_unknown_without_an_immediate_check() {
    testbed::require!(V6_0);
    let app_name = "discovery, prose 2";
    let point = FailPoint::reserve(vec![members().0], app_name).await;
    let primary = address(point.members[0]);
    let heartbeat = Duration::from_millis(1_500);
    let checks = Recorder::new();
    let observed = ProseClient::new(app_name, |options| {
        options.retry_writes = Some(false);
        options.heartbeat_freq = Some(heartbeat);
        options.sdam_event_handler = record_checks(options.sdam_event_handler.take(), &checks);
    })
    .await;
    point.set(1, doc! { "failCommands": ["insert"], "closeConnection": true });
    let of_primary = |check: &Check| check.0 == primary;
    all_known(&observed, 3).await;
    let earlier = checks.seen().into_iter().filter(of_primary).count();
    // An awaitable check that has just begun: the next is far in the future.
    checks.wait_for(earlier + 1, of_primary).await;
    let numbers = observed.collection("discovery_prose_2");
    let (before, after, topology) = fail_and_observe(&observed, numbers.insert_one(doc! {})).await;
    assert_eq!(before.server_type, ServerType::RsPrimary);
    assert_eq!(after.server_type, ServerType::Unknown);
    assert_eq!(topology, TopologyType::ReplicaSetNoPrimary);
    checks.wait_for(earlier + 2, of_primary).await;
    // An immediate check begins within half a second.
    let begun: Vec<_> = checks.seen().into_iter().filter(of_primary).map(|it| it.1).collect();
    let pause = begun[earlier + 1] - begun[earlier];
    assert!(pause > heartbeat * 3 / 4, "{pause:?}");
}

/// Check of a server, and its start time.
type Check = (ServerAddress, Instant);

/// Creates a handler that records the start of checks, and passes all events on.
fn record_checks(
    to: Option<EventHandler<SdamEvent>>,
    checks: &Recorder<Check>,
) -> Option<EventHandler<SdamEvent>> {
    let Some(EventHandler::Callback(to)) = to else { unreachable!("a recorder's") };
    let EventHandler::Callback(note) = checks.handler() else { unreachable!("a recorder's") };
    Some(EventHandler::callback(move |event| {
        if let SdamEvent::ServerHeartbeatStarted(event) = &event {
            note((event.server_address.clone(), Instant::now()));
        }
        to(event);
    }))
}

/// Not with a fail point: its errors have the current `topologyVersion`, so they are stale.
#[tokio::test]
async fn prose_3_not_writable_primary_in_reply_to_a_read_marks_the_server_unknown() {
    testbed::require!(V6_0);
    let set = ReplicaSet::start(1, Options::new()).expect("a replica set");
    let observed = ProseClient::at(&set.uri(), "discovery, prose 3", |options| {
        options.retry_reads = Some(false);
        options.server_monitoring_mode = Some(ServerMonitoringMode::Poll);
        options.heartbeat_freq = Some(LONG_HEARTBEAT);
    })
    .await;
    all_known(&observed, 1).await;
    set.step_down().expect("a primary to step down");
    let numbers = observed.collection("numbers");
    let (before, after, topology) = fail_and_observe(&observed, numbers.find_one(doc! {})).await;
    assert_eq!(before.server_type, ServerType::RsPrimary);
    assert_eq!(after.server_type, ServerType::Unknown);
    assert_eq!(topology, TopologyType::ReplicaSetNoPrimary);
}

#[tokio::test]
async fn prose_4_node_is_recovering_marks_the_secondary_unknown_and_checks_it_at_once() {
    testbed::require!(V6_0);
    let options = Options::new().election_timeout(Duration::from_secs(10));
    let set = ReplicaSet::start(2, options).expect("a replica set");
    let observed = ProseClient::at(&set.uri(), "discovery, prose 4", |options| {
        let preference = ReadPreference::secondary(None);
        options.selection_criteria = Some(SelectionCriteria::from(preference));
        options.retry_reads = Some(false);
        options.server_monitoring_mode = Some(ServerMonitoringMode::Poll);
        options.heartbeat_freq = Some(LONG_HEARTBEAT);
    })
    .await;
    all_known(&observed, 2).await;
    let secondary = 1 - set.wait_for_primary().expect("a primary");
    set.run_command(secondary, "admin", doc! { "replSetMaintenance": true }).expect("recovering");
    let numbers = observed.collection("numbers");
    let (before, after, topology) = fail_and_observe(&observed, numbers.find_one(doc! {})).await;
    assert_eq!(before.server_type, ServerType::RsSecondary);
    assert_eq!(after.server_type, ServerType::Unknown);
    assert_eq!(topology, TopologyType::ReplicaSetWithPrimary);
    observed.servers.wait_for(1, |event| found(event, &after.address, ServerType::RsOther)).await;
}

#[tokio::test]
async fn prose_5_shutdown_in_a_write_concern_error_marks_the_primary_unknown_and_checks_it_at_once()
{
    testbed::require!(V6_0);
    let app_name = "discovery, prose 5";
    let shutdown = doc! { "code": 91, "errmsg": "Replication is being shut down" };
    let data = doc! { "failCommands": ["insert"], "writeConcernError": shutdown };
    let point = FailPoint::on_primary(1, data, app_name).await;
    let observed = ProseClient::new(app_name, |options| {
        options.retry_writes = Some(false);
        options.server_monitoring_mode = Some(ServerMonitoringMode::Poll);
        options.heartbeat_freq = Some(LONG_HEARTBEAT);
    })
    .await;
    all_known(&observed, 3).await;
    let numbers = observed.collection("discovery_prose_5");
    let (before, after, topology) = fail_and_observe(&observed, numbers.insert_one(doc! {})).await;
    let primary = address(point.members[0]);
    assert_eq!((&before.address, before.server_type), (&primary, ServerType::RsPrimary));
    assert_eq!(after.server_type, ServerType::Unknown);
    assert_eq!(topology, TopologyType::ReplicaSetNoPrimary);
    observed.servers.wait_for(2, |event| found(event, &primary, ServerType::RsPrimary)).await;
}

/// Without a code, the message is decisive. Server versions without codes send "master" where the plan has
/// "writable primary".
#[tokio::test]
async fn prose_6_state_change_errors_without_a_code_are_detected_by_their_message() {
    for (command, error_reply) in [
        ("insert", doc! { "ok": 0, "errmsg": "not master" }),
        ("insert", doc! { "errmsg": "not master", "ok": 0 }),
        ("count", doc! { "ok": 0, "errmsg": "node is recovering" }),
        ("count", doc! { "errmsg": "not master or secondary; cannot currently read", "ok": 0 }),
    ] {
        let reply = error_reply.clone();
        let server = Server::with_handler(Role::Primary, move |request| {
            (request.name == command).then(|| vec![Step::Reply(reply.clone())])
        });
        let uri = server.uri("replicaSet=set&retryReads=false&retryWrites=false");
        let observed = ProseClient::at(&uri, "discovery, prose 6", |_| ()).await;
        let numbers = observed.collection("numbers");
        let rejected = match command {
            "insert" => bounded(numbers.insert_one(doc! {})).await.map(drop),
            _ => bounded(numbers.estimated_document_count()).await.map(drop),
        };
        assert!(rejected.is_err(), "{error_reply}");
        let is_kept = |event: &SdamEvent| {
            let SdamEvent::ServerDescriptionChanged(event) = event else { return false };
            let described = &event.new_description;
            let said = error_reply.get_str("errmsg").unwrap();
            described.server_type == ServerType::Unknown
                && described.error.as_ref().is_some_and(|error| error.contains(said))
        };
        observed.servers.wait_for(1, is_kept).await;
    }
}

/// Writes with a client whose seed list contains a secondary only.
async fn write_by_secondary(options: &str) -> Result<(), Error> {
    let uri = format!("mongodb://{}/{options}", address(members().1[0]));
    let client = Client::with_uri_str(uri).await.unwrap();
    let numbers = client.database("prose").collection::<Document>("discovery_prose_7");
    bounded(numbers.insert_one(doc! {})).await.map(drop)
}

#[tokio::test]
async fn prose_7_1_a_secondary_as_seed_leads_to_the_primary() {
    testbed::require!(V6_0);
    write_by_secondary("?directConnection=false").await.unwrap();
}

#[tokio::test]
async fn prose_7_2_a_direct_connection_to_a_secondary_rejects_writes() {
    testbed::require!(V6_0);
    let error = write_by_secondary("?directConnection=true").await.unwrap_err();
    assert_eq!(error.code(), Some(10107), "{error:?}");
}

#[tokio::test]
async fn prose_7_3_direct_connection_is_off_by_default() {
    testbed::require!(V6_0);
    write_by_secondary("").await.unwrap();
}

#[tokio::test]
async fn prose_8_failed_checks_are_repeated_after_min_heartbeat_frequency_ms() {
    testbed::require!(V6_0);
    let app_name = "SDAMMinHeartbeatFrequencyTest";
    let data = doc! { "failCommands": ["hello", "isMaster"], "errorCode": 1234 };
    let point = FailPoint::on_primary(5, data, app_name).await;
    let uri = format!("mongodb://{}/?directConnection=true", address(point.members[0]));
    let checks = Recorder::new();
    let observed = ProseClient::at(&uri, app_name, |options| {
        // With the default heartbeat frequency of ten seconds, the checks would be too rare for this time-out.
        options.server_selection_timeout = Some(Duration::from_secs(40));
        options.sdam_event_handler = record_checks(options.sdam_event_handler.take(), &checks);
    })
    .await;
    let admin = observed.client.database("admin");
    bounded(admin.run_command(doc! { "ping": 1 })).await.unwrap();
    let begun: Vec<_> = checks.seen().into_iter().map(|check| check.1).collect();
    assert!(begun.len() >= 6, "five fail");
    let pauses: Vec<_> = begun[..6].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.iter().all(|pause| pause.as_millis() >= 500), "{pauses:?}");
}

#[tokio::test]
async fn prose_9_a_pool_is_ready_after_a_successful_check_and_cleared_after_a_failed_one() {
    testbed::require!(V6_0);
    let app_name = "SDAMPoolManagementTest";
    let point = FailPoint::reserve(vec![members().0], app_name).await;
    let uri = format!("mongodb://{}/?directConnection=true", address(point.members[0]));
    let told = Recorder::new();
    let (of_pools, of_servers) = (told.handler(), told.handler());
    let _watched = ProseClient::at(&uri, app_name, |options| {
        options.heartbeat_freq = Some(Duration::from_millis(500));
        options.cmap_event_handler = Some(translated(of_pools, |event| match event {
            CmapEvent::PoolReady(_) => Some("ready"),
            CmapEvent::PoolCleared(_) => Some("cleared"),
            _ => None,
        }));
        options.sdam_event_handler = Some(translated(of_servers, |event| match event {
            SdamEvent::ServerHeartbeatSucceeded(_) => Some("answered"),
            SdamEvent::ServerHeartbeatFailed(_) => Some("failed"),
            _ => None,
        }));
    })
    .await;
    told.wait_for(1, |event| *event == "ready").await;
    assert_eq!(told.seen()[..2], ["answered", "ready"]);

    let before = told.seen().len();
    point.set(2, doc! { "failCommands": ["hello", "isMaster"], "errorCode": 1234 });
    told.wait_until(|seen| follow(&seen[before..], &["failed", "cleared"])).await;
    let all = ["failed", "cleared", "answered", "ready"];
    told.wait_until(|seen| follow(&seen[before..], &all)).await;
}

/// Creates a handler that records the conversion of events.
fn translated<T: Send + Sync + 'static>(
    to: steadfast::event::EventHandler<&'static str>,
    translate: impl Fn(T) -> Option<&'static str> + Send + Sync + 'static,
) -> steadfast::event::EventHandler<T> {
    let steadfast::event::EventHandler::Callback(to) = to else { unreachable!("a recorder's") };
    steadfast::event::EventHandler::callback(move |event| {
        if let Some(word) = translate(event) {
            to(word);
        }
    })
}

/// Returns `true` if `expected` is a subsequence of `seen`.
fn follow(seen: &[&str], expected: &[&str]) -> bool {
    let mut seen = seen.iter();
    expected.iter().all(|expected| seen.any(|event| event == expected))
}
