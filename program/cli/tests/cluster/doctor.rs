//! `steadfast doctor` on a real cluster, healthy and without some servers.

use serde_json::Value;

use crate::{out, run, turn};

/// Returns the document of `--json`, and checks the exit status.
#[track_caller]
pub(crate) fn diagnosis(uri: &str, status: i32) -> Value {
    let output = run(uri, &["doctor", "--json", "--quiet"]);
    assert_eq!(output.status.code(), Some(status), "{}", out(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the findings with a code.
pub(crate) fn findings<'a>(diagnosis: &'a Value, code: &str) -> Vec<&'a Value> {
    let findings = diagnosis["findings"].as_array().unwrap().iter();
    findings.filter(|finding| finding["code"] == code).collect()
}

/// Returns the states of the members of a shard, sorted.
pub(crate) fn states(diagnosis: &Value, shard: usize) -> Vec<&str> {
    let members = diagnosis["shards"][shard]["members"].as_array().unwrap().iter();
    let mut states: Vec<_> = members.map(|it| it["state"].as_str().unwrap()).collect();
    states.sort_unstable();
    states
}

#[test]
fn healthy_cluster_has_no_problems_and_shows_its_shards() {
    let Some(turn) = turn() else { return };
    let cluster = &turn.datacenters.cluster;
    let healthy = diagnosis(&cluster.uri(), 0);
    assert_eq!(
        (&healthy["counts"]["problem"], &healthy["counts"]["warning"]),
        (&0.into(), &0.into())
    );
    assert_eq!(healthy["deployment"]["type"], "sharded cluster");
    for (place, mongos) in cluster.mongos().iter().enumerate() {
        let shown = &healthy["servers"][place];
        assert_eq!((&shown["type"], &shown["version"]), (&"Mongos".into(), &"8.2.0".into()));
        let addresses = healthy["servers"].as_array().unwrap().iter().map(|it| &it["address"]);
        assert!(addresses.into_iter().any(|it| *it == mongos.address().to_string()), "{healthy}");
    }
    for shard in 0..2 {
        assert_eq!(healthy["shards"][shard]["name"], format!("shard{shard}"));
        assert_eq!(states(&healthy, shard), ["primary", "secondary", "secondary"], "{healthy}");
    }
    for code in ["retryable_writes", "transactions", "change_streams", "record_lifetime"] {
        assert_eq!(findings(&healthy, code)[0]["level"], "ok", "{healthy}");
    }
    let report = out(&run(&cluster.uri(), &["doctor"]));
    assert!(report.starts_with("a sharded cluster, 2 mongos, 2 shards\n"), "{report}");
}
