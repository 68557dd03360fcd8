//! Tests of `steadfast ingest`: each record is inserted once.

#![allow(missing_docs)]

mod datacenters;
mod failures;
#[cfg(unix)]
mod full_disk;
#[allow(dead_code)]
#[path = "../program/mod.rs"]
mod program;
mod repeated;
mod support;

use std::{fs, io::Write, process::Stdio};

use serde_json::Value;
use steadfast::bson::{Bson, doc};
use testbed::{Mongod, Options};

use self::{
    program::{signal, steadfast},
    support::*,
};

#[test]
fn second_run_inserts_no_document_twice() {
    let target = Target::embedded();
    let folder = folder();
    let content = "\u{feff}{\"n\": 1, \"at\": {\"$date\": \"1970-01-01T00:00:01Z\"}}\r\n\n  \n\
                   {\"n\": {\"$numberLong\": \"2\"}}\n{\"_id\": 7, \"n\": 3}";
    let lines = file(&folder, "lines.ndjson", content);
    assert_result(&ingest(&target.uri, &[&lines]), "3 documents added");
    let documents = target.documents();
    let at = steadfast::bson::DateTime::from_millis(1_000);
    let expected = [doc! { "n": 3 }, doc! { "n": 1, "at": at }, doc! { "n": 2_i64 }];
    assert_eq!(without_ids(documents.clone()), expected);
    assert_eq!(documents[0].get("_id"), Some(&Bson::Int32(7)));
    let ids: Vec<_> = documents[1..].iter().map(|it| it.get_str("_id").expect("text")).collect();
    assert!(ids[0].starts_with("lines.ndjson-") && ids[0].ends_with(":000000000000"), "{ids:?}");
    let second = content.find("{\"n\": {").expect("it is there");
    assert!(ids[1].ends_with(&format!(":{second:012}")), "{ids:?}");

    assert_result(&ingest(&target.uri, &[&lines]), "no documents added; 3 already existed");
    // A file that is moved or grows is the same source.
    fs::create_dir(folder.join("moved")).expect("a folder");
    let moved = file(&folder.join("moved"), "lines.ndjson", format!("{content}\n{{\"n\": 4}}\n"));
    assert_result(&ingest(&target.uri, &[&moved]), "1 document added; 3 already existed");
    // Another file of the same name is another source.
    let other = file(&folder, "lines.ndjson", "{\"n\": 5}\n");
    assert_result(&ingest(&target.uri, &[&other]), "1 document added");
    assert_eq!(target.count(), 5);
}

#[test]
fn csv_values_are_strings_or_typed() {
    let target = Target::embedded();
    let folder = folder();
    let table = file(
        &folder,
        "people.csv",
        "\u{feff}email,name,age,zip\r\na@x,\"Doe, \"\"Jo\"\"\nJr\",41,01234\r\nb@x,,-2.5,7\r\n",
    );
    assert_result(
        &ingest(&target.uri, &[&table, "--id", "email", "--types", "auto"]),
        "2 documents added",
    );
    let expected = [
        doc! { "_id": "a@x", "email": "a@x", "name": "Doe, \"Jo\"\nJr", "age": 41, "zip": "01234" },
        doc! { "_id": "b@x", "email": "b@x", "name": null, "age": -2.5, "zip": 7 },
    ];
    assert_eq!(target.documents(), expected);
    target.command(doc! { "drop": "lines" });
    assert_result(&ingest(&target.uri, &[&table]), "2 documents added");
    let text = doc! { "email": "b@x", "name": "", "age": "-2.5", "zip": "7" };
    assert_eq!(without_ids(target.documents())[1], text);
}

#[test]
fn stream_requires_a_source_name() {
    let target = Target::embedded();
    let input = "{\"n\": 1}\n{\"n\": 2}\n";
    let (status, _, stderr) =
        result_of(&ingest_stream(&target.uri, &["--format", "ndjson"], input));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("--source") && stderr.contains("--id"), "{stderr}");
    let named = ["--format", "ndjson", "--source", "export-1", "-"];
    let (_, _, stderr) = result_of(&ingest_stream(&target.uri, &named, "nonsense\n"));
    assert!(stderr.contains("standard input, line 1 (byte 0): not JSON"), "{stderr}");
    assert_result(&ingest_stream(&target.uri, &named, input), "2 documents added");
    let longer = format!("{input}{{\"n\": 3}}\n");
    assert_result(
        &ingest_stream(&target.uri, &named, &longer),
        "1 document added; 2 already existed",
    );
    let ids: Vec<_> = target.documents().iter().map(|it| it.get("_id").cloned()).collect();
    assert_eq!(ids[1], Some("export-1:000000000009".into()));
    assert_result(
        &ingest_stream(&target.uri, &["--format", "ndjson", "--id", "n"], input),
        "2 documents added",
    );
}

#[test]
fn stream_continues_at_the_checkpoint() {
    let target = Target::embedded();
    let folder = folder();
    let checkpoint = folder.join("at");
    let checkpoint = checkpoint.to_str().expect("text");
    let named = ["--format", "csv", "--source", "s", "--checkpoint", checkpoint];
    assert_result(&ingest_stream(&target.uri, &named, "a,b\n1,2\n"), "1 document added");
    assert_result(&ingest_stream(&target.uri, &named, "a,b\n1,2\n3,4\n"), "1 document added");
    assert_eq!(without_ids(target.documents())[1], doc! { "a": "3", "b": "4" });
    let (status, _, stderr) = result_of(&ingest_stream(&target.uri, &named, "a,b\n"));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("its beginning has changed"), "{stderr}");
}
#[test]
fn rejected_records_are_stored_with_the_reason() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).expect("a server");
    for target in [Target::embedded(), Target::at(server.uri(), None)] {
        target.command(doc! { "create": "lines", "validator": { "n": { "$gte": 0 } } });
        let unique = doc! { "key": { "u": 1 }, "name": "u_1", "unique": true, "sparse": true };
        target.command(doc! { "createIndexes": "lines", "indexes": [unique] });
        check_rejects(&target);
    }
}

fn check_rejects(target: &Target) {
    let folder = folder();
    let mut content = b"{\"n\": 1, \"u\": 1}\n{\"n\": \n[1]\n{\"n\": -1}\n".to_vec();
    content.extend(b"{\"n\": 2, \"u\": 1}\n{\"n\": 3, \"t\": \"\xff\"}\n");
    let huge = format!("{{\"n\": 4, \"t\": \"{}\"}}\n", "x".repeat(17 << 20));
    content.extend(huge.as_bytes());
    content.extend(b"{\"n\": 5}\n{\"n\": 6");
    let lines = file(&folder, "lines.ndjson", content);
    let kept = folder.join("rejected");
    let kept_name = kept.to_str().expect("text");
    let output = ingest(&target.uri, &["--rejects", kept_name, &lines, "--parallel", "1"]);
    assert_result(&output, "2 documents added; 7 records rejected");
    let kept = fs::read_to_string(&kept).expect("it is there");
    let kept: Vec<Value> =
        kept.lines().map(|line| serde_json::from_str(line).expect("a document")).collect();
    let expected = [
        (2, "not JSON"),
        (3, "an array"),
        (4, "failed validation"),
        (5, "E11000"),
        (6, "not UTF-8"),
        (7, "the maximum is"),
        (9, "not JSON"),
    ];
    for (reject, (line, reason)) in kept.iter().zip(expected) {
        assert_eq!(reject["line"], line, "{reason}");
        let said = reject["reason"].as_str().expect("text");
        assert!(said.contains(reason), "{said} for {reason}");
    }
    assert_eq!(kept.len(), expected.len());
    assert_eq!((&kept[0]["raw"], &kept[0]["offset"]), (&"{\"n\": ".into(), &17.into()));
    assert!(kept[4]["rawHex"].as_str().expect("text").contains("ff"));

    let (status, _, stderr) = result_of(&ingest(&target.uri, &[&lines]));
    assert_eq!(status, Some(1));
    assert!(
        stderr.contains("lines.ndjson, line 3 (byte 24): expected a document, found an array"),
        "{stderr}"
    );
    assert!(stderr.contains("7 records were rejected; to store them"), "{stderr}");
}

#[test]
fn too_many_rejects_end_the_run() {
    let target = Target::embedded();
    let content: String = (0..500).map(|_| "no\n").chain(["{}\n"]).collect();
    let folder = folder();
    let lines = file(&folder, "lines.ndjson", content);
    let more = ["--batch", "10", "--parallel", "1", "--max-rejects", "20", &lines];
    let (status, stdout, stderr) = result_of(&ingest(&target.uri, &more));
    assert_eq!(status, Some(1));
    assert!(
        stdout.contains("30 records rejected") || stdout.contains("40 records rejected"),
        "{stdout}"
    );
    assert!(stderr.contains("rejected, more than 20"), "{stderr}");
    let shown = stderr.lines().filter(|line| line.contains(", line ")).count();
    assert_eq!(shown, 10, "{stderr}");
}

#[test]
fn incomplete_last_line_is_read_again() {
    let target = Target::embedded();
    let folder = folder();
    let lines = file(&folder, "lines.ndjson", "{\"n\": 1}\n{\"n\": ");
    let checkpoint_path = folder.join("at");
    let kept = folder.join("rejected");
    let more = [
        &*lines,
        "--checkpoint",
        checkpoint_path.to_str().expect("text"),
        "--rejects",
        kept.to_str().expect("text"),
    ];
    assert_result(&ingest(&target.uri, &more), "1 document added; 1 record rejected");
    fs::write(&lines, "{\"n\": 1}\n{\"n\": 2}\n{\"n\": 3}").expect("a file");
    assert_result(&ingest(&target.uri, &more), "2 documents added");
    fs::write(&lines, "{\"n\": 1}\n{\"n\": 2}\n{\"n\": 3}\n{\"n\": 4}\n").expect("a file");
    assert_result(&ingest(&target.uri, &more), "1 document added");
    assert_result(&ingest(&target.uri, &more), "no documents added");
}

#[test]
fn csv_record_that_grows_after_its_ingestion_is_an_error() {
    let target = Target::embedded();
    let folder = folder();
    let checkpoint_path = folder.join("at");
    let table = file(&folder, "lines.csv", "n\n1\n12");
    let more = [&*table, "--checkpoint", checkpoint_path.to_str().expect("text")];
    assert_result(&ingest(&target.uri, &more), "2 documents added");
    fs::write(&table, "n\n1\n1234\n5\n").expect("a file");
    let (status, _, stderr) = result_of(&ingest(&target.uri, &more));
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("was ingested without a line end, and is longer now"), "{stderr}");
    fs::write(&table, "n\n1\n12\n5\n").expect("a file");
    assert_result(&ingest(&target.uri, &more), "1 document added");
}

#[test]
fn checkpoint_is_locked_during_a_run() {
    let target = Target::embedded();
    let folder = folder();
    let checkpoint_path = folder.join("at");
    let checkpoint_option = ["--checkpoint", checkpoint_path.to_str().expect("text")];
    let stream = [&["--format", "ndjson", "--source", "s", "-"], &checkpoint_option[..]].concat();
    let mut first = steadfast(&arguments(&target.uri, &stream))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program is built");
    let mut input = first.stdin.take().expect("it is piped");
    input.write_all(b"{\"n\": 1}\n").expect("it reads");
    wait_for_documents(&target, &mut first, 1);
    let lines = file(&folder, "lines.ndjson", "{\"n\": 2}\n");
    let second = [&[&*lines], &checkpoint_option[..]].concat();
    let (status, _, stderr) = result_of(&ingest(&target.uri, &second));
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("another run is using this checkpoint"), "{stderr}");
    drop(input);
    assert!(first.wait().expect("it ends").success());
    assert_result(&ingest(&target.uri, &second), "1 document added");
    let left = fs::read_dir(&*folder).expect("a folder").count();
    assert_eq!(left, 2, "the file and the checkpoint");
}

#[test]
fn changed_file_is_an_error() {
    let target = Target::embedded();
    let folder = folder();
    let lines = file(&folder, "lines.ndjson", "{\"n\": 1}\n{\"n\": 2}\n");
    let checkpoint_path = folder.join("at");
    let more = [&*lines, "--checkpoint", checkpoint_path.to_str().expect("text")];
    assert_result(&ingest(&target.uri, &more), "2 documents added");
    for (content, why) in [
        ("{\"n\": 9}\n{\"n\": 2}\n{\"n\": 3}\n", "its beginning has changed"),
        ("{\"n\": 1}\n{\"n\": 9}\n{\"n\": 3}\n", "was changed other than by appending"),
        ("{\"n\": 1}\n", "shorter than before"),
    ] {
        fs::write(&lines, content).expect("a file");
        let (status, _, stderr) = result_of(&ingest(&target.uri, &more));
        assert_eq!(status, Some(2), "{content}: {stderr}");
        assert!(stderr.contains(why) && stderr.contains("delete the checkpoint"), "{stderr}");
    }
    assert_eq!(target.count(), 2);
    let other = [
        "--collection",
        "app.others",
        &lines,
        "--checkpoint",
        checkpoint_path.to_str().expect("text"),
    ];
    let output = steadfast(&[&["ingest", "--uri", &target.uri], &other[..]].concat()).output();
    let (status, _, stderr) = result_of(&output.expect("the program is built"));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("belongs to app.lines, not to app.others"), "{stderr}");
}

#[test]
fn files_of_one_name_are_distinguished_by_their_first_record() {
    let target = Target::embedded();
    let folder = folder();
    let checkpoint_path = folder.join("at");
    let mut more =
        vec!["--checkpoint".to_owned(), checkpoint_path.to_str().expect("text").to_owned()];
    for day in 1..=3 {
        fs::create_dir(folder.join(day.to_string())).expect("a folder");
        let name = format!("{day}/lines.ndjson");
        more.push(file(&folder, &name, format!("{{\"day\": {day}}}\n")));
        let more: Vec<_> = more.iter().map(String::as_str).collect();
        assert_result(&ingest(&target.uri, &more), "1 document added");
    }
    assert_eq!(target.count(), 3);
}

#[test]
fn unwritable_files_are_reported_before_the_run() {
    let target = Target::embedded();
    let folder = folder();
    let lines = file(&folder, "lines.ndjson", "{\"n\": 1}\n");
    // No user can write there, not even root: the parent is a file.
    let nowhere = format!("{lines}/x");
    for option in ["--checkpoint", "--rejects"] {
        let (status, _, stderr) = result_of(&ingest(&target.uri, &[&lines, option, &nowhere]));
        assert_eq!(status, Some(2), "{stderr}");
        assert!(stderr.contains(option) && stderr.contains("Not a directory"), "{stderr}");
        let (status, _, stderr) = result_of(&ingest(&target.uri, &[&lines, option, &lines]));
        assert_eq!(status, Some(2), "{stderr}");
        assert!(stderr.contains("is also an input file"), "{stderr}");
    }
    assert_eq!(target.count(), 0);
}

#[test]
fn wrong_arguments_and_unreachable_hosts_are_explained() {
    let folder = folder();
    let lines = file(&folder, "lines.ndjson", "{\"n\": 1}\n");
    let text = file(&folder, "lines.txt", "{\"n\": 1}\n");
    let uri = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200";
    let table = file(&folder, "table.csv", "a,a\n1,2\n");
    for (more, status, why) in [
        (vec![&*lines], 1, "no writable server was found at 127.0.0.1:1"),
        (vec![&*text], 2, "--format"),
        (vec!["nowhere.ndjson"], 2, "nowhere.ndjson: No such file"),
        (vec![folder.to_str().expect("text"), "--format", "csv"], 2, "this is a folder"),
        (vec![&*lines, &*lines], 2, "would get the same _ids"),
        (vec![&*lines, &*table, "--source", "s"], 2, "--source requires a single file"),
        (vec![&*lines, "--batch", "0"], 2, "a number from 1"),
        (vec![&*lines, "--key-field", "k"], 2, "--datacenters"),
        (vec![&*table, "--dry-run"], 1, "the header has the field \"a\" twice"),
    ] {
        let (code, _, stderr) = result_of(&ingest(uri, &more));
        assert_eq!(code, Some(status), "{more:?}: {stderr}");
        assert!(stderr.contains(why), "{why} in {stderr}");
    }
    let output = steadfast(&["ingest", "--collection", "app.lines", &lines]).output();
    let (code, _, stderr) = result_of(&output.expect("the program is built"));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--uri URI"), "{stderr}");
}

#[test]
fn dry_run_needs_no_deployment_and_writes_nothing() {
    let folder = folder();
    let lines = file(&folder, "lines.ndjson", "{\"n\": 1}\nno\n");
    let kept = folder.join("rejected");
    let more = ["--collection", "app.lines", "--dry-run", &lines, "--rejects"];
    let arguments = [&["ingest"], &more[..], &[kept.to_str().expect("text")]].concat();
    let (status, stdout, stderr) =
        result_of(&steadfast(&arguments).output().expect("the program is built"));
    assert_eq!(status, Some(1));
    assert_eq!(stdout, "app.lines: 1 document would be added; 1 record rejected\n");
    assert!(stderr.contains("line 2 (byte 9): not JSON"), "{stderr}");
    assert!(!kept.exists());
}

#[test]
fn interrupted_run_writes_its_checkpoint() {
    let target = Target::embedded();
    let folder = folder();
    // The run would take minutes, and batches in progress end soon.
    let rule = "[[rule]]\ncommand = 'insert'\nskip = 20\n\
                then.delay = { ms = 1000, direction = 'reply' }\n";
    let slow = pipe(&folder, &target.uri, rule);
    let lines = file(&folder, "lines.ndjson", records());
    let checkpoint_path = folder.join("at");
    let more = [
        "--batch",
        "10",
        "--parallel",
        "2",
        &lines,
        "--checkpoint",
        checkpoint_path.to_str().expect("text"),
    ];
    let mut program = steadfast(&arguments(slow.uri(), &more))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    wait_for_documents(&target, &mut program, 210);
    signal(&program, "-INT");
    let (status, stdout, stderr) = result_of(&program.wait_with_output().expect("it ends"));
    assert_eq!(status, Some(1));
    assert!(stdout.contains("; ended early"), "{stdout}");
    assert!(stderr.contains("interrupted; run the same command again: it continues"), "{stderr}");
    // The run has waited for the batches in progress: no document existed.
    let rest = u64::from(RECORDS) - target.count();
    assert_result(&ingest(&target.uri, &more), &format!("{rest} documents added"));
    assert_exact(&target);
    slow.end();
}
