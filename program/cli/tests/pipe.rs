//! `steadfast pipe` as its users meet it: arguments, output, exit status.
#![allow(missing_docs)]

mod program;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use program::{Program, signal};
use testbed::{Mongod, Options};

fn file(name: &str, content: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(folder).unwrap();
    let path = folder.join(format!("{}-{name}", std::process::id()));
    fs::write(&path, content).unwrap();
    path
}

/// The program with these arguments of `pipe`.
fn command(arguments: &[&str]) -> Command {
    program::steadfast(&[&["pipe"], arguments].concat())
}

/// Exit status and what it says of its failure.
fn failure(arguments: &[&str]) -> (Option<i32>, String) {
    let output = command(arguments).output().unwrap();
    assert_eq!(output.stdout, b"", "programs that read the first line get none");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Sends a ping to the server of a connection string; whether an answer came.
fn ping(uri: &str) -> bool {
    let address: SocketAddr =
        uri.trim_start_matches("mongodb://").split('/').next().unwrap().parse().unwrap();
    let body = bson::rawdoc! { "ping": 1, "$db": "admin" };
    let length = i32::try_from(21 + body.as_bytes().len()).unwrap();
    let mut message = Vec::new();
    for field in [length, 1, 0, 2013, 0] {
        message.extend(field.to_le_bytes());
    }
    message.push(0);
    message.extend(body.as_bytes());
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&message).unwrap();
    stream.read_exact(&mut [0; 16]).is_ok()
}

#[test]
fn it_shows_and_records_what_passes_and_sums_it_up_in_the_end() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).unwrap();
    let record = file("record.jsonl", &"of an earlier one\n".repeat(1_000));
    let rules =
        file("rules.toml", "[[rule]]\nname = 'r'\ncommand = 'ping'\nnth = 2\nthen = 'loseReply'\n");
    let arguments = ["--upstream", &server.uri(), "--show"];
    let files = ["--record", record.to_str().unwrap(), "--rules", rules.to_str().unwrap()];
    let pipe = Program::start(&[&["pipe"], &arguments[..], &files].concat());
    assert!(pipe.uri().ends_with("/?directConnection=true"), "{}", pipe.uri());
    assert!(ping(pipe.uri()));
    assert!(!ping(pipe.uri()));
    let said = pipe.end();
    assert!(said.contains("-> ping admin, "), "{said}");
    assert!(said.contains("<- ping: ok"), "{said}");
    assert!(said.contains("lost the reply after the execution (r)"), "{said}");
    assert!(said.contains("rule \"r\" (loseReply): applied 1 of 2 times"), "{said}");

    let recorded = fs::read_to_string(&record).unwrap();
    let lines: Vec<serde_json::Value> =
        recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
    assert_eq!((of("request").len(), of("reply").len(), of("fault").len()), (2, 2, 1));
    assert_eq!(of("request")[0]["body"]["ping"], 1);
    assert_eq!(of("reply")[0]["ok"], true);
    assert_eq!(of("fault")[0]["rules"], serde_json::json!(["r"]));
    fs::remove_file(record).unwrap();
    fs::remove_file(rules).unwrap();
}

#[test]
fn it_passes_on_though_nobody_reads_what_it_shows() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).unwrap();
    let pipe = Program::start(&["pipe", "--upstream", &server.uri(), "--show"]);
    // Far more lines than a pipe of the system holds.
    for _ in 0..1_000 {
        assert!(ping(pipe.uri()));
    }
    pipe.end();
}

#[test]
fn it_ends_though_nobody_reads_its_last_lines() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).unwrap();
    let mut process = command(&["--upstream", &server.uri(), "--show"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(process.stdout.take().unwrap());
    let mut uri = String::new();
    out.read_line(&mut uri).unwrap();
    // More lines than a pipe of the system holds, and fewer than are left out.
    for _ in 0..400 {
        assert!(ping(uri.trim()));
    }
    signal(&process, "-INT");
    assert!(process.wait().unwrap().success());
}

#[cfg(target_os = "linux")]
#[test]
fn a_record_for_which_there_is_no_room_is_told_of_after_the_summary() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).unwrap();
    let mut process = command(&["--upstream", &server.uri(), "--record", "/dev/full"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut uri = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut uri).unwrap();
    assert!(ping(uri.trim()));
    signal(&process, "-TERM");
    let output = process.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("retryable writes: 0"), "{said}");
    assert!(said.contains("the record is not whole: No space left"), "{said}");
}

#[test]
fn it_can_be_ended_while_it_waits_for_a_server() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let mut process = command(&["--upstream", &address]).spawn().unwrap();
    let _never_answered = silent.accept().unwrap();
    signal(&process, "-INT");
    assert!(process.wait().unwrap().success());
}

#[test]
fn a_bad_file_of_rules_is_shown_with_its_name_line_and_what_is_allowed() {
    let rules = file("bad.toml", "[[rule]]\ncommand = 'insert'\nthen = 'loseRepl'\n");
    let path = rules.to_str().unwrap();
    let (code, error) = failure(&["--upstream", "localhost", "--rules", path]);
    assert_eq!(code, Some(2));
    for part in [path, "line 3", "loseRepl", "`loseReply`", "`cutRequest`"] {
        assert!(error.contains(part), "{part} is missing in {error}");
    }
    fs::remove_file(rules).unwrap();
    let (_, error) = failure(&["--upstream", "localhost", "--rules", "no-such-file.toml"]);
    assert!(error.contains("no-such-file.toml: No such file"), "{error}");
}

#[test]
fn servers_that_are_not_there_and_ports_that_are_taken_are_told() {
    let earlier = file("earlier.jsonl", "an earlier record\n");
    // Nobody listens at port 1.
    let nobody = "127.0.0.1:1";
    let (code, error) = failure(&["--upstream", nobody, "--record", earlier.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert_eq!(fs::read_to_string(&earlier).unwrap(), "an earlier record\n");
    assert!(error.contains("cannot connect to any server") && error.contains(nobody), "{error}");
    fs::remove_file(earlier).unwrap();

    testbed::require!(V6_0);
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let server = Mongod::standalone(Options::new()).unwrap();
    for listen in [address.clone(), address.replace("127.0.0.1", "localhost")] {
        let (code, error) = failure(&["--upstream", &server.uri(), "--listen", &listen]);
        assert_eq!(code, Some(1));
        assert!(error.contains(&format!("cannot listen on {address}")), "{error}");
    }
}

#[test]
fn arguments_that_make_no_sense_are_answered_with_usage() {
    let (code, error) = failure(&[]);
    assert_eq!(code, Some(2));
    assert!(error.contains("--upstream <URI>"), "{error}");
    let (code, error) = failure(&["--upstream", "mongodb+srv://cluster.example"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("list the hosts"), "{error}");
    let (code, error) = failure(&["--upstream", "localhost", "--listen", "27100"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("host:port, such as 127.0.0.1:27100"), "{error}");
    let help = command(&["--help"]).output().unwrap();
    assert!(String::from_utf8_lossy(&help.stdout).contains("Getting started:"));
}
