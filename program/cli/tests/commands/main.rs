//! Rules of all commands of `steadfast`: help, colours, JSON, exit status, broken pipes.
#![allow(missing_docs)]

mod completions;
#[path = "../program/mod.rs"]
mod program;
mod simulate;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
};

use program::{Program, steadfast, temp_dir};
use serde_json::Value;
use steadfast_embedded::Deployment;
use testbed::skip;

/// A port without a listener.
const NOWHERE: &str = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100";

pub(crate) fn result_of(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

pub(crate) fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    result_of(&steadfast(arguments).output().expect("the program is built"))
}

fn commands() -> Vec<String> {
    let (_, help, _) = run(&["-h"]);
    let listed = help.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = listed.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| !name.starts_with('-')).map(str::to_owned).collect()
}

#[test]
fn help_lists_commands_by_purpose() {
    let (status, help, _) = run(&["--help"]);
    assert_eq!(status, Some(0));
    for group in ["See it:", "Prove it:", "Use it:", "Test with it:", "Exit status: 0"] {
        assert!(help.contains(group), "{group} in {help}");
    }
    assert_eq!(commands().len(), 12, "{help}");
    // A missing command is a wrong argument.
    let (status, stdout, stderr) = run(&[]);
    assert_eq!((status, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("See it:"), "{stderr}");
}

#[test]
fn every_command_has_help() {
    for command in commands() {
        let (status, short, _) = run(&[&command, "-h"]);
        let (_, long, _) = run(&[&command, "--help"]);
        assert_eq!(status, Some(0), "{command}");
        assert!(short.contains(&format!("Usage: steadfast {command}")), "{short}");
        assert!(short.contains("--color"), "{short}");
        assert!(long.len() >= short.len(), "{command}");
    }
}

#[test]
fn version_is_printed() {
    let (status, stdout, _) = run(&["--version"]);
    assert_eq!((status, stdout), (Some(0), format!("steadfast {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn misspelled_command_gets_a_suggestion() {
    let (status, _, stderr) = run(&["swep"]);
    assert_eq!(status, Some(2));
    assert!(stderr.contains("a similar subcommand exists: 'sweep'"), "{stderr}");
    let (status, _, stderr) = run(&["doctor", "--quite"]);
    assert_eq!(status, Some(2));
    assert!(stderr.contains("'--quiet'"), "{stderr}");
}

#[test]
fn guide_matches_the_manual_of_the_program() {
    let (status, manual, _) = run(&["manual"]);
    assert_eq!(status, Some(0));
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let guide = fs::read_to_string(docs.join("cli.md")).unwrap_or_default();
    assert!(
        guide == manual,
        "docs/cli.md is not the output of `steadfast manual`. To update it:\n  \
         cargo run -p steadfast-cli -- manual > docs/cli.md"
    );
    for command in commands() {
        assert!(manual.contains(&format!("\n## `steadfast {command}`\n")), "{command}");
    }
    for link in manual.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        assert!(file.is_empty() || docs.join(file).is_file(), "{link} leads nowhere");
        let title = anchor.replace('-', " ").to_lowercase();
        let is_there = |line: &str| line.replace(['`', '#'], "").trim().to_lowercase() == title;
        assert!(anchor.is_empty() || manual.lines().any(is_there), "{link} leads nowhere");
    }
}

#[test]
fn color_option_enables_and_disables_colours() {
    let sweep = ["sweep", "--uri", NOWHERE, "--collection", "shop.days"];
    let line =
        |before: &[&'static str], after: &[&'static str]| [before, &sweep[..], after].concat();
    let lines = [
        (line(&[], &[]), false),
        (line(&[], &["--color", "always"]), true),
        (line(&["--color=always"], &[]), true),
        (line(&["--color=always"], &["--color=never"]), false),
        (line(&[], &["--color", "never"]), false),
        // Help and messages about arguments are printed by clap.
        (vec!["--help"], false),
        (vec!["--help", "--color", "always"], true),
        (vec!["--color=always", "sweep", "--help"], true),
        (vec!["--color=never", "sweep", "--help"], false),
        (vec!["--color", "always", "swep"], true),
        (vec!["swep"], false),
        (vec!["doctor", "--color", "always", NOWHERE], true),
        (vec!["doctor", NOWHERE], false),
    ];
    for (line, is_painted) in lines {
        for no_color in ["", "1"] {
            let output = steadfast(&line).env("NO_COLOR", no_color).output().unwrap();
            let (_, stdout, stderr) = result_of(&output);
            assert_eq!((stdout + &stderr).contains('\x1b'), is_painted, "{line:?}");
        }
    }
}

/// Returns the output on a terminal, or `None` without `script`, which provides one.
fn on_a_terminal(line: &str, variables: &[(&str, &str)]) -> Option<String> {
    let mut command = Command::new("script");
    command.args(["-qec", line, "/dev/null"]).env_remove("NO_COLOR").env("TERM", "xterm");
    let output = command.envs(variables.iter().copied()).stdin(Stdio::null()).output();
    Some(String::from_utf8_lossy(&output.ok()?.stdout).into_owned())
}

#[cfg(target_os = "linux")]
#[test]
fn terminal_has_colours_unless_they_are_disabled() {
    let program = env!("CARGO_BIN_EXE_steadfast");
    let line = format!("{program} sweep --uri '{NOWHERE}' --collection shop.days");
    let Some(painted) = on_a_terminal(&line, &[]) else {
        return skip("script(1) is not installed");
    };
    assert!(painted.contains("\x1b[31msteadfast sweep:\x1b[0m no writable server"), "{painted:?}");
    let help = on_a_terminal(&format!("{program} --help"), &[]).unwrap();
    assert!(help.contains("\x1b["), "{help:?}");
    for variables in
        [&[("NO_COLOR", "1")][..], &[("TERM", "dumb")], &[("TERM", "dumb"), ("CI", "true")]]
    {
        for line in [&line, &format!("{program} --help"), &format!("{program} swep")] {
            let plain = on_a_terminal(line, variables).unwrap();
            assert!(!plain.contains("\x1b[3") && !plain.contains("\x1b[1"), "{line}: {plain:?}");
        }
    }
}

/// With `--json`, standard output has a document with the error, unless the arguments are wrong.
#[test]
fn json_document_has_the_error() {
    let folder = temp_dir();
    let layout = folder.path().join("layout.toml");
    let text =
        "collection = \"a.b\"\nshard_key = [\"dc\", \"user\"]\n[datacenters]\nalfa = [\"s0\"]\n";
    fs::write(&layout, text).unwrap();
    let layout_name = layout.to_str().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let lines: [&[&str]; 8] = [
        &["chaos", "--uri", NOWHERE],
        &["ingest", "--uri", NOWHERE, "--collection", "shop.days", "--format", "csv", layout_name],
        &["sweep", "--uri", NOWHERE, "--collection", "shop.days"],
        &["dedupe", "--uri", NOWHERE, "--collection", "shop.days", "--key", "a"],
        &["zones", "status", "--uri", NOWHERE, layout_name],
        &["doctor", NOWHERE],
        &["pipe", "--upstream", NOWHERE],
        &["serve", "--port", &port],
    ];
    for line in lines {
        let (status, stdout, stderr) = run(&[line, &["--json"]].concat());
        assert_eq!(status, Some(1), "{line:?}: {stderr}");
        let documents: Vec<Value> =
            stdout.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        assert_eq!(documents.len(), 1, "{line:?}: {stdout}");
        let error = documents[0]["error"].as_str().unwrap_or_default();
        assert!(!error.is_empty() && stderr.contains(error), "{line:?}: {error} in {stderr}");
        let (status, stdout, _) = run(&[line, &["--json", "--no-such-thing"]].concat());
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{line:?}");
    }
}

#[test]
fn broken_pipe_is_not_an_error() {
    let server = Deployment::standalone().in_thread().start();
    let uri = server.uri();
    let lines: [&[&str]; 4] = [
        &["sweep", "--uri", &uri, "--collection", "shop.days", "--every", "1ms"],
        &["sweep", "--uri", &uri, "--collection", "shop.days", "--every", "1ms", "--json"],
        &["doctor", &uri],
        &["manual"],
    ];
    for line in lines {
        let mut program = steadfast(line)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program is built");
        let mut stdout = BufReader::new(program.stdout.take().expect("it is piped"));
        let mut first = String::new();
        stdout.read_line(&mut first).expect("text");
        drop(stdout);
        let (status, _, stderr) = result_of(&program.wait_with_output().expect("it ends"));
        assert!(status.is_some_and(|status| status < 2), "{line:?}: {status:?}");
        // On a busy machine, there may be a note that server selection takes time.
        let expected = ["until Ctrl-C", "problem", "connecting to ", "looking for the servers of "];
        let is_expected = |note: &str| expected.iter().any(|it| note.contains(it));
        assert!(stderr.lines().all(is_expected), "{line:?}: {stderr}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn unwritable_result_is_an_error() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = steadfast(&["manual"]).stdout(full).output().unwrap();
    let (status, _, stderr) = result_of(&output);
    assert_eq!(status, Some(1));
    assert!(
        stderr.contains("steadfast manual: the result could not be printed: No space"),
        "{stderr}"
    );
}

/// `pipe` and `serve` print their connection string, as text or JSON.
#[test]
fn connection_string_is_printed() {
    let served = Program::start(&["serve", "--standalone", "--quiet"]);
    let mut pipe = steadfast(&["pipe", "--upstream", served.uri(), "--json", "--show", "--quiet"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    let mut stdout = BufReader::new(pipe.stdout.take().expect("it is piped"));
    let mut next = || -> Value {
        let mut line = String::new();
        stdout.read_line(&mut line).expect("text");
        serde_json::from_str(&line).expect("a document")
    };
    let first = next();
    let uri = first["uri"].as_str().expect("a connection string").to_owned();
    assert_eq!(first["error"], Value::Null);
    assert_eq!(first["servers"].as_array().map(Vec::len), Some(1), "{first}");
    let sweep = run(&["sweep", "--uri", &uri, "--collection", "shop.days"]);
    assert_eq!(sweep.0, Some(0), "{sweep:?}");
    program::signal(&pipe, "-TERM");
    let mut events = Vec::new();
    let last = loop {
        let document = next();
        if document.get("commands").is_some() {
            break document;
        }
        events.push(document["event"].as_str().expect("what passed").to_owned());
    };
    assert!(events.iter().any(|event| event == "request"), "{events:?}");
    assert_eq!(last["error"], Value::Null);
    assert_eq!(last["retryableWrites"]["appliedTwice"], 0);
    let (status, _, stderr) = result_of(&pipe.wait_with_output().expect("it ends"));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert_eq!(served.end(), "", "--quiet suppresses notes");
}
