//! `steadfast sweep` as its users meet it: arguments, output, exit status, and what becomes of the documents.
#![allow(missing_docs)]

mod program;

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Output, Stdio},
    time::{Duration, SystemTime},
};

use bson::{Bson, DateTime, Document, doc, oid::ObjectId};
use program::{Program, signal, steadfast};
use serde_json::Value;
use steadfast::{Client, Collection};
use steadfast_embedded::Deployment;
use steadfast_patterns::counter::Counters;

const HOUR: Duration = Duration::from_secs(3600);

/// A deployment that goes on while the test waits for a program.
fn deployment() -> Deployment {
    Deployment::replica_set(3).in_thread().start()
}

async fn days(uri: &str, name: &str) -> Collection<Document> {
    let client = Client::with_uri_str(uri).await.unwrap();
    let collection = client.database("shop").collection::<Document>(name);
    collection.drop().await.unwrap();
    collection
}

fn ago(time: Duration) -> DateTime {
    DateTime::from_system_time(SystemTime::now() - time)
}

fn pending(by: i64, until: DateTime) -> Bson {
    doc! { "token": ObjectId::new(), "by": by, "until": until }.into()
}

/// A token as applications make it that follow the article, a week ago.
fn plain_token() -> ObjectId {
    let mut bytes = ObjectId::new().bytes();
    let then = u32::try_from(ago(7 * 24 * HOUR).timestamp_millis() / 1000).unwrap();
    bytes[..4].copy_from_slice(&then.to_be_bytes());
    ObjectId::from_bytes(bytes)
}

/// Two counters with something left behind, and one without.
async fn leave_behind(days: &Collection<Document>) {
    let later = DateTime::from_system_time(SystemTime::now() + HOUR);
    let due = pending(2, ago(HOUR));
    let old = doc! { "token": ObjectId::new(), "until": ago(50 * HOUR) };
    let documents = [
        doc! { "_id": "mon", "counter": 10_i64, "pending": [due, pending(7, later)] },
        doc! { "_id": "tue", "counter": 20_i64, "pending": [plain_token()], "done": [old] },
        doc! { "_id": "wed", "counter": 30_i64, "pending": [] },
    ];
    days.insert_many(documents).await.unwrap();
}

async fn counters(days: &Collection<Document>) -> [Option<i64>; 3] {
    let counters = Counters::new(days);
    let value = async |day: &str| counters.value(day).await.unwrap();
    [value("mon").await, value("tue").await, value("wed").await]
}

fn sweep(uri: &str, arguments: &[&str]) -> Command {
    steadfast(&[&["sweep", "--uri", uri, "--collection"], arguments].concat())
}

/// Its status, what it says, and its notes; but not that it is still connecting, where a machine is busy.
fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let notes = text(&output.stderr);
    let is_of_time = |line: &&str| !is_connecting(line);
    let notes = notes.split_inclusive('\n').filter(is_of_time).collect();
    (output.status.code(), text(&output.stdout), notes)
}

fn is_connecting(note: &str) -> bool {
    note.starts_with("steadfast sweep: connecting to ")
}

async fn what_was_left_behind_is_finished(uri: &str, name: &str) {
    let days = days(uri, name).await;
    leave_behind(&days).await;
    let collection = format!("shop.{name}");

    let dry = said(&sweep(uri, &[&collection, "--dry-run"]).output().unwrap());
    let would = "2 increments would be finished, which adds 3; 1 tombstone would be removed; 1 is \
                 left alone, it is not old enough";
    assert_eq!(dry, (Some(0), format!("{collection}: {would}\n"), String::new()));
    assert_eq!(counters(&days).await, [Some(10), Some(20), Some(30)], "it only said so");

    let done = said(&sweep(uri, &[&collection]).output().unwrap());
    let does = "2 increments finished, which added 3; 1 tombstone removed; 1 is left alone, it is \
                not old enough";
    assert_eq!(done, (Some(0), format!("{collection}: {does}\n"), String::new()));
    assert_eq!(counters(&days).await, [Some(12), Some(21), Some(30)]);

    let again = said(&sweep(uri, &[&collection, "--quiet"]).output().unwrap());
    assert!(again.1.contains("no increments finished; 1 is left alone"), "{again:?}");
    assert_eq!(counters(&days).await, [Some(12), Some(21), Some(30)]);
}

#[tokio::test]
async fn increments_that_were_left_behind_are_finished_once() {
    let set = deployment();
    what_was_left_behind_is_finished(&set.uri(), "days").await;
}

#[tokio::test]
async fn increments_that_were_left_behind_are_finished_on_real_servers() {
    testbed::require!(testbed::shared::servers());
    let uri = testbed::shared::uri().unwrap();
    what_was_left_behind_is_finished(&uri, &format!("swept_{}", std::process::id())).await;
}

#[tokio::test]
async fn programs_get_a_document() {
    let set = deployment();
    leave_behind(&days(&set.uri(), "days").await).await;
    let (status, out, notes) = said(&sweep(&set.uri(), &["shop.days", "--json"]).output().unwrap());
    assert_eq!((status, notes.as_str()), (Some(0), ""));
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["collection"], "shop.days");
    assert_eq!(report["counters"], 2);
    for (field, number) in [("finished", 2), ("by", 3), ("tombstonesRemoved", 1), ("leftAlone", 1)]
    {
        assert_eq!(report[field], number, "{field}");
    }
    for (field, number) in [("alreadyGone", 0), ("failed", 0)] {
        assert_eq!(report[field], number, "{field}");
    }
    assert_eq!((&report["dryRun"], &report["error"]), (&Value::Bool(false), &Value::Null));
}

#[tokio::test]
async fn fields_may_have_other_names() {
    let set = deployment();
    let days = days(&set.uri(), "days").await;
    let day = doc! { "_id": 1, "stats": { "n": 1 }, "open": [pending(4, ago(HOUR))] };
    days.insert_one(day).await.unwrap();
    let names = ["--counter", "stats.n", "--pending", "open", "--done", "closed"];
    let output = sweep(&set.uri(), &[&["shop.days"], &names[..]].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let day = days.find_one(doc! {}).await.unwrap().unwrap();
    assert_eq!(day.get_document("stats").unwrap().get_i64("n").unwrap(), 5);
    assert_eq!(day.get_array("open").unwrap().len(), 0);
    assert_eq!(day.get_array("closed").unwrap().len(), 1);
}

#[tokio::test]
async fn a_counter_that_cannot_be_swept_keeps_no_other_from_it() {
    let set = deployment();
    let days = days(&set.uri(), "days").await;
    let odd = doc! { "_id": "odd", "counter": "many", "pending": [pending(1, ago(HOUR))] };
    let even = doc! { "_id": "tue", "counter": 1_i64, "pending": [pending(1, ago(HOUR))] };
    days.insert_many([odd, even]).await.unwrap();
    let (status, out, notes) = said(&sweep(&set.uri(), &["shop.days"]).output().unwrap());
    assert_eq!(status, Some(1));
    assert!(out.contains("1 increment finished, which added 1"), "{out}");
    assert!(notes.contains("steadfast sweep: the counter \"odd\" was not swept: "), "{notes}");
    assert!(notes.contains("steadfast sweep: 1 counter could not be swept"), "{notes}");
    assert_eq!(counters(&days).await[1], Some(2));
}

/// A program that runs on, and its lines.
struct Running {
    process: Child,
    out: BufReader<std::process::ChildStdout>,
    notes: BufReader<std::process::ChildStderr>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let notes = BufReader::new(process.stderr.take().unwrap());
        Self { process, out, notes }
    }

    /// The next line of its results.
    fn line(&mut self) -> String {
        next_of(&mut self.out)
    }

    /// The next note.
    fn note(&mut self) -> String {
        next_of(&mut self.notes)
    }

    /// The next note that is not about time.
    fn note_of_work(&mut self) -> String {
        let note = self.note();
        if is_connecting(&note) { self.note() } else { note }
    }

    /// Ctrl-C; its status, and the rest of what it says.
    fn interrupt(mut self) -> (Option<i32>, String, String) {
        signal(&self.process, "-INT");
        let (mut out, mut notes) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.notes.read_to_string(&mut notes).unwrap();
        (self.process.wait().unwrap().code(), out, notes)
    }
}

fn next_of(lines: &mut impl BufRead) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "it has ended");
    line
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn it_sweeps_again_and_again_until_it_is_told_to_end() {
    let set = deployment();
    let days = days(&set.uri(), "days").await;
    let mut running = Running::start(&mut sweep(&set.uri(), &["shop.days", "--every", "20ms"]));
    assert!(running.note_of_work().contains("sweeps shop.days every 20ms, until Ctrl-C"));
    assert!(running.line().contains("shop.days: no increments finished"));
    let day = doc! { "_id": "mon", "counter": 1_i64, "pending": [pending(1, ago(HOUR))] };
    days.insert_one(day).await.unwrap();
    while !running.line().contains("shop.days: 1 increment finished") {}
    let (status, _, notes) = running.interrupt();
    assert_eq!(status, Some(0));
    assert!(notes.contains("steadfast sweep: ended, after "), "{notes}");
    assert!(notes.contains("1 increment finished, which added 1"), "{notes}");
}

#[tokio::test]
async fn a_sweep_that_is_interrupted_says_so() {
    let set = deployment();
    let primary = set.wait_for_primary().await;
    let blocked = doc! {
        "configureFailPoint": "failCommand",
        "mode": "alwaysOn",
        "data": { "failCommands": ["aggregate"], "blockConnection": true, "blockTimeMS": 600_000 },
    };
    set.faults().configure_fail_point(primary, blocked).unwrap();
    let mut running = Running::start(&mut sweep(&set.uri(), &["shop.days", "--every", "1h"]));
    assert!(running.note_of_work().contains("until Ctrl-C"));
    let (status, out, _) = running.interrupt();
    assert_eq!((status, out.contains("; then it was cut short")), (Some(0), true), "{out}");
}

/// A service is started with its machine, perhaps before its database.
#[tokio::test]
async fn a_service_waits_for_a_deployment_that_does_not_answer_at_the_start() {
    let server = Deployment::standalone().in_thread().start();
    server.faults().kill(0);
    let uri = format!("{}?serverSelectionTimeoutMS=200", server.uri());
    let mut running = Running::start(&mut sweep(&uri, &["shop.days", "--every", "50ms"]));
    assert_eq!(running.line(), "shop.days: not swept\n");
    assert!(running.note_of_work().contains("no server that takes writes was found"));
    while !running.note().contains("it is tried again in 50ms") {}
    server.faults().restart(0);
    while !running.note().contains("sweeps shop.days every 50ms, until Ctrl-C") {}
    while !running.line().contains("shop.days: no increments finished") {}
    let (status, _, notes) = running.interrupt();
    assert_eq!(status, Some(0), "{notes}");
    assert!(notes.contains("ended, after "), "{notes}");
}

#[test]
fn a_service_with_wrong_arguments_ends_at_once() {
    let arguments = ["shop.days", "--every", "1h"];
    let (status, out, notes) = said(&sweep("localhost:27017", &arguments).output().unwrap());
    assert_eq!((status, out.as_str()), (Some(2), ""), "{notes}");
}

#[test]
fn people_are_not_left_waiting_in_silence() {
    // Nobody listens at port 1.
    let mut running = Running::start(&mut sweep("mongodb://127.0.0.1:1", &["shop.days"]));
    let note = running.note();
    assert!(note.contains("connecting to 127.0.0.1:1 (it is given up after 10s)"), "{note}");
    let (status, out, notes) = running.interrupt();
    assert_eq!((status, out.as_str()), (Some(1), ""));
    assert!(notes.contains("interrupted while connecting; nothing was done"), "{notes}");
}

#[test]
fn a_deployment_that_cannot_be_reached_is_explained() {
    let uri = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200";
    let (status, out, notes) = said(&sweep(uri, &["shop.days"]).output().unwrap());
    assert_eq!((status, out.as_str()), (Some(1), ""));
    for part in [
        "steadfast sweep: no server that takes writes was found at 127.0.0.1:1 within 200ms",
        "why: ",
        "Connection refused",
        "next: Check that it is running",
    ] {
        assert!(notes.contains(part), "{part:?} in {notes}");
    }
}

#[test]
fn a_login_that_is_refused_is_explained() {
    let server = Deployment::standalone().auth("root", "right").in_thread().start();
    let uri = server.uri().replace("right", "wrong");
    let (status, _, notes) = said(&sweep(&uri, &["shop.days"]).output().unwrap());
    assert_eq!(status, Some(1));
    assert!(notes.contains("refused the login") && notes.contains("authSource"), "{notes}");
    assert!(!notes.contains("wrong@"), "{notes}");
}

#[test]
fn wrong_arguments_are_explained() {
    let uri = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200";
    for (arguments, part) in [
        (&["shop"][..], "a database and a collection, with a dot between them"),
        (&["shop.days", "--margin", "5"], "5s, 5m, 5h or 5d?"),
        (&["shop.days", "--keep", "soon"], "90s, 5m, 1h30m or 1d"),
        (&["shop.days", "--every", "0s"], "--every: "),
    ] {
        let (status, out, notes) = said(&sweep(uri, arguments).output().unwrap());
        assert_eq!((status, out.as_str()), (Some(2), ""), "{notes}");
        assert!(notes.contains(part), "{part:?} in {notes}");
    }
    for (uri, part) in [
        ("localhost:27017", "begins with mongodb://"),
        ("mongodb://localhost/?w=-5", "--uri: connection string: "),
    ] {
        let (status, _, notes) = said(&sweep(uri, &["shop.days"]).output().unwrap());
        assert_eq!(status, Some(2), "{notes}");
        assert!(notes.contains(part), "{part:?} in {notes}");
    }
    let set = deployment();
    let names = ["shop.days", "--pending", "counter"];
    let (status, out, notes) = said(&sweep(&set.uri(), &names).output().unwrap());
    assert_eq!((status, out.as_str()), (Some(2), ""), "{notes}");
    assert!(notes.contains("overlap"), "{notes}");
}

#[test]
fn the_connection_string_may_come_from_the_environment() {
    let served = Program::start(&["serve", "--replica-set", "1"]);
    let mut command = steadfast(&["sweep", "--collection", "shop.days"]);
    let output = command.env("STEADFAST_URI", served.uri()).output().unwrap();
    assert_eq!(said(&output).1, "shop.days: no increments finished\n");
    served.end();
    let mut help = steadfast(&["sweep", "--help"]);
    let help = help.env("STEADFAST_URI", "mongodb://u:secret@h").output().unwrap();
    let (_, help, _) = said(&help);
    assert!(help.contains("STEADFAST_URI") && !help.contains("u:secret"), "{help}");
    assert!(help.contains("--every 5m") && help.contains("--dry-run"), "{help}");
}
