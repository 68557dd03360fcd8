//! Client reactions to rejected operations.

use std::{sync::Arc, time::Instant};

use steadfast_core::retry::{
    AttemptFailure, AttemptPhase, CommandFacts, CommandKind, ErrorLabels, FailureCause, NextStep,
    Retry, RetryBudget, RetrySettings,
};
use steadfast_report::random::Rng;

use crate::contender::{Application, Contender, LabelledError};

/// Retries of an application that retries immediately.
const RETRIES_AT_ONCE: u32 = 5;

/// Client reaction to rejected operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// `maxAdaptiveRetries=0`: the error is raised.
    NoRetries,
    /// An application that retries immediately, five times, with or without `RetryableError`. The driver does not retry.
    AtOnce,
    /// The official driver with its defaults.
    Official,
    /// The retries of this driver without its budget: its own code decides, with a bucket that is never
    /// empty, around calls with `maxAdaptiveRetries=0`.
    NoBudget,
    /// This driver with its defaults.
    Steadfast,
}

impl Strategy {
    /// Returns those that this program was built with.
    pub(super) fn all() -> Vec<Self> {
        let all = [Self::NoRetries, Self::AtOnce, Self::Official, Self::NoBudget, Self::Steadfast];
        let built_in = |strategy: &Self| Contender::ALL.contains(&strategy.contender());
        all.into_iter().filter(built_in).collect()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NoRetries => "no retries",
            Self::AtOnce => "at once, 5 times",
            Self::Official => "official driver",
            Self::NoBudget => "backoff, no bucket",
            Self::Steadfast => "steadfast",
        }
    }

    /// Returns the driver that it uses.
    pub(super) fn contender(self) -> Contender {
        match self {
            Self::Official => Contender::Official,
            Self::NoRetries | Self::AtOnce | Self::NoBudget | Self::Steadfast => {
                Contender::Steadfast
            }
        }
    }

    /// Returns the URI options of its clients.
    pub(super) fn options(self) -> &'static str {
        match self {
            Self::NoRetries | Self::AtOnce | Self::NoBudget => "&maxAdaptiveRetries=0",
            Self::Official | Self::Steadfast => "",
        }
    }

    /// Inserts a document, and retries according to the strategy.
    pub(super) async fn insert<A: Application>(
        self,
        application: &A,
        rng: &mut Rng,
    ) -> Result<(), LabelledError> {
        match self {
            Self::NoRetries | Self::Official | Self::Steadfast => {
                application.insert_labelled().await
            }
            Self::AtOnce => insert_at_once(application).await,
            Self::NoBudget => insert_without_budget(application, rng).await,
        }
    }
}

async fn insert_at_once<A: Application>(application: &A) -> Result<(), LabelledError> {
    let mut outcome = application.insert_labelled().await;
    for _ in 0..RETRIES_AT_ONCE {
        match outcome {
            Err(error) if error.overloaded => outcome = application.insert_labelled().await,
            ended => return ended,
        }
    }
    outcome
}

async fn insert_without_budget<A: Application>(
    application: &A,
    rng: &mut Rng,
) -> Result<(), LabelledError> {
    let budget = Arc::new(RetryBudget::with_capacity(u32::MAX));
    let mut retry =
        Retry::new(RetrySettings::default(), CommandFacts::new(CommandKind::Write), &budget);
    loop {
        // Always allowed: there is no deadline, and no earlier attempt with an unknown outcome.
        let _ = retry.begin_send(Instant::now());
        let Err(error) = application.insert_labelled().await else { return Ok(()) };
        let failure = AttemptFailure {
            phase: AttemptPhase::Sent,
            cause: FailureCause::CommandError { code: 0, message: &error.message },
            labels: labels_of(&error),
            base_backoff: None,
        };
        match retry.on_failure(&failure, Instant::now(), || rng.unit()).next {
            NextStep::Retry { wait } => tokio::time::sleep(wait).await,
            NextStep::GiveUp(_) => return Err(error),
        }
    }
}

fn labels_of(error: &LabelledError) -> ErrorLabels {
    let labels = [("SystemOverloadedError", error.overloaded), ("RetryableError", error.retryable)];
    labels.iter().filter(|(_, present)| *present).map(|(label, _)| *label).collect()
}
