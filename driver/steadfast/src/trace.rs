//! The driver's events as `tracing` events, with the messages and keys of the logging
//! specifications.
//!
//! One module for each target: `steadfast::command`, `steadfast::connection`, `steadfast::retry`,
//! `steadfast::topology` and `steadfast::server_selection`. Every event carries `topologyId`, by
//! which those of several clients are distinguished. Unknown optional fields are omitted. Without a
//! subscriber, no message is formatted.
//!
//! Events of sensitive commands have no contents here.

#[cfg(test)]
pub(crate) mod capture;
mod command;
mod connection;
mod extended_json;
mod retry;
mod selection;
#[cfg(test)]
mod tests;
mod topology;

use std::time::Duration;

pub(crate) use self::{
    command::{command, command_logging_enabled},
    connection::{connection, connection_logging_enabled},
    retry::{overload_given_up, retrying},
    selection::{
        Operation, selection_failed, selection_started, selection_succeeded, selection_waits,
    },
    topology::{topology, topology_logging_enabled},
};

/// Returns a duration in milliseconds, with a fraction.
fn as_millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}

/// Returns a time-out in whole milliseconds.
fn as_whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
