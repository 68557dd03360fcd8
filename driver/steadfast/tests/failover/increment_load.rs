//! Increments from many tasks while primaries fail repeatedly.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use steadfast::{
    Client, Collection,
    bson::{Document, doc},
    error::Result,
    event::{EventHandler, command::CommandEvent},
    options::ClientOptions,
    results::UpdateResult,
};
use testbed::ReplicaSet;
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    is_unlabelled_step_down,
    write_record::{self, Audit, ReportedOutcome, WriteRecord},
};

const TASKS: i64 = 16;

/// Failure of a primary.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failover {
    StepDown,
    /// SIGKILL. The member restarts after an election.
    Kill,
}

/// Retries of a failed write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RetryPolicy {
    Driver,
    /// By the application, after any error and until the write succeeds. The driver does not retry.
    Application,
    /// No retries.
    None,
}

/// Results of the increments.
#[derive(Debug)]
pub(crate) struct IncrementLoad {
    pub(crate) record: WriteRecord,
    /// Number of errors for which [`is_unlabelled_step_down`] returns `true`.
    pub(crate) unlabelled: usize,
    pub(crate) audit: Audit,
    /// Sum of the counters.
    pub(crate) counter: usize,
    /// Number of failed attempts, of the driver and of the application.
    pub(crate) failed_attempts: usize,
    failovers: usize,
    duration: Duration,
}

impl IncrementLoad {
    /// Runs this number of increments, with the failovers distributed over them.
    ///
    /// The write concern is `majority`. A failover may roll back a write with `w: 1` after the primary acknowledged
    /// it, so its outcome could not be checked. Writes on a majority, and in its journals, remain.
    pub(crate) async fn over(
        set: Arc<ReplicaSet>,
        failovers: &[Failover],
        operations: usize,
        retry_policy: RetryPolicy,
    ) -> Self {
        let retry_writes = matches!(retry_policy, RetryPolicy::Driver);
        let uri = format!("{}&w=majority&retryWrites={retry_writes}", set.uri());
        let (client, failed_attempts) = client(&uri).await;
        let fresh = (0..TASKS).map(|task| doc! { "_id": task, "n": 0, "log": [] });
        // Setup is not under test: it is retried until it succeeds.
        let setup = format!("{}&w=majority&timeoutMS=300000", set.uri());
        let setup = Client::with_uri_str(setup).await.unwrap().database("failover");
        setup.collection::<Document>("counters").insert_many(fresh).await.unwrap();
        let counters = client.database("failover").collection::<Document>("counters");

        let began = Instant::now();
        let schedule = Arc::new(FailoverSchedule::new(operations, failovers.len()));
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let (counters, schedule) = (counters.clone(), Arc::clone(&schedule));
            let marks = (task..).step_by(usize::try_from(TASKS).unwrap());
            let marks = marks.take_while(move |mark| (*mark).unsigned_abs() < operations as u64);
            tasks.spawn(async move {
                increments(&counters, task, marks, retry_policy, &schedule).await
            });
        }
        fail_over(&set, failovers, &schedule).await;
        let (mut record, mut unlabelled) = (WriteRecord::default(), 0);
        while let Some(done) = tasks.join_next().await {
            let (of_task, of_task_unlabelled) = done.expect("no task panics");
            record.absorb(of_task);
            unlabelled += of_task_unlabelled;
        }
        let duration = began.elapsed();

        // After this write, all earlier writes are on a majority as well.
        let last = client.database("failover").collection("last");
        while last.insert_one(doc! {}).await.is_err() {}
        let counters = write_record::documents(&set, "failover", "counters");
        let audit = record.audit(&write_record::logged(&counters));
        let counter = counters.iter().map(|counter| counter.get_i32("n").unwrap()).sum::<i32>();
        let counter = usize::try_from(counter).unwrap();
        let failed_attempts = failed_attempts.load(Relaxed);
        let failovers = failovers.len();
        Self { record, unlabelled, audit, counter, failed_attempts, failovers, duration }
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.record.count(ReportedOutcome::Acknowledged)
    }
}

impl fmt::Display for IncrementLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { record, audit, counter, failed_attempts, failovers, duration, .. } = self;
        let secs = duration.as_secs_f32();
        write!(
            f,
            "{failovers} failovers in {secs:.1} s, {failed_attempts} attempts failed, counted \
             {counter}; {audit}; {record}"
        )
    }
}

/// Creates a client, and a counter of its failed write attempts.
async fn client(uri: &str) -> (Client, Arc<AtomicUsize>) {
    let failed = Arc::new(AtomicUsize::new(0));
    let mut options = ClientOptions::parse(uri).await.unwrap();
    let count = Arc::clone(&failed);
    options.command_event_handler = Some(EventHandler::callback(move |event| {
        let is_failure = match event {
            CommandEvent::Failed(_) => true,
            CommandEvent::Succeeded(event) => event.reply.contains_key("writeConcernError"),
            _ => false,
        };
        if is_failure {
            count.fetch_add(1, Relaxed);
        }
    }));
    (Client::with_options(options).unwrap(), failed)
}

/// Schedule of the failovers, independent of the speed of the machine: each follows a share of the operations, and
/// the load waits for it.
struct FailoverSchedule {
    share: u32,
    allowed: Semaphore,
    done: Semaphore,
}

impl FailoverSchedule {
    fn new(operations: usize, failovers: usize) -> Self {
        let share = operations.div_ceil(failovers + 1);
        Self {
            share: u32::try_from(share).unwrap(),
            allowed: Semaphore::new(2 * share),
            done: Semaphore::new(0),
        }
    }

    async fn begin_operation(&self) {
        self.allowed.acquire().await.expect("an open semaphore").forget();
    }

    fn end_operation(&self) {
        self.done.add_permits(1);
    }

    async fn share_done(&self) {
        self.done.acquire_many(self.share).await.expect("an open semaphore").forget();
    }

    fn allow_share(&self) {
        self.allowed.add_permits(self.share as usize);
    }
}

async fn fail_over(set: &Arc<ReplicaSet>, failovers: &[Failover], schedule: &FailoverSchedule) {
    for &failover in failovers {
        schedule.share_done().await;
        let set = Arc::clone(set);
        tokio::task::spawn_blocking(move || failover.inject(&set))
            .await
            .expect("the failover succeeds");
        schedule.allow_share();
    }
}

impl Failover {
    /// Stops the primary, then waits for an election and until all members run.
    pub(crate) fn inject(self, set: &ReplicaSet) {
        match self {
            Self::StepDown => {
                set.hand_over().unwrap();
            }
            Self::Kill => {
                let primary = set.wait_for_primary().unwrap();
                set.kill(primary).unwrap();
                set.wait_for_primary().unwrap();
                set.restart(primary).unwrap();
                set.wait_until_complete().unwrap();
            }
        }
    }
}

/// Runs the increments of one task on its own counter. Returns the number of step-downs without a label.
async fn increments(
    counters: &Collection<Document>,
    task: i64,
    marks: impl Iterator<Item = i64>,
    retry_policy: RetryPolicy,
    schedule: &FailoverSchedule,
) -> (WriteRecord, usize) {
    let (mut record, mut unlabelled) = (WriteRecord::default(), 0);
    for mark in marks {
        schedule.begin_operation().await;
        let mut result = increment(counters, task, mark).await;
        while matches!(retry_policy, RetryPolicy::Application) && result.is_err() {
            result = increment(counters, task, mark).await;
        }
        if let Ok(result) = &result {
            assert_eq!(result.matched_count, 1, "the counter is there");
        }
        unlabelled += usize::from(result.as_ref().is_err_and(is_unlabelled_step_down));
        record.add([mark], &result);
        schedule.end_operation();
    }
    (record, unlabelled)
}

async fn increment(counters: &Collection<Document>, task: i64, mark: i64) -> Result<UpdateResult> {
    let update = doc! { "$inc": { "n": 1 }, "$push": { "log": mark } };
    counters.update_one(doc! { "_id": task }, update).await
}
