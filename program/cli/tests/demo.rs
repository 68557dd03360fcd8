//! Tests of `steadfast demo`.
#![allow(missing_docs)]

#[allow(dead_code, reason = "this one ends by itself")]
mod program;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use program::{signal, steadfast};
use serde_json::{Value, json};

/// The minimum number of events, without pauses: each fault hits one event.
const SHORT: [&str; 5] = ["demo", "--events", "20", "--duration", "0"];

fn short(more: &[&str]) -> Output {
    let mut command = steadfast(&SHORT);
    command.args(more).env_remove("NO_COLOR").output().expect("the program is built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn rows(table: &str, first: &str) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    table.lines().map(words).filter(|line| line.starts_with(first)).collect()
}

#[test]
fn tables_show_the_errors_of_each_strategy() {
    let output = short(&[]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    let squares = |strategy| rows(&stdout, strategy)[0].clone();
    assert_eq!(squares("dont-retry"), "dont-retry exact 1 missing 1 missing 1 missing");
    assert_eq!(squares("always-retry"), "always-retry 1 too many exact exact exact");
    assert_eq!(squares("retry-once"), "retry-once 1 too many exact exact 1 missing");
    assert_eq!(squares("idempotent"), "idempotent exact exact exact exact");
    assert_eq!(squares("retryable-writes"), "retryable-writes exact exact exact exact");
    let total = |strategy| rows(&stdout, strategy)[1].clone();
    assert!(total("dont-retry").starts_with("dont-retry 20 17 3 missing 4 2 20 "), "{stdout}");
    assert!(total("always-retry").starts_with("always-retry 20 21 1 too many 0 0 25 "), "{stdout}");
    assert!(total("retry-once").starts_with("retry-once 20 20 2 wrong 1 0 23 "), "{stdout}");
    assert!(total("idempotent").starts_with("idempotent 20 20 exact 0 0 45 "), "{stdout}");
    assert!(
        total("retryable-writes").starts_with("retryable-writes 20 20 exact 0 0 25 "),
        "{stdout}"
    );
    assert!(stdout.lines().all(|line| line.chars().count() < 80), "{stdout}");
    assert!(stdout.lines().count() < 24, "fits on a small screen: {stdout}");
    for now in ["1/4 replies are lost", "2/4 requests", "3/4 the primary", "4/4 the servers"] {
        assert!(stderr.contains(&format!("steadfast demo: {now}")), "{stderr}");
    }
}

#[test]
fn only_steadfast_strategies_are_exact_with_any_seed() {
    let running: Vec<_> = ["1", "7", "1234567890123"]
        .into_iter()
        .map(|seed| {
            let mut command = steadfast(&SHORT);
            command.args(["--seed", seed, "--json"]).stdout(Stdio::piped()).stderr(Stdio::null());
            command.spawn().expect("the program is built")
        })
        .collect();
    for program in running {
        let output = program.wait_with_output().expect("it ends");
        let stdout = text(&output.stdout);
        assert!(output.status.success(), "{stdout}");
        let found: Value = serde_json::from_str(&stdout).expect("one document");
        let of = |field: &str| -> Vec<Value> {
            let strategies = found["strategies"].as_array().expect("all of them");
            strategies.iter().map(|strategy| strategy[field].clone()).collect()
        };
        assert_eq!(of("exact"), [false, false, false, true, true], "{stdout}");
        assert_eq!(of("counted"), [17, 21, 20, 20, 20], "{stdout}");
        assert_eq!(of("tooMany"), [0, 1, 1, 0, 0], "{stdout}");
        assert_eq!(of("missing"), [3, 0, 1, 0, 0], "{stdout}");
        assert_eq!(of("errors"), [4, 0, 1, 0, 0], "{stdout}");
        assert_eq!(of("inDoubt"), [2, 0, 0, 0, 0], "{stdout}");
        assert_eq!(found["unexpected"], json!([]));
        assert_eq!(found["faults"]["lostReply"], json!({ "events": 5, "hit": 1 }));
        let lost = &found["strategies"][0]["faults"]["lostRequest"];
        assert_eq!(*lost, json!({ "tooMany": 0, "missing": 1 }));
    }
}

#[test]
fn output_without_a_terminal_is_plain_text() {
    let output = short(&[]);
    for stdout in [output.stdout, output.stderr] {
        let is_plain = |byte: &u8| *byte == b'\n' || !byte.is_ascii_control();
        assert!(stdout.iter().all(is_plain), "{}", text(&stdout));
    }
}

#[test]
fn color_and_quiet_options_are_followed() {
    let output = short(&["--color", "always", "--quiet"]);
    assert!(text(&output.stdout).contains("\x1b[32m"));
    assert_eq!(text(&output.stderr), "");
    let output = short(&["--color", "never", "--quiet"]);
    assert!(!text(&output.stdout).contains('\x1b'));
}

#[test]
fn interruption_is_reported() {
    let mut program = steadfast(&["demo", "--duration", "10m"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    let mut stderr = BufReader::new(program.stderr.take().expect("it is piped"));
    let mut first = String::new();
    stderr.read_line(&mut first).expect("a first line");
    signal(&program, "-INT");
    let began = Instant::now();
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("text");
    let output = program.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()), "{rest}");
    assert!(rest.contains("steadfast demo: interrupted after "), "{rest}");
    assert!(began.elapsed() < Duration::from_secs(300), "before the end of the run");
}

#[test]
fn readme_contains_the_table() {
    let output = steadfast(&["demo", "--duration", "0", "--quiet"]).output().expect("it is built");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    let (squares, _) = stdout.split_once("\n\n").expect("two tables");
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = fs::read_to_string(readme).expect("it is there");
    assert!(readme.contains(squares), "the README has another table than this:\n{squares}");
}

#[test]
fn too_few_events_are_rejected() {
    let output = steadfast(&["demo", "--events", "19"]).output().expect("it is built");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("20..=1000"), "{}", text(&output.stderr));
}
