//! Tests of `steadfast sweep`: arguments, output, exit status and effect on the documents.
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

/// Starts a deployment on its own thread, which runs while the test waits for a program.
fn deployment() -> Deployment {
    Deployment::replica_set(3).in_thread().start()
}

async fn days(uri: &str, name: &str) -> Collection<Document> {
    let client = Client::with_uri_str(uri).await.unwrap();
    let collection = client.database("shop").collection::<Document>(name);
    collection.drop().await.unwrap();
    collection
}

fn time_before_now(time: Duration) -> DateTime {
    DateTime::from_system_time(SystemTime::now() - time)
}

fn pending(by: i64, until: DateTime) -> Bson {
    doc! { "token": ObjectId::new(), "by": by, "until": until }.into()
}

/// Returns a plain token, as in the article, which is a week old.
fn plain_token() -> ObjectId {
    let mut bytes = ObjectId::new().bytes();
    let then = u32::try_from(time_before_now(7 * 24 * HOUR).timestamp_millis() / 1000).unwrap();
    bytes[..4].copy_from_slice(&then.to_be_bytes());
    ObjectId::from_bytes(bytes)
}

/// Inserts two counters with pending increments, and one without.
async fn insert_pending(days: &Collection<Document>) {
    let later = DateTime::from_system_time(SystemTime::now() + HOUR);
    let due = pending(2, time_before_now(HOUR));
    let old = doc! { "token": ObjectId::new(), "until": time_before_now(50 * HOUR) };
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

/// Returns the exit status, standard output and standard error, without the note that connecting takes time.
fn result_of(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let stderr = text(&output.stderr);
    let is_of_time = |line: &&str| !is_connecting(line);
    let stderr = stderr.split_inclusive('\n').filter(is_of_time).collect();
    (output.status.code(), text(&output.stdout), stderr)
}

fn is_connecting(note: &str) -> bool {
    note.starts_with("steadfast sweep: connecting to ")
}

async fn check_sweep(uri: &str, name: &str) {
    let days = days(uri, name).await;
    insert_pending(&days).await;
    let collection = format!("shop.{name}");

    let dry = result_of(&sweep(uri, &[&collection, "--dry-run"]).output().unwrap());
    let would = "2 increments would be finished, which adds 3; 1 tombstone would be removed; 1 skipped, \
                 not old enough";
    assert_eq!(dry, (Some(0), format!("{collection}: {would}\n"), String::new()));
    assert_eq!(counters(&days).await, [Some(10), Some(20), Some(30)], "a dry run changes nothing");

    let done = result_of(&sweep(uri, &[&collection]).output().unwrap());
    let does = "2 increments finished, which added 3; 1 tombstone removed; 1 skipped, not old \
                enough";
    assert_eq!(done, (Some(0), format!("{collection}: {does}\n"), String::new()));
    assert_eq!(counters(&days).await, [Some(12), Some(21), Some(30)]);

    let again = result_of(&sweep(uri, &[&collection, "--quiet"]).output().unwrap());
    assert!(again.1.contains("no increments finished; 1 skipped"), "{again:?}");
    assert_eq!(counters(&days).await, [Some(12), Some(21), Some(30)]);
}

#[tokio::test]
async fn pending_increments_are_finished_once() {
    let set = deployment();
    check_sweep(&set.uri(), "days").await;
}

#[tokio::test]
async fn pending_increments_are_finished_once_on_real_servers() {
    testbed::require!(testbed::shared::servers());
    let uri = testbed::shared::uri().unwrap();
    check_sweep(&uri, &format!("swept_{}", std::process::id())).await;
}

#[tokio::test]
async fn result_is_printed_as_json() {
    let set = deployment();
    insert_pending(&days(&set.uri(), "days").await).await;
    let (status, stdout, stderr) =
        result_of(&sweep(&set.uri(), &["shop.days", "--json"]).output().unwrap());
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["collection"], "shop.days");
    assert_eq!(report["counters"], 2);
    for (field, number) in [("finished", 2), ("added", 3), ("tombstonesRemoved", 1), ("skipped", 1)]
    {
        assert_eq!(report[field], number, "{field}");
    }
    for (field, number) in [("finishedByOthers", 0), ("failed", 0)] {
        assert_eq!(report[field], number, "{field}");
    }
    assert_eq!((&report["dryRun"], &report["error"]), (&Value::Bool(false), &Value::Null));
}

#[tokio::test]
async fn field_names_are_options() {
    let set = deployment();
    let days = days(&set.uri(), "days").await;
    let day = doc! { "_id": 1, "stats": { "n": 1 }, "open": [pending(4, time_before_now(HOUR))] };
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
async fn one_invalid_counter_does_not_stop_the_sweep() {
    let set = deployment();
    let days = days(&set.uri(), "days").await;
    let odd =
        doc! { "_id": "odd", "counter": "many", "pending": [pending(1, time_before_now(HOUR))] };
    let even =
        doc! { "_id": "tue", "counter": 1_i64, "pending": [pending(1, time_before_now(HOUR))] };
    days.insert_many([odd, even]).await.unwrap();
    let (status, stdout, stderr) = result_of(&sweep(&set.uri(), &["shop.days"]).output().unwrap());
    assert_eq!(status, Some(1));
    assert!(stdout.contains("1 increment finished, which added 1"), "{stdout}");
    assert!(stderr.contains("steadfast sweep: the counter \"odd\" was not swept: "), "{stderr}");
    assert!(stderr.contains("steadfast sweep: 1 counter could not be swept"), "{stderr}");
    assert_eq!(counters(&days).await[1], Some(2));
}

/// A running program and its output.
struct RunningSweep {
    process: Child,
    stdout: BufReader<std::process::ChildStdout>,
    stderr: BufReader<std::process::ChildStderr>,
}

impl RunningSweep {
    fn start(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let stderr = BufReader::new(process.stderr.take().unwrap());
        Self { process, stdout, stderr }
    }

    /// Reads the next line of standard output.
    fn line(&mut self) -> String {
        next_line(&mut self.stdout)
    }

    /// Reads the next line of standard error.
    fn note(&mut self) -> String {
        next_line(&mut self.stderr)
    }

    /// Reads the next note, skipping the one that connecting takes time.
    fn note_after_connecting(&mut self) -> String {
        let note = self.note();
        if is_connecting(&note) { self.note() } else { note }
    }

    /// Sends SIGINT. Returns the exit status and the rest of the output.
    fn interrupt(mut self) -> (Option<i32>, String, String) {
        signal(&self.process, "-INT");
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        (self.process.wait().unwrap().code(), stdout, stderr)
    }
}

fn next_line(lines: &mut impl BufRead) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "it has ended");
    line
}

impl Drop for RunningSweep {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn sweeps_repeat_until_ctrl_c() {
    let set = deployment();
    let days = days(&set.uri(), "days").await;
    let mut running =
        RunningSweep::start(&mut sweep(&set.uri(), &["shop.days", "--every", "20ms"]));
    assert!(running.note_after_connecting().contains("sweeping shop.days every 20ms until Ctrl-C"));
    assert!(running.line().contains("shop.days: no increments finished"));
    let day =
        doc! { "_id": "mon", "counter": 1_i64, "pending": [pending(1, time_before_now(HOUR))] };
    days.insert_one(day).await.unwrap();
    while !running.line().contains("shop.days: 1 increment finished") {}
    let (status, _, stderr) = running.interrupt();
    assert_eq!(status, Some(0));
    assert!(stderr.contains("steadfast sweep: ended after "), "{stderr}");
    assert!(stderr.contains("1 increment finished, which added 1"), "{stderr}");
}

#[tokio::test]
async fn interrupted_sweep_is_reported() {
    let set = deployment();
    let primary = set.wait_for_primary().await;
    let blocked = doc! {
        "configureFailPoint": "failCommand",
        "mode": "alwaysOn",
        "data": { "failCommands": ["aggregate"], "blockConnection": true, "blockTimeMS": 600_000 },
    };
    set.faults().configure_fail_point(primary, blocked).unwrap();
    let mut running = RunningSweep::start(&mut sweep(&set.uri(), &["shop.days", "--every", "1h"]));
    assert!(running.note_after_connecting().contains("until Ctrl-C"));
    let (status, stdout, _) = running.interrupt();
    assert_eq!((status, stdout.contains("; ended early")), (Some(0), true), "{stdout}");
}

/// A service may be started before its database.
#[tokio::test]
async fn repeated_sweep_waits_for_an_unreachable_deployment() {
    let server = Deployment::standalone().in_thread().start();
    server.faults().kill(0);
    let uri = format!("{}?serverSelectionTimeoutMS=200", server.uri());
    let mut running = RunningSweep::start(&mut sweep(&uri, &["shop.days", "--every", "50ms"]));
    assert_eq!(running.line(), "shop.days: not swept\n");
    assert!(running.note_after_connecting().contains("no writable server was found"));
    while !running.note().contains("retrying in 50ms") {}
    server.faults().restart(0);
    while !running.note().contains("sweeping shop.days every 50ms until Ctrl-C") {}
    while !running.line().contains("shop.days: no increments finished") {}
    let (status, _, stderr) = running.interrupt();
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("ended after "), "{stderr}");
}

#[test]
fn repeated_sweep_with_wrong_arguments_ends_at_once() {
    let arguments = ["shop.days", "--every", "1h"];
    let (status, stdout, stderr) =
        result_of(&sweep("localhost:27017", &arguments).output().unwrap());
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
}

#[test]
fn slow_connection_prints_a_note() {
    // Nothing listens on port 1.
    let mut running = RunningSweep::start(&mut sweep("mongodb://127.0.0.1:1", &["shop.days"]));
    let note = running.note();
    assert!(note.contains("connecting to 127.0.0.1:1 (time-out 10s)"), "{note}");
    let (status, stdout, stderr) = running.interrupt();
    assert_eq!((status, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("interrupted while connecting; nothing was done"), "{stderr}");
}

#[test]
fn unreachable_deployment_is_explained() {
    let uri = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200";
    let (status, stdout, stderr) = result_of(&sweep(uri, &["shop.days"]).output().unwrap());
    assert_eq!((status, stdout.as_str()), (Some(1), ""));
    for part in [
        "steadfast sweep: no writable server was found at 127.0.0.1:1 within 200ms",
        "why: ",
        "Connection refused",
        "next: check that it is running",
    ] {
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
}

#[test]
fn failed_authentication_is_explained() {
    let server = Deployment::standalone().auth("root", "right").in_thread().start();
    let uri = server.uri().replace("right", "wrong");
    let (status, _, stderr) = result_of(&sweep(&uri, &["shop.days"]).output().unwrap());
    assert_eq!(status, Some(1));
    assert!(stderr.contains("authentication on ") && stderr.contains("authSource"), "{stderr}");
    assert!(!stderr.contains("wrong@"), "{stderr}");
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
        let (status, stdout, stderr) = result_of(&sweep(uri, arguments).output().unwrap());
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
    for (uri, part) in [
        ("localhost:27017", "begins with mongodb://"),
        ("mongodb://localhost/?w=-5", "--uri: connection string: "),
    ] {
        let (status, _, stderr) = result_of(&sweep(uri, &["shop.days"]).output().unwrap());
        assert_eq!(status, Some(2), "{stderr}");
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
    let set = deployment();
    let names = ["shop.days", "--pending", "counter"];
    let (status, stdout, stderr) = result_of(&sweep(&set.uri(), &names).output().unwrap());
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("overlap"), "{stderr}");
}

#[test]
fn connection_string_can_come_from_the_environment() {
    let served = Program::start(&["serve", "--replica-set", "1"]);
    let mut command = steadfast(&["sweep", "--collection", "shop.days"]);
    let output = command.env("STEADFAST_URI", served.uri()).output().unwrap();
    assert_eq!(result_of(&output).1, "shop.days: no increments finished\n");
    served.end();
    let mut help = steadfast(&["sweep", "--help"]);
    let help = help.env("STEADFAST_URI", "mongodb://u:secret@h").output().unwrap();
    let (_, help, _) = result_of(&help);
    assert!(help.contains("STEADFAST_URI") && !help.contains("u:secret"), "{help}");
    assert!(help.contains("--every 5m") && help.contains("--dry-run"), "{help}");
}
