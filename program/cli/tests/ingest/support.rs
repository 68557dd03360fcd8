//! Support for the tests of `ingest`: a collection, files, and the program with its output.

use std::{
    fs,
    io::Write,
    ops::{Deref, Range},
    path::Path,
    process::{Child, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use steadfast::{
    Client, Collection,
    bson::{Document, doc},
};
use steadfast_embedded::Deployment;
use tempfile::TempDir;

use crate::program::{Program, steadfast, temp_dir};

/// A collection to ingest into, with a runtime for queries.
pub(crate) struct Target {
    pub(crate) uri: String,
    runtime: tokio::runtime::Runtime,
    lines: Collection<Document>,
    deployment: Option<Deployment>,
}

impl Target {
    pub(crate) fn embedded() -> Self {
        let deployment = Deployment::replica_set(1).in_thread().start();
        Self::at(deployment.uri(), Some(deployment))
    }

    pub(crate) fn at(uri: String, deployment: Option<Deployment>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = runtime.block_on(Client::with_uri_str(&uri).into_future()).expect("its own");
        let lines = client.database("app").collection("lines");
        Self { uri, runtime, lines, deployment }
    }

    /// Returns the documents of a shard, without a mongos.
    pub(crate) fn of_shard(&self, name: &str) -> Vec<Document> {
        let shard = self.deployment.as_ref().expect("it is embedded").shard(name);
        let primary = self.runtime.block_on(shard.wait_for_primary());
        let uri =
            format!("mongodb://{}/?directConnection=true", shard.members()[primary].address());
        Self::at(uri, None).documents()
    }

    /// Stops all members of a shard.
    pub(crate) fn kill_shard(&self, name: &str) {
        let shard = self.deployment.as_ref().expect("it is embedded").shard(name);
        (0..shard.members().len()).for_each(|member| shard.faults().kill(member));
    }

    pub(crate) fn count(&self) -> u64 {
        self.runtime.block_on(self.lines.count_documents(doc! {}).into_future()).expect("a count")
    }

    pub(crate) fn command(&self, command: Document) {
        let app = self.lines.client().database("app");
        self.runtime.block_on(app.run_command(command).into_future()).expect("it is done");
    }

    /// Returns all documents, in order of `_id`.
    pub(crate) fn documents(&self) -> Vec<Document> {
        self.runtime.block_on(async {
            let mut found =
                self.lines.find(doc! {}).sort(doc! { "_id": 1 }).await.expect("a cursor");
            let mut documents = Vec::new();
            while found.advance().await.expect("a batch") {
                documents.push(found.deserialize_current().expect("a document"));
            }
            documents
        })
    }
}

/// A temporary directory.
pub(crate) struct Folder(TempDir);

pub(crate) fn folder() -> Folder {
    Folder(temp_dir())
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.path()
    }
}

pub(crate) fn file(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.join(name);
    fs::write(&path, content).expect("a file");
    path.to_str().expect("text").to_owned()
}

pub(crate) fn arguments<'a>(uri: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["ingest", "--uri", uri, "--collection", "app.lines"], more].concat()
}

pub(crate) fn ingest(uri: &str, more: &[&str]) -> Output {
    steadfast(&arguments(uri, more)).output().expect("the program is built")
}

pub(crate) fn ingest_stream(uri: &str, more: &[&str], input: &str) -> Output {
    let mut program = steadfast(&arguments(uri, more))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    let mut stdin = program.stdin.take().expect("it is piped");
    // The process may have ended already.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    program.wait_with_output().expect("it ends")
}

pub(crate) fn result_of(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

pub(crate) fn assert_result(output: &Output, expected: &str) {
    let (status, stdout, stderr) = result_of(output);
    assert_eq!(
        (status, stdout.as_str()),
        (Some(0), format!("app.lines: {expected}\n").as_str()),
        "{stderr}"
    );
}

pub(crate) fn without_ids(documents: Vec<Document>) -> Vec<Document> {
    let mut documents = documents;
    documents.iter_mut().for_each(|document| drop(document.remove("_id")));
    documents
}
pub(crate) const RECORDS: u32 = 4_000;

pub(crate) fn records() -> String {
    some_records(0..RECORDS)
}

pub(crate) fn some_records(numbers: Range<u32>) -> String {
    numbers.map(|n| format!("{{\"n\": {n}, \"text\": \"record {n}\"}}\n")).collect()
}

pub(crate) fn assert_exact(target: &Target) {
    let expected: Vec<_> =
        (0..RECORDS).map(|n| doc! { "n": n as i32, "text": format!("record {n}") }).collect();
    let documents = without_ids(target.documents());
    assert_eq!(documents.len(), expected.len());
    assert!(documents == expected, "what is there is what was in the file");
}

/// A `steadfast pipe` with rules in front of the servers.
pub(crate) fn pipe(folder: &Path, upstream: &str, rules: &str) -> Program {
    let rules = file(folder, "rules.toml", rules);
    Program::start(&["pipe", "--upstream", upstream, "--rules", &rules])
}

/// Waits until the collection has a number of documents, while the program runs.
pub(crate) fn wait_for_documents(target: &Target, program: &mut Child, count: u64) {
    wait_until(program, || target.count() >= count);
}

/// Waits for a condition, while the program runs.
pub(crate) fn wait_until(program: &mut Child, is_so: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(300);
    while !is_so() {
        assert!(program.try_wait().expect("a process").is_none(), "it ended by itself");
        assert!(Instant::now() < limit, "it takes too long");
        thread::sleep(Duration::from_millis(5));
    }
}
