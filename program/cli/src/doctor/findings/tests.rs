//! Tests of the findings: each on facts that cause it, and none on healthy facts.

use std::time::Duration;

use steadfast::{
    ServerType,
    bson::DateTime,
    options::{ConnectionString, ServerAddress},
};

use super::{Level, diagnose};
use crate::doctor::facts::{
    Clock, DeploymentFailure, DeploymentKind, Facts, Member, MemberState, RecordLifetime, Server,
    Shard, ShardMember,
};

/// Connection string without findings.
const GOOD: &str =
    "mongodb://app:secret@a,b,c/?replicaSet=rs0&tls=true&timeoutMS=5000&appName=shop";

fn address(text: &str) -> ServerAddress {
    ServerAddress::parse(text).unwrap()
}

fn server(host: &str, server_type: ServerType) -> Server {
    Server {
        server_type,
        version: Some("8.2.0".to_owned()),
        max_wire_version: Some(27),
        set_name: Some("rs0".to_owned()),
        session_timeout: Some(Duration::from_secs(1800)),
        last_write: Some(DateTime::from_millis(1_000_000)),
        round_trips: vec![Duration::from_millis(1); 3],
        clock: Some(Clock { ahead_ms: 2, uncertainty: Duration::from_millis(1) }),
        ..Server::unknown(address(host))
    }
}

fn member(host: &str) -> Member {
    Member { host: address(host).to_string(), votes: true, arbiter: false, hidden: false }
}

/// Facts of a healthy replica set of a, b and c with an authenticated user.
fn set(uri: &str) -> Facts {
    let mut facts = Facts::before(ConnectionString::parse(uri).unwrap(), Duration::from_secs(6));
    facts.seeds = ["a", "b", "c"].map(address).to_vec();
    facts.kind = DeploymentKind::ReplicaSet;
    facts.servers = vec![
        server("a", ServerType::RsPrimary),
        server("b", ServerType::RsSecondary),
        server("c", ServerType::RsSecondary),
    ];
    facts.members = Some(["a", "b", "c"].map(member).to_vec());
    facts.login.users = vec!["app@admin".to_owned()];
    facts.record_lifetimes = ["a", "b", "c"].map(|host| (host.to_owned(), minutes(30))).to_vec();
    facts
}

fn minutes(minutes: u64) -> RecordLifetime {
    RecordLifetime::Known(Duration::from_secs(60 * minutes))
}

fn standalone(uri: &str) -> Facts {
    let mut facts = set(uri);
    facts.kind = DeploymentKind::Standalone;
    facts.seeds.truncate(1);
    facts.servers = vec![Server { set_name: None, ..server("a", ServerType::Standalone) }];
    facts.members = None;
    facts.record_lifetimes.clear();
    facts
}

/// Returns codes and levels of findings that are not ok.
fn found(facts: &Facts) -> Vec<(&'static str, Level)> {
    let findings = diagnose(facts).into_iter().filter(|finding| finding.level != Level::Ok);
    findings.map(|finding| (finding.code, finding.level)).collect()
}

#[track_caller]
fn assert_found(facts: &Facts, expected: &[(&'static str, Level)]) {
    assert_eq!(found(facts), expected, "{:#?}", diagnose(facts));
}

#[test]
fn healthy_replica_set_has_ok_findings_only() {
    let facts = set(GOOD);
    assert_found(&facts, &[]);
    let ok: Vec<_> = diagnose(&facts).into_iter().map(|finding| finding.code).collect();
    for code in ["connection", "votes", "clocks", "retryable_writes", "retryable_reads", "sessions"]
    {
        assert!(ok.contains(&code), "{code}: {ok:?}");
    }
    for code in ["transactions", "change_streams", "deadlines", "overload", "login", "tls"] {
        assert!(ok.contains(&code), "{code}: {ok:?}");
    }
    assert!(ok.contains(&"record_lifetime"), "{ok:?}");
}

#[test]
fn record_lifetime_below_the_session_timeout_is_found() {
    let mut facts = set(GOOD);
    for (lifetime, session_minutes, found) in [
        (minutes(0), 30, Some(("record_lifetime", Level::Warning))),
        (minutes(29), 30, Some(("record_lifetime", Level::Warning))),
        (minutes(30), 30, None),
        (minutes(30), 60, Some(("record_lifetime", Level::Warning))),
        // As long as the session time-out, but too short for a retry.
        (minutes(1), 1, Some(("record_lifetime", Level::Warning))),
        (minutes(5), 1, None),
        (RecordLifetime::Denied, 30, Some(("record_lifetime_not_read", Level::Note))),
        (
            RecordLifetime::NotRead("it was not reached in time".to_owned()),
            30,
            Some(("record_lifetime_not_read", Level::Note)),
        ),
    ] {
        facts.record_lifetimes[1].1 = lifetime;
        for server in &mut facts.servers {
            server.session_timeout = Some(Duration::from_secs(60 * session_minutes));
        }
        if session_minutes == 60 {
            facts.record_lifetimes[2].1 = minutes(60);
            facts.record_lifetimes[0].1 = minutes(60);
        }
        assert_found(&facts, found.as_slice());
        let named = diagnose(&facts).into_iter().find(|it| Some(it.code) == found.map(|it| it.0));
        let names_b = |what: &str| what.ends_with("(b)") || what.contains("how long b keep");
        assert!(named.as_ref().is_none_or(|it| names_b(&it.what)), "{named:?}");
    }
    facts.record_lifetimes[0].1 = minutes(0);
    facts.record_lifetimes[2].1 = RecordLifetime::Denied;
    facts.record_lifetimes[1].1 = minutes(60);
    let both = [("record_lifetime", Level::Warning), ("record_lifetime_not_read", Level::Note)];
    assert_found(&facts, &both);
}

#[test]
fn findings_that_are_not_ok_have_a_reason_and_advice() {
    for finding in diagnose(&Facts::before(
        ConnectionString::parse("mongodb://a/?w=1&retryWrites=false").unwrap(),
        Duration::from_secs(6),
    )) {
        assert_ne!(finding.level, Level::Ok);
        assert!(!finding.what.is_empty() && !finding.why.is_empty() && !finding.next.is_empty());
    }
}

/// Adds each option to a healthy connection string, and compares the finding.
#[test]
fn useless_and_harmful_options_are_found() {
    use Level::{Note, Problem, Warning};
    for (option, code, level) in [
        ("retryWrites=false", "retryable_writes", Warning),
        ("retryReads=false", "retryable_reads", Warning),
        ("w=1", "w1", Warning),
        ("w=4", "w_too_large", Problem),
        ("journal=false", "journal", Warning),
        ("socketTimeoutMS=1000", "overruled", Note),
        ("waitQueueTimeoutMS=1000", "overruled", Note),
        ("wTimeoutMS=1000", "overruled", Note),
        ("tlsInsecure=true", "tls_unverified", Warning),
        ("tlsAllowInvalidCertificates=true", "tls_unverified", Warning),
        ("tlsAllowInvalidHostnames=true", "tls_unverified", Warning),
        ("serverSelectionTimeoutMS=500", "short_selection_timeout", Warning),
        ("serverSelectionTimeoutMS=5000", "short_selection_timeout", Note),
        ("connectTimeoutMS=0", "connect_timeout", Warning),
        ("maxPoolSize=1", "pool_of_one", Warning),
        ("maxPoolSize=0", "pool_without_limit", Note),
        ("compressors=zstd", "compression", Note),
        ("zlibCompressionLevel=3", "no_effect", Note),
        ("serverSelectionTryOnce=true", "no_effect", Note),
        ("uuidRepresentation=standard", "no_effect", Note),
        ("maxAdaptiveRetries=0", "overload", Note),
        ("noSuchOption=1", "option_ignored", Warning),
        ("maxIdleTimeMS=soon", "option_ignored", Warning),
        ("readPreference=secondary&readPreferenceTags=dc:x", "no_server_to_read", Problem),
        ("readPreference=nearest&readPreferenceTags=dc:x", "no_server_to_read", Problem),
        ("readPreference=secondaryPreferred&readPreferenceTags=dc:x", "no_server_to_read", Note),
    ] {
        assert_found(&set(&format!("{GOOD}&{option}")), &[(code, level)]);
    }
    let stale = "readPreference=secondary&maxStalenessSeconds=90&heartbeatFrequencyMS=100000";
    assert_found(&set(&format!("{GOOD}&{stale}")), &[("max_staleness", Problem)]);
    for fine in
        ["w=majority", "w=3", "readPreference=secondary&maxStalenessSeconds=90", "retryWrites=true"]
    {
        assert_found(&set(&format!("{GOOD}&{fine}")), &[]);
    }
    let unacknowledged = set(&format!("{GOOD}&w=0&wTimeoutMS=5"));
    let codes: Vec<_> = found(&unacknowledged).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, ["retryable_writes", "w0", "w_timeout", "overruled"]);
}

#[test]
fn missing_options_and_short_timeouts_are_found() {
    use Level::{Note, Warning};
    let without = |part: &str| set(&GOOD.replace(part, ""));
    assert_found(&without("&timeoutMS=5000"), &[("deadlines", Note)]);
    assert_found(&without("&appName=shop"), &[("app_name", Note)]);
    assert_found(&without("&tls=true"), &[("tls_off", Warning)]);
    assert_found(&without("replicaSet=rs0&"), &[("set_name_missing", Note)]);
    let mut one_seed = set(GOOD);
    one_seed.seeds.truncate(1);
    assert_found(&one_seed, &[("one_seed", Note)]);
    let short = set(&GOOD.replace("timeoutMS=5000", "timeoutMS=1"));
    assert_found(&short, &[("limit_too_short", Level::Problem)]);
    let late = set(&GOOD.replace("timeoutMS", "socketTimeoutMS"));
    assert_found(&late, &[("deadlines", Note), ("socket_timeout", Note)]);
}

/// Changes the facts of a healthy replica set, and compares the finding.
#[test]
fn problems_of_a_replica_set_are_found() {
    use Level::{Note, Problem, Warning};
    type Change = fn(&mut Facts);
    let rows: &[(Change, &str, Level)] = &[
        (|it| it.servers[1].server_type = ServerType::Unknown, "member_unreachable", Problem),
        (|it| it.servers[1].server_type = ServerType::RsOther, "not_ready", Warning),
        (|it| it.servers[1].version = Some("8.0.4".to_owned()), "versions_differ", Warning),
        (|it| it.servers[1].last_write = Some(DateTime::from_millis(980_000)), "lag", Note),
        (|it| it.servers[1].last_write = Some(DateTime::from_millis(800_000)), "lag", Warning),
        (|it| it.servers[2].clock.as_mut().unwrap().ahead_ms = -5_000, "clocks", Note),
        (|it| it.servers[2].clock.as_mut().unwrap().ahead_ms = 45_000, "clocks", Warning),
        (|it| it.members = None, "not_examined", Note),
        (|it| it.servers[0].round_trips = vec![Duration::from_millis(80)], "far_away", Note),
        (|it| it.members.as_mut().unwrap().push(member("d")), "even_votes", Warning),
        (|it| it.members.as_mut().unwrap()[2].votes = false, "even_votes", Warning),
        (|it| it.members.as_mut().unwrap().truncate(1), "one_member", Note),
        (|it| it.members.as_mut().unwrap()[2].arbiter = true, "arbiter", Note),
        (|it| it.servers[1].session_timeout = None, "retryable_writes", Warning),
        (|it| it.storage_engine = Some("mmapv1".to_owned()), "retryable_writes", Warning),
        (|it| it.servers[1].max_wire_version = Some(5), "retryable_writes", Warning),
        (
            |it| it.failure = Some(DeploymentFailure::Incompatible("too old".to_owned())),
            "incompatible",
            Problem,
        ),
        (
            |it| it.failure = Some(DeploymentFailure::Authentication("no".to_owned())),
            "login_failed",
            Problem,
        ),
        (
            |it| it.failure = Some(DeploymentFailure::Other("no".to_owned())),
            "no_connection",
            Problem,
        ),
    ];
    for (place, (change, code, level)) in rows.iter().enumerate() {
        let mut facts = set(GOOD);
        change(&mut facts);
        let first = found(&facts).into_iter().next();
        assert_eq!(first, Some((*code, *level)), "row {place}: {:#?}", diagnose(&facts));
    }
}

#[test]
fn unreachable_members_reduce_the_spare_votes() {
    let mut facts = set(GOOD);
    facts.servers[1].server_type = ServerType::Unknown;
    let expected = [("member_unreachable", Level::Problem), ("votes", Level::Warning)];
    assert_found(&facts, &expected);
    for host in ["d", "e"] {
        facts.servers.push(server(host, ServerType::RsSecondary));
        facts.members.as_mut().unwrap().push(member(host));
    }
    assert_found(&facts, &expected[..1]);
    facts.servers[2].server_type = ServerType::Unknown;
    assert_found(&facts, &[expected[0], expected[0], expected[1]]);
}

#[test]
fn clock_difference_within_the_round_trip_is_ignored() {
    let mut facts = set(GOOD);
    let clock = facts.servers[0].clock.as_mut().unwrap();
    *clock = Clock { ahead_ms: 1_500, uncertainty: Duration::from_millis(900) };
    assert_found(&facts, &[]);
}

#[test]
fn clocks_of_servers_are_compared_with_each_other() {
    let mut facts = set(GOOD);
    facts.servers[0].clock.as_mut().unwrap().ahead_ms = 20_000;
    facts.servers[2].clock.as_mut().unwrap().ahead_ms = -20_000;
    assert_found(&facts, &[("clocks", Level::Warning)]);
    let what = &diagnose(&facts)[0].what;
    assert_eq!(what, "the clock of a:27017 is 40s ahead of that of c:27017");
}

#[test]
fn missing_primary_is_reported_with_the_reachable_members() {
    let mut facts = set(GOOD);
    facts.failure = Some(DeploymentFailure::NoServer("none".to_owned()));
    facts.servers[0].server_type = ServerType::Unknown;
    facts.servers[0].error = Some("I/O error: Connection refused (server a:27017)".to_owned());
    facts.servers[1].server_type = ServerType::Unknown;
    assert_found(
        &facts,
        &[
            ("member_unreachable", Level::Problem),
            ("member_unreachable", Level::Problem),
            ("no_primary", Level::Problem),
        ],
    );
    let findings = diagnose(&facts);
    assert_eq!(findings[0].what, "a:27017 cannot be reached; others can");
    assert!(findings[0].why.starts_with("Connection refused. One"), "{}", findings[0].why);
    assert!(findings[1].why.starts_with("It did not reply within 6s."), "{}", findings[1].why);
    assert!(findings[2].why.contains("1 of 3 members"), "{}", findings[2].why);
    assert!(findings[2].next.contains("a majority of the votes"), "{}", findings[2].next);
    facts.servers[1].server_type = ServerType::RsSecondary;
    let election = diagnose(&facts).into_iter().find(|it| it.code == "no_primary").unwrap();
    assert!(election.next.contains("An election may be in progress"), "{}", election.next);
}

#[test]
fn other_names_of_members_are_distinguished_from_unreachable_servers() {
    let mut facts = set(GOOD);
    facts.seeds = vec![address("proxy:1")];
    facts.left_out = vec![server("proxy:1", ServerType::RsPrimary)];
    facts.servers[1].server_type = ServerType::Unknown;
    let findings = diagnose(&facts);
    assert_eq!(findings[0].code, "member_unreachable");
    assert!(findings[0].next.contains("make the name resolve here"), "{}", findings[0].next);
    let names = findings.iter().find(|it| it.code == "other_names").unwrap();
    assert_eq!(names.what, "the replica set configuration does not contain proxy:1");
}

#[test]
fn unexpected_servers_are_reported() {
    use ServerType::{Mongos, RsPrimary, Standalone};
    for (server_type, set_name, kind, code) in [
        (RsPrimary, Some("other"), DeploymentKind::Unknown, "wrong_set_name"),
        (Standalone, None, DeploymentKind::Unknown, "not_a_member"),
        (Mongos, None, DeploymentKind::Unknown, "not_a_member"),
        (RsPrimary, Some("rs0"), DeploymentKind::Sharded, "not_a_mongos"),
    ] {
        let mut facts = set(GOOD);
        facts.kind = kind;
        facts.servers.clear();
        facts.failure = Some(DeploymentFailure::NoServer("no server replied".to_owned()));
        let set_name = set_name.map(str::to_owned);
        facts.left_out = vec![Server { set_name, ..server("a", server_type) }];
        let problems: Vec<_> =
            found(&facts).into_iter().filter(|it| it.1 == Level::Problem).collect();
        assert_eq!(problems, [(code, Level::Problem)], "{:#?}", diagnose(&facts));
    }
}

#[test]
fn connection_error_determines_the_advice() {
    for (error, advice) in [
        ("I/O error: cannot connect: Connection refused (os error 111)", "Nothing listens there"),
        ("invalid peer certificate: UnknownIssuer", "tlsCAFile"),
        ("the TLS handshake with a failed: tls handshake eof", "may not speak TLS"),
        ("failed to lookup address information", "Check its spelling"),
        ("invalid reply: the peer does not speak the MongoDB wire protocol", "Something else"),
        ("timed out", "no firewall"),
    ] {
        let mut facts = set(GOOD);
        facts.kind = DeploymentKind::Unknown;
        facts.servers = vec![Server::unknown(address("a"))];
        facts.servers[0].error = Some(error.to_owned());
        facts.failure = Some(DeploymentFailure::NoServer("no server replied".to_owned()));
        assert_found(&facts, &[("unreachable", Level::Problem)]);
        let findings = diagnose(&facts);
        assert!(findings[0].next.contains(advice), "{error}: {}", findings[0].next);
    }
}

#[test]
fn standalone_server_has_no_retryable_writes_transactions_and_change_streams() {
    use Level::{Note, Warning};
    let good = GOOD.replace("replicaSet=rs0&", "");
    assert_found(
        &standalone(&good),
        &[("retryable_writes", Warning), ("transactions", Note), ("change_streams", Note)],
    );
    assert_eq!(
        found(&standalone(&format!("{good}&w=1"))).len(),
        3,
        "w=1 is safe on a standalone server"
    );
}

#[test]
fn direct_connection_to_a_member_is_reported_with_its_role() {
    let good = GOOD.replace("a,b,c", "a").replace("replicaSet=rs0", "directConnection=true");
    for (server_type, part) in [
        (ServerType::RsPrimary, "the primary at present"),
        (ServerType::RsSecondary, "writes fail"),
    ] {
        let mut facts = set(&good);
        facts.seeds.truncate(1);
        facts.servers = vec![server("a", server_type)];
        assert_found(&facts, &[("direct_connection", Level::Warning)]);
        assert!(diagnose(&facts)[0].what.contains(part), "{}", diagnose(&facts)[0].what);
    }
}

#[test]
fn one_mongos_and_a_draining_shard_are_noted() {
    let mut facts = standalone(&GOOD.replace("replicaSet=rs0&", ""));
    facts.kind = DeploymentKind::Sharded;
    facts.servers[0].server_type = ServerType::Mongos;
    facts.shards = Some(vec![Shard { draining: true, ..shard("s1", &[]) }]);
    assert_found(&facts, &[("one_mongos", Level::Note), ("draining", Level::Note)]);
}

/// Returns a shard with members in these states.
fn shard(name: &str, states: &[MemberState]) -> Shard {
    let member = |(place, state): (usize, &MemberState)| ShardMember {
        host: format!("{name}-{place}:1"),
        state: state.clone(),
    };
    Shard {
        name: name.to_owned(),
        host: format!("{name}/{name}-0:1"),
        draining: false,
        members: states.iter().enumerate().map(member).collect(),
    }
}

#[test]
fn shards_are_examined_by_the_states_of_their_members() {
    use Level::{Note, Problem, Warning};
    let primary = || MemberState::Primary;
    let secondary = |knows_primary| MemberState::Secondary { knows_primary };
    let unreached = || MemberState::Unreached("connection refused".to_owned());
    let healthy = || shard("s0", &[primary(), secondary(true), secondary(true)]);
    let failed = || Some("operation exceeded time limit".to_owned());
    let no_primary = ("shard_without_primary", Problem);
    for (members, cluster_error, expected) in [
        (vec![primary(), secondary(true), secondary(true)], None, vec![]),
        (vec![unreached(), unreached(), secondary(false)], failed(), vec![no_primary]),
        (vec![secondary(false), secondary(false), secondary(false)], None, vec![no_primary]),
        (vec![unreached(), unreached(), unreached()], failed(), vec![no_primary]),
        // The mongos reaches the members, this machine does not.
        (vec![unreached(), unreached(), unreached()], None, vec![]),
        (
            vec![unreached(), secondary(true), secondary(true)],
            None,
            vec![("shard_member_unreachable", Warning)],
        ),
        (vec![primary(), MemberState::Other, secondary(true)], None, vec![("not_ready", Warning)]),
        (vec![primary()], None, vec![("one_member", Note)]),
        (vec![], None, vec![]),
        (
            vec![primary(), secondary(true), secondary(true)],
            failed(),
            vec![("shards_unanswered", Problem)],
        ),
    ] {
        let mut facts = cluster();
        facts.shards = Some(vec![healthy(), shard("s1", &members)]);
        facts.cluster_error = cluster_error;
        assert_found(&facts, &expected);
    }
    let mut facts = cluster();
    facts.shards = None;
    facts.cluster_error = failed();
    assert_found(&facts, &[("config_servers", Problem)]);
}

/// Facts of a cluster with two mongos.
fn cluster() -> Facts {
    let mut facts = standalone(&GOOD.replace("replicaSet=rs0&", "").replace("a,b,c", "a,b"));
    facts.kind = DeploymentKind::Sharded;
    let mongos = |host| Server { set_name: None, ..server(host, ServerType::Mongos) };
    facts.servers = ["a", "b"].map(mongos).to_vec();
    facts.seeds = ["a", "b"].map(address).to_vec();
    facts
}

#[test]
fn missing_and_disabled_authentication_are_reported() {
    use Level::{Note, Problem, Warning};
    let mut facts = set(GOOD);
    facts.login = Default::default();
    facts.login.required = Some(true);
    assert_found(&facts, &[("login_needed", Problem)]);
    facts.login.required = Some(false);
    assert_found(&facts, &[("no_access_control", Warning)]);
    let local = ["127.0.0.1:1", "localhost:2", "[::1]:3"].map(address);
    for (server, address) in facts.servers.iter_mut().zip(&local) {
        server.address = address.clone();
    }
    facts.seeds = local.to_vec();
    facts.uri.tls = None;
    assert_found(&facts, &[("no_access_control", Note)]);
}
