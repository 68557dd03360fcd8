//! Thousands of futures dropped at random moments, over every action of the driver, on a multi-threaded runtime and
//! a real replica set: nothing is torn, duplicated, lost, mislabelled or leaked.
//!
//! Some writes are executed and answered with a retryable error, so that they are retried. `STEADFAST_SEED=7` runs
//! other operations than seed 1; the moments at which threads meet are not repeated.

mod census;
mod cut;
mod events;
mod operations;

use std::{
    collections::BTreeMap,
    env,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use blackpipe::proxy::{ErrorReply, Proxy, Reaction, Rule};
use futures_util::{TryStreamExt, future::join_all};
use steadfast::{
    Client,
    bson::{Document, doc},
    change_stream::{ChangeStream, event::ChangeStreamEvent},
    options::ClientOptions,
};

use self::{
    census::{Census, Record},
    cut::{Cut, Rng, cut},
    events::EventCounts,
    operations::{Answer, Kind, Target},
};
use crate::{common::bounded, every_action::every_action};

const TASKS: u64 = 24;
const OPERATIONS: i64 = 6_000;
/// Operations of each task with `and_run2`.
const AND_RUN2: u64 = 100;
const FEWEST_DROPPED: u64 = 3_000;
/// Rounds of every action, each in a task of its own.
const ROUNDS: u64 = 12;
const MAX_POOL_SIZE: u32 = 16;
const APP_NAME: &str = "dropped futures";
const DATABASE: &str = "dropped";
/// Of this many writes, one is executed and answered with a retryable error.
const RETRIED_ONE_IN: u64 = 9;
const EXCEEDED_TIME_LIMIT: i32 = 262;
/// Time that only a hang exceeds. It is shorter than the 60 s after which a server aborts a transaction by itself, so
/// that a transaction that was left open, or whose locks others wait for, is a hang.
const HANG: Duration = Duration::from_secs(45);
const TIMEOUT: Duration = Duration::from_millis(25);
/// Mark of the last insert.
const LAST: i64 = -1;

/// A client whose futures are dropped, and its events.
struct Dropping {
    client: Client,
    events: Arc<Mutex<EventCounts>>,
}

impl Dropping {
    async fn new(uri: &str, timeout: Option<Duration>) -> Self {
        let mut options = ClientOptions::parse(uri).await.unwrap();
        options.max_pool_size = Some(MAX_POOL_SIZE);
        options.app_name = Some(APP_NAME.to_owned());
        options.timeout = timeout;
        let events = EventCounts::of(&mut options);
        Self { client: Client::with_options(options).unwrap(), events }
    }

    /// Waits until every command and check-out has ended: replies of dropped operations are read in the background.
    async fn settle(&self) {
        let settled = async {
            while !self.events.lock().unwrap().are_balanced() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let settled = tokio::time::timeout(HANG, settled).await;
        assert!(settled.is_ok(), "leaked: {:?}", self.events.lock().unwrap());
        let most = self.events.lock().unwrap().most_open;
        assert!(most <= MAX_POOL_SIZE, "{most} connections to one server");
    }

    /// Checks that as many operations as there may be connections run at the same time: no slot was lost.
    async fn use_every_slot(&self) {
        let met = Arc::new(AtomicBool::new(false));
        let sleepers = (0..MAX_POOL_SIZE).map(|_| {
            let (admin, met) = (self.client.database("admin"), Arc::clone(&met));
            tokio::spawn(async move {
                // Again, until all of them have begun before the first ends.
                while !met.load(Relaxed) {
                    let sleep = doc! { "sleep": 1, "millis": 500, "lock": "none" };
                    admin.run_command(sleep).await.unwrap();
                }
            })
        });
        let sleepers: Vec<_> = sleepers.collect();
        let all_in_use = async {
            while self.events.lock().unwrap().in_use() < u64::from(MAX_POOL_SIZE) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let all_in_use = tokio::time::timeout(HANG, all_in_use).await;
        met.store(true, Relaxed);
        for sleeper in sleepers {
            sleeper.await.unwrap();
        }
        assert!(all_in_use.is_ok(), "{MAX_POOL_SIZE} operations never ran at the same time");
    }
}

/// Proxy in front of the shared replica set that answers some executed writes with a retryable error.
async fn proxy(uri: &str) -> Proxy {
    let error = ErrorReply::new(EXCEEDED_TIME_LIMIT).with_labels(["RetryableWriteError"]);
    let writes = ["insert", "update", "delete", "findAndModify", "commitTransaction"];
    let retried =
        writes.into_iter().fold(Rule::new(Reaction::Error(error.executed())), Rule::command);
    Proxy::before(uri).rules([retried.every(RETRIED_ONE_IN)]).start().await.unwrap()
}

/// pitfalls 21, 22 and 38
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[allow(clippy::print_stdout)]
async fn dropped_futures_leave_nothing_torn_duplicated_lost_mislabelled_or_leaked() {
    let seed = env::var("STEADFAST_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("STEADFAST_SEED={seed}");
    let uri = testbed::shared::uri().expect("a deployment");
    let proxy = proxy(&uri).await;
    let straight = Client::with_uri_str(&uri).await.unwrap();
    let target = Target::new(&straight, DATABASE);
    target.create().await;
    let patient = Dropping::new(&proxy.uri(), None).await;
    // Some of its operations time out.
    let hurried = Dropping::new(&proxy.uri(), Some(TIMEOUT)).await;

    let began = Instant::now();
    let changes = Target::new(&patient.client, DATABASE).entries.watch().await.unwrap();
    let watcher = tokio::spawn(watch(changes, Rng::new(seed, TASKS + ROUNDS)));
    let storm = Arc::new(Storm {
        straight: target.clone(),
        patient: Target::new(&patient.client, DATABASE),
        hurried: Target::new(&hurried.client, DATABASE),
        next: AtomicI64::new(0),
    });
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| tokio::spawn(Arc::clone(&storm).work(Rng::new(seed, task))))
        .collect();
    let rounds = (TASKS..TASKS + ROUNDS).map(|round| {
        tokio::spawn(every_action_once(patient.client.clone(), round, Rng::new(seed, round)))
    });
    let and_run2 = (0..4).map(|task| {
        Arc::clone(&storm).work_with_and_run2(Rng::new(seed, TASKS + ROUNDS + 1 + task))
    });
    let (mut records, mut dropped) = (Vec::new(), 0);
    for (of_task, rng) in join_all(and_run2).await {
        records.extend(of_task);
        dropped += rng.dropped;
    }
    for round in rounds.collect::<Vec<_>>() {
        dropped += round.await.expect("no action panics");
    }
    for task in tasks {
        let (of_task, rng) = task.await.expect("every answer is right");
        records.extend(of_task);
        dropped += rng.dropped;
    }
    println!("{dropped} futures dropped in {:?}", began.elapsed());

    target.entries.insert_one(doc! { "mark": LAST }).await.unwrap();
    let seen = bounded(watcher).await.expect("every event is right");
    for dropping in [&patient, &hurried] {
        dropping.settle().await;
    }
    let mut contradictions =
        leaked(&straight, doc! { "transaction.parameters.autocommit": false }).await;
    patient.use_every_slot().await;
    for dropping in [patient, hurried] {
        bounded(dropping.client.shutdown()).await;
    }
    // After that, nothing more can be executed.
    contradictions.extend(leaked(&straight, doc! {}).await);

    let mut census = Census::take(&target).await;
    census.remove(LAST);
    assert_eq!(seen, census.entries, "each insert is one event of the change stream");
    contradictions.extend(census.judge(&records));
    let count = contradictions.len();
    let first: Vec<_> = contradictions.iter().take(20).map(String::as_str).collect();
    assert!(count == 0, "STEADFAST_SEED={seed}: {count} of {dropped}:\n{}", first.join("\n"));
    assert!(dropped >= FEWEST_DROPPED, "only {dropped} futures were dropped");
}

/// Operations of all tasks.
struct Storm {
    straight: Target,
    patient: Target,
    hurried: Target,
    next: AtomicI64,
}

impl Storm {
    async fn work(self: Arc<Self>, mut rng: Rng) -> (Vec<Record>, Rng) {
        let mut records = Vec::new();
        loop {
            let operation = self.next.fetch_add(1, Relaxed);
            if operation >= OPERATIONS {
                return (records, rng);
            }
            let kind = Kind::random(&mut rng);
            self.straight.prepare(kind, operation).await;
            // An abort has no more time than the client gives it. If it fails, the transaction holds its locks for
            // a minute, and others would wait for them.
            let is_hurried = rng.one_in(4) && !kind.is_transaction();
            let target = if is_hurried { &self.hurried } else { &self.patient };
            let run = target.run(kind, operation, &mut rng);
            records.push(self.record(operation, kind, run).await);
        }
    }

    /// Like [`work`](Self::work), for the kind that cannot be spawned.
    async fn work_with_and_run2(self: Arc<Self>, mut rng: Rng) -> (Vec<Record>, Rng) {
        let mut records = Vec::new();
        for operation in (0..AND_RUN2).map(|_| self.next.fetch_add(1, Relaxed)) {
            let run = self.patient.and_run2(operation, &mut rng);
            records.push(self.record(operation, Kind::AndRun2, run).await);
        }
        (records, rng)
    }

    /// Awaits an operation. After one that hangs no more begin.
    async fn record(
        &self,
        operation: i64,
        kind: Kind,
        run: impl Future<Output = Answer>,
    ) -> Record {
        let answer = tokio::time::timeout(HANG, run).await.unwrap_or_else(|_| {
            self.next.store(OPERATIONS, Relaxed);
            Answer::Hung
        });
        Record { operation, kind, answer }
    }
}

/// Runs every action once without and once with a session, each of them dropped at random. Returns how many were.
async fn every_action_once(client: Client, round: u64, mut rng: Rng) -> u64 {
    let database = format!("{DATABASE}_{round}");
    drop(every_action!(in &database, client, .cut(&mut rng)));
    let mut session = client.start_session().await.unwrap();
    drop(every_action!(in &database, client, .session(&mut session).cut(&mut rng)));
    client.database(&database).drop().await.unwrap();
    rng.dropped
}

/// Reads a change stream up to the insert of [`LAST`], dropping the futures of its steps. Returns the number of
/// events of each mark.
async fn watch(
    mut changes: ChangeStream<ChangeStreamEvent<Document>>,
    mut rng: Rng,
) -> BTreeMap<i64, u64> {
    let mut seen = BTreeMap::new();
    loop {
        let Some(event) = cut(&mut rng, changes.try_next()).await else { continue };
        let event = event.unwrap().expect("a stream without an end");
        let mark = event.full_document.expect("an insert").get_i64("mark").unwrap();
        if mark == LAST {
            return seen;
        }
        *seen.entry(mark).or_default() += 1;
    }
}

/// Waits until the primary has no connection and no session of the clients of this test that matches. Returns
/// those that stay.
async fn leaked(straight: &Client, filter: Document) -> Vec<String> {
    let all = doc! { "allUsers": true, "idleConnections": true, "idleSessions": true };
    let own = doc! { "$and": [{ "appName": APP_NAME }, filter] };
    let pipeline = [doc! { "$currentOp": all }, doc! { "$match": own }];
    let began = Instant::now();
    loop {
        let found = straight.database("admin").aggregate(pipeline.clone()).await.unwrap();
        let found: Vec<Document> = found.try_collect().await.unwrap();
        if found.is_empty() || began.elapsed() > HANG {
            return found.iter().map(|it| format!("leaked: {it}")).collect();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
