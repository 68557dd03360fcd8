//! The course of a run, from the first server to the last count, and every way for it to end before.

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

/// Between two reports to the observer.
const PAUSE: Duration = Duration::from_millis(200);

/// What servers may take to come back after the last fault, and to be counted.
const AFTERWARDS: Duration = Duration::from_secs(180);
/// What it may take to clean up.
const CLEANING: Duration = Duration::from_secs(60);

/// A run that came to its count.
pub(super) struct Course {
    pub(super) account: Account,
    /// What could not be cleaned up.
    pub(super) left_behind: Option<String>,
}

/// Runs it. An error means that there is no count.
pub(super) async fn run(
    plan: Plan,
    observer: Arc<dyn Observer>,
    interrupt: &mut impl AsyncFnMut(),
) -> Result<Course, Box<dyn Error>> {
    let stage = tokio::select! {
        stage = Stage::set(&plan, &observer) => stage?,
        () = interrupt() => return Err("interrupted before the load began; nothing was done".into()),
    };
    let straight = open(&stage.straight_uri()).await?;
    match work(&plan, &stage, &straight, &*observer, interrupt).await {
        Ended::Counted(account) => {
            let left_behind = clean_up(stage, interrupt).await;
            Ok(Course { account: *account, left_behind })
        }
        Ended::Failed(error) => Err(match clean_up(stage, interrupt).await {
            // It is likely to be for the same reason, which has been explained.
            Some(left) => format!("{error}\n  {}", left.lines().next().unwrap_or_default()).into(),
            None => error,
        }),
        // Whoever has not got a database to remove leaves nothing, and the stage says what it leaves.
        Ended::AtOnce => Err("interrupted again, and ended at once; nothing was counted".into()),
    }
}

/// Ends the servers, or removes from somebody's what was written to them. Says what could not be done.
async fn clean_up(stage: Stage, interrupt: &mut impl AsyncFnMut()) -> Option<String> {
    let why = tokio::select! {
        closed = timeout(CLEANING, stage.close()) => match closed {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it takes too long".to_owned(),
        },
        () = interrupt() => "interrupted".to_owned(),
    };
    Some(format!("it could not be cleaned up: {why}"))
}

enum Ended {
    Counted(Box<Account>),
    Failed(Box<dyn Error>),
    AtOnce,
}

/// The load and the count, while people look on and may have enough of it.
async fn work(
    plan: &Plan,
    stage: &Stage,
    straight: &Client,
    observer: &dyn Observer,
    interrupt: &mut impl AsyncFnMut(),
) -> Ended {
    observer.started(plan, stage.server());
    let control = Control::new();
    let live = Arc::new(Live::default());
    let mut tick = interval(PAUSE);
    let bound = sleep(bound(plan));
    let counted = count(plan, stage, straight, &control, &live);
    tokio::pin!(bound, counted);
    let ended = loop {
        tokio::select! {
            counted = &mut counted => break match counted {
                Ok(account) => Ended::Counted(Box::new(account)),
                Err(error) => Ended::Failed(with_what_was_done(error, &live)),
            },
            _ = tick.tick() => observer.progress(control.phase(), &live),
            () = interrupt() => match control.interrupt() {
                Interrupt::First(reaction) => observer.interrupted(reaction),
                Interrupt::Again => break Ended::AtOnce,
            },
            () = &mut bound => {
                let phase = control.phase().name();
                break Ended::Failed(format!("out of time: {phase} takes far too long").into());
            }
        }
    };
    observer.finished(matches!(ended, Ended::Counted(_)));
    ended
}

/// Without a count, it is all that is known.
fn with_what_was_done(error: Box<dyn Error>, live: &Live) -> Box<dyn Error> {
    match live.acknowledged.load(Relaxed) {
        0 => error,
        done => {
            let done = plural(done, "operation was", "operations were");
            format!("{error}\n  until then, {done} acknowledged; nothing was counted").into()
        }
    }
}

/// When it has taken so long, something is wrong.
fn bound(plan: &Plan) -> Duration {
    let for_many = Duration::from_millis(plan.operations());
    plan.lasting + plan.timeout + AFTERWARDS + for_many
}

/// What there is to tell between the work and those who look on.
struct Control {
    phase: watch::Sender<Phase>,
    /// Whether the load and the faults are to end.
    ending: watch::Sender<bool>,
    was_interrupted: AtomicBool,
    ends_early: AtomicBool,
}

enum Interrupt {
    /// With what is done about it.
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
                "interrupted: the load ends, and what was done is counted; once more to end at once"
            }
            Phase::Recovering | Phase::Counting => {
                "the load is over, and what was done is being counted; once more to end at once"
            }
        };
        Interrupt::First(what)
    }
}

/// Prepares, writes, makes trouble, and counts.
async fn count(
    plan: &Plan,
    stage: &Stage,
    straight: &Client,
    control: &Control,
    live: &Arc<Live>,
) -> Result<Account, Box<dyn Error>> {
    let workload = Workload::new(plan)?;
    workload.claim(straight).await?;
    // Not before: whoever was refused has nothing to remove.
    stage.mark_written();
    let mut interrupted = control.ending.subscribe();
    tokio::select! {
        prepared = workload.prepare(straight) => prepared?,
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
    let trouble = async {
        let incidents =
            stage.trouble(plan, began, control.ending.subscribe(), Arc::clone(live)).await;
        // If it ended with an error, the load goes on in vain.
        control.ending.send_replace(true);
        incidents
    };
    // Neither is dropped when the other one fails: a member that is frozen is to be woken.
    let ((records, lasted), incidents) = tokio::join!(load, trouble);
    let (incidents, records) = (incidents?, records?);
    control.phase.send_replace(Phase::Counting);
    let census = workload.census(straight).await?;
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
