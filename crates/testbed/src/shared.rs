//! Deployments that all tests of a process share, started when one first asks.
//!
//! Tests that kill, freeze or step down servers, or set failpoints that others would meet, start
//! their own.

use std::{env, sync::OnceLock, time::Duration};

use crate::{Mongod, Options, ReplicaSet, Result};

/// Nobody kills these servers. A primary that is late is only busy, and stays what it is: as long as
/// servers wait for one by default.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Names a deployment that runs already.
const OVERRIDE: &str = "STEADFAST_TEST_URI";

/// The connection string of the shared deployment: the one that `STEADFAST_TEST_URI` names, or
/// else of the shared [`replica_set`].
pub fn uri() -> Result<String> {
    match env::var(OVERRIDE) {
        Ok(uri) => Ok(uri),
        Err(_) => Ok(replica_set().map_err(or_set)?.uri()),
    }
}

/// The connection string of a deployment like the shared one, but another, by its number, for tests that
/// take long and would keep the others waiting. With `STEADFAST_TEST_URI` there is only the one.
pub fn other_uri(number: usize) -> Result<String> {
    static SETS: [OnceLock<Result<ReplicaSet>>; 2] = [const { OnceLock::new() }; 2];
    match env::var(OVERRIDE) {
        Ok(uri) => Ok(uri),
        Err(_) => {
            let set = SETS[number % SETS.len()].get_or_init(start);
            Ok(set.as_ref().map_err(|error| or_set(error.clone()))?.uri())
        }
    }
}

/// The shared replica set of three members.
pub fn replica_set() -> Result<&'static ReplicaSet> {
    static SET: OnceLock<Result<ReplicaSet>> = OnceLock::new();
    SET.get_or_init(start).as_ref().map_err(Clone::clone)
}

fn start() -> Result<ReplicaSet> {
    ReplicaSet::start(3, Options::new().election_timeout(ELECTION_TIMEOUT))
}

/// The shared standalone server.
pub fn standalone() -> Result<&'static Mongod> {
    static SERVER: OnceLock<Result<Mongod>> = OnceLock::new();
    SERVER.get_or_init(|| Mongod::standalone(Options::new())).as_ref().map_err(Clone::clone)
}

fn or_set(error: crate::TestbedError) -> crate::TestbedError {
    error.or_set(OVERRIDE, "the connection string of a deployment that runs already")
}
