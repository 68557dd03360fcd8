//! The clients: budgets, and operations on their way, decided on by the driver's own code.

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

/// What each client is given.
#[derive(Debug)]
pub(crate) struct Clients {
    strategy: Strategy,
    settings: RetrySettings,
    budgets: Vec<Arc<RetryBudget>>,
    labels: ErrorLabels,
    /// The point of the real clock that virtual time is counted from.
    origin: Instant,
    jitter: Rng,
}

/// An operation on its way.
#[derive(Debug)]
pub(crate) struct Flight {
    /// When its application asked for it.
    pub(crate) began: Nanos,
    /// How often it was sent.
    pub(crate) attempts: u32,
    retry: Retry,
}

impl Clients {
    /// Clients whose buckets are full.
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
                // There is no other server to go to.
                overload_retargeting: Some(false),
                ..RetrySettings::default()
            },
            budgets: (0..clients).map(|_| Arc::new(RetryBudget::with_capacity(tokens))).collect(),
            labels: ["SystemOverloadedError", "RetryableError"].iter().collect(),
            origin: Instant::now(),
            jitter: Rng::stream(seed, 3),
        }
    }

    /// Begins an operation of one of them.
    pub(crate) fn begin(&self, client: u32, now: Nanos) -> Flight {
        let budget = &self.budgets[client as usize];
        // Which server is selected is not told: there is one, and whether something is retried by
        // its label does not depend on it.
        let retry = Retry::new(self.settings, CommandFacts::new(CommandKind::Write), budget);
        Flight { began: now, attempts: 0, retry }
    }

    /// Sends an operation, for the first time or again.
    pub(crate) fn send(&self, flight: &mut Flight, now: Nanos) {
        flight.attempts += 1;
        let sent = flight.retry.begin_send(self.origin + Duration::from_nanos(now));
        let _ = sent.expect("there is neither a deadline nor doubt");
    }

    /// The server turned it away. How long to wait before it is sent again, if it is.
    pub(crate) fn turned_away(&mut self, flight: &mut Flight, now: Nanos) -> Option<Duration> {
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
        match flight.retry.on_failure(&failure, now, jitter).next {
            NextStep::Retry { wait } => Some(wait),
            NextStep::GiveUp(_) => None,
        }
    }

    /// It was served.
    pub(crate) fn served(flight: &mut Flight) {
        flight.retry.succeeded();
    }

    /// The tokens of all together.
    pub(crate) fn tokens_left(&self) -> f64 {
        self.budgets.iter().map(|budget| budget.tokens_left()).sum()
    }

    /// How many retries were refused for want of a token.
    pub(crate) fn refused(&self) -> u64 {
        self.budgets.iter().map(|budget| budget.denied()).sum()
    }
}
