//! Tests of `steadfast chaos`: verdict, output and errors.
#![allow(missing_docs)]

mod arguments;
mod deployment;
#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "../program/mod.rs"]
mod program;
mod report;
mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use steadfast_embedded::Deployment;
use support::chaos;

/// A run of some seconds. Even on a machine that stalls for three of them, each kind of fault occurs.
const SHORT: [&str; 6] = ["--duration", "6s", "--rate", "100", "--json", "--quiet"];

const KINDS: [&str; 11] = [
    "bulk_write",
    "delete_one",
    "find_one_and_delete",
    "find_one_and_replace",
    "find_one_and_update",
    "increment",
    "insert_many",
    "insert_one",
    "replace_one",
    "transaction",
    "update_one",
];

fn all_zeros() -> Value {
    json!({
        "clean": true,
        "duplicated": 0,
        "lost": 0,
        "wronglyLabelled": 0,
        "torn": 0,
        "foreign": 0,
    })
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn names(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// Returns the faults of a run in their order.
fn faults(document: &Value) -> Vec<String> {
    let incidents = document["incidents"].as_array().expect("incidents");
    incidents.iter().map(|it| it["fault"].as_str().expect("its name").to_owned()).collect()
}

#[test]
fn run_in_memory_is_clean_and_its_json_is_documented() {
    let output = chaos(&SHORT).output();
    let document = output.document();
    assert_eq!((output.status, output.stderr.as_str()), (Some(0), ""), "{output}");
    assert_eq!(document["verdict"], all_zeros(), "{output}");
    assert_eq!(document["contradictions"], json!([]), "{output}");
    assert_eq!(document["interrupted"], false);
    assert_eq!(document["report"], Value::Null);
    let plan = &document["plan"];
    for (field, value) in [
        ("servers", json!("embedded")),
        ("strategy", json!("retryable-writes")),
        ("tasks", json!(8)),
        ("rate", json!(100)),
        ("durationMs", json!(6000.0)),
        ("timeoutMs", json!(10000.0)),
        ("seed", json!(1)),
    ] {
        assert_eq!(plan[field], value, "{field}");
    }
    let operations = &document["operations"];
    let all = number(&operations["all"]);
    assert!((1..=600).contains(&all), "at most the planned number: {output}");
    let sum: u64 =
        ["acknowledged", "notApplied", "inDoubt"].map(|it| number(&operations[it])).iter().sum();
    assert_eq!(sum, all, "{output}");
    assert_eq!(names(&document["kinds"]), KINDS);
    assert!(
        number(&document["attempts"]["all"]) >= number(&operations["acknowledged"]),
        "{output}"
    );
    let by = document["attempts"]["operationsByAttempts"].as_object().expect("an object");
    assert_eq!(by.values().map(number).sum::<u64>(), all, "{output}");
    assert_eq!(names(&document["latencyMs"]), ["max", "p50", "p90", "p99", "p999"]);
    assert!(!faults(&document).is_empty(), "{output}");
    let guide = include_str!("../../../../docs/chaos.md");
    let mut all = Vec::new();
    fields(&document, &mut all);
    assert!(all.len() > 50, "{all:?}");
    for name in all {
        assert!(guide.contains(&format!("`{name}`")), "the guide does not say what {name} is");
    }
}

/// Collects the names of all fields, except those that are data: kinds of operations and numbers of attempts.
fn fields(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let is_data = KINDS.contains(&name.as_str()) || name.parse::<u32>().is_ok();
                into.extend((!is_data).then(|| name.clone()));
                fields(value, into);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| fields(value, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn run_on_real_servers_is_clean() {
    testbed::require!(V6_0);
    let output = chaos(&["--mongod", "--duration", "6s", "--rate", "100", "--json"]).output();
    assert_eq!(output.status, Some(0), "{output}");
    let document = output.document();
    assert_eq!(document["verdict"], all_zeros(), "{output}");
    assert_eq!(document["plan"]["servers"], "mongod");
    assert!(document["server"].as_str().is_some_and(|it| it.starts_with("mongod ")), "{output}");
    assert!(number(&document["operations"]["acknowledged"]) > 0, "{output}");
}

/// Chunks move between the shards while mongos and members are killed, frozen and stepped down.
#[test]
fn run_on_a_sharded_cluster_of_real_servers_is_clean() {
    testbed::require!(V8_2);
    let load = ["--duration", "20s", "--rate", "100", "--json", "--quiet"];
    let output = chaos(&[&["--mongod", "--sharded"][..], &load].concat()).output();
    assert_eq!(output.status, Some(0), "{output}");
    let document = output.document();
    assert_eq!(document["verdict"], all_zeros(), "{output}");
    assert_eq!(document["plan"]["servers"], "sharded");
    assert!(number(&document["operations"]["acknowledged"]) > 0, "{output}");
    let faults = faults(&document);
    for fault in ["cuts", "drops", "migrate"] {
        assert!(faults.iter().any(|it| it == fault), "{fault}: {output}");
    }
    assert!(
        faults.iter().any(|it| ["kill", "freeze", "step-down"].contains(&it.as_str())),
        "{output}"
    );
    let incidents = document["incidents"].as_array().expect("incidents").iter();
    let moved = incidents.filter(|it| it["fault"] == "migrate").map(|it| number(&it["hits"]));
    assert!(moved.sum::<u64>() > 0, "a chunk has moved: {output}");
}

#[test]
fn dropped_transactions_are_in_doubt_and_none_is_torn() {
    let load = ["--workload", "transactions", "--faults", "drops", "--tasks", "24"];
    for servers in ["--embedded", "--mongod"] {
        if servers == "--mongod" {
            testbed::require!(V6_0);
        }
        let output = chaos(&[&[servers][..], &load, &SHORT].concat()).output();
        assert_eq!(output.status, Some(0), "{output}");
        let document = output.document();
        assert_eq!(document["verdict"], all_zeros(), "{output}");
        assert_eq!(names(&document["kinds"]), ["transaction"]);
        let operations = &document["operations"];
        let dropped = number(&operations["dropped"]);
        assert!(dropped > 0 && dropped == number(&operations["inDoubt"]), "{output}");
        let hits = document["incidents"].as_array().expect("incidents").iter();
        assert_eq!(hits.map(|it| number(&it["hits"])).sum::<u64>(), dropped, "{output}");
        assert!(faults(&document).iter().all(|fault| fault == "drops"), "{output}");
    }
}

#[test]
fn always_retry_duplicates_writes_and_fails_the_run() {
    let load = ["--strategy", "always-retry", "--faults", "cuts", "--workload", "increments"];
    // The seed determines which requests lose their reply. With this one, the first is among the first thirty.
    let time = ["--duration", "10s", "--rate", "100", "--seed", "9"];
    let output = chaos(&[&load[..], &time].concat()).output();
    assert_eq!(output.status, Some(1), "{output}");
    let (first, _) = output.stdout.split_once('\n').expect("lines");
    let (number, rest) = first.split_once(' ').expect("a number");
    assert!(number.parse::<u64>().is_ok_and(|number| number > 0), "{output}");
    assert!(rest.starts_with("duplicated   0 lost "), "{output}");
    assert!(output.stdout.contains("\n  duplicated: operation "), "{output}");
    assert!(
        output.stdout.contains(": acknowledged, and found 2 times; attempts failed: "),
        "{output}"
    );
    let why = "steadfast chaos: the results of writes contradict the database: ";
    assert!(output.stderr.contains(why), "{output}");
    let again = "steadfast chaos --seed 9 --duration 10s --rate 100 --strategy always-retry --workload \
                 increments --faults cuts";
    let words = output.stdout.replace('\\', " ");
    let words: Vec<&str> = words.split_whitespace().collect();
    assert!(words.join(" ").ends_with(again), "{output}");
}

/// Groups of faults that follow each other. Their number depends on the recovery time of the servers.
const LANES: [&[&str]; 4] =
    [&["cuts"], &["drops"], &["slow", "overload"], &["step-down", "kill", "freeze"]];

#[test]
fn seed_determines_the_faults_and_their_order() {
    let run = || chaos(&[&SHORT[..], &["--seed", "7"]].concat()).start();
    let [one, again] = [run(), run()].map(|running| {
        let output = running.output();
        assert_eq!(output.status, Some(0), "{output}");
        faults(&output.document())
    });
    for lane in LANES {
        let of = |faults: &[String]| -> Vec<String> {
            faults.iter().filter(|fault| lane.contains(&fault.as_str())).cloned().collect()
        };
        let (one, again) = (of(&one), of(&again));
        let both = one.len().min(again.len());
        assert!(both > 0, "{one:?} and {again:?}");
        assert_eq!(one[..both], again[..both]);
    }
}

#[test]
fn text_begins_with_the_verdict() {
    let output = chaos(&["--duration", "5s", "--rate", "100", "--color", "always"]).output();
    assert_eq!(output.status, Some(0), "{output}");
    assert!(output.stdout.starts_with("\x1b[32m"), "{output}");
    let plain = output.stdout.replace("\x1b[32m", "").replace("\x1b[1m", "").replace("\x1b[0m", "");
    assert!(plain.starts_with("0 duplicated   0 lost   0 wrongly labelled   0 torn\n"), "{output}");
    for label in
        ["servers ", "load ", "operations  ", "attempts ", "latency ", "failovers ", "repeat "]
    {
        assert!(plain.lines().any(|line| line.starts_with(label)), "{label} is missing: {output}");
    }
    assert!(plain.lines().count() <= 40, "{output}");
    assert!(plain.lines().all(|line| line.chars().count() <= 100), "{output}");
    for note in ["three servers in memory", "the load begins", "counting the marks"] {
        assert!(output.stderr.contains(note), "{note} is missing: {output}");
    }
}

#[test]
fn run_without_faults_has_no_retries() {
    let set = Deployment::replica_set(3).in_thread().start();
    // Prevents failed heartbeats on a busy machine that stalls for seconds.
    let uri = format!("{}&connectTimeoutMS=120000", set.uri());
    let load = ["--faults", "none", "--duration", "5s", "--json", "--quiet"];
    let output = chaos(&[&["--uri", &uri], &load[..]].concat()).output();
    let document = output.document();
    assert_eq!(output.status, Some(0), "{output}");
    assert_eq!(document["plan"]["faults"], json!([]));
    assert_eq!(document["incidents"], json!([]));
    assert_eq!(document["errors"], json!([]));
    assert_eq!(names(&document["attempts"]["operationsByAttempts"]), ["1"], "{output}");
}

#[test]
fn operations_before_ctrl_c_are_counted() {
    let mut running = chaos(&["--duration", "10m", "--json"]).start();
    running.wait_for_operations();
    let began = Instant::now();
    running.signal("-INT");
    let output = running.output();
    assert!(began.elapsed() < Duration::from_secs(300), "before the end of the run");
    assert_eq!(output.status, Some(1), "{output}");
    assert!(
        output.stderr.contains("interrupted: the load ends and its writes are counted"),
        "{output}"
    );
    assert!(output.stderr.contains("steadfast chaos: interrupted after "), "{output}");
    assert!(output.stderr.contains(" of 10m; the operations until then are counted"), "{output}");
    let document = output.document();
    assert_eq!(document["interrupted"], true);
    assert_eq!(document["verdict"], all_zeros(), "{output}");
    assert!(number(&document["operations"]["acknowledged"]) > 0, "{output}");
}
