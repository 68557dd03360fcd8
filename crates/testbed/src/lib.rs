//! Real MongoDB servers and the specification's test suites, fetched once and started for tests.
//!
//! Everything here blocks; asynchronous tests call it directly or on a blocking thread. It knows
//! nothing of the driver under test: set-up commands travel over a small client of its own.
//!
//! Servers never outlive the process that started them, whatever its end: see [`Mongod`].

mod ca;
mod error;
mod fetch;
mod folders;
mod mongod;
mod mongod_binary;
mod options;
mod replica_set;
pub mod shared;
mod specs;
mod watchdog;
mod wire;

pub use ca::TestCa;
pub use error::TestbedError;
pub use mongod::Mongod;
pub use mongod_binary::mongod_path;
pub use options::{Options, User};
pub use replica_set::ReplicaSet;
pub use specs::spec_tests;

/// What the testbed's functions return.
pub type Result<T> = std::result::Result<T, TestbedError>;
