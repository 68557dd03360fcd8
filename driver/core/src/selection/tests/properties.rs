//! Invariants of server selection for random topologies.

use proptest::{prelude::*, sample::subsequence};

use super::*;

const HOSTS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn server_types() -> impl Strategy<Value = ServerType> {
    prop::sample::select(vec![
        ServerType::Standalone,
        ServerType::Mongos,
        ServerType::RsPrimary,
        ServerType::RsSecondary,
        ServerType::RsSecondary,
        ServerType::RsArbiter,
        ServerType::RsOther,
        ServerType::RsGhost,
        ServerType::LoadBalancer,
        ServerType::Unknown,
    ])
}

fn topology_types() -> impl Strategy<Value = TopologyType> {
    prop::sample::select(vec![
        TopologyType::Single,
        TopologyType::ReplicaSetNoPrimary,
        TopologyType::ReplicaSetWithPrimary,
        TopologyType::ReplicaSetWithPrimary,
        TopologyType::Sharded,
        TopologyType::LoadBalanced,
        TopologyType::Unknown,
    ])
}

prop_compose! {
    fn servers()(
        host in prop::sample::select(HOSTS.to_vec()),
        server_type in server_types(),
        round_trip in prop::option::of(0_u64..60),
        checked in prop::option::of(0_u64..1000),
        wrote in prop::option::of(any::<i64>()),
        max_wire_version in 6..30,
        dc in prop::option::of(0_i32..2),
    ) -> ServerDescription {
        // Only differences between instants matter.
        let base = *BASE.get_or_init(Instant::now);
        let mut server = server(host, server_type);
        server.average_round_trip_time = round_trip.map(Duration::from_millis);
        server.last_update_time = checked.map(|seconds| base + Duration::from_secs(seconds));
        server.last_write_date = wrote.map(DateTime::from_millis);
        server.max_wire_version = max_wire_version;
        if let Some(dc) = dc {
            server.tags.insert("dc".to_owned(), dc.to_string());
        }
        server
    }
}

static BASE: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();

/// Topologies as discovery creates them: at most one primary, and one server for single-server
/// types.
fn topologies() -> impl Strategy<Value = TopologyDescription> {
    (topology_types(), prop::collection::vec(servers(), 0..6)).prop_map(|(kind, mut servers)| {
        if matches!(kind, TopologyType::Single | TopologyType::LoadBalanced) {
            servers.truncate(1);
        }
        let mut topology = topology(kind, servers);
        let primaries = topology.servers.values_mut();
        primaries
            .filter(|server| server.server_type == ServerType::RsPrimary)
            .skip(1)
            .for_each(|server| server.server_type = ServerType::RsSecondary);
        topology
    })
}

fn preferences() -> impl Strategy<Value = ReadPreference> {
    let modes = ["secondary", "primaryPreferred", "secondaryPreferred", "nearest"];
    let tags = prop::option::of(prop::collection::vec(prop::option::of(0..3), 0..3));
    let staleness = prop::option::of(prop_oneof![0_u64..200, any::<u64>()]);
    let narrowed = (prop::sample::select(modes.to_vec()), tags, staleness).prop_map(
        |(mode, tags_given, staleness)| {
            let tags = |dc: Option<i32>| dc.map(|dc| ("dc".to_owned(), dc.to_string()));
            let tag_sets = tags_given.map(|sets: Vec<_>| {
                sets.into_iter().map(|dc| tags(dc).into_iter().collect()).collect()
            });
            let max_staleness = staleness.map(Duration::from_secs);
            let options = ReadPreferenceOptions { tag_sets, max_staleness, hedge: None };
            ReadPreference::from_parts(mode, options).unwrap()
        },
    );
    prop_oneof![Just(ReadPreference::Primary), narrowed]
}

fn criteria() -> impl Strategy<Value = SelectionCriteria> {
    let predicate: Predicate = Arc::new(|server| server.address().host().as_ref() < "d");
    prop_oneof![
        4 => preferences().prop_map(SelectionCriteria::from),
        1 => Just(SelectionCriteria::Predicate(predicate)),
    ]
}

fn targets<'a>(
    criteria: &'a SelectionCriteria,
    bound: &'a ServerAddress,
) -> [SelectionTarget<'a>; 4] {
    [
        SelectionTarget::Write,
        SelectionTarget::Read(criteria),
        SelectionTarget::WritingAggregate(criteria),
        SelectionTarget::Server(bound),
    ]
}

fn deprioritized() -> impl Strategy<Value = Vec<ServerAddress>> {
    subsequence(HOSTS.to_vec(), 0..=HOSTS.len())
        .prop_map(|hosts| hosts.into_iter().map(address).collect())
}

proptest! {
    #[test]
    fn selected_server_is_suitable(
        topology in topologies(),
        criteria in criteria(),
        deprioritized in deprioritized(),
        random: [u64; 2],
    ) {
        let settings = SelectionSettings::default();
        let bound = address("a");
        for target in targets(&criteria, &bound) {
            let suitable = suitable(&topology, target, &deprioritized, &settings);
            match select(&topology, target, &deprioritized, &settings, |_| 0, random) {
                Selection::Selected(server) => prop_assert!(suitable.unwrap().contains(&server)),
                Selection::NoneSuitable => prop_assert!(suitable.unwrap().is_empty()),
                Selection::Impossible(error) => prop_assert_eq!(suitable.unwrap_err(), error),
            }
        }
    }

    #[test]
    fn deprioritized_server_is_selected_only_if_no_other_is_suitable(
        topology in topologies(),
        criteria in criteria(),
        deprioritized in deprioritized(),
        random: [u64; 2],
    ) {
        let settings = SelectionSettings::default();
        let bound = address("a");
        for target in targets(&criteria, &bound) {
            let chosen = select(&topology, target, &deprioritized, &settings, |_| 0, random);
            let Selection::Selected(server) = chosen else { continue };
            if deprioritized.contains(&server.address) {
                let mut rest = topology.servers.values().collect::<Vec<_>>();
                rest.retain(|server| !deprioritized.contains(&server.address));
                let others = candidates::matching(&topology, rest, target, &settings);
                prop_assert!(others.is_empty());
            }
        }
    }

    #[test]
    fn sole_candidate_agrees_with_suitable(
        topology in topologies(),
        criteria in criteria(),
        deprioritized in deprioritized(),
    ) {
        let settings = SelectionSettings::default();
        let bound = address("a");
        for target in targets(&criteria, &bound) {
            if let Some(server) = sole_candidate(&topology, target, &settings) {
                let suitable = suitable(&topology, target, &deprioritized, &settings).unwrap();
                prop_assert!(suitable.contains(&server));
            }
        }
    }

    #[test]
    fn picked_server_is_never_the_busiest(
        counts in prop::collection::vec(0_usize..5, 2..8),
        random: [u64; 2],
    ) {
        let candidates: Vec<_> = (0..counts.len()).collect();
        let picked = pick(&candidates, |index| counts[index], random).unwrap();
        let busier = counts.iter().filter(|count| **count > counts[picked]).count();
        let equal = counts.iter().filter(|count| **count == counts[picked]).count();
        // The loser of the comparison is busier, or equally busy.
        prop_assert!(busier + equal >= 2);
    }

    #[test]
    fn explanation_is_never_empty(
        topology in topologies(),
        criteria in criteria(),
    ) {
        let bound = address("a");
        for target in targets(&criteria, &bound) {
            prop_assert!(!explain(&topology, target, &SelectionSettings::default()).is_empty());
        }
    }

    #[test]
    fn read_preference_survives_serialization(preference in preferences()) {
        // A limit below one second or beyond an int64 cannot be expressed in the document.
        let expressible = |limit: Duration| i64::try_from(limit.as_secs()).is_ok_and(|s| s > 0);
        prop_assume!(preference.max_staleness().is_none_or(expressible));
        prop_assume!(preference.options().is_none_or(|options| {
            options.tag_sets.as_ref().is_none_or(|sets| !sets.is_empty())
        }));
        let document = bson::serialize_to_document(&preference).unwrap();
        let read: ReadPreference = bson::deserialize_from_document(document).unwrap();
        prop_assert_eq!(read, preference);
    }
}
