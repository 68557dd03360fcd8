//! `--datacenters`: documents are written to the nearest available datacenter.

use std::{collections::BTreeMap, time::Duration};

use steadfast::bson::Document;
use steadfast_embedded::Deployment;

use crate::{program::steadfast, support::*};

#[test]
fn documents_for_datacenters_have_their_key_in_a_field() {
    let (alfa, bravo) = (Target::embedded(), Target::embedded());
    let folder = folder();
    let lines = file(&folder, "lines.ndjson", "{\"n\": 1}\n{\"n\": 2}\n{\"_id\": 3}\n");
    // Nothing listens on port 1.
    let gone = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200";
    let datacenters = format!("gone={gone},alfa={},bravo={}", alfa.uri, bravo.uri);
    let more = ["--datacenters", &datacenters, &lines];
    let arguments = [&["ingest", "--collection", "app.lines"], &more[..]].concat();
    let output = steadfast(&arguments).output().expect("the program is built");
    assert_result(&output, "3 documents added");
    let (_, _, stderr) = result_of(&output);
    assert!(stderr.contains("datacenter gone: no writable server"), "{stderr}");
    assert!(stderr.contains("another run inserts all records again"), "{stderr}");
    let keys: BTreeMap<String, Document> = without_ids(alfa.documents())
        .into_iter()
        .map(|it| (it.get("ingest_key").expect("a key").to_string(), it))
        .collect();
    assert_eq!((keys.len(), bravo.count()), (3, 0));
    assert!(keys.values().all(|it| it.get_str("datacenter").ok() == Some("alfa")), "{keys:?}");
    assert!(keys.contains_key("3"), "{keys:?}");
}

const LAYOUT: &str = "collection = 'app.lines'\nshard_key = ['datacenter', 'ingest_key']\n\
                      [datacenters]\nalfa = ['shard0']\nbravo = ['shard1']\n";

/// Starts a cluster whose zones assign alfa to shard0 and bravo to shard1.
fn cluster(layout: &str) -> Target {
    let cluster = Deployment::sharded(&["shard0", "shard1"])
        .election_timeout(Duration::from_millis(50))
        .in_thread()
        .start();
    let target = Target::at(cluster.uri(), Some(cluster));
    let applied = steadfast(&["zones", "apply", "--uri", &target.uri, layout]).output();
    let (status, _, stderr) = result_of(&applied.expect("the program is built"));
    assert_eq!(status, Some(0), "{stderr}");
    target
}

fn assert_all(documents: &[Document], datacenter: &str, file: &str) {
    assert_eq!(documents.len(), 300);
    let keys: BTreeMap<&str, i32> = documents
        .iter()
        .map(|it| (it.get_str("ingest_key").expect("a key"), it.get_i32("n").expect("a number")))
        .collect();
    assert_eq!(keys.values().copied().collect::<Vec<_>>(), (0..300).collect::<Vec<_>>());
    assert!(keys.keys().all(|key| key.starts_with(file)), "{keys:?}");
    assert!(documents.iter().all(|it| it.get_str("datacenter").ok() == Some(datacenter)));
}

#[test]
fn documents_are_routed_by_the_datacenter_field() {
    let folder = folder();
    let target = cluster(&file(&folder, "layout.toml", LAYOUT));
    let checkpoint_path = folder.join("at");
    let more =
        ["--datacenters", "alfa,bravo", "--checkpoint", checkpoint_path.to_str().expect("text")];
    let more = [&more[..], &["--batch", "50"]].concat();
    let content: String = (0..300).map(|n| format!("{{\"n\": {n}}}\n")).collect();
    let one = file(&folder, "one.ndjson", &content);
    assert_result(&ingest(&target.uri, &[&more[..], &[&one]].concat()), "300 documents added");
    assert_all(&target.of_shard("shard0"), "alfa", "one.ndjson-");
    assert!(target.of_shard("shard1").is_empty());

    // The nearest datacenter is down: the next one gets the documents.
    target.kill_shard("shard0");
    let two = file(&folder, "two.ndjson", &content);
    let (status, stdout, stderr) =
        result_of(&ingest(&target.uri, &[&more[..], &[&one, &two]].concat()));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.starts_with("app.lines: 300 documents added"), "{stdout}");
    assert_all(&target.of_shard("shard1"), "bravo", "two.ndjson-");
}

#[test]
fn datacenter_names_require_the_cluster() {
    let folder = folder();
    let lines = file(&folder, "lines.ndjson", "{\"n\": 1}\n");
    let more = ["ingest", "--collection", "app.lines", "--datacenters", "alfa,bravo", &lines];
    let (status, _, stderr) = result_of(&steadfast(&more).output().expect("the program is built"));
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("use --uri"), "{stderr}");
}
