//! Rules of the topology, one by one. The specification's test files run in the conformance crate.

use std::time::{Duration, Instant};

use bson::{RawDocumentBuf, doc, oid::ObjectId};

use super::*;
use crate::{
    description::{ServerType, TopologyVersion},
    event::sdam::SdamEvent,
    hello::HelloReply,
};

const MS: Duration = Duration::from_millis(1);

fn address(text: &str) -> ServerAddress {
    ServerAddress::parse(text).unwrap()
}

fn reply(document: bson::Document) -> HelloReply {
    let mut document = document;
    document.insert("ok", 1);
    document.insert("maxWireVersion", 21);
    HelloReply::parse(&RawDocumentBuf::try_from(&document).unwrap()).unwrap()
}

fn version(counter: i64) -> TopologyVersion {
    TopologyVersion { process_id: ObjectId::from_bytes([9; 12]), counter }
}

/// A topology with a manual clock.
struct TestTopology {
    topology: Topology,
    opening: Vec<TopologyEffect>,
    now: Instant,
}

impl TestTopology {
    fn new(settings: TopologySettings) -> Self {
        let now = Instant::now();
        let (topology, opening) = Topology::new(settings, now);
        Self { topology, opening, now }
    }

    fn discovering(seeds: &[&str]) -> Self {
        let seeds = seeds.iter().map(|seed| address(seed));
        Self::new(TopologySettings::discovering(ObjectId::new(), seeds))
    }

    /// Creates a replica set with the primary `a` and the secondary `b`.
    fn replica_set() -> Self {
        let mut topology = Self::discovering(&["a", "b"]);
        let hosts = ["a:27017", "b:27017"];
        topology.heartbeat(
            "a",
            doc! {
                "setName": "rs", "isWritablePrimary": true, "hosts": &hosts[..],
                "topologyVersion": {"processId": version(1).process_id, "counter": 1_i64},
            },
        );
        topology.heartbeat("b", doc! {"setName": "rs", "secondary": true, "hosts": &hosts[..]});
        topology
    }

    fn load_balanced() -> Self {
        Self::new(TopologySettings::load_balanced(ObjectId::new(), address("a")))
    }

    fn apply(&mut self, input: TopologyInput) -> Vec<TopologyEffect> {
        self.now += MS;
        self.topology.apply(input, self.now)
    }

    fn heartbeat(&mut self, server: &str, document: bson::Document) -> Vec<TopologyEffect> {
        let outcome = Ok(CheckSuccess { reply: reply(document), round_trip: Some(5 * MS) });
        self.apply(TopologyInput::Heartbeat { address: address(server), outcome })
    }

    fn heartbeat_fails(&mut self, server: &str, kind: CheckFailureKind) -> Vec<TopologyEffect> {
        let outcome = Err(CheckFailure { kind, message: "no answer".to_owned() });
        self.apply(TopologyInput::Heartbeat { address: address(server), outcome })
    }

    fn operation_fails(&mut self, server: &str, error: ApplicationError) -> Vec<TopologyEffect> {
        self.apply(TopologyInput::OperationError { address: address(server), error })
    }

    fn server(&self, server: &str) -> &ServerDescription {
        &self.topology.description().servers[&address(server)]
    }

    fn kind(&self) -> TopologyType {
        self.topology.description().topology_type
    }
}

fn error(phase: ConnectionPhase, cause: ApplicationErrorKind) -> ApplicationError {
    ApplicationError {
        phase,
        cause,
        message: "it broke".to_owned(),
        generation: 0,
        service_id: None,
        overloaded: false,
    }
}

fn command(code: i32, topology_version: Option<TopologyVersion>) -> ApplicationErrorKind {
    let message = "a message".to_owned();
    ApplicationErrorKind::Command(CommandFailure { code: Some(code), message, topology_version })
}

/// Describes effects in short.
fn names(effects: &[TopologyEffect]) -> Vec<String> {
    effects
        .iter()
        .map(|effect| match effect {
            TopologyEffect::AddServer(server) => format!("add {}", server.host()),
            TopologyEffect::RemoveServer(server) => format!("remove {}", server.host()),
            TopologyEffect::ReadyPool(server) => format!("ready {}", server.host()),
            TopologyEffect::ClearPool { address, generation, interrupt_in_use, service_id } => {
                let service = if service_id.is_some() { " service" } else { "" };
                let interrupt = if *interrupt_in_use { " interrupting" } else { "" };
                format!("clear {}{service} to {generation}{interrupt}", address.host())
            }
            TopologyEffect::Preconnect(server) => format!("expect {}", server.host()),
            TopologyEffect::CheckNow(server) => format!("check {}", server.host()),
            TopologyEffect::CancelCheck(server) => format!("cancel {}", server.host()),
            TopologyEffect::Publish(_) => "publish".to_owned(),
            TopologyEffect::Emit(event) => match event {
                SdamEvent::ServerDescriptionChanged(event) => {
                    format!("changed {}", event.address.host())
                }
                SdamEvent::ServerOpening(event) => format!("opening {}", event.address.host()),
                SdamEvent::ServerClosed(event) => format!("closed {}", event.address.host()),
                SdamEvent::TopologyDescriptionChanged(_) => "changed topology".to_owned(),
                SdamEvent::TopologyOpening(_) => "opening topology".to_owned(),
                SdamEvent::TopologyClosed(_) => "closed topology".to_owned(),
            },
        })
        .collect()
}

#[test]
fn server_events_and_effects_have_the_documented_order() {
    let mut topology = TestTopology::discovering(&["a"]);
    assert_eq!(
        names(&topology.opening),
        ["opening topology", "changed topology", "opening a", "add a", "publish"]
    );
    let hosts = ["a:27017", "b:27017"];
    let effects = topology
        .heartbeat("a", doc! {"setName": "rs", "isWritablePrimary": true, "hosts": &hosts[..]});
    assert_eq!(
        names(&effects),
        ["changed a", "opening b", "add b", "ready a", "publish", "changed topology"]
    );
}

#[test]
fn equal_description_is_published_without_an_event() {
    let mut topology = TestTopology::discovering(&["a"]);
    topology.heartbeat("a", doc! {});
    assert_eq!(names(&topology.heartbeat("a", doc! {})), ["ready a", "publish"]);
}

#[test]
fn load_balancer_is_ready_at_once_and_never_monitored() {
    let mut topology = TestTopology::load_balanced();
    assert_eq!(
        names(&topology.opening),
        [
            "opening topology",
            "changed topology",
            "opening a",
            "add a",
            "changed a",
            "ready a",
            "publish",
            "changed topology"
        ]
    );
    assert!(!topology.topology.is_monitored());
    assert!(topology.heartbeat("a", doc! {}).is_empty());
    assert!(topology.heartbeat_fails("a", CheckFailureKind::Network).is_empty());
    assert!(topology.apply(TopologyInput::NoSuitableServer).is_empty());
    assert_eq!(topology.server("a").server_type, ServerType::LoadBalancer);
}

#[test]
fn failed_check_clears_the_pool_after_publishing_unknown() {
    let mut topology = TestTopology::replica_set();
    assert_eq!(
        names(&topology.heartbeat_fails("a", CheckFailureKind::Network)),
        ["changed a", "publish", "clear a to 1", "changed topology"]
    );
    assert_eq!(topology.kind(), TopologyType::ReplicaSetNoPrimary);
    assert_eq!(topology.server("a").error.as_deref(), Some("no answer"));
    let effects = topology.heartbeat_fails("a", CheckFailureKind::NetworkTimeout);
    assert_eq!(names(&effects), ["publish", "clear a to 2 interrupting"]);
}

#[test]
fn hello_command_error_is_a_failed_check() {
    let mut topology = TestTopology::replica_set();
    let reply = RawDocumentBuf::try_from(&doc! {"ok": 0, "errmsg": "no", "code": 5}).unwrap();
    let reply = HelloReply::parse(&reply).unwrap();
    let outcome = Ok(CheckSuccess { reply, round_trip: Some(MS) });
    let effects = topology.apply(TopologyInput::Heartbeat { address: address("b"), outcome });
    assert!(names(&effects).contains(&"clear b to 1".to_owned()));
    assert_eq!(topology.server("b").error.as_deref(), Some("hello failed: no (code 5)"));
}

#[test]
fn clearing_makes_the_failed_connection_stale() {
    // pitfall 25: the connection is stale, whether the pool is cleared or the connection checked in
    // first. Errors of other connections do not clear the pool a second time.
    let mut topology = TestTopology::replica_set();
    let broken = error(ConnectionPhase::Established, ApplicationErrorKind::Network);
    let effects = topology.operation_fails("a", broken.clone());
    assert_eq!(
        names(&effects),
        ["changed a", "publish", "clear a to 1", "changed topology", "cancel a"]
    );
    assert!(topology.topology.generation(&address("a"), None).unwrap() > broken.generation);
    assert!(topology.operation_fails("a", broken).is_empty());
}

#[test]
fn overload_error_while_connecting_does_not_change_the_topology() {
    // pitfall 34
    let mut topology = TestTopology::replica_set();
    for phase in [ConnectionPhase::Connecting, ConnectionPhase::Authenticating] {
        for cause in [
            ApplicationErrorKind::Network,
            ApplicationErrorKind::NetworkTimeout,
            command(462, None),
            ApplicationErrorKind::Other,
        ] {
            let overloaded = ApplicationError { overloaded: true, ..error(phase, cause) };
            assert!(topology.operation_fails("a", overloaded).is_empty());
        }
    }
    assert_eq!(topology.server("a").server_type, ServerType::RsPrimary);
}

#[test]
fn other_connect_error_clears_the_pool() {
    for phase in [ConnectionPhase::Connecting, ConnectionPhase::Authenticating] {
        for cause in [
            ApplicationErrorKind::Network,
            ApplicationErrorKind::NetworkTimeout,
            command(18, None),
            ApplicationErrorKind::Other,
        ] {
            let mut topology = TestTopology::replica_set();
            let effects = names(&topology.operation_fails("a", error(phase, cause)));
            assert!(effects.contains(&"clear a to 1".to_owned()));
            assert!(effects.contains(&"cancel a".to_owned()));
            assert_eq!(topology.server("a").server_type, ServerType::Unknown);
        }
    }
}

#[test]
fn operation_timeouts_and_errors_do_not_change_the_topology() {
    let mut topology = TestTopology::replica_set();
    for cause in
        [ApplicationErrorKind::NetworkTimeout, command(11000, None), ApplicationErrorKind::Other]
    {
        assert!(
            topology.operation_fails("a", error(ConnectionPhase::Established, cause)).is_empty()
        );
    }
}

#[test]
fn primary_that_steps_down_is_checked_and_keeps_its_pool() {
    let mut topology = TestTopology::replica_set();
    let cause = command(10107, Some(version(2)));
    let effects = topology.operation_fails("a", error(ConnectionPhase::Established, cause));
    assert_eq!(names(&effects), ["changed a", "publish", "changed topology", "check a"]);
    assert_eq!(topology.server("a").topology_version, Some(version(2)));
}

#[test]
fn shutdown_error_clears_the_pool() {
    let mut topology = TestTopology::replica_set();
    let effects =
        topology.operation_fails("a", error(ConnectionPhase::Established, command(91, None)));
    assert_eq!(
        names(&effects),
        ["changed a", "publish", "clear a to 1", "changed topology", "check a"]
    );
}

#[test]
fn input_with_an_older_topology_version_is_ignored() {
    let mut topology = TestTopology::replica_set();
    for counter in [0, 1] {
        let cause = command(10107, Some(version(counter)));
        assert!(
            topology.operation_fails("a", error(ConnectionPhase::Established, cause)).is_empty()
        );
    }
    let cause = command(10107, Some(version(2)));
    topology.operation_fails("a", error(ConnectionPhase::Established, cause));
    // A reply from before the error.
    let late = doc! {
        "setName": "rs", "isWritablePrimary": true, "hosts": ["a:27017", "b:27017"],
        "topologyVersion": {"processId": version(1).process_id, "counter": 1_i64},
    };
    assert!(topology.heartbeat("a", late).is_empty());
    assert_eq!(topology.server("a").server_type, ServerType::Unknown);
}

#[test]
fn error_behind_a_load_balancer_clears_only_its_service() {
    let mut topology = TestTopology::load_balanced();
    let service_id = Some(ObjectId::from_bytes([1; 12]));
    let of_service = |error| ApplicationError { service_id, ..error };
    let connecting = error(ConnectionPhase::Connecting, ApplicationErrorKind::Network);
    let authenticating = error(ConnectionPhase::Authenticating, ApplicationErrorKind::Network);
    let nameless = error(ConnectionPhase::Established, ApplicationErrorKind::Network);
    let not_primary = error(ConnectionPhase::Established, command(10107, None));
    let shutdown = ApplicationError {
        generation: 1,
        ..of_service(error(ConnectionPhase::Established, command(91, None)))
    };
    assert!(topology.operation_fails("a", of_service(connecting)).is_empty());
    assert!(topology.operation_fails("a", nameless).is_empty());
    assert!(topology.operation_fails("a", of_service(not_primary)).is_empty());
    let effects = topology.operation_fails("a", of_service(authenticating.clone()));
    assert_eq!(names(&effects), ["clear a service to 1"]);
    assert!(topology.operation_fails("a", of_service(authenticating)).is_empty());
    assert_eq!(names(&topology.operation_fails("a", shutdown)), ["clear a service to 2"]);
    assert_eq!(topology.topology.generation(&address("a"), None), Some(0));
    assert_eq!(topology.server("a").server_type, ServerType::LoadBalancer);
}

#[test]
fn replaced_primary_is_checked_at_once_and_keeps_its_pool() {
    let mut topology = TestTopology::replica_set();
    let hosts = ["a:27017", "b:27017"];
    let effects = topology
        .heartbeat("b", doc! {"setName": "rs", "isWritablePrimary": true, "hosts": &hosts[..]});
    assert_eq!(
        names(&effects),
        ["changed a", "changed b", "ready b", "publish", "changed topology", "check a"]
    );
    assert_eq!(topology.topology.description().primary().unwrap().address, address("b"));
}

#[test]
fn inputs_of_a_removed_server_are_ignored() {
    let mut topology = TestTopology::replica_set();
    let hosts = ["a:27017"];
    let effects = topology
        .heartbeat("a", doc! {"setName": "rs", "isWritablePrimary": true, "hosts": &hosts[..]});
    assert_eq!(
        names(&effects),
        ["changed a", "ready a", "publish", "closed b", "remove b", "changed topology"]
    );
    assert!(topology.heartbeat("b", doc! {}).is_empty());
    assert!(topology.heartbeat_fails("b", CheckFailureKind::Network).is_empty());
    assert!(
        topology
            .operation_fails(
                "b",
                error(ConnectionPhase::Established, ApplicationErrorKind::Network)
            )
            .is_empty()
    );
    assert!(
        topology.apply(TopologyInput::RoundTrip { address: address("b"), sample: MS }).is_empty()
    );
}

#[test]
fn round_trip_average_survives_type_changes_and_is_hidden_while_unknown() {
    let mut topology = TestTopology::replica_set();
    let average = |topology: &TestTopology| topology.server("b").average_round_trip_time;
    let measure = |topology: &mut TestTopology, sample| {
        topology.apply(TopologyInput::RoundTrip { address: address("b"), sample })
    };
    assert_eq!(average(&topology), Some(5 * MS));
    assert_eq!(names(&measure(&mut topology, 10 * MS)), ["publish"]);
    assert_eq!(average(&topology), Some(6 * MS));
    assert_eq!(topology.server("b").min_round_trip_time, Some(5 * MS));

    // An operation error hides the average until the next heartbeat.
    topology.operation_fails("b", error(ConnectionPhase::Established, command(11602, None)));
    assert_eq!(average(&topology), None);
    let outcome = Ok(CheckSuccess { reply: reply(doc! {"setName": "rs"}), round_trip: None });
    topology.apply(TopologyInput::Heartbeat { address: address("b"), outcome });
    assert_eq!(topology.server("b").server_type, ServerType::RsOther);
    assert_eq!(average(&topology), Some(6 * MS));

    // A failed check removes the samples.
    topology.heartbeat_fails("b", CheckFailureKind::Network);
    assert!(measure(&mut topology, 90 * MS).is_empty());
    topology.heartbeat_fails("b", CheckFailureKind::Network);
    topology.heartbeat("b", doc! {"setName": "rs", "secondary": true});
    assert_eq!(average(&topology), Some(5 * MS));
}

#[test]
fn srv_polling_adds_and_removes_only_changed_mongos() {
    let mut topology = TestTopology::discovering(&["a", "b"]);
    topology.heartbeat("a", doc! {"msg": "isdbgrid"});
    topology.heartbeat("b", doc! {"msg": "isdbgrid"});
    assert!(topology.topology.polls_srv_records());
    let hosts =
        |hosts: &[&str]| TopologyInput::SrvHosts(hosts.iter().map(|host| address(host)).collect());
    let effects = topology.apply(hosts(&["c", "b"]));
    assert_eq!(
        names(&effects),
        ["opening c", "add c", "publish", "closed a", "remove a", "changed topology"]
    );
    assert_eq!(topology.server("b").server_type, ServerType::Mongos);
    assert!(topology.apply(hosts(&["b", "c"])).is_empty());
    assert!(topology.apply(hosts(&[])).is_empty());

    let mut topology = TestTopology::replica_set();
    assert!(!topology.topology.polls_srv_records());
    assert!(topology.apply(hosts(&["c"])).is_empty());
}

#[test]
fn srv_polling_respects_srv_max_hosts() {
    let settings = TopologySettings::discovering(ObjectId::new(), [address("a"), address("b")]);
    let mut topology = TestTopology::new(settings.srv_max_hosts(Some(2)));
    topology.apply(TopologyInput::SrvHosts(["d", "b", "c"].map(address).into()));
    let servers: Vec<String> =
        topology.topology.description().servers.keys().map(|server| server.host().into()).collect();
    assert_eq!(servers, ["b", "d"]);
}

#[test]
fn srv_rescan_interval_is_at_least_a_minute_after_success() {
    let seconds = Duration::from_secs;
    assert_eq!(rescan_interval(Some(seconds(5)), seconds(10)), seconds(60));
    assert_eq!(rescan_interval(Some(seconds(90)), seconds(10)), seconds(90));
    assert_eq!(rescan_interval(None, seconds(10)), seconds(10));
}

#[test]
fn failed_selection_requests_checks_of_all_servers() {
    let mut topology = TestTopology::discovering(&["b", "a"]);
    assert_eq!(names(&topology.apply(TopologyInput::NoSuitableServer)), ["check a", "check b"]);
}

#[test]
fn closed_topology_ignores_inputs() {
    let mut topology = TestTopology::replica_set();
    assert_eq!(
        names(&topology.apply(TopologyInput::Close)),
        [
            "publish",
            "closed a",
            "remove a",
            "closed b",
            "remove b",
            "changed topology",
            "closed topology"
        ]
    );
    assert_eq!(topology.kind(), TopologyType::Unknown);
    assert!(topology.apply(TopologyInput::Close).is_empty());
    assert!(topology.heartbeat("a", doc! {}).is_empty());
}

#[test]
fn direct_connection_to_another_replica_set_is_unknown_with_an_error() {
    let settings = TopologySettings::direct(ObjectId::new(), address("a"));
    let mut topology = TestTopology::new(settings.replica_set(Some("wanted".to_owned())));
    let effects = topology.heartbeat("a", doc! {"setName": "other", "secondary": true});
    assert!(!names(&effects).contains(&"ready a".to_owned()));
    let error = topology.server("a").error.as_deref().unwrap();
    assert!(error.contains("\"other\"") && error.contains("\"wanted\""), "{error}");
}

#[test]
fn incompatible_server_is_named_with_the_required_version() {
    let mut topology = TestTopology::discovering(&["a"]);
    let mut old = reply(doc! {});
    old.max_wire_version = 7;
    let outcome = Ok(CheckSuccess { reply: old, round_trip: None });
    topology.apply(TopologyInput::Heartbeat { address: address("a"), outcome });
    assert_eq!(
        topology.topology.description().compatibility_error.as_deref(),
        Some(
            "Server at a:27017 reports wire version 7, but this version of Steadfast requires at \
             least 8 (MongoDB 4.2)."
        )
    );
}

#[test]
fn elected_member_preconnects_before_it_accepts_writes() {
    let mut topology = TestTopology::replica_set();
    let hosts = ["a:27017", "b:27017"];
    let elected = |primary: &str| {
        doc! {"setName": "rs", "secondary": true, "hosts": &hosts[..], "primary": primary}
    };
    let expects = |effects: &[TopologyEffect]| names(effects).contains(&"expect b".to_owned());
    // With a primary, no operation waits for one.
    assert!(!expects(&topology.heartbeat("b", elected("b:27017"))));
    topology.heartbeat("a", doc! {"setName": "rs", "secondary": true, "hosts": &hosts[..]});
    assert_eq!(topology.kind(), TopologyType::ReplicaSetNoPrimary);
    assert!(!expects(&topology.heartbeat("b", elected("a:27017"))), "it names another");
    let effects = names(&topology.heartbeat("b", elected("b:27017")));
    assert_eq!(effects[1..4], ["ready b", "publish", "expect b"], "{effects:?}");
    let writable = doc! {"setName": "rs", "isWritablePrimary": true, "hosts": &hosts[..], "primary": "b:27017"};
    assert!(!expects(&topology.heartbeat("b", writable)));
}
