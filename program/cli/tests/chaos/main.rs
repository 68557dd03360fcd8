//! `steadfast chaos` as its users meet it: the verdict, what is printed, and every way for it to go wrong.
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

/// Some seconds, and no file. (A machine that stands still for three of them still gets to the first of each kind
/// of fault.)
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
        "unheardOf": 0,
    })
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn names(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// The faults of a run, in their order.
fn faults(document: &Value) -> Vec<String> {
    let incidents = document["incidents"].as_array().expect("incidents");
    incidents.iter().map(|it| it["fault"].as_str().expect("its name").to_owned()).collect()
}

#[test]
fn nothing_is_lost_or_made_twice_in_memory_and_a_program_is_told_all_of_it() {
    let said = chaos(&SHORT).said();
    let document = said.document();
    assert_eq!((said.status, said.notes.as_str()), (Some(0), ""), "{said}");
    assert_eq!(document["verdict"], all_zeros(), "{said}");
    assert_eq!(document["contradictions"], json!([]), "{said}");
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
    assert!((1..=600).contains(&all), "as many as there was time for: {said}");
    let sum: u64 =
        ["acknowledged", "notApplied", "inDoubt"].map(|it| number(&operations[it])).iter().sum();
    assert_eq!(sum, all, "{said}");
    assert_eq!(names(&document["kinds"]), KINDS);
    assert!(number(&document["attempts"]["all"]) >= number(&operations["acknowledged"]), "{said}");
    let by = document["attempts"]["operationsByAttempts"].as_object().expect("an object");
    assert_eq!(by.values().map(number).sum::<u64>(), all, "{said}");
    assert_eq!(names(&document["latencyMs"]), ["max", "p50", "p90", "p99", "p999"]);
    assert!(!faults(&document).is_empty(), "{said}");
    let guide = include_str!("../../../../docs/chaos.md");
    let mut all = Vec::new();
    fields(&document, &mut all);
    assert!(all.len() > 50, "{all:?}");
    for name in all {
        assert!(guide.contains(&format!("`{name}`")), "the guide does not say what {name} is");
    }
}

/// The names of all fields, but those that are data: kinds of operations, and how many attempts.
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
fn nothing_is_lost_or_made_twice_on_real_servers() {
    testbed::require!(V6_0);
    let said = chaos(&["--mongod", "--duration", "6s", "--rate", "100", "--json"]).said();
    assert_eq!(said.status, Some(0), "{said}");
    let document = said.document();
    assert_eq!(document["verdict"], all_zeros(), "{said}");
    assert_eq!(document["plan"]["servers"], "mongod");
    assert!(document["server"].as_str().is_some_and(|it| it.starts_with("mongod ")), "{said}");
    assert!(number(&document["operations"]["acknowledged"]) > 0, "{said}");
}

/// While mongos and members are killed, frozen and stepped down, chunks move between the shards.
#[test]
fn nothing_is_lost_or_made_twice_on_a_sharded_cluster_of_real_servers() {
    testbed::require!(V8_2);
    let load = ["--duration", "20s", "--rate", "100", "--json", "--quiet"];
    let said = chaos(&[&["--mongod", "--sharded"][..], &load].concat()).said();
    assert_eq!(said.status, Some(0), "{said}");
    let document = said.document();
    assert_eq!(document["verdict"], all_zeros(), "{said}");
    assert_eq!(document["plan"]["servers"], "sharded");
    assert!(number(&document["operations"]["acknowledged"]) > 0, "{said}");
    let faults = faults(&document);
    for fault in ["cuts", "drops", "migrate"] {
        assert!(faults.iter().any(|it| it == fault), "{fault}: {said}");
    }
    assert!(
        faults.iter().any(|it| ["kill", "freeze", "step-down"].contains(&it.as_str())),
        "{said}"
    );
    let incidents = document["incidents"].as_array().expect("incidents").iter();
    let moved = incidents.filter(|it| it["fault"] == "migrate").map(|it| number(&it["hits"]));
    assert!(moved.sum::<u64>() > 0, "a chunk has moved: {said}");
}

#[test]
fn dropped_transactions_are_in_doubt_and_none_is_torn() {
    let load = ["--workload", "transactions", "--faults", "drops", "--tasks", "24"];
    for servers in ["--embedded", "--mongod"] {
        if servers == "--mongod" {
            testbed::require!(V6_0);
        }
        let said = chaos(&[&[servers][..], &load, &SHORT].concat()).said();
        assert_eq!(said.status, Some(0), "{said}");
        let document = said.document();
        assert_eq!(document["verdict"], all_zeros(), "{said}");
        assert_eq!(names(&document["kinds"]), ["transaction"]);
        let operations = &document["operations"];
        let dropped = number(&operations["dropped"]);
        assert!(dropped > 0 && dropped == number(&operations["inDoubt"]), "{said}");
        let hits = document["incidents"].as_array().expect("incidents").iter();
        assert_eq!(hits.map(|it| number(&it["hits"])).sum::<u64>(), dropped, "{said}");
        assert!(faults(&document).iter().all(|fault| fault == "drops"), "{said}");
    }
}

#[test]
fn who_sends_again_on_any_error_writes_twice_and_is_told_so() {
    let load = ["--strategy", "always-retry", "--faults", "cuts", "--workload", "increments"];
    // Which of the requests lose their reply is the seed's to say. With this one, it is the first time among the
    // first thirty, and there is time for many times as many.
    let time = ["--duration", "10s", "--rate", "100", "--seed", "9"];
    let said = chaos(&[&load[..], &time].concat()).said();
    assert_eq!(said.status, Some(1), "{said}");
    let (first, _) = said.out.split_once('\n').expect("lines");
    let (number, rest) = first.split_once(' ').expect("a number");
    assert!(number.parse::<u64>().is_ok_and(|number| number > 0), "{said}");
    assert!(rest.starts_with("duplicated   0 lost "), "{said}");
    assert!(said.out.contains("\n  duplicated: operation "), "{said}");
    assert!(said.out.contains(": acknowledged, and found 2 times; it met with "), "{said}");
    let why = "steadfast chaos: what was said of writes is not what is in the database: ";
    assert!(said.notes.contains(why), "{said}");
    let again = "steadfast chaos --seed 9 --duration 10s --rate 100 --strategy always-retry --workload \
                 increments --faults cuts";
    let words = said.out.replace('\\', " ");
    let words: Vec<&str> = words.split_whitespace().collect();
    assert!(words.join(" ").ends_with(again), "{said}");
}

/// One thing after the other, in each of these. How far they come depends on how fast servers recover.
const LANES: [&[&str]; 4] =
    [&["cuts"], &["drops"], &["slow", "overload"], &["step-down", "kill", "freeze"]];

#[test]
fn the_same_seed_has_the_same_faults_in_the_same_order() {
    let run = || chaos(&[&SHORT[..], &["--seed", "7"]].concat()).start();
    let [one, again] = [run(), run()].map(|running| {
        let said = running.said();
        assert_eq!(said.status, Some(0), "{said}");
        faults(&said.document())
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
fn people_get_the_verdict_first_and_then_the_figures() {
    let said = chaos(&["--duration", "5s", "--rate", "100", "--color", "always"]).said();
    assert_eq!(said.status, Some(0), "{said}");
    assert!(said.out.starts_with("\x1b[32m"), "{said}");
    let plain = said.out.replace("\x1b[32m", "").replace("\x1b[1m", "").replace("\x1b[0m", "");
    assert!(plain.starts_with("0 duplicated   0 lost   0 wrongly labelled   0 torn\n"), "{said}");
    for label in
        ["servers ", "load ", "operations  ", "attempts ", "latency ", "failovers ", "repeat "]
    {
        assert!(plain.lines().any(|line| line.starts_with(label)), "{label} is missing: {said}");
    }
    assert!(plain.lines().count() <= 40, "{said}");
    assert!(plain.lines().all(|line| line.chars().count() <= 100), "{said}");
    for note in ["three servers in memory", "the load begins", "is counted"] {
        assert!(said.notes.contains(note), "{note} is missing: {said}");
    }
}

#[test]
fn without_faults_nothing_is_tried_twice() {
    let set = Deployment::replica_set(3).in_thread().start();
    // Where a busy machine stands still for seconds, no server is taken to be gone.
    let uri = format!("{}&connectTimeoutMS=120000", set.uri());
    let load = ["--faults", "none", "--duration", "5s", "--json", "--quiet"];
    let said = chaos(&[&["--uri", &uri], &load[..]].concat()).said();
    let document = said.document();
    assert_eq!(said.status, Some(0), "{said}");
    assert_eq!(document["plan"]["faults"], json!([]));
    assert_eq!(document["incidents"], json!([]));
    assert_eq!(document["errors"], json!([]));
    assert_eq!(names(&document["attempts"]["operationsByAttempts"]), ["1"], "{said}");
}

#[test]
fn what_was_done_until_ctrl_c_is_counted() {
    let mut running = chaos(&["--duration", "10m", "--json"]).start();
    running.awaits_work();
    let began = Instant::now();
    running.signal("-INT");
    let said = running.said();
    assert!(began.elapsed() < Duration::from_secs(300), "and not when all is over");
    assert_eq!(said.status, Some(1), "{said}");
    assert!(
        said.notes.contains("interrupted: the load ends, and what was done is counted"),
        "{said}"
    );
    assert!(said.notes.contains("steadfast chaos: interrupted after "), "{said}");
    assert!(said.notes.contains(" of 10m; what was done until then is counted"), "{said}");
    let document = said.document();
    assert_eq!(document["interrupted"], true);
    assert_eq!(document["verdict"], all_zeros(), "{said}");
    assert!(number(&document["operations"]["acknowledged"]) > 0, "{said}");
}
