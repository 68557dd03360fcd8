//! A run that is repeated without a checkpoint: what is there already is not sent, and nothing is taken for it that
//! is not.

use steadfast::bson::doc;
use testbed::{Options, ReplicaSet};

use crate::support::*;

/// A pipe that lets so many inserts pass, and no more.
fn inserts(folder: &std::path::Path, upstream: &str, count: u32) -> crate::program::Program {
    let rule =
        format!("[[rule]]\ncommand = 'insert'\nskip = {count}\nthen.error = {{ code = 13 }}\n");
    pipe(folder, upstream, &rule)
}

fn only_what_is_missing_is_sent(target: &Target) {
    let folder = folder();
    let lines = file(&folder, "lines.ndjson", records());
    assert_done(&ingest(&target.uri, &[&lines]), "4000 documents added");
    let more = ["--batch", "40", "--parallel", "1", &*lines];

    // It takes one batch to see that it has been there before.
    let one = inserts(&folder, &target.uri, 1);
    let all_there = "no documents added; 4000 were there already";
    assert_done(&ingest(one.uri(), &more), all_there);
    one.end();
    assert_exact(target);

    // Two batches with a gap, and a whole one that is gone, after which it has to see that again.
    for missing in [doc! { "$gte": 820, "$lt": 860 }, doc! { "$gte": 2_800, "$lt": 2_840 }] {
        let gone = doc! { "q": { "n": missing }, "limit": 0 };
        target.command(doc! { "delete": "lines", "deletes": [gone] });
    }
    let some = inserts(&folder, &target.uri, 1 + 2 + 1 + 1);
    let (added, there) = ("80 documents added", "3920 were there already");
    assert_done(&ingest(some.uri(), &more), &format!("{added}; {there}"));
    some.end();
    assert_exact(target);
}

#[test]
fn of_what_was_ingested_before_only_what_is_missing_is_sent() {
    only_what_is_missing_is_sent(&Target::embedded());
}

#[test]
fn of_what_was_ingested_before_only_what_is_missing_is_sent_to_real_servers() {
    testbed::require!(V6_0);
    let set = ReplicaSet::start(1, Options::new()).expect("a server");
    only_what_is_missing_is_sent(&Target::at(set.uri(), None));
}

#[test]
fn only_its_own_id_makes_a_record_one_that_is_there() {
    testbed::require!(V6_0);
    let set = ReplicaSet::start(1, Options::new()).expect("a server");
    for target in [Target::embedded(), Target::at(set.uri(), None)] {
        let unique = doc! { "key": { "u": 1 }, "name": "u_1", "unique": true, "sparse": true };
        target.command(doc! { "createIndexes": "lines", "indexes": [unique] });
        let folder = folder();
        // The second has the key of the first by another index.
        let first = "{\"_id\": 1, \"u\": 7}\n{\"_id\": 2, \"u\": 7}\n{\"_id\": 3}\n{\"_id\": 4}\n";
        let lines = file(&folder, "lines.ndjson", first);
        let kept = folder.join("rejected");
        let rejects = ["--rejects", kept.to_str().expect("text")];
        let more = [&["--batch", "1", "--parallel", "1", &*lines], &rejects[..]].concat();
        assert_done(&ingest(&target.uri, &more), "3 documents added; 1 record rejected");
        let again = "no documents added; 3 were there already; 1 record rejected";
        assert_done(&ingest(&target.uri, &more), again);
        // To a server, 4 and 4.0 are the same, and it says so when it is sent.
        let other = file(
            &folder,
            "other.ndjson",
            "{\"_id\": 3}\n{\"_id\": {\"$numberDouble\": \"4.0\"}}\n{\"_id\": 5}\n",
        );
        let more = [&["--batch", "1", "--parallel", "1", &*other], &rejects[..]].concat();
        let told = "1 document added; 2 were there already";
        assert_done(&ingest(&target.uri, &more), told);
        assert_eq!(target.count(), 4);
    }
}
