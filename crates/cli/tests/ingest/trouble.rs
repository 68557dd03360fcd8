//! Killed, cut off and without a server for a while, it still adds each record once.

use std::{
    io::{BufRead, BufReader, Read},
    process::Stdio,
};

use serde_json::Value;
use steadfast::bson::doc;
use testbed::{Mongod, Options};

use crate::{ground::*, program::steadfast};

fn is_exact_though_killed_three_times(target: &Target, has_checkpoint: bool) {
    let folder = folder();
    // Slow enough to be killed in the midst of it.
    let rule = "[[rule]]\ncommand = 'insert'\nthen.delay = { ms = 25, direction = 'reply' }\n";
    let slow = pipe(&folder, &target.uri, rule);
    let lines = file(&folder, "lines.ndjson", records());
    let at = folder.join("at");
    let mut more = vec!["--batch", "100", "--parallel", "3", &*lines];
    if has_checkpoint {
        more.extend(["--checkpoint", at.to_str().expect("text")]);
    }
    for count in [1_500, 4_000, 6_500] {
        let mut program = steadfast(&arguments(slow.uri(), &more))
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program is built");
        until(target, &mut program, count);
        program.kill().expect("it runs");
        program.wait().expect("it ends");
    }
    assert!(target.count() < u64::from(RECORDS), "it was killed too late to tell anything");
    more.push("--json");
    let (status, out, notes) = said(&ingest(&target.uri, &more));
    assert_eq!(status, Some(0), "{notes}");
    let report: Value = serde_json::from_str(&out).expect("a document");
    let read = report["records"].as_u64().expect("a number");
    assert_eq!(notes.contains("goes on at byte"), has_checkpoint, "{notes}");
    assert_eq!(read < u64::from(RECORDS), has_checkpoint, "{out}");
    assert_exact(target);
    slow.end();
}

#[test]
fn killed_three_times_it_adds_each_record_once() {
    is_exact_though_killed_three_times(&Target::embedded(), true);
}

#[test]
fn killed_three_times_it_adds_each_record_once_without_a_checkpoint() {
    is_exact_though_killed_three_times(&Target::embedded(), false);
}

#[test]
fn killed_three_times_it_adds_each_record_once_to_a_real_server() {
    let server = Mongod::standalone(Options::new()).expect("a server");
    for has_checkpoint in [true, false] {
        let target = Target::at(server.uri(), None);
        is_exact_though_killed_three_times(&target, has_checkpoint);
        target.command(doc! { "drop": "lines" });
    }
}

#[test]
fn lost_replies_and_cut_requests_add_nothing_twice() {
    let server = Mongod::standalone(Options::new()).expect("a server");
    let target = Target::at(server.uri(), None);
    let folder = folder();
    let rules = "[[rule]]\ncommand = 'insert'\nevery = 10\nthen = 'loseReply'\n\
                 [[rule]]\ncommand = 'insert'\nevery = 13\nthen = 'cutRequest'\n";
    let bad = pipe(&folder, &target.uri, rules);
    let lines = file(&folder, "lines.ndjson", records());
    let output = ingest(bad.uri(), &["--batch", "100", &lines]);
    let (status, out, notes) = said(&output);
    assert_eq!(status, Some(0), "{notes}");
    assert!(out.contains("were there already"), "replies were lost: {out}");
    assert_exact(&target);
    bad.end();
}

#[test]
fn a_server_that_is_gone_for_a_while_is_waited_for() {
    let server = Mongod::standalone(Options::new()).expect("a server");
    let target = Target::at(server.uri(), None);
    let lines = file(&folder(), "lines.ndjson", records());
    let uri = format!("{}/?serverSelectionTimeoutMS=200", server.uri().trim_end_matches('/'));
    let mut program = steadfast(&arguments(&uri, &["--batch", "10", "--parallel", "1", &lines]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    until(&target, &mut program, 500);
    server.kill().expect("it runs");
    let mut notes = BufReader::new(program.stderr.take().expect("it is piped"));
    let mut note = String::new();
    notes.read_line(&mut note).expect("a note");
    assert!(note.contains("nothing can be written now; it is tried again for 2m"), "{note}");
    server.restart().expect("it starts");
    notes.read_to_string(&mut note).expect("the rest");
    let (status, out, _) = said(&program.wait_with_output().expect("it ends"));
    assert_eq!(status, Some(0), "{note}");
    assert!(note.contains("takes writes again"), "{note}");
    assert!(out.contains("documents added"), "{out}");
    assert_exact(&target);
}

#[test]
fn patience_has_an_end() {
    let target = Target::embedded();
    let folder = folder();
    let rule = "[[rule]]\ncommand = 'insert'\nthen = 'loseReply'\n";
    let bad = pipe(&folder, &target.uri, rule);
    let lines = file(&folder, "lines.ndjson", "{\"n\": 1}\n");
    let (status, out, notes) = said(&ingest(bad.uri(), &["--patience", "300ms", &lines]));
    assert_eq!(status, Some(1), "{notes}");
    assert!(out.contains("then it was cut short"), "{out}");
    assert!(notes.contains("for 300ms nothing could be written"), "{notes}");
    assert!(
        notes.contains(
            "next: once that is resolved, run the same command again: it adds nothing twice"
        ),
        "{notes}"
    );
    bad.end();
}
