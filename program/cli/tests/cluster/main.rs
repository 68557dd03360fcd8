//! The program and its patterns on a sharded cluster of real servers in two datacenters, which all tests here share.
#![allow(missing_docs)]

#[allow(dead_code, reason = "shared with an example that uses more of it")]
mod application;
#[allow(dead_code, reason = "shared with an example that uses more of it")]
mod datacenters;
mod doctor;
mod outage;
#[path = "../program/mod.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod program;
#[path = "../../../../patterns/tests/patterns/local_writes_stress/recorded_writes.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod recorded_writes;

use std::{
    process::Output,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use self::{datacenters::Datacenters, program::steadfast};

/// The datacenters, for one test at a time: all servers are up when it begins.
struct Turn {
    datacenters: Arc<Datacenters>,
    _turn: MutexGuard<'static, ()>,
}

/// Waits for the datacenters. `None` if this machine has no servers of 8.2.
fn turn() -> Option<Turn> {
    static DATACENTERS: OnceLock<Arc<Datacenters>> = OnceLock::new();
    static TURNS: Mutex<()> = Mutex::new(());
    testbed::found_or_skip(testbed::servers(testbed::Version::V8_2))?;
    // A test that failed has said so itself.
    let _turn = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    let start = || Arc::new(Datacenters::start().expect("a cluster"));
    let datacenters = Arc::clone(DATACENTERS.get_or_init(start));
    Some(Turn { datacenters, _turn })
}

/// Runs `steadfast` on the cluster.
fn run(uri: &str, arguments: &[&str]) -> Output {
    steadfast(arguments).env("STEADFAST_URI", uri).output().expect("the program runs")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs `steadfast` on the cluster, which must succeed; returns its standard output.
#[track_caller]
fn succeed(uri: &str, arguments: &[&str]) -> String {
    let output = run(uri, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {}{errors}", out(&output));
    out(&output)
}
