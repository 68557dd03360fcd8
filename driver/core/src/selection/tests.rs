//! Rules of server selection by example; the module `properties` has the invariants.

mod properties;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bson::DateTime;

use super::*;
use crate::{
    description::{ServerType, TagSet},
    read_preference::ReadPreferenceOptions,
};

fn address(host: &str) -> ServerAddress {
    ServerAddress::parse(host).unwrap()
}

fn server(host: &str, server_type: ServerType) -> ServerDescription {
    let mut server = ServerDescription::unknown(address(host));
    server.server_type = server_type;
    server.max_wire_version = 21;
    if server.is_available() {
        server.average_round_trip_time = Some(Duration::from_millis(5));
    }
    server
}

fn tagged(host: &str, server_type: ServerType, tags: &[(&str, &str)]) -> ServerDescription {
    let mut server = server(host, server_type);
    server.tags = tag_set(tags);
    server
}

fn tag_set(tags: &[(&str, &str)]) -> TagSet {
    tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn topology(
    topology_type: TopologyType,
    servers: impl IntoIterator<Item = ServerDescription>,
) -> TopologyDescription {
    TopologyDescription {
        topology_type,
        servers: servers.into_iter().map(|server| (server.address.clone(), server)).collect(),
        ..Default::default()
    }
}

/// Creates a replica set with the primary a and the secondaries b and c.
fn replica_set() -> TopologyDescription {
    topology(
        TopologyType::ReplicaSetWithPrimary,
        [
            tagged("a", ServerType::RsPrimary, &[("dc", "ny")]),
            tagged("b", ServerType::RsSecondary, &[("dc", "ny")]),
            tagged("c", ServerType::RsSecondary, &[("dc", "tokyo"), ("ssd", "yes")]),
            server("d", ServerType::RsArbiter),
            server("e", ServerType::RsOther),
        ],
    )
}

fn without_primary() -> TopologyDescription {
    let mut topology = replica_set();
    topology.topology_type = TopologyType::ReplicaSetNoPrimary;
    topology.servers.remove(&address("a"));
    topology
}

fn prefer(preference: ReadPreference) -> SelectionCriteria {
    preference.into()
}

fn with_tags(tag_sets: &[&[(&str, &str)]]) -> ReadPreferenceOptions {
    let tag_sets: Vec<_> = tag_sets.iter().map(|tags| tag_set(tags)).collect();
    ReadPreferenceOptions::builder().tag_sets(tag_sets).build()
}

fn hosts(servers: &[&ServerDescription]) -> String {
    servers.iter().map(|server| server.address.host().into_owned()).collect()
}

fn suitable_hosts(
    topology: &TopologyDescription,
    target: SelectionTarget<'_>,
    deprioritized: &[&str],
) -> String {
    let deprioritized: Vec<_> = deprioritized.iter().map(|host| address(host)).collect();
    hosts(&suitable(topology, target, &deprioritized, &SelectionSettings::default()).unwrap())
}

fn readable_hosts(topology: &TopologyDescription, preference: ReadPreference) -> String {
    suitable_hosts(topology, SelectionTarget::Read(&prefer(preference)), &[])
}

#[test]
fn each_mode_selects_its_members() {
    for (preference, with, without) in [
        (ReadPreference::primary(), "a", ""),
        (ReadPreference::secondary(None), "bc", "bc"),
        (ReadPreference::primary_preferred(None), "a", "bc"),
        (ReadPreference::secondary_preferred(None), "bc", "bc"),
        (ReadPreference::nearest(None), "abc", "bc"),
    ] {
        assert_eq!(readable_hosts(&replica_set(), preference.clone()), with, "{preference}");
        assert_eq!(readable_hosts(&without_primary(), preference.clone()), without, "{preference}");
    }
}

#[test]
fn writes_select_only_the_primary() {
    assert_eq!(suitable_hosts(&replica_set(), SelectionTarget::Write, &[]), "a");
    assert_eq!(suitable_hosts(&without_primary(), SelectionTarget::Write, &[]), "");
}

#[test]
fn secondary_preferred_falls_back_to_the_primary_when_no_tags_match() {
    let nowhere = || with_tags(&[&[("dc", "moon")]]);
    let set = replica_set();
    assert_eq!(readable_hosts(&set, ReadPreference::secondary_preferred(nowhere())), "a");
    assert_eq!(readable_hosts(&set, ReadPreference::secondary(nowhere())), "");
    assert_eq!(readable_hosts(&set, ReadPreference::nearest(nowhere())), "");
    // The primary needs no tags in this mode.
    assert_eq!(readable_hosts(&set, ReadPreference::primary_preferred(nowhere())), "a");
}

#[test]
fn first_matching_tag_set_applies() {
    let options = with_tags(&[&[("dc", "moon")], &[("dc", "tokyo"), ("ssd", "yes")], &[]]);
    assert_eq!(readable_hosts(&replica_set(), ReadPreference::nearest(options)), "c");
    let options = with_tags(&[&[("dc", "moon")], &[]]);
    assert_eq!(readable_hosts(&replica_set(), ReadPreference::nearest(options)), "abc");
}

#[test]
fn direct_connection_suits_every_operation() {
    for server_type in [ServerType::Standalone, ServerType::RsSecondary, ServerType::RsArbiter] {
        let single = topology(TopologyType::Single, [server("a", server_type)]);
        assert_eq!(suitable_hosts(&single, SelectionTarget::Write, &["a"]), "a");
        assert_eq!(readable_hosts(&single, ReadPreference::secondary(None)), "a");
    }
    let down = topology(TopologyType::Single, [server("a", ServerType::Unknown)]);
    assert_eq!(suitable_hosts(&down, SelectionTarget::Write, &[]), "");
}

#[test]
fn every_mongos_suits_reads_and_writes() {
    let sharded = topology(
        TopologyType::Sharded,
        [
            server("a", ServerType::Mongos),
            server("b", ServerType::Mongos),
            server("c", ServerType::Unknown),
        ],
    );
    assert_eq!(suitable_hosts(&sharded, SelectionTarget::Write, &[]), "ab");
    assert_eq!(readable_hosts(&sharded, ReadPreference::secondary(None)), "ab");
}

#[test]
fn deprioritized_servers_are_avoided_while_others_are_suitable() {
    let set = replica_set();
    let nearest = prefer(ReadPreference::nearest(None));
    assert_eq!(suitable_hosts(&set, SelectionTarget::Read(&nearest), &["a", "b"]), "c");
    assert_eq!(suitable_hosts(&set, SelectionTarget::Read(&nearest), &["a", "b", "c"]), "abc");
    assert_eq!(suitable_hosts(&set, SelectionTarget::Write, &["a"]), "a");
}

#[test]
fn preferred_modes_fall_back_when_their_side_is_deprioritized() {
    let set = replica_set();
    let primary = prefer(ReadPreference::primary_preferred(None));
    assert_eq!(suitable_hosts(&set, SelectionTarget::Read(&primary), &["a"]), "bc");
    let secondary = prefer(ReadPreference::secondary_preferred(None));
    assert_eq!(suitable_hosts(&set, SelectionTarget::Read(&secondary), &["b", "c"]), "a");
}

#[test]
fn predicate_applies_to_data_bearing_servers() {
    let any = SelectionCriteria::Predicate(Arc::new(|_| true));
    assert_eq!(suitable_hosts(&replica_set(), SelectionTarget::Read(&any), &[]), "abc");
    let ssd = SelectionCriteria::Predicate(Arc::new(|server| {
        server.tags().is_some_and(|tags| tags.contains_key("ssd"))
    }));
    assert_eq!(suitable_hosts(&replica_set(), SelectionTarget::Read(&ssd), &[]), "c");
}

#[test]
fn pinned_operation_selects_its_server_or_none() {
    let (b, e) = (address("b"), address("e"));
    assert_eq!(suitable_hosts(&replica_set(), SelectionTarget::Server(&b), &["b"]), "b");
    assert_eq!(suitable_hosts(&replica_set(), SelectionTarget::Server(&e), &[]), "");
}

#[test]
fn aggregate_with_out_uses_secondaries_only_since_5_0() {
    let secondary = prefer(ReadPreference::secondary(None));
    let target = SelectionTarget::WritingAggregate(&secondary);
    let mut set = replica_set();
    assert_eq!(suitable_hosts(&set, target, &[]), "bc");
    assert_eq!(target.resolve(&set).read_preference().unwrap().mode(), "secondary");

    set.servers.get_mut(&address("b")).unwrap().max_wire_version = 12;
    assert_eq!(suitable_hosts(&set, target, &[]), "a");
    assert_eq!(target.resolve(&set).read_preference().unwrap().mode(), "primary");

    let mut behind = topology(TopologyType::LoadBalanced, [server("a", ServerType::LoadBalancer)]);
    behind.servers.get_mut(&address("a")).unwrap().max_wire_version = 0;
    assert_eq!(target.resolve(&behind).read_preference().unwrap().mode(), "secondary");
}

#[test]
fn server_selector_applies_after_deprioritization() {
    let nearest = prefer(ReadPreference::nearest(None));
    let only_b: Predicate = Arc::new(|server| server.address().host() == "b");
    let settings = SelectionSettings { server_selector: Some(only_b), ..Default::default() };
    let find = |deprioritized: &[ServerAddress]| {
        hosts(
            &suitable(&replica_set(), SelectionTarget::Read(&nearest), deprioritized, &settings)
                .unwrap(),
        )
    };
    assert_eq!(find(&[]), "b");
    // The others were suitable, so b stays deprioritized, and the selector rejects the rest.
    assert_eq!(find(&[address("b")]), "");
    // The selector applies to writes, too.
    let set = replica_set();
    let write = select(&set, SelectionTarget::Write, &[], &settings, |_| 0, [0, 0]);
    assert_eq!(write, Selection::NoneSuitable);
}

#[test]
fn latency_window_starts_at_the_fastest_server() {
    let timed = |host: &str, millis: Option<u64>| {
        let mut server = server(host, ServerType::Mongos);
        server.average_round_trip_time = millis.map(Duration::from_millis);
        server
    };
    let all = [timed("a", Some(5)), timed("b", Some(20)), timed("c", Some(21)), timed("d", None)];
    let mut servers: Vec<_> = all.iter().collect();
    in_latency_window(&mut servers, DEFAULT_LOCAL_THRESHOLD);
    assert_eq!(hosts(&servers), "ab");

    let mut unmeasured = vec![&all[3]];
    in_latency_window(&mut unmeasured, Duration::ZERO);
    assert_eq!(hosts(&unmeasured), "d");
}

#[test]
fn server_with_fewer_operations_is_picked() {
    let busy = |index: usize| [9, 3, 3][index];
    assert_eq!(pick(&[0, 1], busy, [0, 0]), Some(1));
    assert_eq!(pick(&[0, 1], busy, [u64::MAX, 0]), Some(1));
    // With equal counts, the first one drawn is picked.
    assert_eq!(pick(&[1, 2], busy, [0, 0]), Some(1));
    assert_eq!(pick(&[1, 2], busy, [u64::MAX, 0]), Some(2));
    assert_eq!(pick(&[0], busy, [7, 7]), Some(0));
    assert_eq!(pick(&[], busy, [7, 7]), None);
}

#[test]
fn incompatible_deployment_fails_immediately() {
    let mut set = replica_set();
    set.compatibility_error = Some("server a:27017 is too old".to_owned());
    let selection =
        select(&set, SelectionTarget::Write, &[], &SelectionSettings::default(), |_| 0, [0, 0]);
    let expected = SelectionError::Incompatible("server a:27017 is too old".to_owned());
    assert_eq!(selection, Selection::Impossible(expected));
    assert_eq!(
        explain(&set, SelectionTarget::Write, &SelectionSettings::default()),
        "server a:27017 is too old"
    );
}

mod staleness {
    use super::*;

    fn dated(mut server: ServerDescription, checked: Instant, wrote_s: i64) -> ServerDescription {
        server.last_update_time = Some(checked);
        server.last_write_date = Some(DateTime::from_millis(wrote_s * 1000));
        server
    }

    fn at_most(seconds: u64) -> ReadPreferenceOptions {
        ReadPreferenceOptions::builder().max_staleness(Duration::from_secs(seconds)).build()
    }

    #[test]
    fn staleness_is_relative_to_the_primary() {
        let start = Instant::now();
        let later = start + Duration::from_secs(60);
        let set = topology(
            TopologyType::ReplicaSetWithPrimary,
            [
                dated(server("a", ServerType::RsPrimary), start, 1000),
                // 10 s of heartbeat interval and 100 s of lag at the same time.
                dated(server("b", ServerType::RsSecondary), start, 900),
                dated(server("c", ServerType::RsSecondary), start, 899),
                // Checked a minute later, so it must have written a minute more.
                dated(server("d", ServerType::RsSecondary), later, 960),
                dated(server("e", ServerType::RsSecondary), later, 959),
                // Without `lastWriteDate`, its staleness is unknown.
                server("f", ServerType::RsSecondary),
            ],
        );
        assert_eq!(readable_hosts(&set, ReadPreference::secondary(at_most(110))), "bd");
        assert_eq!(readable_hosts(&set, ReadPreference::nearest(at_most(110))), "abd");
    }

    #[test]
    fn staleness_without_a_primary_is_relative_to_the_freshest_secondary() {
        let (start, later) = (Instant::now(), Instant::now() + Duration::from_secs(500));
        let set = topology(
            TopologyType::ReplicaSetNoPrimary,
            [
                dated(server("b", ServerType::RsSecondary), start, 1000),
                dated(server("c", ServerType::RsSecondary), later, 900),
                dated(server("d", ServerType::RsSecondary), start, 899),
            ],
        );
        assert_eq!(readable_hosts(&set, ReadPreference::secondary(at_most(110))), "bc");
        // A deprioritized secondary still counts as the freshest.
        let criteria = prefer(ReadPreference::secondary(at_most(110)));
        assert_eq!(suitable_hosts(&set, SelectionTarget::Read(&criteria), &["b"]), "c");
    }

    #[test]
    fn too_small_max_staleness_is_an_error_in_replica_sets_only() {
        let too_small = |topology: &TopologyDescription, seconds, heartbeat| {
            let criteria = prefer(ReadPreference::primary_preferred(at_most(seconds)));
            let heartbeat_frequency = Duration::from_secs(heartbeat);
            let settings = SelectionSettings { heartbeat_frequency, ..Default::default() };
            suitable(topology, SelectionTarget::Read(&criteria), &[], &settings).is_err()
        };
        assert!(too_small(&replica_set(), 89, 10));
        assert!(!too_small(&replica_set(), 90, 10));
        assert!(too_small(&replica_set(), 100, 91));
        assert!(!too_small(&replica_set(), 101, 91));
        let sharded = topology(TopologyType::Sharded, [server("a", ServerType::Mongos)]);
        assert!(!too_small(&sharded, 1, 10));
    }

    #[test]
    fn staleness_applies_before_tags() {
        let now = Instant::now();
        let mut stale = dated(server("b", ServerType::RsSecondary), now, 0);
        stale.tags = tag_set(&[("dc", "ny")]);
        let set = topology(
            TopologyType::ReplicaSetWithPrimary,
            [
                dated(server("a", ServerType::RsPrimary), now, 1000),
                stale,
                dated(server("c", ServerType::RsSecondary), now, 1000),
            ],
        );
        let mut options = at_most(120);
        options.tag_sets = Some(vec![tag_set(&[("dc", "ny")]), TagSet::new()]);
        assert_eq!(readable_hosts(&set, ReadPreference::secondary(options)), "c");
    }
}

mod wire_preference {
    use super::*;

    fn sent(
        topology_type: TopologyType,
        server_type: ServerType,
        preference: &ReadPreference,
    ) -> Option<&'static str> {
        read_preference_for(topology_type, server_type, preference).map(ReadPreference::mode)
    }

    #[test]
    fn read_preference_is_sent_unless_primary() {
        for (topology_type, server_type) in [
            (TopologyType::Sharded, ServerType::Mongos),
            (TopologyType::Single, ServerType::Mongos),
            (TopologyType::LoadBalanced, ServerType::LoadBalancer),
            (TopologyType::ReplicaSetWithPrimary, ServerType::RsSecondary),
            (TopologyType::ReplicaSetWithPrimary, ServerType::RsPrimary),
        ] {
            assert_eq!(sent(topology_type, server_type, &ReadPreference::Primary), None);
            for mode in ["secondary", "primaryPreferred", "secondaryPreferred", "nearest"] {
                let preference = ReadPreference::from_mode(mode).unwrap();
                assert_eq!(sent(topology_type, server_type, &preference), Some(mode));
            }
        }
    }

    #[test]
    fn direct_connection_sends_primary_preferred() {
        for member in [ServerType::RsPrimary, ServerType::RsSecondary, ServerType::RsOther] {
            let direct = |preference| sent(TopologyType::Single, member, preference);
            assert_eq!(direct(&ReadPreference::Primary), Some("primaryPreferred"));
            assert_eq!(direct(&ReadPreference::nearest(None)), Some("nearest"));
        }
    }

    #[test]
    fn no_read_preference_is_sent_to_a_standalone() {
        let nearest = ReadPreference::nearest(None);
        assert_eq!(sent(TopologyType::Single, ServerType::Standalone, &nearest), None);
    }
}

mod explaining {
    use super::*;

    fn explained(topology: &TopologyDescription, target: SelectionTarget<'_>) -> String {
        explain(topology, target, &SelectionSettings::default())
    }

    #[test]
    fn missing_primary_is_explained_with_every_server_state() {
        let mut down = server("b", ServerType::Unknown);
        down.error = Some("connection refused".to_owned());
        let set = topology(
            TopologyType::ReplicaSetNoPrimary,
            [server("a", ServerType::RsSecondary), down, server("c", ServerType::Unknown)],
        );
        let expected = "no primary: a:27017 is RSSecondary; b:27017 is unreachable: connection \
                        refused; c:27017 has not been checked yet";
        assert_eq!(explained(&set, SelectionTarget::Write), expected);
        assert_eq!(explained(&set, SelectionTarget::Read(&SelectionCriteria::default())), expected);
    }

    #[test]
    fn explanation_includes_tags_and_staleness_when_relevant() {
        let now = Instant::now();
        let mut set = replica_set();
        set.servers.retain(|_, server| server.server_type != ServerType::RsOther);
        set.servers.remove(&address("d"));
        set.servers.remove(&address("c"));
        for (host, wrote) in [("a", 1_000_000), ("b", 0)] {
            let server = set.servers.get_mut(&address(host)).unwrap();
            server.last_update_time = Some(now);
            server.last_write_date = Some(DateTime::from_millis(wrote));
        }
        let mut options = with_tags(&[&[("dc", "ny")]]);
        options.max_staleness = Some(Duration::from_secs(90));
        let criteria = prefer(ReadPreference::secondary(options));
        assert_eq!(
            explained(&set, SelectionTarget::Read(&criteria)),
            "no server matches read preference secondary with tags {dc: ny}, at most 90 s stale: \
             a:27017 is RSPrimary with tags {\"dc\": \"ny\"}; \
             b:27017 is RSSecondary with tags {\"dc\": \"ny\"}, about 1010 s stale"
        );
    }

    #[test]
    fn empty_deployment_and_rejecting_selector_are_explained() {
        let mut empty = topology(TopologyType::ReplicaSetNoPrimary, []);
        empty.set_name = Some("rs".to_owned());
        assert_eq!(
            explained(&empty, SelectionTarget::Write),
            "no primary: none of the hosts is a member of replica set \"rs\""
        );
        let none: Predicate = Arc::new(|_| false);
        let settings = SelectionSettings { server_selector: Some(none), ..Default::default() };
        assert_eq!(
            explain(&replica_set(), SelectionTarget::Write, &settings),
            "the client's server selector rejected every suitable server: a:27017"
        );
    }

    #[test]
    fn explanation_mentions_the_primary_only_for_replica_sets() {
        let mut down = server("a", ServerType::Unknown);
        down.error = Some("timed out".to_owned());
        let unknown = topology(TopologyType::Unknown, [down]);
        assert_eq!(
            explained(&unknown, SelectionTarget::Write),
            "no server accepts writes: a:27017 is unreachable: timed out"
        );
        let b = address("b");
        assert_eq!(
            explained(&unknown, SelectionTarget::Server(&b)),
            "server b:27017 is not available: a:27017 is unreachable: timed out"
        );
    }
}
