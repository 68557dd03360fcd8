//! Progress of a run, for callers that show it.

use std::time::Instant;

use crate::{live::Live, plan::Plan};

/// Receives the progress of a run. Every method has a default that does nothing; `()` implements the trait.
///
/// Calls come from the task that runs it, except for [`warning`](Self::warning).
pub trait Observer: Send + Sync {
    /// Reports a step before the load, such as a download.
    fn step(&self, _what: &str) {}

    /// Reports something that the user has to know, such as a database that was left behind.
    fn warning(&self, _what: &str) {}

    /// Reports that the servers are there, and that the documents are prepared next.
    fn started(&self, _plan: &Plan, _server: &str) {}

    /// Reports the current state, five times per second.
    fn progress(&self, _phase: Phase, _live: &Live) {}

    /// Reports the reaction to the first interruption.
    fn interrupted(&self, _reaction: &str) {}

    /// Reports the end, with true if the run came to its verdict.
    fn finished(&self, _has_verdict: bool) {}

    /// Formats an error of the deployment, for the messages of this library.
    fn explain(&self, error: &steadfast::error::Error) -> String {
        error.to_string()
    }
}

impl Observer for () {}

/// Phase of a run.
#[derive(Clone, Copy, Debug)]
pub enum Phase {
    /// The documents that will be updated and deleted are inserted.
    Preparing,
    /// The load runs since this time, with faults.
    Load(Instant),
    /// Load and faults are over; all servers come back.
    Recovering,
    /// The writes in the database are counted.
    Counting,
}

impl Phase {
    /// Name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Preparing => "preparing the documents that are written to",
            Self::Load(_) => "the load",
            Self::Recovering => "the return of the servers",
            Self::Counting => "counting what is in the database",
        }
    }
}
