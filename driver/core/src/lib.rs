//! The decisions of a MongoDB driver, apart from its I/O.
//!
//! Everything here is a plain value or a state machine: connection strings, what is known of a
//! deployment, which server to pick, what a pool hands out, when to try again. Nothing in this
//! crate opens a socket, spawns a task, reads a clock or rolls a die; `now` and randomness are
//! passed in, so every decision can be repeated in a test.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
// Tests must get their times and ids from somewhere; see this crate's clippy.toml.
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
