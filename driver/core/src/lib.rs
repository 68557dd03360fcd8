//! The decisions of a MongoDB driver, without its I/O.
//!
//! The modules contain plain values and state machines: connection strings, server discovery and
//! monitoring (SDAM), server selection, connection pools (CMAP), sessions, transactions and
//! retries. Nothing in this crate opens a socket, spawns a task, reads a clock or generates a
//! random number. `now` and random numbers are parameters, so every decision can be reproduced in a
//! test.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
// Tests need a clock and generated ids; see this crate's clippy.toml.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod address;
pub mod cluster_time;
pub mod concern;
pub mod connection_string;
pub mod credential;
pub mod description;
pub mod event;
pub mod hello;
pub mod monitor;
pub mod pool;
pub mod read_preference;
pub mod retry;
pub mod round_trip;
pub mod sdam;
pub mod selection;
pub mod server_api;
pub mod session;
pub mod srv;
pub mod transaction;
