//! Deployments that all tests of a process share, started by the first test that uses them.
//!
//! Tests that kill, freeze or step down servers, or enable fail points that affect others, start their own.

use std::{env, sync::OnceLock, time::Duration};

use crate::{ClusterOptions, Mongod, Options, ReplicaSet, Result, ShardedCluster, Version};

/// Default of servers, ten times that of the testbed. These servers are never killed: a primary that does not answer for
/// a second is busy.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Environment variable with the connection string of a running deployment.
const OVERRIDE: &str = "STEADFAST_TEST_URI";

/// Returns an error if the servers of [`uri`] and [`other_uri`] cannot be started here and `STEADFAST_TEST_URI` is not set.
/// Starts no server.
///
/// # Errors
///
/// Fails if the server programs are not available.
pub fn servers() -> Result<()> {
    match env::var_os(OVERRIDE) {
        Some(_) => Ok(()),
        None => crate::servers(Version::default()).map_err(or_set),
    }
}

/// Returns `STEADFAST_TEST_URI`, or the connection string of the shared [`replica_set`].
///
/// # Errors
///
/// Fails if the servers are not available or do not start. Later calls return the same error.
pub fn uri() -> Result<String> {
    match env::var(OVERRIDE) {
        Ok(uri) => Ok(uri),
        Err(_) => Ok(replica_set().map_err(or_set)?.uri()),
    }
}

/// Returns the connection string of a further deployment, by its number, for long tests that other tests would wait for.
/// With `STEADFAST_TEST_URI` it is the same deployment.
///
/// # Errors
///
/// Fails if the servers are not available or do not start. Later calls return the same error.
pub fn other_uri(number: usize) -> Result<String> {
    static SETS: [OnceLock<Result<ReplicaSet>>; 2] = [const { OnceLock::new() }; 2];
    match env::var(OVERRIDE) {
        Ok(uri) => Ok(uri),
        Err(_) => {
            let set = SETS[number % SETS.len()].get_or_init(|| start(Version::default()));
            Ok(set.as_ref().map_err(|error| or_set(error.clone()))?.uri())
        }
    }
}

/// Returns the shared replica set of three members, of the default version.
///
/// # Errors
///
/// Fails if the servers are not available or do not start. Later calls return the same error.
pub fn replica_set() -> Result<&'static ReplicaSet> {
    replica_set_of(Version::default())
}

/// Returns the shared replica set of three members of this version.
///
/// # Errors
///
/// Fails if the servers are not available or do not start. Later calls return the same error.
pub fn replica_set_of(version: Version) -> Result<&'static ReplicaSet> {
    static V6_0: OnceLock<Result<ReplicaSet>> = OnceLock::new();
    static V8_2: OnceLock<Result<ReplicaSet>> = OnceLock::new();
    let set = match version {
        Version::V6_0 => &V6_0,
        Version::V8_2 => &V8_2,
    };
    set.get_or_init(|| start(version)).as_ref().map_err(Clone::clone)
}

fn start(version: Version) -> Result<ReplicaSet> {
    ReplicaSet::start(3, options(version))
}

fn options(version: Version) -> Options {
    Options::new().version(version).election_timeout(ELECTION_TIMEOUT)
}

/// Returns the shared standalone server, of the default version.
///
/// # Errors
///
/// Fails if the servers are not available or do not start. Later calls return the same error.
pub fn standalone() -> Result<&'static Mongod> {
    standalone_of(Version::default())
}

/// Returns the shared standalone server of this version.
///
/// # Errors
///
/// Fails if the servers are not available or do not start. Later calls return the same error.
pub fn standalone_of(version: Version) -> Result<&'static Mongod> {
    static V6_0: OnceLock<Result<Mongod>> = OnceLock::new();
    static V8_2: OnceLock<Result<Mongod>> = OnceLock::new();
    let server = match version {
        Version::V6_0 => &V6_0,
        Version::V8_2 => &V8_2,
    };
    server.get_or_init(|| Mongod::standalone(options(version))).as_ref().map_err(Clone::clone)
}

/// Returns the shared sharded cluster of version 8.2: two shards of one member, two `mongos`.
///
/// # Errors
///
/// Fails if the servers are not available or do not start. Later calls return the same error.
pub fn sharded_cluster() -> Result<&'static ShardedCluster> {
    static CLUSTER: OnceLock<Result<ShardedCluster>> = OnceLock::new();
    let start = || ShardedCluster::start(ClusterOptions::new().options(options(Version::V8_2)));
    CLUSTER.get_or_init(start).as_ref().map_err(Clone::clone)
}

fn or_set(error: crate::TestbedError) -> crate::TestbedError {
    error.or_set(OVERRIDE, "the connection string of a running deployment")
}
