//! Doing what a plan says.

use std::{fmt, future::IntoFuture, pin::Pin, time::Duration};

use super::{
    cluster::Cluster,
    error::ZonesError,
    plan::{Plan, Purpose, plan, removal},
    step::Step,
};
use crate::{Client, error::Error, patterns::again};

/// How often a step is tried that failed for a reason that may pass.
const TRIES: u32 = 8;
/// How long to wait before the first repetition. Each one after it waits twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// What a server answers while another one is at the same thing: the lock, or the collection, is taken.
const BUSY: [i32; 4] = [
    24,  // LockTimeout
    46,  // LockBusy
    112, // WriteConflict
    117, // ConflictingOperationInProgress
];

impl Plan {
    /// Does the steps, one after the other.
    ///
    /// Each one can be done again without harm, so a plan can be applied by two at once, and one that
    /// was left in the middle is finished by making a new one. A step that fails because the network broke, or
    /// because somebody else is at the same thing, is tried again for some seconds; with any other
    /// failure it ends there.
    pub fn apply<'a>(&'a self, client: &'a Client) -> Apply<'a> {
        Apply { plan: self, client, progress: None }
    }
}

/// How far a plan has been applied.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// A step begins.
    #[non_exhaustive]
    Begun {
        /// Which one it is, counted from 1.
        number: usize,
        /// How many there are.
        steps: usize,
        /// The step.
        step: &'a Step,
    },
    /// It failed, and is tried again.
    #[non_exhaustive]
    Again {
        /// The step.
        step: &'a Step,
        /// Why it failed.
        error: &'a Error,
    },
    /// It is done.
    #[non_exhaustive]
    Done {
        /// Which one it is, counted from 1.
        number: usize,
        /// How many there are.
        steps: usize,
        /// The step.
        step: &'a Step,
    },
}

type Listener<'a> = Box<dyn FnMut(Progress<'_>) + Send + 'a>;

/// Applies a plan. See [`Plan::apply`].
#[must_use = "an action does nothing until it is awaited"]
pub struct Apply<'a> {
    plan: &'a Plan,
    client: &'a Client,
    progress: Option<Listener<'a>>,
}

impl<'a> Apply<'a> {
    /// Is told of each step.
    pub fn progress(mut self, listener: impl FnMut(Progress<'_>) + Send + 'a) -> Self {
        self.progress = Some(Box::new(listener));
        self
    }

    fn tell(&mut self, progress: Progress<'_>) {
        if let Some(listener) = &mut self.progress {
            listener(progress);
        }
    }

    async fn execute(mut self) -> Result<(), ZonesError> {
        let plan = self.plan;
        let steps = plan.steps().len();
        for (place, step) in plan.steps().iter().enumerate() {
            let number = place + 1;
            self.tell(Progress::Begun { number, steps, step });
            self.run(step).await.map_err(|error| ZonesError::Step {
                step: Box::new(step.clone()),
                number,
                steps,
                error,
            })?;
            self.tell(Progress::Done { number, steps, step });
        }
        Ok(())
    }

    async fn run(&mut self, step: &Step) -> Result<(), Error> {
        let mut wait = FIRST_WAIT;
        let mut tries = 1;
        loop {
            let database = self.client.database(step.database());
            let Err(error) = database.run_command(step.command().clone()).await else {
                return Ok(());
            };
            // Its reply was lost, or another one was faster.
            if is_done(self.plan, self.client, step).await {
                return Ok(());
            }
            let busy = error.code().is_some_and(|code| BUSY.contains(&code));
            if tries == TRIES || !(busy || again::can_retry_at_once(&error)) {
                return Err(error);
            }
            self.tell(Progress::Again { step, error: &error });
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
            tries += 1;
        }
    }
}

/// Whether a step would not be planned any more.
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
