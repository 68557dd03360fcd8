//! Tests of `steadfast dedupe`.

#![allow(missing_docs)]

#[allow(dead_code)]
mod program;

use std::process::{Output, Stdio};

use steadfast::{
    Client, Collection,
    bson::{Document, doc, oid::ObjectId},
};
use steadfast_embedded::Deployment;

use self::program::{signal, steadfast};

/// A deployment with documents, and a runtime for queries.
struct Datacenter {
    deployment: Deployment,
    runtime: tokio::runtime::Runtime,
    messages: Collection<Document>,
}

impl Datacenter {
    fn with(documents: &[Document]) -> Self {
        let deployment = Deployment::replica_set(1).in_thread().start();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let messages: Collection<Document> = runtime.block_on(async {
            let client = Client::with_uri_str(deployment.uri()).await.expect("its own");
            let messages = client.database("app").collection::<Document>("messages");
            messages.insert_many(documents).await.expect("it takes writes");
            messages
        });
        Self { deployment, runtime, messages }
    }

    fn uri(&self) -> String {
        self.deployment.uri()
    }

    fn count(&self, filter: Document) -> u64 {
        self.runtime.block_on(self.messages.count_documents(filter).into_future()).expect("a count")
    }
}

fn message(second: u8, message_id: i32, datacenter: &str, text: &str) -> Document {
    let id = ObjectId::from_bytes([0, 0, 0, second, 0, 0, 0, 0, 0, 0, 0, 1]);
    doc! { "_id": id, "message_id": message_id, "datacenter": datacenter, "text": text }
}

/// Returns two equal copies of one event, two different ones of another, and one of a third.
fn messages() -> Vec<Document> {
    vec![
        message(1, 7, "alfa", "a"),
        message(2, 7, "bravo", "a"),
        message(3, 8, "alfa", "b"),
        message(4, 8, "bravo", "not b"),
        message(5, 9, "bravo", "c"),
    ]
}

fn dedupe(uris: &[&str], more: &[&str]) -> Output {
    let mut arguments = vec!["dedupe", "--collection", "app.messages", "--key", "message_id"];
    for uri in uris {
        arguments.extend(["--uri", uri]);
    }
    arguments.extend(more);
    steadfast(&arguments).output().expect("the program is built")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

#[test]
fn without_delete_the_result_is_a_preview() {
    let datacenter = Datacenter::with(&messages());
    let output = dedupe(&[&datacenter.uri()], &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        "app.messages: 2 events of 5 documents have several copies; 1 copy would be deleted\n"
    );
    assert!(stderr(&output).contains("1 copy differs"), "{}", stderr(&output));
    assert!(stderr(&output).contains("run this again with --delete"), "{}", stderr(&output));
    assert_eq!(datacenter.count(doc! {}), 5);

    let output = dedupe(&[&datacenter.uri()], &["--delete"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        "app.messages: 2 events of 5 documents have several copies; 1 copy was deleted\n"
    );
    assert_eq!(datacenter.count(doc! {}), 4);
    assert_eq!(datacenter.count(doc! { "message_id": 7, "datacenter": "alfa" }), 1);
}

#[test]
fn copies_are_listed_as_text_and_json() {
    let datacenter = Datacenter::with(&messages());
    let output = dedupe(&[&datacenter.uri()], &["--list", "--quiet", "--keep", "last"]);
    let text = stdout(&output);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "{\"message_id\":7}: 000000010000000000000001 in \"alfa\" is surplus to \
             000000020000000000000001 in \"bravo\"",
            "{\"message_id\":8}: 000000030000000000000001 in \"alfa\" differs from \
             000000040000000000000001 in \"bravo\"",
        ]
    );
    assert!(!stderr(&output).contains("--delete"), "{}", stderr(&output));

    let output =
        dedupe(&[&datacenter.uri()], &["--list", "--json", "--filter", "{\"text\": \"a\"}"]);
    let documents: Vec<serde_json::Value> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a document on each line"))
        .collect();
    assert_eq!(documents.len(), 2);
    assert_eq!(documents[0]["finding"], "surplus");
    assert_eq!(documents[0]["copy"]["datacenter"], "bravo");
    assert_eq!(documents[0]["kept"]["_id"]["$oid"], "000000010000000000000001");
    let report = &documents[1];
    assert_eq!((&report["examined"], &report["surplus"]), (&2.into(), &1.into()));
    assert_eq!((&report["deleted"], &report["dryRun"]), (&0.into(), &true.into()));
}

#[test]
fn copies_in_several_deployments_are_compared() {
    let copies = messages();
    let of = |name: &str| -> Vec<Document> {
        copies.iter().filter(|it| it.get_str("datacenter").ok() == Some(name)).cloned().collect()
    };
    let (alfa, bravo) = (Datacenter::with(&of("alfa")), Datacenter::with(&of("bravo")));
    let output = dedupe(&[&alfa.uri(), &bravo.uri()], &["--keep", "last", "--delete", "--list"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("in \"alfa\" at URI 1 is surplus to"), "{}", stdout(&output));
    assert_eq!((alfa.count(doc! {}), bravo.count(doc! {})), (1, 3));
}

#[test]
fn wrong_arguments_are_explained() {
    let datacenter = Datacenter::with(&messages());
    let uri = datacenter.uri();
    for (more, part) in [
        (&["--filter", "{\"datacenter\": \"alfa\"}"][..], "leave the field out"),
        (&["--filter", "{userid: 1}"], "not JSON"),
        (&["--key", "datacenter"], "cannot be a key"),
        (&["--older-than", "soon"], "a number and a unit"),
        (&["--keep", "both"], "possible values: first, last"),
    ] {
        let output = dedupe(&[&uri], more);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{more:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "without a result");
    }
    let output = dedupe(&[], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--uri"), "{}", stderr(&output));
}

#[test]
fn unreachable_deployment_is_explained() {
    // Its port stays reserved, without a listener.
    let datacenter = Datacenter::with(&messages());
    datacenter.deployment.faults().kill(0);
    let uri = format!("{}&serverSelectionTimeoutMS=300", datacenter.uri());
    let output = dedupe(&[&uri], &["--delete"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("no writable server was found"), "{}", stderr(&output));
}

#[test]
fn interrupted_run_reports_its_work_and_leaves_a_copy_of_each_event() {
    let datacenter = Datacenter::with(&messages());
    let blocked = doc! {
        "configureFailPoint": "failCommand",
        "mode": "alwaysOn",
        "data": { "failCommands": ["delete"], "blockConnection": true, "blockTimeMS": 600_000 },
    };
    datacenter.deployment.faults().configure_fail_point(0, blocked).expect("a known one");
    let uri = datacenter.uri();
    let arguments = ["--collection", "app.messages", "--key", "message_id", "--delete"];
    let mut program = steadfast(&[&["dedupe", "--uri", &uri], &arguments[..]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    // The program has marked the copy, and is about to delete it.
    while datacenter.count(doc! { "steadfast_trim": { "$exists": true } }) == 0 {
        assert!(program.try_wait().expect("a process").is_none(), "it ended by itself");
    }
    signal(&program, "-INT");
    let output = program.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("ended early"), "{}", stdout(&output));
    assert!(stderr(&output).contains("one copy of each event remains"), "{}", stderr(&output));
    assert_eq!(datacenter.count(doc! { "datacenter": "alfa" }), 2);
}

/// Returns a document of the maximum size, without room for a mark.
fn full(second: u8, datacenter: &str) -> Document {
    const LARGEST: usize = 16 * 1024 * 1024;
    let size = |text: &str| message(second, 6, datacenter, text).to_vec().expect("BSON").len();
    let full = message(second, 6, datacenter, &"x".repeat(LARGEST - size("")));
    assert_eq!(full.to_vec().expect("BSON").len(), LARGEST);
    full
}

#[test]
fn copy_that_cannot_be_marked_remains() {
    let mut documents = vec![full(10, "bravo"), full(11, "gamma")];
    documents.extend(messages());
    let datacenter = Datacenter::with(&documents);
    let output = dedupe(&[&datacenter.uri()], &["--delete"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let expected = "3 events of 7 documents have several copies; 1 copy was deleted; 1 copy could not be deleted\n";
    assert_eq!(stdout(&output), format!("app.messages: {expected}"));
    let why = "steadfast dedupe: 1 copy could not be marked for deletion, and remained: ";
    assert!(stderr(&output).contains(why), "{}", stderr(&output));
    assert_eq!(datacenter.count(doc! { "message_id": 6 }), 2);
    assert_eq!(datacenter.count(doc! { "message_id": 7 }), 1, "the others are deleted");
}

#[test]
fn dry_run_option_deletes_nothing() {
    let datacenter = Datacenter::with(&messages());
    let output = dedupe(&[&datacenter.uri()], &["--dry-run"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("1 copy would be deleted"), "{}", stdout(&output));
    assert_eq!(datacenter.count(doc! { "message_id": 7 }), 2);
    let output = dedupe(&[&datacenter.uri()], &["--dry-run", "--delete"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}
