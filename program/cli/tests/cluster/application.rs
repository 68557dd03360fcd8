//! The application of one datacenter: tasks that write messages through a local writer, the results, and the longest
//! time without an acknowledgement.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use steadfast::{
    Client,
    bson::{Document, doc},
};
use steadfast_patterns::local_writes::{LocalWriteError, LocalWriter, Receipt};
use tokio::{sync::watch, task::JoinSet};

const TASKS: usize = 4;
/// Between two writes of a task: the load is bounded.
const PAUSE: Duration = Duration::from_millis(5);
/// Bound on what must happen under load. Only a hang takes as long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A write and its result.
pub(crate) struct Write {
    pub(crate) key: i64,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) answer: Result<Receipt, LocalWriteError>,
}

/// Numbers of messages: no two have the same.
pub(crate) type Keys = Arc<AtomicI64>;

pub(crate) struct Application {
    home: &'static str,
    writes: Arc<Mutex<Vec<Write>>>,
    /// Number of acknowledged writes in each datacenter.
    counts: Arc<watch::Sender<BTreeMap<String, usize>>>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Application {
    /// Begins to write to the datacenters in this order.
    pub(crate) async fn start(
        uri: &str,
        order: [&'static str; 2],
        acknowledged_within: Duration,
        keys: &Keys,
    ) -> steadfast::error::Result<Self> {
        let client = Client::with_uri_str(uri).await?;
        let messages = client.database("app").collection::<Document>("messages");
        let writer = LocalWriter::builder()
            .cluster(messages, order)
            .acknowledged_within(acknowledged_within)
            .build()?;
        let mut application = Self {
            home: order[0],
            writes: Arc::default(),
            counts: Arc::default(),
            stop: watch::Sender::new(false),
            tasks: JoinSet::new(),
        };
        for _ in 0..TASKS {
            let (writer, keys) = (writer.clone(), Arc::clone(keys));
            let writes = Arc::clone(&application.writes);
            let counts = Arc::clone(&application.counts);
            let stop = application.stop.subscribe();
            application.tasks.spawn(async move {
                while !*stop.borrow() {
                    let write = write(&writer, keys.fetch_add(1, Relaxed)).await;
                    let place = write.answer.as_ref().ok().map(|it| it.datacenter().to_owned());
                    writes.lock().unwrap_or_else(PoisonError::into_inner).push(write);
                    if let Some(place) = place {
                        counts.send_modify(|counts| *counts.entry(place).or_default() += 1);
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
        Ok(application)
    }

    /// Waits until a number of writes that began after this call were acknowledged in a datacenter.
    pub(crate) async fn wait_for_writes(&self, datacenter: &str, more: usize) {
        let mut counts = self.counts.subscribe();
        let count = |counts: &BTreeMap<String, usize>| counts.get(datacenter).copied().unwrap_or(0);
        // Writes in progress do not count.
        let goal = count(&counts.borrow()) + more + TASKS;
        let reached = counts.wait_for(|counts| count(counts) >= goal);
        let waited = tokio::time::timeout(TIMEOUT, reached).await;
        let home = self.home;
        assert!(
            waited.is_ok(),
            "{home}'s application does not write to {datacenter}: {:?}",
            *self.counts.borrow()
        );
    }

    /// Returns the keys of the writes that were acknowledged so far.
    pub(crate) fn acknowledged(&self) -> Vec<i64> {
        let writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        writes.iter().filter(|write| write.answer.is_ok()).map(|write| write.key).collect()
    }

    /// Waits until all tasks have ended their writes.
    pub(crate) async fn stop(mut self) -> Vec<Write> {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("no task panics");
        }
        std::mem::take(&mut *self.writes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn write(writer: &LocalWriter, key: i64) -> Write {
    let message = doc! { "message_id": key, "userid": key % 500, "text": format!("message {key}") };
    let began = Instant::now();
    let answer = writer.insert(&message).await;
    Write { key, began, ended: Instant::now(), answer }
}

/// Returns the longest time without an acknowledgement between two instants.
pub(crate) fn longest_stop(writes: &[Write], from: Instant, until: Instant) -> Duration {
    let acknowledged = writes.iter().filter(|write| write.answer.is_ok()).map(|write| write.ended);
    let mut times: Vec<Instant> = acknowledged.filter(|at| (from..until).contains(at)).collect();
    times.extend([from, until]);
    times.sort_unstable();
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}
