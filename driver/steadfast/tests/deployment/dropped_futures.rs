//! Thousands of futures dropped at random, over every action of the driver, on a multi-threaded runtime, a real
//! replica set and a real sharded cluster. No write is lost or duplicated, every outcome is correct, and no
//! connection or session leaks.
//!
//! Some writes are executed and then answered with a retryable error, so that they are retried. `STEADFAST_SEED=7`
//! runs other operations than the default seed 1. The scheduling of threads is not reproduced.

mod applied_writes;
mod events;
mod operations;
mod random_drop;

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
    applied_writes::{AppliedWrites, OperationRecord},
    events::EventCounts,
    operations::{OperationKind, OperationResult, TestCollections},
    random_drop::{DropRng, RandomDrop, random_drop},
};
use crate::{common::bounded, every_action::every_action};

const TASKS: u64 = 24;
/// Number of operations of each task with `and_run2`.
const AND_RUN2: u64 = 100;
/// Number of rounds of every action, each in its own task.
const ROUNDS: u64 = 12;
const MAX_POOL_SIZE: u32 = 16;
const DATABASE: &str = "dropped";
/// One of this number of writes is executed and then answered with a retryable error.
const RETRIED_ONE_IN: u64 = 9;
const EXCEEDED_TIME_LIMIT: i32 = 262;
/// Time that only a hang exceeds. Shorter than the 60 s after which a server aborts a transaction, so that an open
/// transaction, or an operation that waits for its locks, is a hang.
const HANG: Duration = Duration::from_secs(45);
const TIMEOUT: Duration = Duration::from_millis(25);
/// Mark of the last insert.
const LAST: i64 = -1;

/// Deployment on which operations are dropped.
struct DroppedFuturesTest {
    uri: String,
    is_sharded: bool,
    /// Application name of the clients of one test.
    app_name: &'static str,
    operations: i64,
    fewest_dropped: u64,
}

/// Client whose futures are dropped, with its event counts.
struct CountedClient {
    client: Client,
    events: Arc<Mutex<EventCounts>>,
}

impl CountedClient {
    async fn new(proxy: &Proxy, app_name: &str, timeout: Option<Duration>) -> Self {
        let mut options = ClientOptions::parse(proxy.uri()).await.unwrap();
        options.max_pool_size = Some(MAX_POOL_SIZE);
        options.app_name = Some(app_name.to_owned());
        options.timeout = timeout;
        let events = EventCounts::of(&mut options);
        Self { client: Client::with_options(options).unwrap(), events }
    }

    /// Waits until every command and checkout has ended. Replies to dropped operations are read in the background.
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

    /// Checks that `maxPoolSize` operations can run at a time: no pool slot is lost.
    async fn use_every_slot(&self) {
        let met = Arc::new(AtomicBool::new(false));
        let collections = TestCollections::new(&self.client, DATABASE);
        let sleepers = (0..MAX_POOL_SIZE).map(|_| {
            let (read_only, met) = (collections.read_only.clone(), Arc::clone(&met));
            tokio::spawn(async move {
                // Repeated until all operations have started before the first ends.
                while !met.load(Relaxed) {
                    let slow = doc! { "_id": 0, "$where": "sleep(500) || true" };
                    read_only.find_one(slow).await.unwrap();
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
    Proxy::builder(uri).rules([retried.every(RETRIED_ONE_IN)]).start().await.unwrap()
}

/// pitfalls 21, 22 and 38
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn dropped_futures_neither_lose_nor_duplicate_writes_nor_leak_resources() {
    testbed::require!(testbed::shared::servers());
    let replica_set = DroppedFuturesTest {
        uri: testbed::shared::uri().expect("a deployment"),
        is_sharded: false,
        app_name: "dropped futures",
        operations: 6_000,
        fewest_dropped: 3_000,
    };
    replica_set.test().await;
}

/// All collections are sharded over both shards, so most transactions use two-phase commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn dropped_futures_neither_lose_nor_duplicate_writes_nor_leak_resources_on_a_sharded_cluster()
{
    testbed::require!(V8_2);
    let cluster = DroppedFuturesTest {
        uri: testbed::shared::sharded_cluster().expect("a sharded cluster").uri(),
        is_sharded: true,
        app_name: "dropped futures, sharded",
        operations: 3_000,
        fewest_dropped: 1_500,
    };
    cluster.test().await;
}

impl DroppedFuturesTest {
    #[allow(clippy::print_stdout)]
    async fn test(self) {
        let seed = env::var("STEADFAST_SEED").map_or(1, |seed| seed.parse().expect("a number"));
        println!("STEADFAST_SEED={seed}");
        let Self { uri, is_sharded, app_name, operations, fewest_dropped } = self;
        let proxy = proxy(&uri).await;
        let direct = Client::with_uri_str(&uri).await.unwrap();
        let collections = TestCollections::new(&direct, DATABASE);
        collections.create(is_sharded).await;
        let unlimited = CountedClient::new(&proxy, app_name, None).await;
        // Some operations of this client time out.
        let limited = CountedClient::new(&proxy, app_name, Some(TIMEOUT)).await;

        let began = Instant::now();
        let changes =
            TestCollections::new(&unlimited.client, DATABASE).entries.watch().await.unwrap();
        let watcher = tokio::spawn(watch(changes, DropRng::new(seed, TASKS + ROUNDS)));
        let workload = Arc::new(Workload {
            direct: collections.clone(),
            unlimited: TestCollections::new(&unlimited.client, DATABASE),
            limited: TestCollections::new(&limited.client, DATABASE),
            next: AtomicI64::new(0),
            operations,
        });
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| tokio::spawn(Arc::clone(&workload).work(DropRng::new(seed, task))))
            .collect();
        let rounds = (TASKS..TASKS + ROUNDS).map(|round| {
            tokio::spawn(every_action_once(
                unlimited.client.clone(),
                round,
                DropRng::new(seed, round),
            ))
        });
        let and_run2 = (0..4).map(|task| {
            Arc::clone(&workload).run_and_run2(DropRng::new(seed, TASKS + ROUNDS + 1 + task))
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

        collections.entries.insert_one(doc! { "mark": LAST }).await.unwrap();
        let seen = bounded(watcher).await.expect("every event is right");
        for counted in [&unlimited, &limited] {
            counted.settle().await;
        }
        let open = doc! { "appName": app_name, "transaction.parameters.autocommit": false };
        let mut contradictions = leaked(&direct, false, open).await;
        unlimited.use_every_slot().await;
        for counted in [unlimited, limited] {
            bounded(counted.client.shutdown()).await;
        }
        // No operation is in progress any more. A mongos keeps the sessions of finished transactions.
        let mut connected = doc! { "appName": app_name };
        if is_sharded {
            connected.insert("type", "op");
        }
        contradictions.extend(leaked(&direct, is_sharded, connected).await);

        let mut applied_writes = AppliedWrites::take(&collections).await;
        applied_writes.remove(LAST);
        assert_eq!(seen, applied_writes.entries, "each insert is one event of the change stream");
        contradictions.extend(applied_writes.contradictions_with(&records));
        let count = contradictions.len();
        let first: Vec<_> = contradictions.iter().take(20).map(String::as_str).collect();
        assert!(count == 0, "STEADFAST_SEED={seed}: {count} of {dropped}:\n{}", first.join("\n"));
        assert!(dropped >= fewest_dropped, "only {dropped} futures were dropped");
    }
}

/// Operations of all tasks.
struct Workload {
    direct: TestCollections,
    unlimited: TestCollections,
    limited: TestCollections,
    next: AtomicI64,
    operations: i64,
}

impl Workload {
    async fn work(self: Arc<Self>, mut rng: DropRng) -> (Vec<OperationRecord>, DropRng) {
        let mut records = Vec::new();
        loop {
            let operation = self.next.fetch_add(1, Relaxed);
            if operation >= self.operations {
                return (records, rng);
            }
            let kind = OperationKind::random(&mut rng);
            self.direct.prepare(kind, operation).await;
            // An abort is limited by the time-out of the client. If it fails, the transaction holds its locks for a
            // minute, and other operations would wait for them.
            let is_limited = rng.one_in(4) && !kind.is_transaction();
            let collections = if is_limited { &self.limited } else { &self.unlimited };
            let run = collections.run(kind, operation, &mut rng);
            records.push(self.record(operation, kind, run).await);
        }
    }

    /// Like [`work`](Self::work), for operations that cannot be spawned.
    async fn run_and_run2(self: Arc<Self>, mut rng: DropRng) -> (Vec<OperationRecord>, DropRng) {
        let mut records = Vec::new();
        for operation in (0..AND_RUN2).map(|_| self.next.fetch_add(1, Relaxed)) {
            let run = self.unlimited.and_run2(operation, &mut rng);
            records.push(self.record(operation, OperationKind::AndRun2, run).await);
        }
        (records, rng)
    }

    /// Awaits an operation. After one that hangs, no other operation starts.
    async fn record(
        &self,
        operation: i64,
        kind: OperationKind,
        run: impl Future<Output = OperationResult>,
    ) -> OperationRecord {
        let result = tokio::time::timeout(HANG, run).await.unwrap_or_else(|_| {
            self.next.store(self.operations, Relaxed);
            OperationResult::Hung
        });
        OperationRecord { operation, kind, result }
    }
}

/// Runs every action with and without a session, and drops each at random. Returns the number of dropped futures.
async fn every_action_once(client: Client, round: u64, mut rng: DropRng) -> u64 {
    let database = format!("{DATABASE}_{round}");
    drop(every_action!(in &database, client, .random_drop(&mut rng)));
    let mut session = client.start_session().await.unwrap();
    drop(every_action!(in &database, client, .session(&mut session).random_drop(&mut rng)));
    client.database(&database).drop().await.unwrap();
    rng.dropped
}

/// Reads a change stream up to the insert of [`LAST`] and drops some of its futures. Returns the number of events
/// of each mark.
async fn watch(
    mut changes: ChangeStream<ChangeStreamEvent<Document>>,
    mut rng: DropRng,
) -> BTreeMap<i64, u64> {
    let mut seen = BTreeMap::new();
    loop {
        let Some(event) = random_drop(&mut rng, changes.try_next()).await else { continue };
        let event = event.unwrap().expect("a stream without an end");
        let mark = event.full_document.expect("an insert").get_i64("mark").unwrap();
        if mark == LAST {
            return seen;
        }
        *seen.entry(mark).or_default() += 1;
    }
}

/// Waits until no connection and no session matches the filter: on the shards through a mongos, or on the mongos
/// itself if `local` is set. Returns those that remain.
async fn leaked(direct: &Client, local: bool, filter: Document) -> Vec<String> {
    let mut all = doc! { "allUsers": true, "idleConnections": true, "idleSessions": true };
    if local {
        all.insert("localOps", true);
    }
    let pipeline = [doc! { "$currentOp": all }, doc! { "$match": filter }];
    let began = Instant::now();
    loop {
        let found = direct.database("admin").aggregate(pipeline.clone()).await.unwrap();
        let found: Vec<Document> = found.try_collect().await.unwrap();
        if found.is_empty() || began.elapsed() > HANG {
            return found.iter().map(|it| format!("leaked: {it}")).collect();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
