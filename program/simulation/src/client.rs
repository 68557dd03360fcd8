//! Clients: their budgets and operations, with the retry rules of the driver.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use steadfast_core::retry::{
    AttemptFailure, AttemptPhase, CommandFacts, CommandKind, ErrorLabels, FailureCause, NextStep,
    Retry, RetryBudget, RetrySettings,
};
use steadfast_report::random::Rng;

use crate::{Nanos, scenario::Strategy};

/// All clients of an experiment.
#[derive(Debug)]
pub(crate) struct Clients {
    strategy: Strategy,
    settings: RetrySettings,
    budgets: Vec<Arc<RetryBudget>>,
    labels: ErrorLabels,
    /// Real time that corresponds to the beginning of virtual time.
    origin: Instant,
    jitter: Rng,
}

/// An operation that has not ended.
#[derive(Debug)]
pub(crate) struct PendingOperation {
    /// Time of the call.
    pub(crate) began: Nanos,
    /// Number of attempts sent.
    pub(crate) attempts: u32,
    retry: Retry,
}

impl Clients {
    /// Returns clients with full budgets.
    pub(crate) fn new(clients: u32, strategy: Strategy, seed: u64) -> Self {
        let (retries, tokens) = match strategy {
            Strategy::Never => (Some(0), RetryBudget::CAPACITY),
            // More tokens than a simulation can spend.
            Strategy::AtOnce | Strategy::Backoff => (None, u32::MAX),
            Strategy::Steadfast => (None, RetryBudget::CAPACITY),
        };
        Self {
            strategy,
            settings: RetrySettings {
                max_adaptive_retries: retries,
                // There is no other server to select.
                overload_retargeting: Some(false),
                ..RetrySettings::default()
            },
            budgets: (0..clients).map(|_| Arc::new(RetryBudget::with_capacity(tokens))).collect(),
            labels: ["SystemOverloadedError", "RetryableError"].iter().collect(),
            origin: Instant::now(),
            jitter: Rng::stream(seed, 3),
        }
    }

    /// Begins an operation of a client.
    pub(crate) fn begin(&self, client: u32, now: Nanos) -> PendingOperation {
        let budget = &self.budgets[client as usize];
        // The retry rules get no selected server: there is one only, and a retry because of a label does not
        // depend on the server.
        let retry = Retry::new(self.settings, CommandFacts::new(CommandKind::Write), budget);
        PendingOperation { began: now, attempts: 0, retry }
    }

    /// Sends the first attempt of an operation or a retry.
    pub(crate) fn send(&self, operation: &mut PendingOperation, now: Nanos) {
        operation.attempts += 1;
        let sent = operation.retry.begin_send(self.origin + Duration::from_nanos(now));
        let _ = sent.expect("there is neither a deadline nor doubt");
    }

    /// Processes a rejection. Returns the wait before the next attempt, or `None` if there is no retry.
    pub(crate) fn on_rejection(
        &mut self,
        operation: &mut PendingOperation,
        now: Nanos,
    ) -> Option<Duration> {
        let failure = AttemptFailure {
            phase: AttemptPhase::Sent,
            cause: FailureCause::CommandError { code: 462, message: "rate exceeded" },
            labels: self.labels,
            base_backoff: None,
        };
        let now = self.origin + Duration::from_nanos(now);
        let jitter = || match self.strategy {
            Strategy::AtOnce => 0.0,
            Strategy::Never | Strategy::Backoff | Strategy::Steadfast => self.jitter.unit(),
        };
        match operation.retry.on_failure(&failure, now, jitter).next {
            NextStep::Retry { wait } => Some(wait),
            NextStep::GiveUp(_) => None,
        }
    }

    /// Processes a success.
    pub(crate) fn on_success(operation: &mut PendingOperation) {
        operation.retry.succeeded();
    }

    /// Returns the sum of the tokens in all budgets.
    pub(crate) fn tokens_left(&self) -> f64 {
        self.budgets.iter().map(|budget| budget.tokens_left()).sum()
    }

    /// Returns the number of retries that were omitted because a budget had no token.
    pub(crate) fn denied_retries(&self) -> u64 {
        self.budgets.iter().map(|budget| budget.denied()).sum()
    }
}
