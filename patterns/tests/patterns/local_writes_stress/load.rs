//! Tasks that write messages through local writers, and their recorded results.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

use steadfast::bson::{Document, doc};
use steadfast_patterns::local_writes::{LocalWriteError, LocalWriter, Receipt};
use tokio::{sync::watch, task::JoinSet};

use super::recorded_writes::{RecordedWrite, RecordedWrites, is_not_applied};
use crate::rng::Rng;

/// Number of tasks for each writer.
pub(crate) const TASKS: usize = 3;

/// Pause between two calls of a task, which limits the number of documents.
const PAUSE: Duration = Duration::from_millis(8);

/// Time limit for progress under load. Only a hang exceeds it.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(180);

/// Counts of the calls of one writer.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadCounts {
    pub(crate) nearest: String,
    /// Calls whose documents all went to the nearest datacenter.
    pub(crate) to_nearest: usize,
    /// Calls of which a document went to another datacenter.
    pub(crate) to_other: usize,
    /// Documents that may have another copy.
    pub(crate) possible: usize,
    /// Documents that no datacenter acknowledged.
    pub(crate) all_down: usize,
}

/// Tasks, and the results of their writes.
pub(crate) struct Load {
    recorded: Arc<Mutex<RecordedWrites>>,
    counts: Arc<watch::Sender<BTreeMap<usize, LoadCounts>>>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Load {
    /// Starts tasks for these writers, each with the name of its nearest datacenter.
    pub(crate) fn start(writers: Vec<(&str, LocalWriter)>, rng: &mut Rng) -> Self {
        let counts = writers.iter().enumerate().map(|(number, (nearest, _))| {
            (number, LoadCounts { nearest: (*nearest).to_owned(), ..LoadCounts::default() })
        });
        let mut load = Self {
            recorded: Arc::default(),
            counts: Arc::new(watch::Sender::new(counts.collect())),
            stop: watch::Sender::new(false),
            tasks: JoinSet::new(),
        };
        let keys = Arc::new(AtomicI64::new(0));
        for (number, (_, writer)) in writers.into_iter().enumerate() {
            let writer = Arc::new(writer);
            for _ in 0..TASKS {
                let task = LoadTask {
                    number,
                    writer: Arc::clone(&writer),
                    keys: Arc::clone(&keys),
                    recorded: Arc::clone(&load.recorded),
                    counts: Arc::clone(&load.counts),
                    rng: rng.child(),
                };
                load.tasks.spawn(task.run(load.stop.subscribe()));
            }
        }
        load
    }

    /// Waits until a count has grown by `more`, for every writer with this nearest datacenter.
    pub(crate) async fn until(
        &self,
        nearest: &str,
        more: usize,
        counted: fn(&LoadCounts) -> usize,
    ) {
        let mut counts = self.counts.subscribe();
        let goals: BTreeMap<usize, usize> = counts
            .borrow()
            .iter()
            .filter(|(_, counts)| counts.nearest == nearest)
            .map(|(&number, counts)| (number, counted(counts) + more))
            .collect();
        let reached = counts.wait_for(|counts| {
            goals.iter().all(|(number, goal)| counted(&counts[number]) >= *goal)
        });
        let waited = tokio::time::timeout(PROGRESS_TIMEOUT, reached).await;
        assert!(waited.is_ok(), "no progress at {nearest}: {:?}", *self.counts.borrow());
    }

    /// Returns the keys of the documents that were acknowledged so far.
    pub(crate) fn acknowledged(&self) -> Vec<i64> {
        lock(&self.recorded).acknowledged().collect()
    }

    /// Ends all tasks after their current call. Returns the results of all documents.
    pub(crate) async fn stop(mut self) -> RecordedWrites {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("no task panics");
        }
        lock(&self.recorded).clone()
    }
}

struct LoadTask {
    number: usize,
    writer: Arc<LocalWriter>,
    keys: Arc<AtomicI64>,
    recorded: Arc<Mutex<RecordedWrites>>,
    counts: Arc<watch::Sender<BTreeMap<usize, LoadCounts>>>,
    rng: Rng,
}

impl LoadTask {
    async fn run(mut self, stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            // Every third call is a batch.
            let several = if self.rng.below(3) == 0 { 2 + self.rng.below(5) } else { 1 };
            let messages: Vec<_> = (0..several).map(|_| self.message()).collect();
            let keys: Vec<i64> =
                messages.iter().map(|message| message.get_i64("message_id").unwrap()).collect();
            let results = match &messages[..] {
                [message] => vec![self.writer.insert(message).await],
                _ => self.writer.insert_many(&messages).await,
            };
            assert_eq!(results.len(), keys.len(), "a result for each document");
            self.record(&keys, &results);
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn message(&mut self) -> Document {
        let key = self.keys.fetch_add(1, Relaxed);
        let userid = i64::try_from(self.rng.below(500)).unwrap();
        doc! { "message_id": key, "userid": userid, "text": format!("message {key}") }
    }

    fn record(&self, keys: &[i64], results: &[Result<Receipt, LocalWriteError>]) {
        let mut recorded = lock(&self.recorded);
        for (key, result) in keys.iter().zip(results) {
            recorded.record(*key, RecordedWrite::of(result));
        }
        drop(recorded);
        self.counts.send_modify(|counts| {
            let counts = counts.get_mut(&self.number).unwrap();
            let is_nearest = |it: &Result<Receipt, _>| {
                it.as_ref().is_ok_and(|receipt| receipt.datacenter() == counts.nearest)
            };
            let is_other = |it: &Result<Receipt, _>| it.is_ok() && !is_nearest(it);
            let (to_nearest, to_other) =
                (results.iter().all(is_nearest), results.iter().any(is_other));
            counts.to_nearest += usize::from(to_nearest);
            counts.to_other += usize::from(to_other);
            // Derived from the outcomes, not from the receipt's methods, which the test checks.
            let is_doubtful = |it: &&Receipt| !it.failed().iter().all(is_not_applied);
            counts.possible += results.iter().flatten().filter(is_doubtful).count();
            counts.all_down += results.iter().filter(|it| it.is_err()).count();
        });
    }
}

fn lock(recorded: &Mutex<RecordedWrites>) -> MutexGuard<'_, RecordedWrites> {
    recorded.lock().unwrap_or_else(PoisonError::into_inner)
}
