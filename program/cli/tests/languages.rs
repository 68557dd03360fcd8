//! The pipe and the embedded deployment with drivers of other languages: the programs of the guides,
//! run as they stand there.
//!
//! They need Python with pip, or Node with npm, and a registry to fetch the driver from, once. What
//! is missing is said, and the test then shows nothing; in CI it fails.
#![allow(missing_docs)]

mod program;

use std::{
    error::Error,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use program::Program;
use testbed::{Options, ReplicaSet, skip};

const PYMONGO: &str = "pymongo>=4.10,<5";
const NODE_DRIVER: &str = "mongodb@6";

fn guide(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file)
}

/// Runs a program; what it said, if it succeeded, and why not otherwise.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{command:?}: {}\n{}", output.status, text(&output.stderr))),
    }
}

/// Where PyMongo is, to be put into PYTHONPATH. The first test that asks fetches it, and the others wait,
/// in other processes, too: half a driver is worse than none.
fn pymongo() -> Result<PathBuf, String> {
    static PYMONGO: LazyLock<Result<PathBuf, String>> = LazyLock::new(fetch_pymongo);
    PYMONGO.clone()
}

fn fetch_pymongo() -> Result<PathBuf, String> {
    run(Command::new("python3").args(["-m", "pip", "--version"]))?;
    let fetch = |folder: &Path| -> Result<(), Box<dyn Error>> {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--target"]);
        run(pip.arg(folder).arg(PYMONGO))?;
        let mut import = Command::new("python3");
        run(import.args(["-c", "import pymongo"]).env("PYTHONPATH", folder))?;
        Ok(())
    };
    testbed::cached("python-pymongo-4", fetch).map_err(|error| error.to_string())
}

/// Where a program must be for Node to find the driver, which is fetched like the other.
fn node_driver() -> Result<PathBuf, String> {
    static NODE_DRIVER: LazyLock<Result<PathBuf, String>> = LazyLock::new(fetch_node_driver);
    NODE_DRIVER.clone()
}

fn fetch_node_driver() -> Result<PathBuf, String> {
    for program in ["node", "npm"] {
        run(Command::new(program).arg("--version"))?;
    }
    let fetch = |folder: &Path| -> Result<(), Box<dyn Error>> {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"]);
        run(npm.arg(folder).arg(NODE_DRIVER))?;
        let import = folder.join("import.mjs");
        std::fs::write(&import, "import \"mongodb\";")?;
        run(Command::new("node").arg(&import))?;
        Ok(())
    };
    testbed::cached("node-mongodb-6", fetch).map_err(|error| error.to_string())
}

/// Runs a program of a guide beside the Node driver, where it looks for it.
fn run_in_node(folder: &Path, program: &str, uri: &str) -> String {
    let name = Path::new(program).file_name().unwrap().to_string_lossy();
    // Its own copy: another process may be about to run the same.
    let copy = folder.join(format!("{}-{name}", std::process::id()));
    std::fs::copy(guide(program), &copy).unwrap();
    let said = run(Command::new("node").arg(&copy).arg(uri));
    std::fs::remove_file(copy).unwrap();
    said.unwrap()
}

#[test]
fn an_insert_of_pymongo_whose_reply_is_lost_is_applied_once() {
    let path = match pymongo() {
        Ok(path) => path,
        Err(why) => return skip(format!("PyMongo is not there ({why})")),
    };
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
fn an_insert_of_the_node_driver_whose_reply_is_lost_is_applied_once() {
    let folder = match node_driver() {
        Ok(folder) => folder,
        Err(why) => return skip(format!("the Node driver is not there ({why})")),
    };
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
fn pymongo_goes_on_when_the_primary_of_an_embedded_set_is_shut_down() {
    let path = match pymongo() {
        Ok(path) => path,
        Err(why) => return skip(format!("PyMongo is not there ({why})")),
    };
    for arguments in [&["serve"][..], &["serve", "--auth", "root:p@ss:word"]] {
        let set = Program::start(arguments);
        let mut python = Command::new("python3");
        python.arg(guide("embedded/failover.py")).arg(set.uri()).env("PYTHONPATH", &path);
        assert_eq!(run(&mut python).unwrap(), "two orders");
        set.end();
    }
}

#[test]
fn the_node_driver_goes_on_when_the_primary_of_an_embedded_set_is_shut_down() {
    let folder = match node_driver() {
        Ok(folder) => folder,
        Err(why) => return skip(format!("the Node driver is not there ({why})")),
    };
    for arguments in [&["serve"][..], &["serve", "--auth", "root:p@ss:word"]] {
        let set = Program::start(arguments);
        assert_eq!(run_in_node(&folder, "embedded/failover.mjs", set.uri()), "two orders");
        set.end();
    }
}
