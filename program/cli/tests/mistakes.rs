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
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(temp_dir());
        fs::create_dir(folder.0.path().join("folder")).expect("a folder");
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
            fs::write(folder.0.path().join(name), content).expect("a file");
        }
        folder
    }

    /// Returns its files with their content.
    fn content(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let entries = fs::read_dir(&self.0).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.map(|path| (path.clone(), fs::read(path).ok())).collect()
    }

    fn run(&self, typed: &str, out: impl Into<Stdio>) -> Output {
        let arguments: Vec<&str> = typed.split_whitespace().collect();
        let program = steadfast(&arguments)
            .current_dir(self.0.path())
            .env_remove("STEADFAST_URI")
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(Stdio::piped())
            .spawn();
        program.expect("the program is built").wait_with_output().expect("it ends")
    }

    /// Makes a mistake. `{nobody}` and `{server}` stand for connection strings.
    fn make(&self, (typed, status, says): Mistake, server: &str, out: impl Into<Stdio>) -> String {
        let typed = typed.replace("{nobody}", NOBODY).replace("{server}", server);
        let before = self.content();
        let output = self.run(&typed, out);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{typed}: {said}");
        for what in says {
            assert!(said.contains(what), "{typed}: {what:?} is missing in {said:?}");
        }
        assert!(!said.contains("panicked") && !said.contains("RUST_BACKTRACE"), "{typed}: {said}");
        let left: Vec<_> =
            self.content().into_iter().filter(|it| before.get(&it.0) != Some(&it.1)).collect();
        assert!(left.is_empty() && self.content().len() == before.len(), "{typed} leaves {left:?}");
        said
    }
}

/// Nothing listens on port 1.
const NOBODY: &str = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300";

#[test]
fn wrong_arguments_end_with_where_to_look() {
    let folder = Folder::new();
    let hint = "try '--help'";
    let mistakes: &[Mistake] = &[
        ("nonsense", 2, &["'nonsense'", "Usage: steadfast"]),
        ("--nonsense", 2, &["'--nonsense'", "Usage: steadfast"]),
        ("demo --events 5", 2, &["'5'", "20..=1000"]),
        ("demo --color blue", 2, &["'blue'", "[possible values: auto, always, never]"]),
        ("chaos --duration soon", 2, &["'soon'", "--duration"]),
        ("chaos --faults rain", 2, &["'rain'", "possible values"]),
        ("chaos --mongod --uri {nobody}", 2, &["--mongod", "cannot be used with"]),
        ("chaos --database a.b", 2, &["a database's name"]),
        ("chaos --strategy hope", 2, &["'hope'"]),
        ("simulate --clients 0", 2, &["'0'"]),
        ("simulate --share 0", 2, &["above zero"]),
        ("completions fishy", 2, &["'fishy'"]),
        ("pipe", 2, &["--upstream <URI>"]),
        ("pipe --upstream {nobody} --listen somewhere", 2, &["'somewhere'", "host:port"]),
        ("serve --port 99999", 2, &["'99999'"]),
        ("serve --standalone --replica-set 3", 2, &["cannot be used with"]),
        ("sweep --collection app.c", 2, &["--uri <URI>"]),
        ("sweep --uri {nobody}", 2, &["--collection <DATABASE.COLLECTION>"]),
        ("sweep --uri {nobody} --collection c", 2, &["'c'", "a dot between them"]),
        ("sweep --uri {nobody} --collection app.c --keep long", 2, &["'long'", "--keep"]),
        ("zones nonsense", 2, &["'nonsense'", "Usage: steadfast zones"]),
        ("zones plan --uri {nobody}", 2, &["<LAYOUT>"]),
        ("dedupe --uri {nobody} --collection app.c", 2, &["--key <FIELD>"]),
        ("dedupe --uri {nobody} --collection app.c --key k --filter {", 2, &["--filter"]),
        ("doctor {nobody} --timeout x", 2, &["'x'", "--timeout"]),
        ("ingest --uri {nobody} one.ndjson", 2, &["--collection <DATABASE.COLLECTION>"]),
        ("ingest --collection app.c --batch 0 one.ndjson", 2, &["'0'", "from 1 to 100000"]),
        ("ingest --collection app.c --format xml one.ndjson", 2, &["'xml'", "ndjson, csv"]),
        ("ingest --collection app.c --datacenters a=b one.ndjson", 2, &["alfa,bravo"]),
    ];
    for mistake in mistakes {
        let said = folder.make(*mistake, "", Stdio::piped());
        assert!(said.contains(hint), "{}: {said}", mistake.0);
    }
}

#[test]
fn conflicting_arguments_are_explained() {
    let folder = Folder::new();
    let mistakes: &[Mistake] = &[
        ("doctor", 2, &["<URI>"]),
        ("chaos --keep", 2, &["--keep is for a deployment of yours"]),
        ("chaos --faults none,cuts", 2, &["none goes with no other"]),
        ("ingest --collection app.c one.ndjson text.ndjson --source s", 2, &["give one file"]),
        ("ingest --collection app.c one.ndjson --datacenters a,b", 2, &["say which with --uri"]),
        (
            "ingest --uri {nobody} --collection app.c one.ndjson --datacenters a={nobody}",
            2,
            &["leave out --uri"],
        ),
        ("ingest --collection app.c --format ndjson -", 2, &["--source", "--id"]),
        ("ingest --collection app.c one.ndjson --checkpoint c --rejects c", 2, &["the same file"]),
        ("pipe --upstream http://127.0.0.1:1", 2, &["expected mongodb://"]),
    ];
    for mistake in mistakes {
        folder.make(*mistake, "", Stdio::piped());
    }
}

#[test]
fn invalid_connection_strings_are_not_quoted() {
    let folder = Folder::new();
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
        ("doctor {nobody} mongodb://u:secret@h", 2, &["'mongodb://…@h'"]),
        ("serve --auth secret", 2, &["--auth: ", "a colon between them"]),
        ("pipe --upstream http://u:secret@h", 2, &["expected mongodb://"]),
    ];
    for mistake in mistakes {
        let said = folder.make(*mistake, "", Stdio::piped());
        assert!(!said.contains("secret"), "{}: {said}", mistake.0);
    }
}

#[test]
fn option_takes_precedence_over_the_environment() {
    let folder = Folder::new();
    let said = |variable: &str, typed: &str| {
        let typed: Vec<_> = typed.split_whitespace().collect();
        let mut program = steadfast(&typed);
        let program = program.current_dir(folder.0.path()).env("STEADFAST_URI", variable).output();
        let output = program.expect("the program is built");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, why) = said("u:secret@h", "sweep --collection app.c");
    assert_eq!(status, Some(2), "{why}");
    assert!(why.contains("STEADFAST_URI: a connection string begins"), "{why}");
    assert!(!why.contains("secret"), "{why}");
    let deployment = Deployment::standalone().start();
    let apart = format!("alfa={}", deployment.uri());
    let ingest = format!("ingest --collection app.c one.ndjson --datacenters {apart}");
    for variable in [NOBODY, ""] {
        let (status, why) = said(variable, &ingest);
        assert_eq!(status, Some(0), "{why}");
    }
}

#[test]
fn unreachable_hosts_are_reported_with_reason_and_advice() {
    let folder = Folder::new();
    fs::write(folder.0.path().join("layout.toml"), LAYOUT).expect("a file");
    let explained =
        &["127.0.0.1:1 within 300ms\n", "\n  why: ", "Connection refused", "\n  next: "];
    let mistakes: &[Mistake] = &[
        ("sweep --uri {nobody} --collection app.c", 1, explained),
        ("zones plan --uri {nobody} layout.toml", 1, explained),
        ("zones apply --uri {nobody} layout.toml", 1, explained),
        ("zones status --uri {nobody} layout.toml", 1, explained),
        ("zones remove --uri {nobody} layout.toml", 1, explained),
        ("dedupe --uri {nobody} --collection app.c --key k", 1, explained),
        ("chaos --uri {nobody} --duration 1s", 1, &["127.0.0.1:1", "Connection refused"]),
        ("chaos --uri {nobody} --duration 1s --report r.html", 1, &["127.0.0.1:1"]),
        ("ingest --uri {nobody} --collection app.c one.ndjson", 1, explained),
        (
            "ingest --uri {nobody} --collection app.c one.ndjson --rejects r --checkpoint c",
            1,
            explained,
        ),
        ("ingest --collection app.c one.ndjson --datacenters a={nobody},b={nobody}", 1, explained),
        // The diagnosis is the result, with reason and advice.
        ("doctor {nobody}", 1, &["problem"]),
        ("pipe --upstream {nobody}", 1, &["127.0.0.1:1", "Connection refused"]),
    ];
    for mistake in mistakes {
        folder.make(*mistake, "", Stdio::piped());
    }
}

const LAYOUT: &str = "collection = 'app.c'\nshard_key = ['datacenter', 'n']\n\
                      [datacenters]\nalfa = ['shard0']\nbravo = ['shard1']\n";

#[test]
fn unreadable_files_are_reported_with_the_reason() {
    let folder = Folder::new();
    let mistakes: &[Mistake] = &[
        ("zones plan --uri {nobody} missing.toml", 2, &["missing.toml: No such file"]),
        ("zones plan --uri {nobody} folder", 2, &["folder: Is a directory"]),
        ("zones plan --uri {nobody} image.toml", 2, &["image.toml", "UTF-8"]),
        ("zones plan --uri {nobody} empty.toml", 2, &["empty.toml", "missing field `collection`"]),
        ("zones plan --uri {nobody} broken.toml", 2, &["broken.toml", "line 1, column"]),
        ("zones plan --uri {nobody} other.toml", 2, &["other.toml", "unknown field `colour`"]),
        (
            "ingest --uri {nobody} --collection app.c missing.ndjson",
            2,
            &["missing.ndjson: No such file"],
        ),
        ("ingest --uri {nobody} --collection app.c folder", 2, &["folder: it is a folder"]),
        ("ingest --uri {nobody} --collection app.c file", 2, &["file: ", "--format ndjson"]),
        (
            "ingest --uri {nobody} --collection app.c file/x.csv",
            2,
            &["file/x.csv: Not a directory"],
        ),
        (
            "ingest --uri {nobody} --collection app.c one.ndjson --checkpoint file",
            2,
            &["--checkpoint file", "not a checkpoint of this program"],
        ),
        (
            "ingest --uri {nobody} --collection app.c one.ndjson --checkpoint folder",
            2,
            &["--checkpoint folder: it is not a file"],
        ),
        (
            "ingest --collection app.c --dry-run text.ndjson",
            1,
            &["text.ndjson, line 2 (byte 9): it is not JSON"],
        ),
        (
            "ingest --collection app.c --dry-run image.ndjson",
            1,
            &["image.ndjson, line 1 (byte 0): it is not UTF-8"],
        ),
        ("ingest --collection app.c --dry-run header.csv", 1, &["header.csv", "\"a\" twice"]),
        (
            "ingest --collection app.c --dry-run image.csv",
            1,
            &["image.csv", "the header is not UTF-8"],
        ),
    ];
    for mistake in mistakes {
        folder.make(*mistake, "", Stdio::piped());
    }
}

#[test]
fn invalid_rules_and_servers_are_reported() {
    let folder = Folder::new();
    let mistakes: &[Mistake] = &[
        ("pipe --upstream {nobody} --rules missing.toml", 2, &["missing.toml: No such file"]),
        ("pipe --upstream {nobody} --rules folder", 2, &["folder: Is a directory"]),
        ("pipe --upstream {nobody} --rules image.toml", 2, &["image.toml", "UTF-8"]),
        ("pipe --upstream {nobody} --rules broken.toml", 2, &["broken.toml", "line 1, column"]),
        (
            "pipe --upstream {nobody} --rules other.toml",
            2,
            &["other.toml", "unknown field `colour`"],
        ),
        ("pipe --upstream {nobody} --record missing/r", 2, &["missing/r: No such file"]),
        ("pipe --upstream {nobody} --record file/r", 2, &["file/r: Not a directory"]),
        ("pipe --upstream {nobody} --record folder", 2, &["folder: Is a directory"]),
        ("serve --version 1.0", 2, &["unknown server version 1.0"]),
        ("serve --replica-set 0", 2, &["at least one member"]),
        ("serve --sharded a,a", 2, &["distinct names"]),
    ];
    for mistake in mistakes {
        folder.make(*mistake, "", Stdio::piped());
    }
}

#[test]
fn unwritable_files_are_reported_before_any_work() {
    let folder = Folder::new();
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
            "ingest --uri {nobody} --collection app.c one.ndjson --rejects missing/r",
            2,
            &["--rejects missing/r", "No such file"],
        ),
        (
            "ingest --uri {nobody} --collection app.c one.ndjson --rejects file/r",
            2,
            &["--rejects file/r", "Not a directory"],
        ),
        (
            "ingest --uri {nobody} --collection app.c one.ndjson --rejects folder",
            2,
            &["--rejects folder", "Is a directory"],
        ),
        (
            "ingest --uri {nobody} --collection app.c one.ndjson --rejects one.ndjson",
            2,
            &["--rejects is a file that is read"],
        ),
        (
            "ingest --uri {nobody} --collection app.c one.ndjson --checkpoint missing/c",
            2,
            &["--checkpoint missing/c", "No such file"],
        ),
        (
            "ingest --uri {nobody} --collection app.c one.ndjson --checkpoint file/c",
            2,
            &["--checkpoint file/c", "Not a directory"],
        ),
        (
            "ingest --uri {nobody} --collection app.c one.ndjson --checkpoint c --rejects c",
            2,
            &["the same file"],
        ),
    ];
    for mistake in mistakes {
        folder.make(*mistake, "", Stdio::piped());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_reported() {
    let folder = Folder::new();
    let server = Deployment::replica_set(1).in_thread().start();
    let full = "No space left on device";
    let rejects: Mistake = (
        "ingest --uri {server} --collection app.c text.ndjson --rejects /dev/full",
        1,
        &["--rejects /dev/full", "No space left on device", "\n  next: "],
    );
    folder.make(rejects, &server.uri(), Stdio::piped());
    // A checkpoint is replaced, which a device cannot be.
    let checkpoint: Mistake = (
        "ingest --uri {server} --collection app.c one.ndjson --checkpoint /dev/full",
        2,
        &["--checkpoint /dev/full: it is not a file"],
    );
    folder.make(checkpoint, &server.uri(), Stdio::piped());
    for typed in [
        "chaos --duration 1s --faults none --quiet --report /dev/full",
        "simulate --clients 20 --duration 2s --quiet --svg /dev/full",
    ] {
        let said = folder.make((typed, 1, &["/dev/full"]), "", Stdio::piped());
        assert!(said.contains(full), "{typed}: {said}");
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
        let said = folder.make((typed, 1, &[]), &server.uri(), out);
        assert!(said.contains(full), "{typed}: {said}");
    }
}
