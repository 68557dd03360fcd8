//! The pipe and the embedded deployment with drivers of other languages: the programs of the guides.
//!
//! The tests need Python with pip, or Node with npm, and a registry for downloading the driver once. Without them, a
//! test is skipped; with `CI` set it fails.
#![allow(missing_docs)]

mod program;

use std::{
    io,
    path::{Path, PathBuf},
    process::Command,
};

use program::Program;
use testbed::{Options, ReplicaSet};

const PYMONGO: &str = "pymongo>=4.10,<5";
const NODE_DRIVER: &str = "mongodb@6";

fn guide(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file)
}

/// Runs a program. Returns its output, or the reason of its failure.
fn run(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("{program} is not installed"),
        _ => format!("{command:?}: {error}"),
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{command:?}: {}\n{}", output.status, text(&output.stderr))),
    }
}

/// Returns the directory of PyMongo, for PYTHONPATH. The first test that asks fetches it, and the others wait.
fn pymongo() -> Result<PathBuf, String> {
    let fetch = |folder: &Path| -> Result<(), String> {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "--disable-pip-version-check", "--retries=1"]);
        run(pip.args(["install", "--quiet", "--target"]).arg(folder).arg(PYMONGO))?;
        let mut import = Command::new("python3");
        run(import.args(["-c", "import pymongo"]).env("PYTHONPATH", folder)).map(drop)
    };
    testbed::cached("python-pymongo-4", fetch)
        .map_err(|error| format!("PyMongo is not available\n{error}"))
}

/// Returns the directory in which a program of Node finds the driver, which is fetched like PyMongo.
fn node_driver() -> Result<PathBuf, String> {
    let fetch = |folder: &Path| -> Result<(), String> {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=0"]);
        run(npm.arg("--prefix").arg(folder).arg(NODE_DRIVER))?;
        let import = folder.join("import.mjs");
        std::fs::write(&import, "import \"mongodb\";").map_err(|error| error.to_string())?;
        run(Command::new("node").arg(&import)).map(drop)
    };
    testbed::cached("node-mongodb-6", fetch)
        .map_err(|error| format!("the Node driver is not available\n{error}"))
}

/// Runs a program of a guide in the directory of the Node driver.
fn run_in_node(folder: &Path, program: &str, uri: &str) -> String {
    let name = Path::new(program).file_name().unwrap().to_string_lossy();
    // A separate copy: another process may run the same program.
    let copy = folder.join(format!("{}-{name}", std::process::id()));
    std::fs::copy(guide(program), &copy).unwrap();
    let output = run(Command::new("node").arg(&copy).arg(uri));
    std::fs::remove_file(copy).unwrap();
    output.unwrap()
}

#[test]
fn pymongo_insert_with_a_lost_reply_is_applied_once() {
    testbed::require!(V6_0);
    let path = testbed::require!(pymongo());
    let set = ReplicaSet::start(1, Options::new()).unwrap();
    let pipe = Program::start(&["pipe", "--upstream", &set.uri()]);
    let mut python = Command::new("python3");
    python.arg(guide("black-pipe/lost_reply.py")).arg(pipe.uri()).env("PYTHONPATH", path);
    assert_eq!(run(&mut python).unwrap(), "one order");
    let summary = pipe.end();
    assert!(
        summary.contains("1 were sent more than once and 0 applied more than once"),
        "{summary}"
    );
}

#[test]
fn node_driver_insert_with_a_lost_reply_is_applied_once() {
    testbed::require!(V6_0);
    let folder = testbed::require!(node_driver());
    let set = ReplicaSet::start(1, Options::new()).unwrap();
    let pipe = Program::start(&["pipe", "--upstream", &set.uri()]);
    assert_eq!(run_in_node(&folder, "black-pipe/lost_reply.mjs", pipe.uri()), "one order");
    let summary = pipe.end();
    assert!(
        summary.contains("1 were sent more than once and 0 applied more than once"),
        "{summary}"
    );
}

#[test]
fn pymongo_continues_after_the_primary_of_an_embedded_set_shuts_down() {
    let path = testbed::require!(pymongo());
    for arguments in [&["serve"][..], &["serve", "--auth", "root:p@ss:word"]] {
        let set = Program::start(arguments);
        let mut python = Command::new("python3");
        python.arg(guide("embedded/failover.py")).arg(set.uri()).env("PYTHONPATH", &path);
        assert_eq!(run(&mut python).unwrap(), "two orders");
        set.end();
    }
}

#[test]
fn node_driver_continues_after_the_primary_of_an_embedded_set_shuts_down() {
    let folder = testbed::require!(node_driver());
    for arguments in [&["serve"][..], &["serve", "--auth", "root:p@ss:word"]] {
        let set = Program::start(arguments);
        assert_eq!(run_in_node(&folder, "embedded/failover.mjs", set.uri()), "two orders");
        set.end();
    }
}
