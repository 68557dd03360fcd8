//! Real MongoDB servers and the specification's test suites, fetched once and started for tests.
//!
//! Everything here blocks; asynchronous tests call it directly or on a blocking thread. It knows
//! nothing of the driver under test: set-up commands travel over a small client of its own.
//!
//! Servers never outlive the process that started them, whatever its end: see [`Mongod`].
//!
//! What is fetched is kept in `testbed/` of the target folder that the running program is in, or, if it is
//! in none because it was installed, in the user's cache folder. It is for Unix.

#[cfg(feature = "certificates")]
mod ca;
mod error;
mod fetch;
mod folders;
mod kept;
mod mongod;
mod mongod_binary;
mod options;
mod replica_set;
pub mod shared;
mod specs;
mod watchdog;
mod wire;

#[cfg(feature = "certificates")]
pub use ca::TestCa;
pub use error::TestbedError;
pub use kept::kept;
pub use mongod::Mongod;
pub use mongod_binary::{is_mongod_at_hand, mongod_path};
pub use options::{Options, User};
pub use replica_set::ReplicaSet;
pub use specs::spec_tests;

/// What the testbed's functions return.
pub type Result<T> = std::result::Result<T, TestbedError>;
