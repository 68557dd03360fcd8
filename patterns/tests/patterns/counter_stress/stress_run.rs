//! One run: tasks that count and are killed and restarted, network faults, failovers, and a sweep.

use std::{
    collections::BTreeMap,
    fmt,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use blackpipe::proxy::{Proxy, RuleState};
use steadfast::{
    Client, Collection,
    bson::{Document, doc},
    options::ClientOptions,
};
use tokio::task::JoinSet;

use super::{
    delayed_requests::DelayedRequests,
    journal::Journal,
    lifetime::{Lifetime, limited},
    servers::{COUNTERS, Failover, StressServers, network_faults},
    strategies::{CountingStrategy, SweepCounts},
    tasks::FINAL_PAGE,
    unrecorded::UnrecordedIncrements,
};
use crate::rng::Rng;

pub(super) const TASKS: usize = 8;

/// Longer than a run, so that the result of an abandoned increment stays known.
const KEEP: Duration = Duration::from_secs(3600);

/// Figures and result of a run.
pub(super) struct StressReport {
    pub(super) seed: u64,
    pub(super) wrong: Vec<String>,
    pub(super) counted: usize,
    pub(super) counts: StressCounts,
    pub(super) cuts: u64,
    pub(super) never_begun: usize,
    pub(super) delayed_requests: (usize, usize),
    /// Differences in the unrecorded increments, and the number of them that were counted.
    pub(super) unrecorded: (Vec<String>, usize),
    /// Pending tokens and tombstones that were left.
    pub(super) leftovers: Vec<Document>,
    took: Duration,
}

#[derive(Debug, Default)]
pub(super) struct StressCounts {
    pub(super) clients: AtomicUsize,
    pub(super) killed: AtomicUsize,
    pub(super) dropped_calls: AtomicUsize,
    pub(super) sweeps: AtomicUsize,
    pub(super) swept: AtomicUsize,
    pub(super) tombstones_removed: AtomicUsize,
    pub(super) failed: AtomicUsize,
}

impl StressCounts {
    fn record(&self, swept: SweepCounts) {
        self.swept.fetch_add(swept.finished, Relaxed);
        self.tombstones_removed.fetch_add(swept.tombstones_removed, Relaxed);
    }
}

impl fmt::Display for StressReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |count: &AtomicUsize| count.load(Relaxed);
        let StressCounts {
            clients,
            killed,
            dropped_calls,
            sweeps,
            swept,
            tombstones_removed,
            failed,
        } = &self.counts;
        write!(
            f,
            "seed {}: {} counted in {:.1} s; {} clients, {} of them killed; {} calls dropped and {} \
             failed; {} messages cut; {} sweeps finished {} tokens, and {} tombstones were \
             removed; {} increments never begun; {} messages arrived late, {} of them with an effect; \
             {} unrecorded increments were counted",
            self.seed,
            self.counted,
            self.took.as_secs_f32(),
            number(clients),
            number(killed),
            number(dropped_calls),
            number(failed),
            self.cuts,
            number(sweeps),
            number(swept),
            number(tombstones_removed),
            self.never_begun,
            self.delayed_requests.0,
            self.delayed_requests.1,
            self.unrecorded.1,
        )?;
        self.wrong.iter().try_for_each(|wrong| write!(f, "\n  {wrong}"))
    }
}

/// State of a run of one strategy.
pub(super) struct StressRun<S: CountingStrategy> {
    uri: String,
    pub(super) journal: Journal<S::Ticket>,
    delayed_requests: DelayedRequests,
    pub(super) unrecorded: UnrecordedIncrements,
    pub(super) counts: StressCounts,
    strategy: PhantomData<S>,
}

impl<S: CountingStrategy> StressRun<S> {
    /// Counts `events`, with the failovers evenly spread over them.
    pub(super) async fn over(
        servers: &StressServers,
        events: usize,
        failovers: &[Failover],
        (mut rng, seed): (Rng, u64),
    ) -> StressReport {
        let began = Instant::now();
        let rules = network_faults(&mut rng);
        let proxy = Proxy::builder(servers.uri()).rules(rules).start().await.unwrap();
        let stress = Arc::new(Self {
            uri: with_options(&proxy.uri(), "serverSelectionTimeoutMS=5000&socketTimeoutMS=3000"),
            journal: Journal::of(events, FINAL_PAGE + 1),
            delayed_requests: DelayedRequests::default(),
            unrecorded: UnrecordedIncrements::default(),
            counts: StressCounts::default(),
            strategy: PhantomData,
        });
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            tasks.spawn(Arc::clone(&stress).task(task, rng.child()));
        }
        let mut background = JoinSet::new();
        background.spawn(Arc::clone(&stress).sweeper(rng.child()));
        background.spawn(Arc::clone(&stress).deliver_delayed_requests(servers.uri(), rng.child()));
        stress.fail_over(servers, failovers, events).await;
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no task panics");
        }
        stress.complete_all(&mut rng).await;
        background.shutdown().await;
        let leftovers = stress.final_sweep(servers).await;
        let rules = proxy.rules();
        let cutting = rules.iter().filter(|state| state.rule().reaction().name() != "delay");
        let cuts = cutting.map(RuleState::applied).sum();
        stress.report(servers, seed, cuts, leftovers, began.elapsed()).await
    }

    /// Causes each failover when its share of the events has begun.
    async fn fail_over(&self, servers: &StressServers, failovers: &[Failover], events: usize) {
        let mut progress = self.journal.progress();
        for (number, &failover) in (1..).zip(failovers) {
            let due = events * number / (failovers.len() + 1);
            progress.wait_for(|&started| started >= due).await.expect("the journal exists");
            servers.fail_over(failover).await;
        }
    }

    /// Sweeps until the run ends. The sweeper is killed and restarted, too.
    async fn sweeper(self: Arc<Self>, mut rng: Rng) {
        loop {
            let strategy = self.strategy(&mut rng).await;
            let sweeps = async {
                loop {
                    let swept = strategy.sweep(KEEP).await.unwrap_or_default();
                    self.counts.sweeps.fetch_add(1, Relaxed);
                    self.counts.record(swept);
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            let lifetime = Lifetime::up_to(400, 3_000, &mut rng);
            let _: Result<(), _> = limited(lifetime, sweeps).await;
        }
    }

    async fn deliver_delayed_requests(self: Arc<Self>, uri: String, mut rng: Rng) {
        let client = Client::with_uri_str(uri).await.unwrap();
        loop {
            self.delayed_requests.deliver(&client, &mut rng).await;
            tokio::time::sleep(rng.millis(10, 200)).await;
        }
    }

    /// Creates a strategy with a new client. Half of the clients have no retryable writes.
    pub(super) async fn strategy(&self, rng: &mut Rng) -> S {
        let mut options = ClientOptions::parse(&self.uri).await.unwrap();
        if rng.one_in(2) {
            options.retry_writes = Some(false);
            options.command_event_handler = Some(self.delayed_requests.watch());
        }
        S::over(counters(&Client::with_options(options).unwrap()))
    }

    /// Sweeps after all writers have ended, until no token is left. Returns the counters that still have some
    /// after a minute.
    async fn final_sweep(&self, servers: &StressServers) -> Vec<Document> {
        let client = Client::with_uri_str(servers.uri()).await.unwrap();
        let (counters, began) = (counters(&client), Instant::now());
        let strategy = S::over(counters.clone());
        loop {
            if let Some(swept) = strategy.sweep(Duration::ZERO).await {
                self.counts.record(swept);
            }
            let left = leftovers(&counters).await;
            if left.is_empty() || began.elapsed() > Duration::from_secs(60) {
                return left;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn report(
        self: Arc<Self>,
        servers: &StressServers,
        seed: u64,
        cuts: u64,
        leftovers: Vec<Document>,
        took: Duration,
    ) -> StressReport {
        let client = Client::with_uri_str(servers.uri()).await.unwrap();
        let mut found = BTreeMap::new();
        for document in documents(&counters(&client), doc! {}).await {
            let number = document
                .get("counter")
                .and_then(|counter| counter.as_i64().or_else(|| counter.as_i32().map(i64::from)));
            let day = document.get_str("_id").expect("days are strings").to_owned();
            found.insert(day, number.unwrap_or_default());
        }
        let stress = Arc::into_inner(self).expect("all others have ended");
        StressReport {
            seed,
            wrong: stress.journal.check(&found),
            counted: stress.journal.counted(),
            counts: stress.counts,
            cuts,
            never_begun: stress.journal.never_begun(),
            delayed_requests: stress.delayed_requests.delivered(),
            unrecorded: stress.unrecorded.check(&found),
            leftovers,
            took,
        }
    }
}

fn counters(client: &Client) -> Collection<Document> {
    let (database, collection) = COUNTERS.split_once('.').expect("a namespace");
    client.database(database).collection(collection)
}

/// Returns a connection string with additional options.
fn with_options(uri: &str, options: &str) -> String {
    match uri.contains('?') {
        true => format!("{uri}&{options}"),
        false => format!("{}/?{options}", uri.trim_end_matches('/')),
    }
}

async fn documents(counters: &Collection<Document>, filter: Document) -> Vec<Document> {
    let mut cursor = counters.find(filter).await.unwrap();
    let mut found = Vec::new();
    while cursor.advance().await.unwrap() {
        found.push(cursor.deserialize_current().unwrap());
    }
    found
}

async fn leftovers(counters: &Collection<Document>) -> Vec<Document> {
    let any =
        doc! { "$or": [{ "pending.0": { "$exists": true } }, { "done.0": { "$exists": true } }] };
    documents(counters, any).await
}
