//! The programs in `examples/`, run against real servers: each succeeds and prints the expected lines.
#![allow(missing_docs)]

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use steadfast_embedded::Deployment;
use testbed::{Mongod, Options, TestCa, User, shared};

/// Time that only a program that hangs exceeds.
const HANG: Duration = Duration::from_secs(60);

/// Examples that other tests run.
const OTHERS: [&str; 1] = ["tour"];

/// Examples that this file runs.
const TESTED: [&str; 13] = [
    "blocking",
    "bulk_write",
    "change_stream",
    "crud",
    "cursors_and_pagination",
    "deadlines",
    "error_outcome",
    "gridfs",
    "sessions",
    "tls_and_authentication",
    "tracing_events",
    "transaction",
    "web_service",
];

/// Returns the built program. `cargo test` builds examples, but not with `--test` or `--examples`.
fn program(name: &str) -> PathBuf {
    let test = env::current_exe().expect("the path of this test");
    let profile = test.ancestors().nth(2).expect("the profile's folder, above `deps`");
    let program = profile.join("examples").join(name).with_extension(env::consts::EXE_EXTENSION);
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).with_extension("rs");
    let modified = |path: &Path| fs::metadata(path).and_then(|it| it.modified()).ok();
    assert!(
        modified(&program).is_some_and(|built| Some(built) >= modified(&source)),
        "{} is missing or older than its source: run `cargo build -p steadfast --examples`",
        program.display()
    );
    program
}

fn start(name: &str, variables: &[(&str, &str)]) -> Child {
    let mut command = Command::new(program(name));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.envs(variables.iter().copied()).spawn().expect("it starts")
}

/// Runs an example to its end and returns what it printed.
fn run_with(name: &str, variables: &[(&str, &str)]) -> String {
    let mut child = start(name, variables);
    let stdout = read_all(child.stdout.take());
    let stderr = read_all(child.stderr.take());
    let Ok(printed) = stdout.recv_timeout(HANG) else {
        child.kill().expect("it can be killed");
        panic!("{name} hangs: {}", stderr.recv().unwrap_or_default());
    };
    let (status, errors) = (child.wait().expect("it ends"), stderr.recv().unwrap_or_default());
    assert!(status.success(), "{name}: {status}\n{printed}\n{errors}");
    assert_eq!(errors, "", "{name} prints errors");
    printed
}

/// Reads a stream to its end in a thread.
fn read_all(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, text) = mpsc::channel();
    let mut stream = stream.expect("it is piped");
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // Errors are ignored: the text so far is shown, and the receiver may be gone.
        let _ = stream.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    text
}

/// Runs an example on the shared replica set.
fn run(name: &str) -> String {
    run_with(name, &[("STEADFAST_URI", &shared::uri().expect("a deployment"))])
}

#[track_caller]
fn assert_lines(printed: &str, expected: &[&str]) {
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn every_example_is_tested_and_listed_in_the_docs() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let contents = crate_folder.join("../../docs/README.md");
    let contents = fs::read_to_string(contents).expect("the table of contents");
    let files = fs::read_dir(crate_folder.join("examples")).expect("the examples");
    let mut found = 0;
    for file in files {
        let path = file.expect("readable").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
        assert!(TESTED.contains(&name) || OTHERS.contains(&name), "{name} is not tested");
        if TESTED.contains(&name) {
            found += 1;
            let link = format!("driver/steadfast/examples/{name}.rs");
            assert!(contents.contains(&link), "docs/README.md does not link {link}");
            let text = fs::read_to_string(&path).expect("its source");
            let features = if name == "blocking" { "--features sync " } else { "" };
            let command = format!("`cargo run -p steadfast {features}--example {name}`");
            assert!(text.contains(&command), "{name}");
            let lines = text.lines().count();
            assert!((40..=120).contains(&lines), "{name} has {lines} lines");
        }
    }
    assert_eq!(found, TESTED.len());
}

#[test]
fn crud_creates_reads_updates_and_deletes() {
    assert_lines(
        &run("crud"),
        &[
            "inserted \"0-452\"",
            "inserted 3 more",
            "found 1984 of 1949",
            "1934  Burmese Days",
            "1939  Coming Up for Air",
            "1945  Animal Farm",
            "4 books in all",
            "matched 1, modified 1",
            "4 books have one copy more",
            "copies of Nineteen Eighty-Four: 1",
            "upserted \"0-1560\"",
            "deleted 3",
        ],
    );
}

#[test]
fn bulk_write_reports_the_failed_write_by_its_index() {
    let printed = run("bulk_write");
    let of_one_collection = [
        "write 2 failed with code 11000",
        "outcome of the whole call: MaybeApplied",
        "apple: { \"_id\": \"apple\", \"n\": 9, \"shelf\": 7 }",
        "2 kinds of fruit are left",
    ];
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[..4], of_one_collection, "{printed}");
    assert!(lines[4].starts_with("not here: "), "6.0 has no `bulkWrite` command: {printed}");

    let newer = Deployment::replica_set(1).version("8.2").start();
    let printed = run_with("bulk_write", &[("STEADFAST_URI", &newer.uri())]);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[..4], of_one_collection, "{printed}");
    assert_eq!(lines[4..], ["order 1 is inserted", "1 document of the stock is modified"]);
}

#[test]
fn transaction_moves_all_or_nothing() {
    assert_lines(
        &run("transaction"),
        &[
            "moved 30: ann has 70, bob has 30",
            "aborted: ann does not have 500",
            "unchanged: ann has 70, bob has 30",
            "moved 5 times 10: ann has 20, bob has 80",
        ],
    );
}

#[test]
fn change_stream_resumes_after_the_last_event() {
    let expected = [
        "new order 1: apple",
        "new order 2: pear",
        "order 1: shipped is true",
        "resumed: new order 3: fig",
    ];
    assert_lines(&run("change_stream"), &expected);
}

#[cfg(feature = "sync")]
#[test]
fn blocking_api_needs_no_runtime() {
    let deployment = Deployment::replica_set(1).start();
    assert_lines(
        &run_with("blocking", &[("STEADFAST_URI", &deployment.uri())]),
        &["and: 2", "the: 2", "14 words", "13 words, 1 archived", "90 bytes stored and read"],
    );
}

#[test]
fn gridfs_seeks_in_a_file() {
    assert_lines(
        &run("gridfs"),
        &[
            "numbers.txt: 260000 bytes, chunks of 65536",
            "short.txt: 10 bytes, chunks of 261120",
            "in the middle: line   12345",
            "short.txt: all's well",
            "lines.txt is deleted",
        ],
    );
}

#[test]
fn timeouts_end_a_read_and_a_write() {
    let printed = run("deadlines");
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 10, "{printed}");
    assert_eq!(lines[0], "a quick insert is well within its deadline");
    assert!(lines[1].starts_with("a read ended after about "), "{printed}");
    for (at, outcome) in [(2, "NotApplied"), (6, "MaybeApplied")] {
        assert_eq!(lines[at], "  limit: 200ms");
        assert!(lines[at + 1].starts_with("  spent: "), "{printed}");
        assert_eq!(lines[at + 2], format!("  outcome: {outcome}"));
    }
    assert_eq!(lines[9], "the job is done");
}

#[test]
fn error_outcome_shows_all_four_outcomes() {
    let printed = run("error_outcome");
    assert_lines(
        &printed,
        &[
            "no server: NotSent: call again later",
            "duplicate key: NotApplied: nothing was written; correct the call",
            "half of a batch: MaybeApplied: read before you call again, or repeat only what is idempotent",
            "  inserted: [Int32(2)]",
            "write concern: AppliedNotDurable: do not call again; a failover may still roll it back",
            "payment 5: inserted",
            "payment 5: was there before",
            "4 payments in all",
        ],
    );
}

#[test]
fn sessions_read_their_own_writes_from_secondaries() {
    assert_lines(
        &run("sessions"),
        &[
            "10 writes, each read from a secondary at once",
            "the other client counts 10",
            "in the snapshot: 10, then 10; outside of it: 5",
        ],
    );
}

#[test]
fn pagination_returns_every_document_once() {
    assert_lines(
        &run("cursors_and_pagination"),
        &[
            "the sum of all values is 6125",
            "reading 48 of the cellar: 48",
            "reading 49 of the attic: 49",
            "reading 98 of the cellar: 48",
            "125 readings of the attic on 4 pages",
            "average of the attic: 25",
            "average of the cellar: 24",
        ],
    );
}

#[test]
fn tls_and_authentication_rejects_a_wrong_password() {
    let ca = TestCa::new().expect("a certificate authority");
    let user = User::new("ada", "pencil");
    let server = Mongod::standalone(Options::new().tls(&ca).user(user)).expect("a server");
    let ca_file = ca.ca_file();
    let variables = [
        ("STEADFAST_URI", &*server.uri()),
        ("STEADFAST_CA_FILE", ca_file.to_str().expect("a path of text")),
        ("STEADFAST_USER", "ada"),
        ("STEADFAST_PASSWORD", "pencil"),
    ];
    let printed = run_with("tls_and_authentication", &variables);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[..3], ["TLS: yes", "user: ada", "authenticated as ada of admin"]);
    assert!(lines[3].starts_with("wrong password: authentication failed"), "{printed}");
    assert_eq!(lines.len(), 4, "{printed}");
    assert!(!printed.contains("pencil"), "{printed}");
}

#[test]
fn tracing_events_show_commands_and_connections() {
    let printed = run("tracing_events");
    for part in [
        "steadfast::connection: Connection pool created",
        "steadfast::command: Command started",
        "steadfast::command: Command succeeded",
        "steadfast::command: Command failed",
        "the application got: command failed: error 2 (BadValue)",
    ] {
        assert!(printed.contains(part), "{part} is missing in\n{printed}");
    }
    assert_eq!(printed.lines().last(), Some("failed commands: 1"));
}

/// Running web service. It is killed if the test fails.
struct Service {
    child: Child,
    address: String,
    printed: BufReader<std::process::ChildStdout>,
}

impl Service {
    fn start() -> Self {
        let uri = shared::uri().expect("a deployment");
        let mut child = start("web_service", &[("STEADFAST_URI", &uri), ("LISTEN", "127.0.0.1:0")]);
        let mut printed = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        printed.read_line(&mut line).expect("it prints its address");
        let address = line.trim().strip_prefix("listening on http://").map(str::to_owned);
        Self { address: address.unwrap_or_else(|| panic!("{line:?}")), child, printed }
    }

    /// Sends a request and returns the status code and the body.
    fn request(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(HANG)).expect("a limit");
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: books\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .expect("it is sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        let (head, body) = response.split_once("\r\n\r\n").expect("head and body");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.unwrap_or_else(|| panic!("{head}")), body.to_owned())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn web_service_maps_the_outcome_of_a_write_to_a_status_code() {
    let mut service = Service::start();
    let book = r#"{"_id":"0-452","title":"1984","year":1949}"#;
    assert_eq!(service.request("POST", "/books", book), (201, String::new()));
    assert_eq!(service.request("POST", "/books", book), (409, "it exists already".to_owned()));
    assert_eq!(service.request("GET", "/books/0-452", ""), (200, book.to_owned()));
    assert_eq!(service.request("GET", "/books/0-453", "").0, 404);
    assert_eq!(service.request("GET", "/books", ""), (200, format!("[{book}]")));

    let pid = service.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("it runs").success());
    let mut rest = String::new();
    service.printed.read_to_string(&mut rest).expect("it ends");
    assert!(rest.contains("409 Conflict: write failed"), "{rest}");
    assert!(rest.ends_with("stopped\n"), "{rest}");
    assert!(service.child.wait().expect("it ends").success());
}
