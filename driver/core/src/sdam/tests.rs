//! The topology's behaviour, one rule at a time. (The specification's own scripts run in the
//! conformance crate.)

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

/// A topology and its clock.
struct Scene {
    topology: Topology,
    opening: Vec<Effect>,
    now: Instant,
}

impl Scene {
    fn new(settings: TopologySettings) -> Self {
        let now = Instant::now();
        let (topology, opening) = Topology::new(settings, now);
        Self { topology, opening, now }
    }

    fn discovering(seeds: &[&str]) -> Self {
        let seeds = seeds.iter().map(|seed| address(seed));
        Self::new(TopologySettings::discovering(ObjectId::new(), seeds))
    }

    /// A replica set: `a` is its primary, `b` its secondary.
    fn replica_set() -> Self {
        let mut scene = Self::discovering(&["a", "b"]);
        let hosts = ["a:27017", "b:27017"];
        scene.hears(
            "a",
            doc! {
                "setName": "rs", "isWritablePrimary": true, "hosts": hosts,
                "topologyVersion": {"processId": version(1).process_id, "counter": 1_i64},
            },
        );
        scene.hears("b", doc! {"setName": "rs", "secondary": true, "hosts": hosts});
        scene
    }

    fn load_balanced() -> Self {
        Self::new(TopologySettings::load_balanced(ObjectId::new(), address("a")))
    }

    fn apply(&mut self, input: Input) -> Vec<Effect> {
        self.now += MS;
        self.topology.apply(input, self.now)
    }

    fn hears(&mut self, server: &str, document: bson::Document) -> Vec<Effect> {
        let outcome = Ok(Checked { reply: reply(document), round_trip: Some(5 * MS) });
        self.apply(Input::Heartbeat { address: address(server), outcome })
    }

    fn misses(&mut self, server: &str, kind: CheckFailureKind) -> Vec<Effect> {
        let outcome = Err(CheckFailure { kind, message: "no answer".to_owned() });
        self.apply(Input::Heartbeat { address: address(server), outcome })
    }

    fn fails(&mut self, server: &str, error: ApplicationError) -> Vec<Effect> {
        self.apply(Input::OperationError { address: address(server), error })
    }

    fn server(&self, server: &str) -> &ServerDescription {
        &self.topology.description().servers[&address(server)]
    }

    fn kind(&self) -> TopologyType {
        self.topology.description().topology_type
    }
}

fn error(phase: ConnectionPhase, cause: ErrorCause) -> ApplicationError {
    ApplicationError {
        phase,
        cause,
        message: "it broke".to_owned(),
        generation: 0,
        service_id: None,
        overloaded: false,
    }
}

fn command(code: i32, topology_version: Option<TopologyVersion>) -> ErrorCause {
    let message = "a message".to_owned();
    ErrorCause::Command(CommandFailure { code: Some(code), message, topology_version })
}

/// Effects in short: what is done to whom.
fn names(effects: &[Effect]) -> Vec<String> {
    effects
        .iter()
        .map(|effect| match effect {
            Effect::AddServer(server) => format!("add {}", server.host()),
            Effect::RemoveServer(server) => format!("remove {}", server.host()),
            Effect::ReadyPool(server) => format!("ready {}", server.host()),
            Effect::ClearPool { address, generation, interrupt_in_use, service_id } => {
                let service = if service_id.is_some() { " service" } else { "" };
                let interrupt = if *interrupt_in_use { " interrupting" } else { "" };
                format!("clear {}{service} to {generation}{interrupt}", address.host())
            }
            Effect::ExpectOperations(server) => format!("expect {}", server.host()),
            Effect::CheckNow(server) => format!("check {}", server.host()),
            Effect::CancelCheck(server) => format!("cancel {}", server.host()),
            Effect::Publish(_) => "publish".to_owned(),
            Effect::Emit(event) => match event {
                SdamEvent::ServerDescriptionChanged(event) => {
                    format!("changed {}", event.address.host())
                }
                SdamEvent::ServerOpening(event) => format!("opening {}", event.address.host()),
                SdamEvent::ServerClosed(event) => format!("closed {}", event.address.host()),
                SdamEvent::TopologyDescriptionChanged(_) => "changed topology".to_owned(),
                SdamEvent::TopologyOpening(_) => "opening topology".to_owned(),
                SdamEvent::TopologyClosed(_) => "closed topology".to_owned(),
                other => panic!("no event of the topology: {other:?}"),
            },
        })
        .collect()
}

#[test]
fn a_server_is_announced_before_it_is_added_and_its_pool_is_ready_before_it_is_published() {
    let mut scene = Scene::discovering(&["a"]);
    assert_eq!(
        names(&scene.opening),
        ["opening topology", "changed topology", "opening a", "add a", "publish"]
    );
    let hosts = ["a:27017", "b:27017"];
    let effects =
        scene.hears("a", doc! {"setName": "rs", "isWritablePrimary": true, "hosts": hosts});
    assert_eq!(
        names(&effects),
        ["changed a", "opening b", "add b", "ready a", "publish", "changed topology"]
    );
}

#[test]
fn the_same_news_again_is_published_but_is_no_event() {
    let mut scene = Scene::discovering(&["a"]);
    scene.hears("a", doc! {});
    assert_eq!(names(&scene.hears("a", doc! {})), ["ready a", "publish"]);
}

#[test]
fn a_load_balancer_is_ready_from_the_start_and_never_monitored() {
    let mut scene = Scene::load_balanced();
    assert_eq!(
        names(&scene.opening),
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
    assert!(!scene.topology.is_monitored());
    assert!(scene.hears("a", doc! {}).is_empty());
    assert!(scene.misses("a", CheckFailureKind::Network).is_empty());
    assert!(scene.apply(Input::NoSuitableServer).is_empty());
    assert_eq!(scene.server("a").server_type, ServerType::LoadBalancer);
}

#[test]
fn a_failed_check_clears_the_pool_after_the_server_is_published_as_unknown() {
    let mut scene = Scene::replica_set();
    assert_eq!(
        names(&scene.misses("a", CheckFailureKind::Network)),
        ["changed a", "publish", "clear a to 1", "changed topology"]
    );
    assert_eq!(scene.kind(), TopologyType::ReplicaSetNoPrimary);
    assert_eq!(scene.server("a").error.as_deref(), Some("no answer"));
    let effects = scene.misses("a", CheckFailureKind::NetworkTimeout);
    assert_eq!(names(&effects), ["publish", "clear a to 2 interrupting"]);
}

#[test]
fn a_refused_hello_is_a_failed_check() {
    let mut scene = Scene::replica_set();
    let refused = RawDocumentBuf::try_from(&doc! {"ok": 0, "errmsg": "no", "code": 5}).unwrap();
    let reply = HelloReply::parse(&refused).unwrap();
    let outcome = Ok(Checked { reply, round_trip: Some(MS) });
    let effects = scene.apply(Input::Heartbeat { address: address("b"), outcome });
    assert!(names(&effects).contains(&"clear b to 1".to_owned()));
    assert_eq!(scene.server("b").error.as_deref(), Some("hello failed: no (code 5)"));
}

#[test]
fn the_cleared_generation_is_newer_than_that_of_the_failed_connection() {
    // pitfall 25: in whatever order the pool is cleared and the connection given back, the
    // connection is stale; and its fellows' errors do not clear the pool a second time.
    let mut scene = Scene::replica_set();
    let broken = error(ConnectionPhase::Established, ErrorCause::Network);
    let effects = scene.fails("a", broken.clone());
    assert_eq!(
        names(&effects),
        ["changed a", "publish", "clear a to 1", "changed topology", "cancel a"]
    );
    assert!(scene.topology.generation(&address("a"), None).unwrap() > broken.generation);
    assert!(scene.fails("a", broken).is_empty());
}

#[test]
fn a_connection_refused_by_an_overloaded_server_changes_nothing() {
    // pitfall 34
    let mut scene = Scene::replica_set();
    for phase in [ConnectionPhase::Connecting, ConnectionPhase::Authenticating] {
        for cause in
            [ErrorCause::Network, ErrorCause::NetworkTimeout, command(462, None), ErrorCause::Other]
        {
            let overloaded = ApplicationError { overloaded: true, ..error(phase, cause) };
            assert!(scene.fails("a", overloaded).is_empty());
        }
    }
    assert_eq!(scene.server("a").server_type, ServerType::RsPrimary);
}

#[test]
fn a_connection_that_cannot_be_established_for_another_reason_clears_the_pool() {
    for phase in [ConnectionPhase::Connecting, ConnectionPhase::Authenticating] {
        for cause in
            [ErrorCause::Network, ErrorCause::NetworkTimeout, command(18, None), ErrorCause::Other]
        {
            let mut scene = Scene::replica_set();
            let effects = names(&scene.fails("a", error(phase, cause)));
            assert!(effects.contains(&"clear a to 1".to_owned()));
            assert!(effects.contains(&"cancel a".to_owned()));
            assert_eq!(scene.server("a").server_type, ServerType::Unknown);
        }
    }
}

#[test]
fn a_slow_or_failed_operation_says_nothing_of_its_server() {
    let mut scene = Scene::replica_set();
    for cause in [ErrorCause::NetworkTimeout, command(11000, None), ErrorCause::Other] {
        assert!(scene.fails("a", error(ConnectionPhase::Established, cause)).is_empty());
    }
}

#[test]
fn a_stepped_down_primary_is_checked_and_keeps_its_connections() {
    let mut scene = Scene::replica_set();
    let cause = command(10107, Some(version(2)));
    let effects = scene.fails("a", error(ConnectionPhase::Established, cause));
    assert_eq!(names(&effects), ["changed a", "publish", "changed topology", "check a"]);
    assert_eq!(scene.server("a").topology_version, Some(version(2)));
}

#[test]
fn a_server_that_shuts_down_loses_its_connections() {
    let mut scene = Scene::replica_set();
    let effects = scene.fails("a", error(ConnectionPhase::Established, command(91, None)));
    assert_eq!(
        names(&effects),
        ["changed a", "publish", "clear a to 1", "changed topology", "check a"]
    );
}

#[test]
fn news_older_than_what_the_server_told_is_no_news() {
    let mut scene = Scene::replica_set();
    for counter in [0, 1] {
        let cause = command(10107, Some(version(counter)));
        assert!(scene.fails("a", error(ConnectionPhase::Established, cause)).is_empty());
    }
    let cause = command(10107, Some(version(2)));
    scene.fails("a", error(ConnectionPhase::Established, cause));
    // A reply from before the error.
    let late = doc! {
        "setName": "rs", "isWritablePrimary": true, "hosts": ["a:27017", "b:27017"],
        "topologyVersion": {"processId": version(1).process_id, "counter": 1_i64},
    };
    assert!(scene.hears("a", late).is_empty());
    assert_eq!(scene.server("a").server_type, ServerType::Unknown);
}

#[test]
fn behind_a_load_balancer_only_the_failed_service_is_cleared() {
    let mut scene = Scene::load_balanced();
    let service_id = Some(ObjectId::from_bytes([1; 12]));
    let of_service = |error| ApplicationError { service_id, ..error };
    let connecting = error(ConnectionPhase::Connecting, ErrorCause::Network);
    let authenticating = error(ConnectionPhase::Authenticating, ErrorCause::Network);
    let nameless = error(ConnectionPhase::Established, ErrorCause::Network);
    let not_primary = error(ConnectionPhase::Established, command(10107, None));
    let shutdown = ApplicationError {
        generation: 1,
        ..of_service(error(ConnectionPhase::Established, command(91, None)))
    };
    assert!(scene.fails("a", of_service(connecting)).is_empty());
    assert!(scene.fails("a", nameless).is_empty());
    assert!(scene.fails("a", of_service(not_primary)).is_empty());
    let effects = scene.fails("a", of_service(authenticating.clone()));
    assert_eq!(names(&effects), ["clear a service to 1"]);
    assert!(scene.fails("a", of_service(authenticating)).is_empty());
    assert_eq!(names(&scene.fails("a", shutdown)), ["clear a service to 2"]);
    assert_eq!(scene.topology.generation(&address("a"), None), Some(0));
    assert_eq!(scene.server("a").server_type, ServerType::LoadBalancer);
}

#[test]
fn a_deposed_primary_is_checked_at_once_and_keeps_its_pool() {
    let mut scene = Scene::replica_set();
    let hosts = ["a:27017", "b:27017"];
    let effects =
        scene.hears("b", doc! {"setName": "rs", "isWritablePrimary": true, "hosts": hosts});
    assert_eq!(
        names(&effects),
        ["changed a", "changed b", "ready b", "publish", "changed topology", "check a"]
    );
    assert_eq!(scene.topology.description().primary().unwrap().address, address("b"));
}

#[test]
fn nothing_of_a_removed_server_is_heeded() {
    let mut scene = Scene::replica_set();
    let hosts = ["a:27017"];
    let effects =
        scene.hears("a", doc! {"setName": "rs", "isWritablePrimary": true, "hosts": hosts});
    assert_eq!(
        names(&effects),
        ["changed a", "ready a", "publish", "closed b", "remove b", "changed topology"]
    );
    assert!(scene.hears("b", doc! {}).is_empty());
    assert!(scene.misses("b", CheckFailureKind::Network).is_empty());
    assert!(scene.fails("b", error(ConnectionPhase::Established, ErrorCause::Network)).is_empty());
    assert!(scene.apply(Input::RoundTrip { address: address("b"), sample: MS }).is_empty());
}

#[test]
fn round_trips_are_averaged_over_changes_of_type_and_hidden_while_unknown() {
    let mut scene = Scene::replica_set();
    let average = |scene: &Scene| scene.server("b").average_round_trip_time;
    let measure =
        |scene: &mut Scene, sample| scene.apply(Input::RoundTrip { address: address("b"), sample });
    assert_eq!(average(&scene), Some(5 * MS));
    assert_eq!(names(&measure(&mut scene, 10 * MS)), ["publish"]);
    assert_eq!(average(&scene), Some(6 * MS));
    assert_eq!(scene.server("b").min_round_trip_time, Some(5 * MS));

    // An error of an operation hides the average; the next word of the server brings it back.
    scene.fails("b", error(ConnectionPhase::Established, command(11602, None)));
    assert_eq!(average(&scene), None);
    let outcome = Ok(Checked { reply: reply(doc! {"setName": "rs"}), round_trip: None });
    scene.apply(Input::Heartbeat { address: address("b"), outcome });
    assert_eq!(scene.server("b").server_type, ServerType::RsOther);
    assert_eq!(average(&scene), Some(6 * MS));

    // A failed check forgets it.
    scene.misses("b", CheckFailureKind::Network);
    assert!(measure(&mut scene, 90 * MS).is_empty());
    scene.misses("b", CheckFailureKind::Network);
    scene.hears("b", doc! {"setName": "rs", "secondary": true});
    assert_eq!(average(&scene), Some(5 * MS));
}

#[test]
fn dns_adds_and_removes_routers_and_leaves_the_others_alone() {
    let mut scene = Scene::discovering(&["a", "b"]);
    scene.hears("a", doc! {"msg": "isdbgrid"});
    scene.hears("b", doc! {"msg": "isdbgrid"});
    assert!(scene.topology.follows_srv_records());
    let hosts = |hosts: &[&str]| Input::SrvHosts(hosts.iter().map(|host| address(host)).collect());
    let effects = scene.apply(hosts(&["c", "b"]));
    assert_eq!(
        names(&effects),
        ["opening c", "add c", "publish", "closed a", "remove a", "changed topology"]
    );
    assert_eq!(scene.server("b").server_type, ServerType::Mongos);
    assert!(scene.apply(hosts(&["b", "c"])).is_empty());
    assert!(scene.apply(hosts(&[])).is_empty());

    let mut scene = Scene::replica_set();
    assert!(!scene.topology.follows_srv_records());
    assert!(scene.apply(hosts(&["c"])).is_empty());
}

#[test]
fn dns_adds_no_more_hosts_than_wanted() {
    let settings = TopologySettings::discovering(ObjectId::new(), [address("a"), address("b")]);
    let mut scene = Scene::new(settings.srv_max_hosts(Some(2)));
    scene.apply(Input::SrvHosts(["d", "b", "c"].map(address).into()));
    let servers: Vec<String> =
        scene.topology.description().servers.keys().map(|server| server.host().into()).collect();
    assert_eq!(servers, ["b", "d"]);
}

#[test]
fn dns_is_asked_every_minute_at_most_or_every_heartbeat_while_it_fails() {
    let seconds = Duration::from_secs;
    assert_eq!(rescan_interval(Some(seconds(5)), seconds(10)), seconds(60));
    assert_eq!(rescan_interval(Some(seconds(90)), seconds(10)), seconds(90));
    assert_eq!(rescan_interval(None, seconds(10)), seconds(10));
}

#[test]
fn an_operation_that_finds_no_server_has_all_of_them_checked() {
    let mut scene = Scene::discovering(&["b", "a"]);
    assert_eq!(names(&scene.apply(Input::NoSuitableServer)), ["check a", "check b"]);
}

#[test]
fn closing_closes_every_server_and_heeds_nothing_after() {
    let mut scene = Scene::replica_set();
    assert_eq!(
        names(&scene.apply(Input::Close)),
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
    assert_eq!(scene.kind(), TopologyType::Unknown);
    assert!(scene.apply(Input::Close).is_empty());
    assert!(scene.hears("a", doc! {}).is_empty());
}

#[test]
fn a_direct_connection_to_another_replica_set_says_so() {
    let settings = TopologySettings::direct(ObjectId::new(), address("a"));
    let mut scene = Scene::new(settings.replica_set(Some("wanted".to_owned())));
    let effects = scene.hears("a", doc! {"setName": "other", "secondary": true});
    assert!(!names(&effects).contains(&"ready a".to_owned()));
    let error = scene.server("a").error.as_deref().unwrap();
    assert!(error.contains("\"other\"") && error.contains("\"wanted\""), "{error}");
}

#[test]
fn a_server_too_old_is_named_with_the_version_it_needs() {
    let mut scene = Scene::discovering(&["a"]);
    let mut old = reply(doc! {});
    old.max_wire_version = 7;
    let outcome = Ok(Checked { reply: old, round_trip: None });
    scene.apply(Input::Heartbeat { address: address("a"), outcome });
    assert_eq!(
        scene.topology.description().compatibility_error.as_deref(),
        Some(
            "Server at a:27017 reports wire version 7, but this version of Steadfast requires at \
             least 8 (MongoDB 4.2)."
        )
    );
}

#[test]
fn operations_are_expected_at_a_member_that_was_elected_before_it_takes_writes() {
    let mut scene = Scene::replica_set();
    let hosts = ["a:27017", "b:27017"];
    let elected = |primary: &str| {
        doc! {"setName": "rs", "secondary": true, "hosts": hosts, "primary": primary}
    };
    let expects = |effects: &[Effect]| names(effects).contains(&"expect b".to_owned());
    // While there is a primary, nobody waits for one.
    assert!(!expects(&scene.hears("b", elected("b:27017"))));
    scene.hears("a", doc! {"setName": "rs", "secondary": true, "hosts": hosts});
    assert_eq!(scene.kind(), TopologyType::ReplicaSetNoPrimary);
    assert!(!expects(&scene.hears("b", elected("a:27017"))), "it names another");
    let effects = names(&scene.hears("b", elected("b:27017")));
    assert_eq!(effects[1..4], ["ready b", "publish", "expect b"], "{effects:?}");
    let writable =
        doc! {"setName": "rs", "isWritablePrimary": true, "hosts": hosts, "primary": "b:27017"};
    assert!(!expects(&scene.hears("b", writable)));
}
