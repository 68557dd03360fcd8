//! A repeated run without a checkpoint: existing documents are not sent, and only they are skipped.

use steadfast::bson::doc;
use testbed::{Options, ReplicaSet};

use crate::support::*;

/// Starts a pipe that forwards a number of inserts, and rejects the others.
fn pipe_with_insert_limit(
    folder: &std::path::Path,
    upstream: &str,
    count: u32,
) -> crate::program::Program {
    let rule =
        format!("[[rule]]\ncommand = 'insert'\nskip = {count}\nthen.error = {{ code = 13 }}\n");
    pipe(folder, upstream, &rule)
}

fn check_only_missing_records_are_sent(target: &Target) {
    let folder = folder();
    let lines = file(&folder, "lines.ndjson", records());
    assert_result(&ingest(&target.uri, &[&lines]), "4000 documents added");
    let more = ["--batch", "40", "--parallel", "1", &*lines];

    // The first batch enables the lookup of existing documents.
    let one = pipe_with_insert_limit(&folder, &target.uri, 1);
    let all_there = "no documents added; 4000 already existed";
    assert_result(&ingest(one.uri(), &more), all_there);
    one.end();
    assert_exact(target);

    // Two batches with a gap, and a missing batch, after which the lookup must be enabled again.
    for missing in [doc! { "$gte": 820, "$lt": 860 }, doc! { "$gte": 2_800, "$lt": 2_840 }] {
        let gone = doc! { "q": { "n": missing }, "limit": 0 };
        target.command(doc! { "delete": "lines", "deletes": [gone] });
    }
    let some = pipe_with_insert_limit(&folder, &target.uri, 1 + 2 + 1 + 1);
    let (added, there) = ("80 documents added", "3920 already existed");
    assert_result(&ingest(some.uri(), &more), &format!("{added}; {there}"));
    some.end();
    assert_exact(target);
}

#[test]
fn repeated_run_sends_only_missing_records() {
    check_only_missing_records_are_sent(&Target::embedded());
}

#[test]
fn repeated_run_sends_only_missing_records_to_real_servers() {
    testbed::require!(V6_0);
    let set = ReplicaSet::start(1, Options::new()).expect("a server");
    check_only_missing_records_are_sent(&Target::at(set.uri(), None));
}

#[test]
fn only_an_equal_id_counts_as_existing() {
    testbed::require!(V6_0);
    let set = ReplicaSet::start(1, Options::new()).expect("a server");
    for target in [Target::embedded(), Target::at(set.uri(), None)] {
        let unique = doc! { "key": { "u": 1 }, "name": "u_1", "unique": true, "sparse": true };
        target.command(doc! { "createIndexes": "lines", "indexes": [unique] });
        let folder = folder();
        // The second record violates another unique index.
        let first = "{\"_id\": 1, \"u\": 7}\n{\"_id\": 2, \"u\": 7}\n{\"_id\": 3}\n{\"_id\": 4}\n";
        let lines = file(&folder, "lines.ndjson", first);
        let kept = folder.join("rejected");
        let rejects = ["--rejects", kept.to_str().expect("text")];
        let more = [&["--batch", "1", "--parallel", "1", &*lines], &rejects[..]].concat();
        assert_result(&ingest(&target.uri, &more), "3 documents added; 1 record rejected");
        let again = "no documents added; 3 already existed; 1 record rejected";
        assert_result(&ingest(&target.uri, &more), again);
        // For a server, 4 and 4.0 are equal: the insert of 4.0 is a duplicate.
        let other = file(
            &folder,
            "other.ndjson",
            "{\"_id\": 3}\n{\"_id\": {\"$numberDouble\": \"4.0\"}}\n{\"_id\": 5}\n",
        );
        let more = [&["--batch", "1", "--parallel", "1", &*other], &rejects[..]].concat();
        let expected = "1 document added; 2 already existed";
        assert_result(&ingest(&target.uri, &more), expected);
        assert_eq!(target.count(), 4);
    }
}
