//! Execution of a run: starts the servers, runs load and faults, counts the writes, cleans up. Handles interruptions.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use steadfast::Client;
use tokio::{
    sync::watch,
    time::{interval, sleep, timeout},
};

use steadfast_report::words::plural;

use super::{
    account::Account,
    live::Live,
    observer::{Observer, Phase},
    plan::Plan,
    stage::{Stage, open},
    workload::Workload,
};

/// Interval between two reports to the observer.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Time-out for recovery and count after the last fault.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(180);
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(60);

/// A completed run.
pub(super) struct Course {
    pub(super) account: Account,
    /// Error of the clean-up.
    pub(super) left_behind: Option<String>,
}

/// Runs a plan. After an error, the writes were not counted.
pub(super) async fn run(
    plan: Plan,
    observer: Arc<dyn Observer>,
    interrupt: &mut impl AsyncFnMut(),
) -> Result<Course, Box<dyn Error>> {
    let stage = tokio::select! {
        stage = Stage::set(&plan, &observer) => stage?,
        () = interrupt() => return Err("interrupted before the load began; nothing was done".into()),
    };
    let direct_client = open(&stage.direct_uri()).await?;
    match work(&plan, &stage, &direct_client, &*observer, interrupt).await {
        Ended::Counted(account) => {
            let left_behind = clean_up(stage, interrupt).await;
            Ok(Course { account: *account, left_behind })
        }
        Ended::Failed(error) => Err(match clean_up(stage, interrupt).await {
            // The clean-up probably failed for the same reason, which `error` explains.
            Some(left) => format!("{error}\n  {}", left.lines().next().unwrap_or_default()).into(),
            None => error,
        }),
        // If the database is left behind, dropping the deployment prints a warning.
        Ended::AtOnce => Err("interrupted twice; the writes were not counted".into()),
    }
}

/// Stops the servers, or drops the collections on an existing deployment. Returns a description of a failure.
async fn clean_up(stage: Stage, interrupt: &mut impl AsyncFnMut()) -> Option<String> {
    let why = tokio::select! {
        closed = timeout(CLEAN_UP_TIMEOUT, stage.close()) => match closed {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("not finished within {} s", CLEAN_UP_TIMEOUT.as_secs()),
        },
        () = interrupt() => "interrupted".to_owned(),
    };
    Some(format!("the clean-up failed: {why}"))
}

enum Ended {
    Counted(Box<Account>),
    Failed(Box<dyn Error>),
    AtOnce,
}

/// Runs load and count, reports the progress, and handles interruptions.
async fn work(
    plan: &Plan,
    stage: &Stage,
    direct_client: &Client,
    observer: &dyn Observer,
    interrupt: &mut impl AsyncFnMut(),
) -> Ended {
    observer.started(plan, stage.server());
    let control = Control::new();
    let live = Arc::new(Live::default());
    let mut tick = interval(PROGRESS_INTERVAL);
    let timeout = sleep(run_timeout(plan));
    let counted = count(plan, stage, direct_client, &control, &live);
    tokio::pin!(timeout, counted);
    let ended = loop {
        tokio::select! {
            counted = &mut counted => break match counted {
                Ok(account) => Ended::Counted(Box::new(account)),
                Err(error) => Ended::Failed(with_acknowledged_count(error, &live)),
            },
            _ = tick.tick() => observer.progress(control.phase(), &live),
            () = interrupt() => match control.interrupt() {
                Interrupt::First(reaction) => observer.interrupted(reaction),
                Interrupt::Again => break Ended::AtOnce,
            },
            () = &mut timeout => {
                let phase = control.phase().name();
                break Ended::Failed(format!("time-out of the run during {phase}").into());
            }
        }
    };
    observer.finished(matches!(ended, Ended::Counted(_)));
    ended
}

/// Adds the number of acknowledged operations to the error of a run without a count.
fn with_acknowledged_count(error: Box<dyn Error>, live: &Live) -> Box<dyn Error> {
    match live.acknowledged.load(Relaxed) {
        0 => error,
        done => {
            let done = plural(done, "operation was", "operations were");
            format!("{error}\n  until then, {done} acknowledged; the writes were not counted")
                .into()
        }
    }
}

/// Time-out of a whole run.
fn run_timeout(plan: &Plan) -> Duration {
    let preparation_and_count = Duration::from_millis(plan.operations());
    plan.lasting + plan.timeout + RECOVERY_TIMEOUT + preparation_and_count
}

/// State that the run shares with the loop that reports progress and handles interruptions.
struct Control {
    phase: watch::Sender<Phase>,
    /// `true` ends the load and the faults.
    ending: watch::Sender<bool>,
    was_interrupted: AtomicBool,
    ends_early: AtomicBool,
}

enum Interrupt {
    /// The first interruption, with a description of its effect.
    First(&'static str),
    Again,
}

impl Control {
    fn new() -> Self {
        Self {
            phase: watch::Sender::new(Phase::Preparing),
            ending: watch::Sender::new(false),
            was_interrupted: AtomicBool::new(false),
            ends_early: AtomicBool::new(false),
        }
    }

    fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    fn interrupt(&self) -> Interrupt {
        if self.was_interrupted.swap(true, Relaxed) {
            return Interrupt::Again;
        }
        let what = match self.phase() {
            Phase::Preparing | Phase::Load(_) => {
                self.ends_early.store(true, Relaxed);
                self.ending.send_replace(true);
                "interrupted: the load ends and its writes are counted; interrupt again to end at once"
            }
            Phase::Recovering | Phase::Counting => {
                "the load has ended and its writes are being counted; interrupt again to end at once"
            }
        };
        Interrupt::First(what)
    }
}

/// Prepares the documents, runs load and faults, and counts the writes.
async fn count(
    plan: &Plan,
    stage: &Stage,
    direct_client: &Client,
    control: &Control,
    live: &Arc<Live>,
) -> Result<Account, Box<dyn Error>> {
    let workload = Workload::new(plan)?;
    workload.claim(direct_client).await?;
    // After the claim: a run that was rejected must not drop the database.
    stage.mark_written();
    let mut interrupted = control.ending.subscribe();
    tokio::select! {
        prepared = workload.prepare(direct_client) => prepared?,
        _ = interrupted.wait_for(|is_ending| *is_ending) => {
            return Err("interrupted before the load began".into());
        }
    }
    let began = Instant::now();
    control.phase.send_replace(Phase::Load(began));
    let uri = stage.uri();
    let load = async {
        let records = workload.run(&uri, began, control.ending.subscribe(), Arc::clone(live)).await;
        let lasted = began.elapsed();
        control.phase.send_replace(Phase::Recovering);
        control.ending.send_replace(true);
        (records, lasted)
    };
    let faults = async {
        let incidents =
            stage.run_faults(plan, began, control.ending.subscribe(), Arc::clone(live)).await;
        // After an error, the load ends, too.
        control.ending.send_replace(true);
        incidents
    };
    // Neither is dropped when the other one fails, because frozen members must be thawed.
    let ((records, lasted), incidents) = tokio::join!(load, faults);
    let (incidents, records) = (incidents?, records?);
    control.phase.send_replace(Phase::Counting);
    let census = workload.census(direct_client).await?;
    Ok(Account {
        plan: plan.clone(),
        server: stage.server().to_owned(),
        lasted,
        interrupted: control.ends_early.load(Relaxed),
        records,
        incidents,
        census,
    })
}
