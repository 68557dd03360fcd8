//! Invariants of the topology under random inputs.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bson::{RawDocumentBuf, doc, oid::ObjectId};
use proptest::{collection::vec, option, prelude::*};

use super::*;
use crate::{
    description::{ServerType, TopologyVersion},
    event::sdam::SdamEvent,
    hello::HelloReply,
};

const HOSTS: [&str; 4] = ["a", "b", "c", "d"];

fn host() -> impl Strategy<Value = ServerAddress> {
    prop::sample::select(&HOSTS[..]).prop_map(|host| ServerAddress::parse(host).unwrap())
}

fn object_id() -> impl Strategy<Value = ObjectId> {
    (0_u8..3).prop_map(|byte| ObjectId::from_bytes([byte; 12]))
}

fn hosts() -> impl Strategy<Value = Vec<String>> {
    vec(host().prop_map(|host| host.to_string()), 0..4)
}

fn role() -> impl Strategy<Value = bson::Document> {
    prop::sample::select(vec![
        doc! {},
        doc! {"msg": "isdbgrid"},
        doc! {"isreplicaset": true},
        doc! {"setName": "rs", "isWritablePrimary": true},
        doc! {"setName": "rs", "isWritablePrimary": true},
        doc! {"setName": "rs", "secondary": true},
        doc! {"setName": "rs", "arbiterOnly": true},
        doc! {"setName": "rs", "hidden": true},
        doc! {"setName": "other", "isWritablePrimary": true},
        doc! {"setName": "other", "secondary": true},
    ])
}

prop_compose! {
    fn reply()(
        role in role(),
        hosts in hosts(),
        me in option::weighted(0.1, host()),
        election in option::of((object_id(), 0_i32..3)),
        version in option::of((object_id(), 0_i64..4)),
        wire_version in prop::sample::select(vec![0, 9, 21]),
        ok in prop::bool::weighted(0.9),
    ) -> HelloReply {
        let mut reply = role;
        reply.insert("ok", i32::from(ok));
        reply.insert("hosts", hosts);
        reply.insert("maxWireVersion", wire_version);
        if let Some(me) = me {
            reply.insert("me", me.to_string());
        }
        if let Some((election_id, set_version)) = election {
            reply.insert("electionId", election_id);
            reply.insert("setVersion", set_version);
        }
        if let Some((process_id, counter)) = version {
            reply.insert("topologyVersion", doc! {"processId": process_id, "counter": counter});
        }
        HelloReply::parse(&RawDocumentBuf::try_from(&reply).unwrap()).unwrap()
    }
}

fn cause() -> impl Strategy<Value = ApplicationErrorKind> {
    let version = option::of((object_id(), 0_i64..4))
        .prop_map(|v| v.map(|(process_id, counter)| TopologyVersion { process_id, counter }));
    let code = prop::sample::select(vec![None, Some(91), Some(189), Some(10107), Some(1)]);
    prop_oneof![
        Just(ApplicationErrorKind::Network),
        Just(ApplicationErrorKind::NetworkTimeout),
        Just(ApplicationErrorKind::Other),
        (code, version).prop_map(|(code, topology_version)| {
            let message = "not master".to_owned();
            ApplicationErrorKind::Command(CommandFailure { code, message, topology_version })
        }),
    ]
}

prop_compose! {
    fn application_error()(
        phase in prop::sample::select(vec![
            ConnectionPhase::Connecting,
            ConnectionPhase::Authenticating,
            ConnectionPhase::Established,
        ]),
        cause in cause(),
        generation in 0_u64..4,
        service_id in option::of(object_id()),
        overloaded in any::<bool>(),
    ) -> ApplicationError {
        let message = "it broke".to_owned();
        ApplicationError { phase, cause, message, generation, service_id, overloaded }
    }
}

fn input() -> impl Strategy<Value = TopologyInput> {
    let kind = prop::sample::select(vec![
        CheckFailureKind::Network,
        CheckFailureKind::NetworkTimeout,
        CheckFailureKind::Command,
    ]);
    let round_trip = || (0_u64..50).prop_map(Duration::from_millis);
    prop_oneof![
        6 => (host(), reply(), option::of(round_trip())).prop_map(|(address, reply, round_trip)| {
            TopologyInput::Heartbeat { address, outcome: Ok(CheckSuccess { reply, round_trip }) }
        }),
        2 => (host(), kind).prop_map(|(address, kind)| {
            let message = "no answer".to_owned();
            TopologyInput::Heartbeat { address, outcome: Err(CheckFailure { kind, message }) }
        }),
        4 => (host(), application_error())
            .prop_map(|(address, error)| TopologyInput::OperationError { address, error }),
        1 => (host(), round_trip())
            .prop_map(|(address, sample)| TopologyInput::RoundTrip { address, sample }),
        1 => vec(host(), 0..4).prop_map(TopologyInput::SrvHosts),
        1 => Just(TopologyInput::NoSuitableServer),
    ]
}

fn settings() -> impl Strategy<Value = TopologySettings> {
    let id = ObjectId::from_bytes([7; 12]);
    let replica_set = || option::of(Just("rs".to_owned()));
    prop_oneof![
        6 => (vec(host(), 1..4), replica_set(), option::of(0_usize..4)).prop_map(
            move |(seeds, set, most)| TopologySettings::discovering(id, seeds)
                .replica_set(set)
                .srv_max_hosts(most)
        ),
        1 => (host(), replica_set())
            .prop_map(move |(seed, set)| TopologySettings::direct(id, seed).replica_set(set)),
        1 => host().prop_map(move |seed| TopologySettings::load_balanced(id, seed)),
    ]
}

/// Performs effects and checks their consistency.
#[derive(Default)]
struct Performer {
    /// The pools, with the generation of each service or `None`.
    pools: BTreeMap<ServerAddress, BTreeMap<Option<ObjectId>, u64>>,
    published: Arc<TopologyDescription>,
}

impl Performer {
    fn perform(&mut self, effects: Vec<TopologyEffect>) {
        let publications =
            effects.iter().filter(|effect| matches!(effect, TopologyEffect::Publish(_))).count();
        assert!(publications <= 1, "published {publications} times");
        for effect in effects {
            self.perform_one(effect);
        }
        let servers: Vec<_> = self.published.servers.keys().collect();
        assert_eq!(servers, self.pools.keys().collect::<Vec<_>>(), "servers without pools");
    }

    fn perform_one(&mut self, effect: TopologyEffect) {
        match effect {
            TopologyEffect::AddServer(address) => {
                let old = self.pools.insert(address, BTreeMap::new());
                assert!(old.is_none(), "added twice");
            }
            TopologyEffect::RemoveServer(address) => {
                assert!(self.pools.remove(&address).is_some(), "removed twice");
            }
            TopologyEffect::ReadyPool(address)
            | TopologyEffect::Preconnect(address)
            | TopologyEffect::CheckNow(address)
            | TopologyEffect::CancelCheck(address) => self.must_exist(&address),
            TopologyEffect::ClearPool { address, service_id, generation, .. } => {
                self.must_exist(&address);
                let pool = self.pools.get_mut(&address).unwrap();
                let current = pool.insert(service_id, generation).unwrap_or(0);
                assert!(generation > current, "{generation} does not follow {current}");
            }
            TopologyEffect::Publish(description) => self.published = description,
            TopologyEffect::Emit(SdamEvent::ServerDescriptionChanged(event)) => {
                self.must_exist(&event.address);
                assert!(!event.previous_description.is_equivalent_to(&event.new_description));
            }
            TopologyEffect::Emit(SdamEvent::ServerClosed(event)) => self.must_exist(&event.address),
            TopologyEffect::Emit(_) => {}
        }
    }

    fn must_exist(&self, address: &ServerAddress) {
        assert!(self.pools.contains_key(address), "{address} is not, or no longer, there");
    }
}

/// Checks the invariants of a description.
fn check_description(topology: &Topology) {
    let description = topology.description();
    let servers = &description.servers;
    let count = |kind| servers.values().filter(|server| server.server_type == kind).count();
    match description.topology_type {
        TopologyType::ReplicaSetWithPrimary => assert_eq!(count(ServerType::RsPrimary), 1),
        TopologyType::ReplicaSetNoPrimary => assert_eq!(count(ServerType::RsPrimary), 0),
        // A ghost found before the first mongos stays until its next heartbeat.
        TopologyType::Sharded => assert_eq!(
            count(ServerType::Mongos) + count(ServerType::Unknown) + count(ServerType::RsGhost),
            servers.len()
        ),
        TopologyType::Single => assert_eq!(servers.len(), 1),
        TopologyType::LoadBalanced => {
            assert_eq!((servers.len(), count(ServerType::LoadBalancer)), (1, 1));
        }
        TopologyType::Unknown => {
            let known = servers.len() - count(ServerType::Unknown);
            assert_eq!(known, count(ServerType::RsGhost));
        }
    }
    for (address, server) in servers {
        assert_eq!(*address, server.address);
        if !server.is_available() {
            assert_eq!(server.average_round_trip_time, None);
        }
    }
}

/// Returns `true` for an error of a connection that its pool has cleared.
fn is_of_a_past_generation(topology: &Topology, input: &TopologyInput) -> bool {
    let TopologyInput::OperationError { address, error } = input else { return false };
    let service_id = if topology.is_monitored() { None } else { error.service_id };
    topology.generation(address, service_id).is_none_or(|generation| error.generation < generation)
}

proptest! {
    #[test]
    fn topology_invariants_hold_for_random_inputs(
        settings in settings(),
        inputs in vec(input(), 0..40),
    ) {
        let mut now = Instant::now();
        let (mut topology, opening) = Topology::new(settings, now);
        let mut performer = Performer::default();
        performer.perform(opening);
        check_description(&topology);
        for input in inputs {
            now += Duration::from_millis(1);
            let stale = is_of_a_past_generation(&topology, &input);
            let before = Arc::clone(topology.description());
            let effects = topology.apply(input, now);
            if stale {
                prop_assert!(effects.is_empty(), "a stale error had effects");
                prop_assert_eq!(&before, topology.description());
            }
            performer.perform(effects);
            prop_assert_eq!(&performer.published, topology.description());
            check_description(&topology);
        }
        performer.perform(topology.apply(TopologyInput::Close, now));
        prop_assert!(performer.pools.is_empty());
    }

    #[test]
    fn same_inputs_have_same_effects(
        settings in settings(),
        inputs in vec(input(), 0..20),
    ) {
        let now = Instant::now();
        let run = || {
            let (mut topology, mut effects) = Topology::new(settings.clone(), now);
            for input in inputs.clone() {
                effects.extend(topology.apply(input, now));
            }
            effects
        };
        prop_assert_eq!(run(), run());
    }
}
