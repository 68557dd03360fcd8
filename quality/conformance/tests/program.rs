//! The program `conformance`: arguments, output, exit status.
#![allow(missing_docs)]

use std::process::{Command, Output};

use conformance::SpecDir;

fn conformance(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
    if let Ok(suites) = testbed::spec_tests() {
        command.env("STEADFAST_SPEC_TESTS", suites);
    }
    command.args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn unknown_suite_is_an_error_that_lists_the_suites() {
    let output = conformance(&["--suite", "no_such"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("the suites are: "));
    assert!(text(&output.stderr).contains("server_selection"));
}

#[test]
fn unknown_target_is_an_error() {
    let output = conformance(&["--target", "postgres"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("`embedded-sharded` or a connection string"));
}

#[test]
fn folder_without_suites_is_an_error_that_names_it() {
    let folder = env!("CARGO_MANIFEST_DIR");
    let output = conformance(&["--spec", folder]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains(folder));
}

#[test]
fn run_prints_a_line_per_suite_and_a_total_and_writes_json() {
    let suites = testbed::require!(testbed::spec_tests());
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("figures.json");
    let output = conformance(&["--suite", "max_staleness", "--json", json.to_str().unwrap()]);
    let stdout = text(&output.stdout);
    let spec = SpecDir::open(suites).unwrap();
    let cases = spec.files("max_staleness").unwrap().len();
    assert!(output.status.success(), "{stdout}{}", text(&output.stderr));
    assert_eq!(
        stdout.lines().collect::<Vec<_>>(),
        [
            format!("max_staleness: {cases} passed, 0 failed, 0 skipped of {cases}"),
            format!("total: {cases} passed, 0 failed, 0 skipped of {cases}"),
            format!("at the first try: {cases} of {cases} passed"),
        ]
    );
    let written: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let expected = serde_json::json!([
        {
            "target": "mongod-6.0",
            "suite": "max_staleness",
            "passed": cases,
            "passed_at_first_try": cases,
            "failed": 0,
            "skipped": 0,
            "total": cases,
        }
    ]);
    assert_eq!(written, expected);
}

#[test]
fn target_all_writes_json_rows_and_a_table() {
    testbed::require!(testbed::spec_tests());
    let folder = tempfile::tempdir().unwrap();
    let (json, markdown) = (folder.path().join("all.json"), folder.path().join("all.md"));
    let output = conformance(&[
        "--target",
        "all",
        "--suite",
        "max_staleness",
        "--json",
        json.to_str().unwrap(),
        "--markdown",
        markdown.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(
        text(&output.stderr).contains("[mongod-8.2-load-balanced] max_staleness, suite 1 of 1")
    );
    let written: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let targets: Vec<_> = written.as_array().unwrap().iter().map(|row| &row["target"]).collect();
    assert_eq!(
        targets,
        conformance::Target::ALL.iter().map(|target| target.name()).collect::<Vec<_>>()
    );
    let table = std::fs::read_to_string(&markdown).unwrap();
    let line = table.lines().find(|line| line.starts_with("| `max_staleness` |"));
    assert_eq!(line, Some("| `max_staleness` | 32 | 32 | 32 | 32 | 32 | 32 | 32 | 32 | 32 |"));
}

#[test]
fn markdown_needs_target_all() {
    let output = conformance(&["--suite", "max_staleness", "--markdown", "never-written.md"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--markdown needs --target all"));
}
