//! Tests of `steadfast pipe`: arguments, output, exit status.
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

/// Returns the program with arguments of `pipe`.
fn command(arguments: &[&str]) -> Command {
    program::steadfast(&[&["pipe"], arguments].concat())
}

/// Returns the exit status and standard error of a failure.
fn failure(arguments: &[&str]) -> (Option<i32>, String) {
    let output = command(arguments).output().unwrap();
    assert_eq!(output.stdout, b"", "there is no connection string");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Sends a `ping` to the server of a connection string. Returns `true` if a reply arrives.
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
fn messages_are_shown_recorded_and_summarized() {
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
    let output = pipe.end();
    assert!(output.contains("-> ping admin, "), "{output}");
    assert!(output.contains("<- ping: ok"), "{output}");
    assert!(output.contains("lost the reply after the execution (r)"), "{output}");
    assert!(output.contains("rule \"r\" (loseReply): applied 1 of 2 times"), "{output}");

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
fn unread_output_does_not_block_the_proxy() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).unwrap();
    let pipe = Program::start(&["pipe", "--upstream", &server.uri(), "--show"]);
    // More lines than the buffer of a pipe holds.
    for _ in 0..1_000 {
        assert!(ping(pipe.uri()));
    }
    pipe.end();
}

#[test]
fn unread_output_does_not_delay_the_end() {
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
    // More lines than the buffer of a pipe holds, and fewer than the queue.
    for _ in 0..400 {
        assert!(ping(uri.trim()));
    }
    signal(&process, "-INT");
    assert!(process.wait().unwrap().success());
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_reported_after_the_summary() {
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("retryable writes: 0"), "{stderr}");
    assert!(stderr.contains("the record is incomplete: No space left"), "{stderr}");
}

#[test]
fn start_can_be_interrupted() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let mut process = command(&["--upstream", &address]).spawn().unwrap();
    let _open = silent.accept().unwrap();
    signal(&process, "-INT");
    assert!(process.wait().unwrap().success());
}

#[test]
fn invalid_rules_are_reported_with_file_line_and_expected_values() {
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
fn unreachable_servers_and_used_ports_are_reported() {
    let earlier = file("earlier.jsonl", "an earlier record\n");
    // Nothing listens on port 1.
    let unreachable = "127.0.0.1:1";
    let (code, error) =
        failure(&["--upstream", unreachable, "--record", earlier.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert_eq!(fs::read_to_string(&earlier).unwrap(), "an earlier record\n");
    assert!(
        error.contains("cannot connect to any server") && error.contains(unreachable),
        "{error}"
    );
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
fn invalid_arguments_are_explained() {
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
