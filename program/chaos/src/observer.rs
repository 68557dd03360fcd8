//! Progress of a run, for callers that show it.

use std::time::Instant;

use crate::{live::Live, plan::Plan};

/// Receives the progress of a run. Every method has a default that does nothing; `()` implements the trait.
///
/// All calls except those of [`warning`](Self::warning) come from the task that awaits the run.
pub trait Observer: Send + Sync {
    /// Reports a step before the load, such as a download.
    fn step(&self, _what: &str) {}

    /// Reports a warning for the user, such as a database that was not dropped.
    fn warning(&self, _what: &str) {}

    /// Reports that the servers have started. The documents are prepared next.
    fn started(&self, _plan: &Plan, _server: &str) {}

    /// Reports the current state, five times per second.
    fn progress(&self, _phase: Phase, _live: &Live) {}

    /// Reports the effect of the first interruption.
    fn interrupted(&self, _reaction: &str) {}

    /// Reports the end, with `true` if there is a verdict.
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
    /// Load and faults have ended; the servers recover.
    Recovering,
    /// The writes in the database are counted.
    Counting,
}

impl Phase {
    /// Name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Preparing => "preparation of the documents",
            Self::Load(_) => "the load",
            Self::Recovering => "recovery of the servers",
            Self::Counting => "counting the writes in the database",
        }
    }
}
