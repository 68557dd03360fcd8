//! Tests of `steadfast doctor` on healthy and faulty deployments.
#![allow(missing_docs)]

#[allow(dead_code, reason = "shared with tests that use more of it")]
mod program;

use std::{
    net::TcpListener,
    process::Output,
    time::{Duration, Instant},
};

use ::steadfast::bson::doc;
use program::steadfast;
use serde_json::Value;
use steadfast_embedded::{Builder, Deployment};
use testbed::{Mongod, Options, ReplicaSet, TestCa, User};

/// Starts a deployment on its own thread, which runs while the test waits for a program.
fn start(builder: Builder) -> Deployment {
    builder.in_thread().start()
}

fn run(arguments: &[&str]) -> Output {
    steadfast(&[&["doctor"], arguments].concat()).env_remove("STEADFAST_URI").output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns standard error without the note that server selection takes time, as on a busy machine.
fn stderr_without_progress(output: &Output) -> String {
    let is_of_time = |line: &&str| !line.contains(": looking for the servers of ");
    stderr(output).split_inclusive('\n').filter(is_of_time).collect()
}

/// Returns the document of `--json`, and checks the exit status.
#[track_caller]
fn diagnosis(uri: &str, status: i32) -> Value {
    let output = run(&[uri, "--json", "--quiet"]);
    let text = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(status), "{text:?}");
    let diagnosis: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(diagnosis["counts"]["problem"].as_u64().unwrap() > 0, status == 1, "{diagnosis}");
    diagnosis
}

/// Returns the codes of the findings of a level.
fn codes(diagnosis: &Value, level: &str) -> Vec<String> {
    let findings = diagnosis["findings"].as_array().unwrap().iter();
    let findings = findings.filter(|finding| finding["level"] == level);
    findings.map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
}

fn finding<'a>(diagnosis: &'a Value, code: &str) -> &'a Value {
    let findings = diagnosis["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["code"] == code).unwrap_or_else(|| panic!("{diagnosis}"))
}

fn server<'a>(diagnosis: &'a Value, address: &str) -> &'a Value {
    let servers = diagnosis["servers"].as_array().unwrap();
    servers.iter().find(|server| server["address"] == address).unwrap()
}

#[test]
fn healthy_replica_set_has_ok_findings() {
    let set = start(Deployment::replica_set(3));
    let output = run(&[&format!("{}&timeoutMS=5000&appName=shop", set.uri())]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = stdout(&output);
    assert!(report.starts_with("the replica set rs0, 3 members\n"), "{report}");
    let primary = format!("  {}  primary    8.0.0 (wire 25)  ", set.member(0).address());
    assert!(report.contains(&primary), "{report}");
    assert_eq!(report.matches("  secondary  8.0.0").count(), 2, "{report}");
    assert!(
        report.contains("\nok       writes are retried, and applied at most once\n"),
        "{report}"
    );
    assert!(report.contains("\nok       operations time out after 5s"), "{report}");
    // On a busy machine, the round trip may be long.
    let is_far = report.contains("\nnote     a round trip to the nearest server");
    let notes = if is_far { "2 notes" } else { "1 note" };
    assert!(report.ends_with(&format!("\n0 problems, 0 warnings, {notes}\n")), "{report}");
    assert!(report.lines().all(|line| line.chars().count() <= 80), "{report}");
    assert_eq!(stderr_without_progress(&output), "");
}

#[test]
fn findings_are_printed_as_json() {
    let set = start(Deployment::replica_set(3));
    let diagnosis = diagnosis(&set.uri(), 0);
    assert_eq!(diagnosis["connected"], true);
    assert_eq!(diagnosis["deployment"]["type"], "replica set");
    assert_eq!(diagnosis["deployment"]["setName"], "rs0");
    let servers = diagnosis["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 3);
    for server in servers {
        assert_eq!(server["version"], "8.0.0");
        assert_eq!(server["sessionTimeoutMinutes"], 30);
        assert!(
            server["pingMedianMs"].as_f64().unwrap() <= server["pingWorstMs"].as_f64().unwrap()
        );
        assert!(server["clockAheadMs"].is_i64());
    }
    assert_eq!(server(&diagnosis, &set.member(0).address().to_string())["type"], "RSPrimary");
    assert_eq!(diagnosis["tls"]["enabled"], false);
    assert_eq!(diagnosis["login"]["required"], false);
    let deadlines = finding(&diagnosis, "deadlines");
    assert_eq!(deadlines["level"], "note");
    assert!(deadlines["next"].as_str().unwrap().contains("timeoutMS=10000"));
    assert_eq!(finding(&diagnosis, "retryable_writes")["why"], Value::Null);
}

#[test]
fn standalone_server_has_no_retryable_writes() {
    let server = start(Deployment::standalone());
    let diagnosis = diagnosis(&server.uri(), 0);
    let writes = finding(&diagnosis, "retryable_writes");
    assert_eq!(writes["level"], "warning");
    assert!(writes["what"].as_str().unwrap().contains("standalone"), "{writes}");
    assert!(writes["next"].as_str().unwrap().contains("--replSet"), "{writes}");
    assert_eq!(finding(&diagnosis, "transactions")["level"], "note");
}

#[test]
fn sharded_cluster_has_its_mongos_and_shards() {
    let cluster = start(Deployment::sharded(&["alfa", "bravo"]).mongos_count(2));
    let diagnosis = diagnosis(&cluster.uri(), 0);
    assert_eq!(diagnosis["deployment"]["type"], "sharded cluster");
    assert_eq!(diagnosis["servers"][1]["type"], "Mongos");
    let shards = diagnosis["shards"].as_array().unwrap();
    assert_eq!(shards[0]["name"], "alfa");
    assert!(shards[1]["host"].as_str().unwrap().starts_with("bravo/127.0.0.1:"));
    let report = stdout(&run(&[&cluster.uri()]));
    assert!(report.starts_with("a sharded cluster, 2 mongos, 2 shards\n"), "{report}");
}

#[test]
fn load_balanced_cluster_has_its_shards() {
    let cluster = start(Deployment::sharded(&["alfa"]).load_balanced());
    let diagnosis = diagnosis(&cluster.uri(), 0);
    assert_eq!(diagnosis["deployment"]["type"], "load balanced");
    assert_eq!(diagnosis["servers"][0]["version"], "8.0.0");
    assert_eq!(diagnosis["shards"][0]["name"], "alfa");
    assert_eq!(finding(&diagnosis, "retryable_writes")["level"], "ok");
}

#[test]
fn overloaded_server_is_examined() {
    let limited = Deployment::standalone().version("8.2").request_rate(20.0, 1.0);
    let diagnosis = diagnosis(&start(limited).uri(), 0);
    assert_eq!(diagnosis["servers"][0]["maxWireVersion"], 27);
    assert!(finding(&diagnosis, "overload")["what"].as_str().unwrap().contains("with backoff"));
}

/// Time-outs of a connection string that `--timeout` must override.
const LONG_TIMEOUTS: &str = "connectTimeoutMS=1200000&serverSelectionTimeoutMS=1200000";
/// More time than a slow machine needs.
const HANG_LIMIT: Duration = Duration::from_secs(600);

#[test]
fn frozen_member_does_not_exceed_the_timeout() {
    let set = start(Deployment::replica_set(3));
    set.faults().freeze(2);
    let uri = format!("{}&{LONG_TIMEOUTS}", set.uri());
    let begun = Instant::now();
    let output = run(&[&uri, "--json", "--timeout", "10s"]);
    assert!(begun.elapsed() < HANG_LIMIT, "{:?}", begun.elapsed());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let diagnosis: Value = serde_json::from_slice(&output.stdout).unwrap();
    let silent = finding(&diagnosis, "member_unreachable");
    let address = set.member(2).address().to_string();
    assert!(silent["what"].as_str().unwrap().starts_with(&address), "{silent}");
    assert!(silent["why"].as_str().unwrap().starts_with("It did not reply within"), "{silent}");
    let primary = server(&diagnosis, &set.member(0).address().to_string());
    assert_eq!(primary["version"], "8.0.0", "the other members are examined");
}

#[test]
fn login_is_shown_without_the_password() {
    let set = start(Deployment::replica_set(1).auth("app", "s3cret"));
    let good = set.uri();
    assert!(good.contains("app:s3cret@"), "{good}");
    let wrong = good.replace("s3cret", "wr0ng");
    let without_user = good.replace("app:s3cret@", "");
    for (uri, status, code) in
        [(&good, 0, "login"), (&wrong, 1, "login_failed"), (&without_user, 1, "login_needed")]
    {
        for more in [&[][..], &["--json"]] {
            let output = run(&[&[uri.as_str()], more].concat());
            let text = stdout(&output) + &stderr(&output);
            assert_eq!(output.status.code(), Some(status), "{text}");
            assert!(!text.contains("s3cret") && !text.contains("wr0ng"), "{text}");
        }
        let diagnosis = diagnosis(uri, status);
        finding(&diagnosis, code);
        assert_eq!(diagnosis["servers"][0]["type"], "RSPrimary", "the server replies to hello");
    }
    let diagnosis = diagnosis(&good, 0);
    assert_eq!(diagnosis["login"]["users"][0], "app@admin");
    assert_eq!(diagnosis["login"]["roles"][0], "root@admin");
}

#[test]
fn unreachable_member_is_reported_with_the_reason() {
    let set = start(Deployment::replica_set(3));
    set.faults().kill(2);
    let diagnosis = diagnosis(&set.uri(), 1);
    assert_eq!(diagnosis["connected"], true);
    let down = finding(&diagnosis, "member_unreachable");
    let address = set.member(2).address().to_string();
    assert_eq!(down["what"], format!("{address} cannot be reached; others can"));
    assert!(down["why"].as_str().unwrap().contains("refused"), "{down}");
    assert_eq!(server(&diagnosis, &address)["type"], "Unknown");
    assert_eq!(codes(&diagnosis, "problem"), ["member_unreachable"]);
    assert_eq!(finding(&diagnosis, "retryable_writes")["level"], "ok", "the other members are up");
}

#[test]
fn set_without_a_majority_has_no_primary() {
    let set = start(Deployment::replica_set(3));
    set.faults().kill(0);
    set.faults().kill(1);
    let output = run(&[&set.uri(), "--json", "--timeout", "10s"]);
    assert_eq!(output.status.code(), Some(1));
    let diagnosis: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(diagnosis["connected"], false);
    let none = finding(&diagnosis, "no_primary");
    assert!(none["why"].as_str().unwrap().contains("1 of 3 members"), "{none}");
    assert!(none["next"].as_str().unwrap().contains("majority"), "{none}");
    assert!(stderr(&output).contains("looking for the servers of"), "{}", stderr(&output));
}

#[test]
fn short_timeouts_are_reported_and_not_used() {
    let set = start(Deployment::replica_set(1));
    set.faults().latency(0, Duration::from_millis(5), Duration::ZERO);
    let uri = format!("{}&timeoutMS=1&socketTimeoutMS=1&waitQueueTimeoutMS=1", set.uri());
    let diagnosis = diagnosis(&uri, 1);
    assert_eq!(diagnosis["connected"], true);
    assert_eq!(codes(&diagnosis, "problem"), ["limit_too_short"]);
    assert!(codes(&diagnosis, "note").contains(&"overruled".to_owned()), "{diagnosis}");
}

#[test]
fn clock_difference_is_reported() {
    let set = start(Deployment::replica_set(3));
    set.faults().clock_skew(1, Duration::from_secs(120));
    let diagnosis = diagnosis(&set.uri(), 0);
    let clocks = finding(&diagnosis, "clocks");
    assert_eq!(clocks["level"], "warning");
    let address = set.member(1).address().to_string();
    assert!(clocks["what"].as_str().unwrap().contains(&address), "{clocks}");
    assert!(clocks["what"].as_str().unwrap().contains("ahead of"), "{clocks}");
}

#[test]
fn other_replica_set_name_is_reported() {
    let set = start(Deployment::replica_set(3));
    let other = set.uri().replace("replicaSet=rs0", "replicaSet=rs1");
    let diagnosis_of_other = diagnosis(&other, 1);
    let wrong = finding(&diagnosis_of_other, "wrong_set_name");
    assert!(wrong["what"].as_str().unwrap().contains("the replica set rs0, not rs1"), "{wrong}");
    assert!(wrong["next"].as_str().unwrap().contains("replicaSet=rs0"), "{wrong}");
    let direct = format!("{}&replicaSet=rs1", set.direct_uri(0));
    finding(&diagnosis(&direct, 1), "wrong_set_name");
    let server = start(Deployment::standalone());
    let member = format!("{}?replicaSet=rs0", server.uri());
    finding(&diagnosis(&member, 1), "not_a_member");
}

#[test]
fn other_names_of_members_are_reported() {
    let set = start(Deployment::replica_set(3));
    let port = set.member(0).address().port();
    let diagnosis = diagnosis(&format!("mongodb://localhost:{port}/"), 0);
    let names = finding(&diagnosis, "other_names");
    assert!(names["what"].as_str().unwrap().contains(&format!("localhost:{port}")), "{names}");
    for code in ["one_seed", "set_name_missing"] {
        assert!(codes(&diagnosis, "note").contains(&code.to_owned()), "{diagnosis}");
    }
}

#[test]
fn unreachable_server_is_reported_with_advice() {
    // Nothing listens on port 1.
    let address = "127.0.0.1:1";
    let output = run(&[&format!("mongodb://{address}/")]);
    assert_eq!(output.status.code(), Some(1));
    let report = stdout(&output);
    assert!(report.starts_with(&format!("{address}: not reached\n")), "{report}");
    assert!(report.contains(&format!("PROBLEM  {address} cannot be reached")), "{report}");
    assert!(report.contains("do:  Nothing listens there."), "{report}");
    assert_eq!(stderr_without_progress(&output), "steadfast doctor: 1 problem was found\n");
}

#[test]
fn timeout_applies_to_an_unresponsive_server() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("mongodb://{}/?{LONG_TIMEOUTS}", silent.local_addr().unwrap());
    let begun = Instant::now();
    // Server selection takes up to twelve of the twenty seconds, with a note after the first.
    let output = run(&[&uri, "--timeout", "20s"]);
    assert!(begun.elapsed() < HANG_LIMIT, "{:?}", begun.elapsed());
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("It did not reply within 12s."), "{}", stdout(&output));
    let note = "steadfast doctor: looking for the servers of 127.0.0.1:";
    assert!(stderr(&output).starts_with(note), "{}", stderr(&output));
}

#[test]
fn wrong_connection_strings_are_not_quoted() {
    for uri in ["mongo://root:s3cret@host", "mongodb://root:s3cret@", "mongodb://a/?w=-5", "s3cret"]
    {
        let output = run(&[uri]);
        assert_eq!(output.status.code(), Some(2), "{uri}: {}", stderr(&output));
        assert!(stderr(&output).starts_with("steadfast doctor: URI: "), "{}", stderr(&output));
        assert!(!stderr(&output).contains("s3cret"), "{}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
    assert_eq!(run(&[]).status.code(), Some(2));
    assert_eq!(run(&["mongodb://a", "--timeout", "0"]).status.code(), Some(2));
}

#[test]
fn connection_string_can_come_from_the_environment() {
    let server = start(Deployment::standalone());
    let mut command = steadfast(&["doctor", "--json"]);
    let output = command.env("STEADFAST_URI", server.uri()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn real_servers_are_examined() {
    testbed::require!(V6_0);
    let set = ReplicaSet::start(3, Options::new()).unwrap();
    let healthy = diagnosis(&set.uri(), 0);
    let servers = healthy["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 3);
    for server in servers {
        let version = server["version"].as_str().unwrap();
        assert!(version.split('.').count() == 3 && server["maxWireVersion"].is_i64(), "{server}");
    }
    assert_eq!(finding(&healthy, "votes")["level"], "ok");
    assert_eq!(finding(&healthy, "clocks")["level"], "ok");
    assert_eq!(finding(&healthy, "retryable_writes")["level"], "ok");
    assert_eq!(codes(&healthy, "warning"), [""; 0]);
    set.wait_for_primary().unwrap();
    let secondary = servers.iter().find(|server| server["type"] == "RSSecondary").unwrap();
    let position = set.addresses().iter().position(|it| secondary["address"] == it.to_string());
    set.kill(position.unwrap()).unwrap();
    let hurt = diagnosis(&set.uri(), 1);
    assert_eq!(codes(&hurt, "problem"), ["member_unreachable"]);
}

#[test]
fn record_lifetime_below_the_session_timeout_is_found_on_real_servers() {
    testbed::require!(V6_0);
    let set = ReplicaSet::start(1, Options::new()).unwrap();
    let healthy = diagnosis(&set.uri(), 0);
    assert_eq!(finding(&healthy, "record_lifetime")["level"], "ok");
    assert_eq!(healthy["recordLifetimes"][0]["minutes"], 30);
    let short = Options::new().parameter("TransactionRecordMinimumLifetimeMinutes=0");
    let set = ReplicaSet::start(1, short).unwrap();
    let short_lived = diagnosis(&set.uri(), 0);
    let found = finding(&short_lived, "record_lifetime");
    assert_eq!(found["level"], "warning");
    assert!(found["what"].as_str().unwrap().contains(&set.addresses()[0].to_string()), "{found}");
    assert_eq!(short_lived["servers"][0]["sessionTimeoutMinutes"], 30, "hello does not show it");
    assert_eq!(short_lived["recordLifetimes"][0]["minutes"], 0);
}

#[test]
fn record_lifetimes_of_shards_are_read_directly() {
    let cluster = start(Deployment::sharded(&["alfa", "bravo"]));
    let healthy = diagnosis(&cluster.uri(), 0);
    let read = healthy["recordLifetimes"].as_array().unwrap();
    assert_eq!(read.len(), 6, "{healthy}");
    assert!(read.iter().all(|it| it["minutes"] == 30), "{healthy}");
    assert_eq!(finding(&healthy, "record_lifetime")["level"], "ok");
    cluster.shard("bravo").faults().kill(2);
    let hurt = diagnosis(&cluster.uri(), 0);
    let down = cluster.shard("bravo").members()[2].address().to_string();
    let note = finding(&hurt, "record_lifetime_not_read");
    assert!(note["what"].as_str().unwrap().contains(&down), "{note}");
    assert!(codes(&hurt, "warning").iter().all(|code| code != "record_lifetime"), "{hurt}");
}

#[test]
fn unauthorized_reads_are_reported_as_unknown() {
    testbed::require!(V6_0);
    let roles = [doc! { "role": "readWrite", "db": "shop" }];
    let user = User::new("app", "s3cret").roles(roles);
    let set = ReplicaSet::start(1, Options::new().user(user)).unwrap();
    let address = set.addresses()[0];
    let diagnosis =
        diagnosis(&format!("mongodb://app:s3cret@{address}/?replicaSet={}", set.name()), 0);
    assert_eq!(diagnosis["login"]["roles"][0], "readWrite@shop");
    assert_eq!(finding(&diagnosis, "not_examined")["level"], "note");
    assert_eq!(finding(&diagnosis, "record_lifetime_not_read")["level"], "note");
    assert_eq!(finding(&diagnosis, "retryable_writes")["level"], "ok");
}

#[test]
fn tls_is_examined_on_real_servers() {
    testbed::require!(V6_0);
    let ca = TestCa::new().unwrap();
    let server = Mongod::standalone(Options::new().tls(&ca)).unwrap();
    let host = format!("mongodb://localhost:{}/", server.address().port());
    let file = ca.ca_file();
    let trusted = format!("{host}?tls=true&tlsCAFile={}", file.display());
    let good = diagnosis(&trusted, 0);
    assert_eq!(finding(&good, "tls")["level"], "ok");
    assert_eq!(good["tls"]["verifiesHostnames"], true);
    let careless = diagnosis(&format!("{host}?tls=true&tlsInsecure=true"), 0);
    assert_eq!(finding(&careless, "tls_unverified")["level"], "warning");
    let untrusted = diagnosis(&format!("{host}?tls=true"), 1);
    let why = finding(&untrusted, "unreachable");
    assert!(why["next"].as_str().unwrap().contains("tlsCAFile"), "{why}");
    let plain = diagnosis(&host, 1);
    let why = finding(&plain, "unreachable");
    assert!(why["next"].as_str().unwrap().contains("Try tls=true"), "{why}");
}

#[test]
fn help_explains_the_levels() {
    let help = stdout(&run(&["--help"]));
    assert!(help.contains("Exit status: 0 if there is no problem"), "{help}");
    assert!(help.contains("[env: STEADFAST_URI]"), "{help}");
}
