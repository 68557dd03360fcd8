//! Killed, cut off and without a server for a while, it still adds each record once.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use steadfast::bson::doc;
use testbed::{Mongod, Options};

use crate::{program::steadfast, support::*};

fn is_exact_though_killed_three_times(target: &Target, has_checkpoint: bool) {
    let folder = folder();
    let lines = file(&folder, "lines.ndjson", records());
    let at = folder.join("at");
    let mut more = vec!["--batch", "40", "--parallel", "3", &*lines];
    if has_checkpoint {
        more.extend(["--checkpoint", at.to_str().expect("text")]);
    }
    for inserts in [12, 24, 36] {
        // It cannot come to its end: after these, the server has what it is sent, and the program never hears of it.
        let rule = format!(
            "[[rule]]\ncommand = 'insert'\nskip = {inserts}\nthen.stall = {{ direction = 'reply' }}\n"
        );
        let stalled = pipe(&folder, &target.uri, &rule);
        let put_down = fs::read(&at).ok();
        let mut program = steadfast(&arguments(stalled.uri(), &more))
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program is built");
        until(target, &mut program, 40 * inserts);
        if has_checkpoint {
            until_it_is(&mut program, || fs::read(&at).ok() != put_down);
        }
        program.kill().expect("it runs");
        program.wait().expect("it ends");
        stalled.end();
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
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).expect("a server");
    for has_checkpoint in [true, false] {
        let target = Target::at(server.uri(), None);
        is_exact_though_killed_three_times(&target, has_checkpoint);
        target.command(doc! { "drop": "lines" });
    }
}

#[test]
fn lost_replies_and_cut_requests_add_nothing_twice() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).expect("a server");
    let target = Target::at(server.uri(), None);
    let folder = folder();
    let rules = "[[rule]]\ncommand = 'insert'\nevery = 10\nthen = 'loseReply'\n\
                 [[rule]]\ncommand = 'insert'\nevery = 13\nthen = 'cutRequest'\n";
    let bad = pipe(&folder, &target.uri, rules);
    let lines = file(&folder, "lines.ndjson", records());
    let output = ingest(bad.uri(), &["--batch", "40", &lines]);
    let (status, out, notes) = said(&output);
    assert_eq!(status, Some(0), "{notes}");
    assert!(out.contains("were there already"), "replies were lost: {out}");
    assert_exact(&target);
    bad.end();
}

#[test]
fn a_server_that_is_gone_for_a_while_is_waited_for() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).expect("a server");
    let target = Target::at(server.uri(), None);
    let stream = ["--format", "ndjson", "--source", "s", "--patience", "10m", "-"];
    let mut program = steadfast(&arguments(&server.uri(), &stream))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    let mut input = program.stdin.take().expect("it is piped");
    let half = RECORDS / 2;
    input.write_all(some_records(0..half).as_bytes()).expect("it reads");
    until(&target, &mut program, half.into());
    server.kill().expect("it runs");
    // More than it takes at once, while it cannot write.
    let rest = some_records(half..RECORDS);
    let feeding = thread::spawn(move || input.write_all(rest.as_bytes()).expect("it reads"));
    let mut notes = BufReader::new(program.stderr.take().expect("it is piped"));
    let mut note = String::new();
    while !note.contains("nothing can be written now; it is tried again for 10m") {
        let read = notes.read_line(&mut note).expect("a note");
        assert!(read > 0, "it has ended: {note}");
    }
    server.restart().expect("it starts");
    feeding.join().expect("all is read");
    notes.read_to_string(&mut note).expect("the rest");
    let (status, out, _) = said(&program.wait_with_output().expect("it ends"));
    assert_eq!(status, Some(0), "{note}");
    assert!(note.contains("takes writes again"), "{note}");
    assert!(out.contains("documents added"), "{out}");
    assert_exact(&target);
}

/// A server that takes a request and never answers it is not waited for any longer than one that is gone.
#[test]
fn patience_has_an_end_though_nothing_fails() {
    for (direction, found) in
        [("request", "1 document added"), ("reply", "no documents added; 1 was there already")]
    {
        let target = Target::embedded();
        let folder = folder();
        let rule =
            format!("[[rule]]\ncommand = 'insert'\nthen.stall = {{ direction = '{direction}' }}\n");
        let silent = pipe(&folder, &target.uri, &rule);
        let lines = file(&folder, "lines.ndjson", "{\"n\": 1}\n");
        let mut program = steadfast(&arguments(
            silent.uri(),
            &["--patience", "2s", "--checkpoint", "at", &lines],
        ))
        .current_dir(&*folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
        let limit = Instant::now() + Duration::from_secs(120);
        while program.try_wait().expect("a process").is_none() {
            if Instant::now() > limit {
                program.kill().expect("it runs");
                panic!("it waits, and has no patience left: {direction}");
            }
            thread::sleep(Duration::from_millis(10));
        }
        let (status, out, notes) = said(&program.wait_with_output().expect("it ended"));
        assert_eq!(status, Some(1), "{notes}");
        assert_eq!(out, "app.lines: no documents added; then it was cut short\n");
        let why = "for 2s nothing could be written\n  why: no answer came\n  next: once that is";
        assert!(notes.contains(why), "{notes}");
        silent.end();
        // Nothing was put down that is not known, and nothing is there twice.
        let at = folder.join("at");
        let more = ["--checkpoint", at.to_str().expect("text"), &lines];
        assert_done(&ingest(&target.uri, &more), found);
        assert_eq!(target.count(), 1);
    }
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
