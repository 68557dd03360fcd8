//! Many tasks that count, killed and started again, over a bad network and failing servers, while a sweep runs.

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
    doubts::Doubts,
    ghosts::Ghosts,
    journal::Journal,
    life::{Lifetime, mortal},
    servers::{COUNTERS, Failover, Servers, bad_network},
    tasks::LAST,
    ways::{Swept, Way},
};
use crate::dice::Dice;

pub(super) const TASKS: usize = 8;

/// Longer than a run: what was left lying must be known again.
const KEEP: Duration = Duration::from_secs(3600);

/// What happened in a run, and what came of it.
pub(super) struct Aftermath {
    pub(super) seed: u64,
    pub(super) wrong: Vec<String>,
    pub(super) counted: usize,
    pub(super) tally: Tally,
    pub(super) cuts: u64,
    pub(super) never_begun: usize,
    pub(super) ghosts: (usize, usize),
    /// What is wrong with those that nobody wrote down, and how many of them were counted.
    pub(super) doubts: (Vec<String>, usize),
    /// What is left in the documents beside their counters.
    pub(super) leftovers: Vec<Document>,
    took: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) lives: AtomicUsize,
    pub(super) killed: AtomicUsize,
    pub(super) dropped_calls: AtomicUsize,
    pub(super) sweeps: AtomicUsize,
    pub(super) swept: AtomicUsize,
    pub(super) forgotten: AtomicUsize,
    pub(super) failed: AtomicUsize,
}

impl Tally {
    fn note(&self, swept: Swept) {
        self.swept.fetch_add(swept.finished, Relaxed);
        self.forgotten.fetch_add(swept.forgotten, Relaxed);
    }
}

impl fmt::Display for Aftermath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |count: &AtomicUsize| count.load(Relaxed);
        let Tally { lives, killed, dropped_calls, sweeps, swept, forgotten, failed } = &self.tally;
        write!(
            f,
            "seed {}: {} counted in {:.1} s; {} clients, {} of them killed; {} calls dropped and {} \
             failed; {} messages cut; {} sweeps finished {} tokens, and {} tombstones were \
             forgotten; {} increments never begun; {} messages arrived late, {} of them to some effect; \
             {} in doubt were counted",
            self.seed,
            self.counted,
            self.took.as_secs_f32(),
            number(lives),
            number(killed),
            number(dropped_calls),
            number(failed),
            self.cuts,
            number(sweeps),
            number(swept),
            number(forgotten),
            self.never_begun,
            self.ghosts.0,
            self.ghosts.1,
            self.doubts.1,
        )?;
        self.wrong.iter().try_for_each(|wrong| write!(f, "\n  {wrong}"))
    }
}

/// A run: who counts how, and on what.
pub(super) struct Storm<W: Way> {
    uri: String,
    pub(super) journal: Journal<W::Ticket>,
    ghosts: Ghosts,
    pub(super) doubts: Doubts,
    pub(super) tally: Tally,
    way: PhantomData<W>,
}

impl<W: Way> Storm<W> {
    /// Counts so many events, with the failovers spread over them.
    pub(super) async fn over(
        servers: &Servers,
        events: usize,
        failovers: &[Failover],
        (mut dice, seed): (Dice, u64),
    ) -> Aftermath {
        let began = Instant::now();
        let rules = bad_network(&mut dice);
        let proxy = Proxy::builder(servers.uri()).rules(rules).start().await.unwrap();
        let storm = Arc::new(Self {
            uri: with_options(&proxy.uri(), "serverSelectionTimeoutMS=5000&socketTimeoutMS=3000"),
            journal: Journal::of(events, LAST + 1),
            ghosts: Ghosts::default(),
            doubts: Doubts::default(),
            tally: Tally::default(),
            way: PhantomData,
        });
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            tasks.spawn(Arc::clone(&storm).task(task, dice.child()));
        }
        let mut beside = JoinSet::new();
        beside.spawn(Arc::clone(&storm).sweeper(dice.child()));
        beside.spawn(Arc::clone(&storm).late_arrivals(servers.uri(), dice.child()));
        storm.fail_over(servers, failovers, events).await;
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no task panics");
        }
        storm.settle_all(&mut dice).await;
        beside.shutdown().await;
        let leftovers = storm.last_sweep(servers).await;
        let rules = proxy.rules();
        let cutting = rules.iter().filter(|state| state.rule().reaction().name() != "delay");
        let cuts = cutting.map(RuleState::applied).sum();
        storm.aftermath(servers, seed, cuts, leftovers, began.elapsed()).await
    }

    /// Each comes when its share of the events has come.
    async fn fail_over(&self, servers: &Servers, failovers: &[Failover], events: usize) {
        let mut progress = self.journal.progress();
        for (number, &failover) in (1..).zip(failovers) {
            let due = events * number / (failovers.len() + 1);
            progress.wait_for(|&come| come >= due).await.expect("the journal is there");
            servers.befall(failover).await;
        }
    }

    /// Sweeps all the while; killed and started again, too.
    async fn sweeper(self: Arc<Self>, mut dice: Dice) {
        loop {
            let way = self.way(&mut dice).await;
            let sweeps = async {
                loop {
                    let swept = way.sweep(KEEP).await.unwrap_or_default();
                    self.tally.sweeps.fetch_add(1, Relaxed);
                    self.tally.note(swept);
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            let lifetime = Lifetime::up_to(400, 3_000, &mut dice);
            let _: Result<(), _> = mortal(lifetime, sweeps).await;
        }
    }

    async fn late_arrivals(self: Arc<Self>, uri: String, mut dice: Dice) {
        let client = Client::with_uri_str(uri).await.unwrap();
        loop {
            self.ghosts.arrive(&client, &mut dice).await;
            tokio::time::sleep(dice.millis(10, 200)).await;
        }
    }

    /// A client of its own; every other one without retryable writes.
    pub(super) async fn way(&self, dice: &mut Dice) -> W {
        let mut options = ClientOptions::parse(&self.uri).await.unwrap();
        if dice.one_in(2) {
            options.retry_writes = Some(false);
            options.command_event_handler = Some(self.ghosts.watch());
        }
        W::over(counters(&Client::with_options(options).unwrap()))
    }

    /// When nobody writes any more, sweeps leave nothing behind as soon as the last token is old enough.
    /// What is still there after a minute is returned.
    async fn last_sweep(&self, servers: &Servers) -> Vec<Document> {
        let client = Client::with_uri_str(servers.uri()).await.unwrap();
        let (counters, began) = (counters(&client), Instant::now());
        let way = W::over(counters.clone());
        loop {
            if let Some(swept) = way.sweep(Duration::ZERO).await {
                self.tally.note(swept);
            }
            let left = leftovers(&counters).await;
            if left.is_empty() || began.elapsed() > Duration::from_secs(60) {
                return left;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn aftermath(
        self: Arc<Self>,
        servers: &Servers,
        seed: u64,
        cuts: u64,
        leftovers: Vec<Document>,
        took: Duration,
    ) -> Aftermath {
        let client = Client::with_uri_str(servers.uri()).await.unwrap();
        let mut found = BTreeMap::new();
        for document in documents(&counters(&client), doc! {}).await {
            let number = document
                .get("counter")
                .and_then(|counter| counter.as_i64().or_else(|| counter.as_i32().map(i64::from)));
            let day = document.get_str("_id").expect("days are strings").to_owned();
            found.insert(day, number.unwrap_or_default());
        }
        let storm = Arc::into_inner(self).expect("all others have ended");
        Aftermath {
            seed,
            wrong: storm.journal.judge(&found),
            counted: storm.journal.counted(),
            tally: storm.tally,
            cuts,
            never_begun: storm.journal.never_begun(),
            ghosts: storm.ghosts.delivered(),
            doubts: storm.doubts.judge(&found),
            leftovers,
            took,
        }
    }
}

fn counters(client: &Client) -> Collection<Document> {
    let (database, collection) = COUNTERS.split_once('.').expect("a namespace");
    client.database(database).collection(collection)
}

/// A connection string with more options.
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
