//! Application of plans.

use std::{fmt, future::IntoFuture, pin::Pin, time::Duration};

use super::{
    cluster::Cluster,
    error::ZonesError,
    plan::{Plan, Purpose, plan, removal},
    step::Step,
};
use crate::retry;
use steadfast::{Client, error::Error};

/// Largest number of attempts of a step.
const MAX_ATTEMPTS: u32 = 8;
/// Wait before the first retry. Each later one waits twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Codes of servers while another client runs the same step: the lock, or the collection, is in use.
const CONFLICT_CODES: [i32; 4] = [
    24,  // LockTimeout
    46,  // LockBusy
    112, // WriteConflict
    117, // ConflictingOperationInProgress
];

impl Plan {
    /// Runs the steps in order.
    ///
    /// Each step is idempotent, so two clients can apply a plan at once, and a plan that was interrupted is
    /// completed by a new one. A step that fails because of the network, or of another client, is retried for
    /// some seconds.
    ///
    /// # Errors
    ///
    /// [`ZonesError::Step`] with the step that failed; the steps before it are done.
    ///
    /// # Cancellation
    ///
    /// Steps so far are done. Plan again to continue.
    pub fn apply<'a>(&'a self, client: &'a Client) -> Apply<'a> {
        Apply { plan: self, client, progress: None }
    }
}

/// Progress of [`Plan::apply`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ApplyProgress<'a> {
    /// A step was started.
    #[non_exhaustive]
    Started {
        /// Number of the step, from 1.
        number: usize,
        /// Number of steps.
        steps: usize,
        /// The step.
        step: &'a Step,
    },
    /// A step failed and is retried.
    #[non_exhaustive]
    Retried {
        /// The step.
        step: &'a Step,
        /// Error of the attempt.
        error: &'a Error,
    },
    /// The step is done.
    #[non_exhaustive]
    Done {
        /// Number of the step, from 1.
        number: usize,
        /// Number of steps.
        steps: usize,
        /// The step.
        step: &'a Step,
    },
}

type ApplyListener<'a> = Box<dyn FnMut(ApplyProgress<'_>) + Send + 'a>;

/// Action that applies a plan. Returned by [`Plan::apply`].
#[must_use = "an action does nothing until it is awaited"]
pub struct Apply<'a> {
    plan: &'a Plan,
    client: &'a Client,
    progress: Option<ApplyListener<'a>>,
}

impl<'a> Apply<'a> {
    /// Sets a callback that receives the progress.
    pub fn progress(mut self, listener: impl FnMut(ApplyProgress<'_>) + Send + 'a) -> Self {
        self.progress = Some(Box::new(listener));
        self
    }

    fn notify(&mut self, progress: ApplyProgress<'_>) {
        if let Some(listener) = &mut self.progress {
            listener(progress);
        }
    }

    async fn execute(mut self) -> Result<(), ZonesError> {
        let plan = self.plan;
        let steps = plan.steps().len();
        for (place, step) in plan.steps().iter().enumerate() {
            let number = place + 1;
            self.notify(ApplyProgress::Started { number, steps, step });
            self.run(step).await.map_err(|error| ZonesError::Step {
                step: Box::new(step.clone()),
                number,
                steps,
                error,
            })?;
            self.notify(ApplyProgress::Done { number, steps, step });
        }
        Ok(())
    }

    async fn run(&mut self, step: &Step) -> Result<(), Error> {
        let mut wait = FIRST_WAIT;
        let mut attempts = 1;
        loop {
            let database = self.client.database(step.database());
            let Err(error) = database.run_command(step.command().clone()).await else {
                return Ok(());
            };
            // The reply was lost, or another client has run the step.
            if is_done(self.plan, self.client, step).await {
                return Ok(());
            }
            let is_conflict = error.code().is_some_and(|code| CONFLICT_CODES.contains(&code));
            if attempts == MAX_ATTEMPTS || !(is_conflict || retry::can_retry_at_once(&error)) {
                return Err(error);
            }
            self.notify(ApplyProgress::Retried { step, error: &error });
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
            attempts += 1;
        }
    }
}

/// Returns `true` if a new plan would not have this step.
async fn is_done(whole: &Plan, client: &Client, step: &Step) -> bool {
    let layout = &whole.layout;
    let Ok(cluster) = Cluster::read_config(client, layout).await else { return false };
    let left = match whole.purpose {
        Purpose::SetUp => plan(layout, &cluster).ok(),
        Purpose::Removal => Some(removal(layout, &cluster)),
    };
    left.is_some_and(|left| !left.steps().iter().any(|it| it.kind() == step.kind()))
}

impl fmt::Debug for Apply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Apply").field("plan", self.plan).finish_non_exhaustive()
    }
}

impl<'a> IntoFuture for Apply<'a> {
    type Output = Result<(), ZonesError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.execute())
    }
}
