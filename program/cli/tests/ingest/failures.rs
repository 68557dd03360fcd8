//! Each record is inserted once despite kills, network faults and outages.

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

fn check_each_record_is_inserted_once_despite_kills(target: &Target, has_checkpoint: bool) {
    let folder = folder();
    let lines = file(&folder, "lines.ndjson", records());
    let checkpoint_path = folder.join("at");
    let mut more = vec!["--batch", "40", "--parallel", "3", &*lines];
    if has_checkpoint {
        more.extend(["--checkpoint", checkpoint_path.to_str().expect("text")]);
    }
    for inserts in [12, 24, 36] {
        // The run cannot end: after these inserts, the server executes the commands, and the replies are held back.
        let rule = format!(
            "[[rule]]\ncommand = 'insert'\nskip = {inserts}\nthen.stall = {{ direction = 'reply' }}\n"
        );
        let stalled = pipe(&folder, &target.uri, &rule);
        let checkpoint = fs::read(&checkpoint_path).ok();
        let mut program = steadfast(&arguments(stalled.uri(), &more))
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program is built");
        wait_for_documents(target, &mut program, 40 * inserts);
        if has_checkpoint {
            wait_until(&mut program, || fs::read(&checkpoint_path).ok() != checkpoint);
        }
        program.kill().expect("it runs");
        program.wait().expect("it ends");
        stalled.end();
    }
    assert!(target.count() < u64::from(RECORDS), "it was killed too late");
    more.push("--json");
    let (status, stdout, stderr) = result_of(&ingest(&target.uri, &more));
    assert_eq!(status, Some(0), "{stderr}");
    let report: Value = serde_json::from_str(&stdout).expect("a document");
    let read = report["records"].as_u64().expect("a number");
    assert_eq!(stderr.contains("continues at byte"), has_checkpoint, "{stderr}");
    assert_eq!(read < u64::from(RECORDS), has_checkpoint, "{stdout}");
    assert_exact(target);
}

#[test]
fn each_record_is_inserted_once_despite_kills() {
    check_each_record_is_inserted_once_despite_kills(&Target::embedded(), true);
}

#[test]
fn each_record_is_inserted_once_despite_kills_without_a_checkpoint() {
    check_each_record_is_inserted_once_despite_kills(&Target::embedded(), false);
}

#[test]
fn each_record_is_inserted_once_despite_kills_on_a_real_server() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).expect("a server");
    for has_checkpoint in [true, false] {
        let target = Target::at(server.uri(), None);
        check_each_record_is_inserted_once_despite_kills(&target, has_checkpoint);
        target.command(doc! { "drop": "lines" });
    }
}

#[test]
fn lost_replies_and_requests_duplicate_no_record() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).expect("a server");
    let target = Target::at(server.uri(), None);
    let folder = folder();
    let rules = "[[rule]]\ncommand = 'insert'\nevery = 10\nthen = 'loseReply'\n\
                 [[rule]]\ncommand = 'insert'\nevery = 13\nthen = 'cutRequest'\n";
    let bad = pipe(&folder, &target.uri, rules);
    let lines = file(&folder, "lines.ndjson", records());
    let output = ingest(bad.uri(), &["--batch", "40", &lines]);
    let (status, stdout, stderr) = result_of(&output);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("already existed"), "replies were lost: {stdout}");
    assert_exact(&target);
    bad.end();
}

#[test]
fn outage_within_the_retry_timeout_is_survived() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).expect("a server");
    let target = Target::at(server.uri(), None);
    let stream = ["--format", "ndjson", "--source", "s", "--retry-timeout", "10m", "-"];
    let mut program = steadfast(&arguments(&server.uri(), &stream))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    let mut input = program.stdin.take().expect("it is piped");
    let half = RECORDS / 2;
    input.write_all(some_records(0..half).as_bytes()).expect("it reads");
    wait_for_documents(&target, &mut program, half.into());
    server.kill().expect("it runs");
    // More than the program buffers while it cannot write.
    let rest = some_records(half..RECORDS);
    let feeding = thread::spawn(move || input.write_all(rest.as_bytes()).expect("it reads"));
    let mut stderr = BufReader::new(program.stderr.take().expect("it is piped"));
    let mut note = String::new();
    while !note.contains("no document can be written now; retrying for 10m") {
        let read = stderr.read_line(&mut note).expect("a note");
        assert!(read > 0, "it has ended: {note}");
    }
    server.restart().expect("it starts");
    feeding.join().expect("all is read");
    stderr.read_to_string(&mut note).expect("the rest");
    let (status, stdout, _) = result_of(&program.wait_with_output().expect("it ends"));
    assert_eq!(status, Some(0), "{note}");
    assert!(note.contains("accepts writes again"), "{note}");
    assert!(stdout.contains("documents added"), "{stdout}");
    assert_exact(&target);
}

/// A server that does not reply is treated like one that is down.
#[test]
fn retry_timeout_applies_to_an_unresponsive_server() {
    for (direction, found) in
        [("request", "1 document added"), ("reply", "no documents added; 1 already existed")]
    {
        let target = Target::embedded();
        let folder = folder();
        let rule =
            format!("[[rule]]\ncommand = 'insert'\nthen.stall = {{ direction = '{direction}' }}\n");
        let silent = pipe(&folder, &target.uri, &rule);
        let lines = file(&folder, "lines.ndjson", "{\"n\": 1}\n");
        let mut program = steadfast(&arguments(
            silent.uri(),
            &["--retry-timeout", "2s", "--checkpoint", "at", &lines],
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
                panic!("the retry time-out has passed: {direction}");
            }
            thread::sleep(Duration::from_millis(10));
        }
        let (status, stdout, stderr) = result_of(&program.wait_with_output().expect("it ended"));
        assert_eq!(status, Some(1), "{stderr}");
        assert_eq!(stdout, "app.lines: no documents added; ended early\n");
        let why = "no document could be written for 2s\n  why: no reply was received\n  next: once that is";
        assert!(stderr.contains(why), "{stderr}");
        silent.end();
        // The checkpoint has no unacknowledged record, and no document was inserted twice.
        let checkpoint_path = folder.join("at");
        let more = ["--checkpoint", checkpoint_path.to_str().expect("text"), &lines];
        assert_result(&ingest(&target.uri, &more), found);
        assert_eq!(target.count(), 1);
    }
}

#[test]
fn retry_timeout_ends_the_run() {
    let target = Target::embedded();
    let folder = folder();
    let rule = "[[rule]]\ncommand = 'insert'\nthen = 'loseReply'\n";
    let bad = pipe(&folder, &target.uri, rule);
    let lines = file(&folder, "lines.ndjson", "{\"n\": 1}\n");
    let (status, stdout, stderr) =
        result_of(&ingest(bad.uri(), &["--retry-timeout", "300ms", &lines]));
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stdout.contains("ended early"), "{stdout}");
    assert!(stderr.contains("no document could be written for 300ms"), "{stderr}");
    assert!(
        stderr.contains(
            "next: once that is resolved, run the same command again: it inserts no document twice"
        ),
        "{stderr}"
    );
    bad.end();
}
