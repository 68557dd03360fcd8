//! Mistakes with commands: each ends with a clear message and the right exit status, and leaves the directory
//! unchanged.

#![allow(missing_docs)]

#[allow(dead_code, reason = "shared with tests that use more of it")]
mod program;

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    process::{Output, Stdio},
};

use program::{steadfast, temp_dir};
use steadfast_embedded::Deployment;
use tempfile::TempDir;

/// Arguments of `steadfast`, the exit status, and parts of the message on standard error.
type Mistake = (&'static str, i32, &'static [&'static str]);

/// A temporary directory with files that are wrong arguments.
struct ExampleFiles(TempDir);

impl ExampleFiles {
    fn new() -> Self {
        let files = Self(temp_dir());
        fs::create_dir(files.0.path().join("folder")).expect("a folder");
        for (name, content) in [
            ("one.ndjson", &b"{\"n\": 1}\n"[..]),
            ("text.ndjson", b"{\"n\": 1}\nthis is not JSON\n"),
            ("image.ndjson", b"\x89PNG\r\n\x1a\n\x00\xff\n"),
            ("header.csv", b"a,a\n1,2\n"),
            ("image.csv", b"\xff\xfe,b\n1,2\n"),
            ("empty.toml", b""),
            ("broken.toml", b"rule = [\n"),
            ("other.toml", b"colour = 'red'\n"),
            ("image.toml", b"\x89PNG\r\n\x1a\n\x00\xff\n"),
            ("file", b"something\n"),
        ] {
            fs::write(files.0.path().join(name), content).expect("a file");
        }
        files
    }

    /// Returns its files with their content.
    fn content(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let entries = fs::read_dir(&self.0).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.map(|path| (path.clone(), fs::read(path).ok())).collect()
    }

    fn run(&self, typed: &str, stdout: impl Into<Stdio>) -> Output {
        let arguments: Vec<&str> = typed.split_whitespace().collect();
        let program = steadfast(&arguments)
            .current_dir(self.0.path())
            .env_remove("STEADFAST_URI")
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn();
        program.expect("the program is built").wait_with_output().expect("it ends")
    }

    /// Runs the program with a mistake. `{unreachable}` and `{server}` are replaced by connection strings.
    fn check(
        &self,
        (typed, status, parts): Mistake,
        server: &str,
        stdout: impl Into<Stdio>,
    ) -> String {
        let typed = typed.replace("{unreachable}", UNREACHABLE).replace("{server}", server);
        let before = self.content();
        let output = self.run(&typed, stdout);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{typed}: {stderr}");
        for part in parts {
            assert!(stderr.contains(part), "{typed}: {part:?} is missing in {stderr:?}");
        }
        assert!(
            !stderr.contains("panicked") && !stderr.contains("RUST_BACKTRACE"),
            "{typed}: {stderr}"
        );
        let left: Vec<_> =
            self.content().into_iter().filter(|it| before.get(&it.0) != Some(&it.1)).collect();
        assert!(left.is_empty() && self.content().len() == before.len(), "{typed} leaves {left:?}");
        stderr
    }
}

/// Nothing listens on port 1.
const UNREACHABLE: &str = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300";

#[test]
fn wrong_arguments_end_with_where_to_look() {
    let files = ExampleFiles::new();
    let hint = "try '--help'";
    let mistakes: &[Mistake] = &[
        ("nonsense", 2, &["'nonsense'", "Usage: steadfast"]),
        ("--nonsense", 2, &["'--nonsense'", "Usage: steadfast"]),
        ("demo --events 5", 2, &["'5'", "20..=1000"]),
        ("demo --color blue", 2, &["'blue'", "[possible values: auto, always, never]"]),
        ("chaos --duration soon", 2, &["'soon'", "--duration"]),
        ("chaos --faults rain", 2, &["'rain'", "possible values"]),
        ("chaos --mongod --uri {unreachable}", 2, &["--mongod", "cannot be used with"]),
        ("chaos --database a.b", 2, &["a database name"]),
        ("chaos --strategy hope", 2, &["'hope'"]),
        ("simulate --clients 0", 2, &["'0'"]),
        ("simulate --share 0", 2, &["above zero"]),
        ("completions fishy", 2, &["'fishy'"]),
        ("pipe", 2, &["--upstream <URI>"]),
        ("pipe --upstream {unreachable} --listen somewhere", 2, &["'somewhere'", "host:port"]),
        ("serve --port 99999", 2, &["'99999'"]),
        ("serve --standalone --replica-set 3", 2, &["cannot be used with"]),
        ("sweep --collection app.c", 2, &["--uri <URI>"]),
        ("sweep --uri {unreachable}", 2, &["--collection <DATABASE.COLLECTION>"]),
        ("sweep --uri {unreachable} --collection c", 2, &["'c'", "a dot between them"]),
        ("sweep --uri {unreachable} --collection app.c --keep long", 2, &["'long'", "--keep"]),
        ("zones nonsense", 2, &["'nonsense'", "Usage: steadfast zones"]),
        ("zones plan --uri {unreachable}", 2, &["<LAYOUT>"]),
        ("dedupe --uri {unreachable} --collection app.c", 2, &["--key <FIELD>"]),
        ("dedupe --uri {unreachable} --collection app.c --key k --filter {", 2, &["--filter"]),
        ("doctor {unreachable} --timeout x", 2, &["'x'", "--timeout"]),
        ("ingest --uri {unreachable} one.ndjson", 2, &["--collection <DATABASE.COLLECTION>"]),
        ("ingest --collection app.c --batch 0 one.ndjson", 2, &["'0'", "from 1 to 100000"]),
        ("ingest --collection app.c --format xml one.ndjson", 2, &["'xml'", "ndjson, csv"]),
        ("ingest --collection app.c --datacenters a=b one.ndjson", 2, &["alfa,bravo"]),
    ];
    for mistake in mistakes {
        let stderr = files.check(*mistake, "", Stdio::piped());
        assert!(stderr.contains(hint), "{}: {stderr}", mistake.0);
    }
}

#[test]
fn conflicting_arguments_are_explained() {
    let files = ExampleFiles::new();
    let mistakes: &[Mistake] = &[
        ("doctor", 2, &["<URI>"]),
        ("chaos --keep", 2, &["--keep requires --uri"]),
        ("chaos --faults none,cuts", 2, &["none cannot be combined"]),
        (
            "ingest --collection app.c one.ndjson text.ndjson --source s",
            2,
            &["requires a single file"],
        ),
        ("ingest --collection app.c one.ndjson --datacenters a,b", 2, &["use --uri"]),
        (
            "ingest --uri {unreachable} --collection app.c one.ndjson --datacenters a={unreachable}",
            2,
            &["cannot be combined with --uri"],
        ),
        ("ingest --collection app.c --format ndjson -", 2, &["--source", "--id"]),
        ("ingest --collection app.c one.ndjson --checkpoint c --rejects c", 2, &["the same file"]),
        ("pipe --upstream http://127.0.0.1:1", 2, &["expected mongodb://"]),
    ];
    for mistake in mistakes {
        files.check(*mistake, "", Stdio::piped());
    }
}

#[test]
fn invalid_connection_strings_are_not_quoted() {
    let files = ExampleFiles::new();
    let scheme = &["mongodb://", "mongodb+srv://"];
    let mistakes: &[Mistake] = &[
        ("sweep --uri u:secret@h --collection app.c", 2, scheme),
        ("zones plan --uri u:secret@h one.toml", 2, &[]),
        ("dedupe --uri u:secret@h --collection app.c --key k", 2, scheme),
        ("doctor u:secret@h", 2, scheme),
        ("ingest --uri u:secret@h --collection app.c one.ndjson", 2, scheme),
        ("sweep --uri mongodb://u:secret@h/?w=-1 --collection app.c", 2, &["w"]),
        ("ingest --uri mongodb://u:secret@h:99999 --collection app.c one.ndjson", 2, &["port"]),
        ("ingest --collection app.c one.ndjson", 2, &["--uri URI"]),
        ("doctor {unreachable} mongodb://u:secret@h", 2, &["'mongodb://…@h'"]),
        ("serve --auth secret", 2, &["--auth: ", "a colon between them"]),
        ("pipe --upstream http://u:secret@h", 2, &["expected mongodb://"]),
    ];
    for mistake in mistakes {
        let stderr = files.check(*mistake, "", Stdio::piped());
        assert!(!stderr.contains("secret"), "{}: {stderr}", mistake.0);
    }
}

#[test]
fn option_takes_precedence_over_the_environment() {
    let files = ExampleFiles::new();
    let run = |variable: &str, typed: &str| {
        let typed: Vec<_> = typed.split_whitespace().collect();
        let mut program = steadfast(&typed);
        let program = program.current_dir(files.0.path()).env("STEADFAST_URI", variable).output();
        let output = program.expect("the program is built");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, stderr) = run("u:secret@h", "sweep --collection app.c");
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("STEADFAST_URI: a connection string begins"), "{stderr}");
    assert!(!stderr.contains("secret"), "{stderr}");
    let deployment = Deployment::standalone().start();
    let separate = format!("alfa={}", deployment.uri());
    let ingest = format!("ingest --collection app.c one.ndjson --datacenters {separate}");
    for variable in [UNREACHABLE, ""] {
        let (status, stderr) = run(variable, &ingest);
        assert_eq!(status, Some(0), "{stderr}");
    }
}

#[test]
fn unreachable_hosts_are_reported_with_reason_and_advice() {
    let files = ExampleFiles::new();
    fs::write(files.0.path().join("layout.toml"), LAYOUT).expect("a file");
    let parts_of_explanation =
        &["127.0.0.1:1 within 300ms\n", "\n  why: ", "Connection refused", "\n  next: "];
    let mistakes: &[Mistake] = &[
        ("sweep --uri {unreachable} --collection app.c", 1, parts_of_explanation),
        ("zones plan --uri {unreachable} layout.toml", 1, parts_of_explanation),
        ("zones apply --uri {unreachable} layout.toml", 1, parts_of_explanation),
        ("zones status --uri {unreachable} layout.toml", 1, parts_of_explanation),
        ("zones remove --uri {unreachable} layout.toml", 1, parts_of_explanation),
        ("dedupe --uri {unreachable} --collection app.c --key k", 1, parts_of_explanation),
        ("chaos --uri {unreachable} --duration 1s", 1, &["127.0.0.1:1", "Connection refused"]),
        ("chaos --uri {unreachable} --duration 1s --report r.html", 1, &["127.0.0.1:1"]),
        ("ingest --uri {unreachable} --collection app.c one.ndjson", 1, parts_of_explanation),
        (
            "ingest --uri {unreachable} --collection app.c one.ndjson --rejects r --checkpoint c",
            1,
            parts_of_explanation,
        ),
        (
            "ingest --collection app.c one.ndjson --datacenters a={unreachable},b={unreachable}",
            1,
            parts_of_explanation,
        ),
        // The diagnosis is the result, with reason and advice.
        ("doctor {unreachable}", 1, &["problem"]),
        ("pipe --upstream {unreachable}", 1, &["127.0.0.1:1", "Connection refused"]),
    ];
    for mistake in mistakes {
        files.check(*mistake, "", Stdio::piped());
    }
}

const LAYOUT: &str = "collection = 'app.c'\nshard_key = ['datacenter', 'n']\n\
                      [datacenters]\nalfa = ['shard0']\nbravo = ['shard1']\n";

#[test]
fn unreadable_files_are_reported_with_the_reason() {
    let files = ExampleFiles::new();
    let mistakes: &[Mistake] = &[
        ("zones plan --uri {unreachable} missing.toml", 2, &["missing.toml: No such file"]),
        ("zones plan --uri {unreachable} folder", 2, &["folder: Is a directory"]),
        ("zones plan --uri {unreachable} image.toml", 2, &["image.toml", "UTF-8"]),
        (
            "zones plan --uri {unreachable} empty.toml",
            2,
            &["empty.toml", "missing field `collection`"],
        ),
        ("zones plan --uri {unreachable} broken.toml", 2, &["broken.toml", "line 1, column"]),
        ("zones plan --uri {unreachable} other.toml", 2, &["other.toml", "unknown field `colour`"]),
        (
            "ingest --uri {unreachable} --collection app.c missing.ndjson",
            2,
            &["missing.ndjson: No such file"],
        ),
        ("ingest --uri {unreachable} --collection app.c folder", 2, &["folder: this is a folder"]),
        ("ingest --uri {unreachable} --collection app.c file", 2, &["file: ", "--format ndjson"]),
        (
            "ingest --uri {unreachable} --collection app.c file/x.csv",
            2,
            &["file/x.csv: Not a directory"],
        ),
        (
            "ingest --uri {unreachable} --collection app.c one.ndjson --checkpoint file",
            2,
            &["--checkpoint file", "not a checkpoint of this program"],
        ),
        (
            "ingest --uri {unreachable} --collection app.c one.ndjson --checkpoint folder",
            2,
            &["--checkpoint folder: not a regular file"],
        ),
        (
            "ingest --collection app.c --dry-run text.ndjson",
            1,
            &["text.ndjson, line 2 (byte 9): not JSON"],
        ),
        (
            "ingest --collection app.c --dry-run image.ndjson",
            1,
            &["image.ndjson, line 1 (byte 0): not UTF-8"],
        ),
        ("ingest --collection app.c --dry-run header.csv", 1, &["header.csv", "\"a\" twice"]),
        (
            "ingest --collection app.c --dry-run image.csv",
            1,
            &["image.csv", "the header is not UTF-8"],
        ),
    ];
    for mistake in mistakes {
        files.check(*mistake, "", Stdio::piped());
    }
}

#[test]
fn invalid_rules_and_servers_are_reported() {
    let files = ExampleFiles::new();
    let mistakes: &[Mistake] = &[
        ("pipe --upstream {unreachable} --rules missing.toml", 2, &["missing.toml: No such file"]),
        ("pipe --upstream {unreachable} --rules folder", 2, &["folder: Is a directory"]),
        ("pipe --upstream {unreachable} --rules image.toml", 2, &["image.toml", "UTF-8"]),
        (
            "pipe --upstream {unreachable} --rules broken.toml",
            2,
            &["broken.toml", "line 1, column"],
        ),
        (
            "pipe --upstream {unreachable} --rules other.toml",
            2,
            &["other.toml", "unknown field `colour`"],
        ),
        ("pipe --upstream {unreachable} --record missing/r", 2, &["missing/r: No such file"]),
        ("pipe --upstream {unreachable} --record file/r", 2, &["file/r: Not a directory"]),
        ("pipe --upstream {unreachable} --record folder", 2, &["folder: Is a directory"]),
        ("serve --version 1.0", 2, &["unknown server version 1.0"]),
        ("serve --replica-set 0", 2, &["at least one member"]),
        ("serve --sharded a,a", 2, &["distinct names"]),
    ];
    for mistake in mistakes {
        files.check(*mistake, "", Stdio::piped());
    }
}

#[test]
fn unwritable_files_are_reported_before_any_work() {
    let files = ExampleFiles::new();
    let mistakes: &[Mistake] = &[
        ("chaos --report missing/r.html", 2, &["--report missing/r.html", "create it first"]),
        ("chaos --report file/r.html", 2, &["--report file/r.html", "Not a directory"]),
        ("chaos --report folder", 2, &["--report folder", "a folder"]),
        (
            "simulate --quick --svg missing/s.svg",
            2,
            &["missing/s.svg", "the folder does not exist"],
        ),
        ("simulate --quick --svg file/s.svg", 2, &["file/s.svg", "Not a directory"]),
        ("simulate --quick --svg folder", 2, &["folder"]),
        (
            "ingest --uri {unreachable} --collection app.c one.ndjson --rejects missing/r",
            2,
            &["--rejects missing/r", "No such file"],
        ),
        (
            "ingest --uri {unreachable} --collection app.c one.ndjson --rejects file/r",
            2,
            &["--rejects file/r", "Not a directory"],
        ),
        (
            "ingest --uri {unreachable} --collection app.c one.ndjson --rejects folder",
            2,
            &["--rejects folder", "Is a directory"],
        ),
        (
            "ingest --uri {unreachable} --collection app.c one.ndjson --rejects one.ndjson",
            2,
            &["--rejects is also an input file"],
        ),
        (
            "ingest --uri {unreachable} --collection app.c one.ndjson --checkpoint missing/c",
            2,
            &["--checkpoint missing/c", "No such file"],
        ),
        (
            "ingest --uri {unreachable} --collection app.c one.ndjson --checkpoint file/c",
            2,
            &["--checkpoint file/c", "Not a directory"],
        ),
        (
            "ingest --uri {unreachable} --collection app.c one.ndjson --checkpoint c --rejects c",
            2,
            &["the same file"],
        ),
    ];
    for mistake in mistakes {
        files.check(*mistake, "", Stdio::piped());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_reported() {
    let files = ExampleFiles::new();
    let server = Deployment::replica_set(1).in_thread().start();
    let full = "No space left on device";
    let rejects: Mistake = (
        "ingest --uri {server} --collection app.c text.ndjson --rejects /dev/full",
        1,
        &["--rejects /dev/full", "No space left on device", "\n  next: "],
    );
    files.check(rejects, &server.uri(), Stdio::piped());
    // A checkpoint is replaced, which a device cannot be.
    let checkpoint: Mistake = (
        "ingest --uri {server} --collection app.c one.ndjson --checkpoint /dev/full",
        2,
        &["--checkpoint /dev/full: not a regular file"],
    );
    files.check(checkpoint, &server.uri(), Stdio::piped());
    for typed in [
        "chaos --duration 1s --faults none --quiet --report /dev/full",
        "simulate --clients 20 --duration 2s --quiet --svg /dev/full",
    ] {
        let stderr = files.check((typed, 1, &["/dev/full"]), "", Stdio::piped());
        assert!(stderr.contains(full), "{typed}: {stderr}");
    }
    // Results that cannot be printed.
    for typed in [
        "demo --duration 0s --events 20 --quiet",
        "chaos --duration 1s --faults none --quiet",
        "simulate --clients 20 --duration 2s --quiet",
        "manual",
        "completions bash",
        "pipe --upstream {server}",
        "serve",
        "sweep --uri {server} --collection app.c",
        "dedupe --uri {server} --collection app.c --key k",
        "doctor {server} --json",
        "ingest --uri {server} --collection app.c one.ndjson",
        "ingest --uri {server} --collection app.c one.ndjson --json",
    ] {
        let out = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let stderr = files.check((typed, 1, &[]), &server.uri(), out);
        assert!(stderr.contains(full), "{typed}: {stderr}");
    }
}
