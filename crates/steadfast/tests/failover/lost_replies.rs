//! Writes whose requests and replies are lost by a proxy, of every kind that is retried.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use steadfast::{
    Client, Collection, Database,
    bson::{Document, doc},
    error::Result,
    options::{InsertOneModel, UpdateOneModel},
};
use testbed::{Options, ReplicaSet};
use tokio::task::JoinSet;

use crate::{
    books::{self, Answer, Books},
    bounded,
    lossy_proxy::LossyProxy,
    report,
};

const BOUND: Duration = Duration::from_secs(120);
/// Each with a client of its own. After a loss a client looks at its server anew, at most twice a
/// second, and has no connection until then; with one client for all, most of its operations would
/// be refused one before they are sent, and little would be lost.
const TASKS: i64 = 32;
/// Odd and small, so that a retry is lost every now and then too.
const LOSE_EVERY: u64 = 7;
const DATABASE: &str = "lost";
/// How many marks an operation has to itself.
const MARKS: i64 = 3;

/// The kinds of writes, in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    UpdateOne,
    InsertOne,
    FindOneAndUpdate,
    InsertMany,
    BulkWrite,
    DeleteOne,
}

const KINDS: [Kind; 6] = [
    Kind::UpdateOne,
    Kind::InsertOne,
    Kind::FindOneAndUpdate,
    Kind::InsertMany,
    Kind::BulkWrite,
    Kind::DeleteOne,
];

impl Kind {
    fn of(operation: i64) -> Self {
        KINDS[usize::try_from(operation).unwrap() % KINDS.len()]
    }

    fn marks(self, operation: i64) -> impl Iterator<Item = i64> {
        let count = match self {
            Self::InsertMany | Self::BulkWrite => MARKS,
            Self::UpdateOne | Self::InsertOne | Self::FindOneAndUpdate | Self::DeleteOne => 1,
        };
        (0..count).map(move |nth| operation * MARKS + nth)
    }
}

/// Where the writes go.
struct Target {
    /// One document for each task, with a log of marks.
    logs: Collection<Document>,
    /// One document for each mark inserted.
    entries: Collection<Document>,
    /// Two documents for each mark deleted, so that one deleted twice shows.
    pairs: Collection<Document>,
}

impl Target {
    fn within(database: &Database) -> Self {
        Self {
            logs: database.collection("logs"),
            entries: database.collection("entries"),
            pairs: database.collection("pairs"),
        }
    }

    async fn prepare(database: &Database, operations: i64) {
        let target = Self::within(database);
        let logs = (0..TASKS).map(|task| doc! { "_id": task, "log": [] });
        target.logs.insert_many(logs).await.unwrap();
        let deletes = (0..operations).filter(|&operation| Kind::of(operation) == Kind::DeleteOne);
        let pairs = deletes.flat_map(|operation| {
            Kind::DeleteOne
                .marks(operation)
                .flat_map(|mark| [doc! { "mark": mark }, doc! { "mark": mark }])
        });
        target.pairs.insert_many(pairs.collect::<Vec<_>>()).await.unwrap();
        database
            .run_command(doc! {
                "createIndexes": "pairs",
                "indexes": [{ "key": { "mark": 1 }, "name": "mark" }],
            })
            .await
            .unwrap();
        database.create_collection("entries").await.unwrap();
    }

    async fn write(&self, kind: Kind, task: i64, operation: i64) -> Result<()> {
        let log = doc! { "_id": task };
        let push = |mark: i64| doc! { "$push": { "log": mark } };
        let mut marks = kind.marks(operation);
        let first = marks.next().expect("one at least");
        match kind {
            Kind::UpdateOne => {
                let result = self.logs.update_one(log, push(first)).await?;
                assert_eq!((result.matched_count, result.modified_count), (1, 1));
            }
            Kind::FindOneAndUpdate => {
                let before = self.logs.find_one_and_update(log, push(first)).await?;
                let before = before.expect("the log is there");
                // Also when it is the record of the attempt before that answers.
                let there = before.get_array("log").unwrap().contains(&first.into());
                assert!(!there, "the document as it was before");
            }
            Kind::InsertOne => {
                self.entries.insert_one(doc! { "mark": first }).await?;
            }
            Kind::InsertMany => {
                let documents = kind.marks(operation).map(|mark| doc! { "mark": mark });
                let result = self.entries.insert_many(documents).await?;
                assert_eq!(result.inserted_ids.len(), 3);
            }
            Kind::BulkWrite => {
                let (second, third) = (first + 1, first + 2);
                let result = self
                    .logs
                    .bulk_write([
                        UpdateOneModel::new(log.clone(), push(first)).into(),
                        InsertOneModel::new(doc! { "log": [second] }).into(),
                        UpdateOneModel::new(log, push(third)).into(),
                    ])
                    .await?;
                assert_eq!((result.modified_count, result.inserted_count), (2, 1));
            }
            Kind::DeleteOne => {
                let result = self.pairs.delete_one(doc! { "mark": first }).await?;
                assert_eq!(result.deleted_count, 1);
            }
        }
        Ok(())
    }
}

/// How often each mark was applied, for real.
fn census(set: &ReplicaSet, operations: i64) -> BTreeMap<i64, usize> {
    let mut applied = books::logged(&books::documents(set, DATABASE, "logs"));
    for entry in books::documents(set, DATABASE, "entries") {
        *applied.entry(entry.get_i64("mark").unwrap()).or_default() += 1;
    }
    let mut left: BTreeMap<i64, usize> = BTreeMap::new();
    for one in books::documents(set, DATABASE, "pairs") {
        *left.entry(one.get_i64("mark").unwrap()).or_default() += 1;
    }
    for operation in (0..operations).filter(|&nth| Kind::of(nth) == Kind::DeleteOne) {
        for mark in Kind::DeleteOne.marks(operation) {
            applied.insert(mark, 2 - left.get(&mark).copied().unwrap_or_default());
        }
    }
    applied
}

/// pitfalls 4, 6, 8 and 36
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_replies_are_not_applied_twice() {
    bounded(BOUND, async {
        const OPERATIONS: i64 = 2_000;
        let began = Instant::now();
        let set = ReplicaSet::start(1, Options::new()).unwrap();
        let straight = Client::with_uri_str(set.uri()).await.unwrap();
        Target::prepare(&straight.database(DATABASE), OPERATIONS).await;
        let proxy = LossyProxy::before(set.addresses()[0], LOSE_EVERY).await;

        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let client = Client::with_uri_str(proxy.uri()).await.unwrap();
            let target = Target::within(&client.database(DATABASE));
            tasks.spawn(async move {
                let mut books = Books::default();
                for operation in (task..OPERATIONS).step_by(usize::try_from(TASKS).unwrap()) {
                    let kind = Kind::of(operation);
                    let ended = target.write(kind, task, operation).await;
                    if let Err(error) = &ended {
                        assert!(!error.is_duplicate_key_error(), "our own insert: {error}");
                    }
                    books.note(kind.marks(operation), &ended);
                }
                books
            });
        }
        let books = gather(tasks).await;

        let audit = books.audit(&census(&set, OPERATIONS));
        let secs = began.elapsed().as_secs_f32();
        let (requests, replies) = (proxy.lost_requests(), proxy.lost_replies());
        report(&format!(
            "writes of all kinds: {requests} requests and {replies} replies lost in {secs:.1} s; \
             {audit}; {books}"
        ));
        audit.assert_clean();
        proxy.assert_none_twice();
        assert!(requests > 100 && replies > 100, "too few were lost to show anything");
        let acknowledged = books.count(Answer::Acknowledged);
        assert!(acknowledged > 9 * books.failed(), "nearly all survive a loss");
        assert!(books.doubtful() > 0, "some meet with two losses");
    })
    .await;
}

/// The same losses with a naive retry in place of the driver's: each lost reply is a write too many,
/// neither more nor less, so that the test above is known to see them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_naive_retry_applies_each_write_again_whose_reply_was_lost() {
    bounded(BOUND, async {
        const OPERATIONS: i64 = 700;
        let began = Instant::now();
        let set = ReplicaSet::start(1, Options::new()).unwrap();
        let straight = Client::with_uri_str(set.uri()).await.unwrap();
        let logs = straight.database(DATABASE).collection::<Document>("logs");
        logs.insert_many((0..TASKS).map(|task| doc! { "_id": task, "log": [] })).await.unwrap();
        let proxy = LossyProxy::before(set.addresses()[0], LOSE_EVERY).await;
        let uri = format!("{}&retryWrites=false", proxy.uri());

        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let client = Client::with_uri_str(&uri).await.unwrap();
            let logs = client.database(DATABASE).collection::<Document>("logs");
            tasks.spawn(async move {
                let mut books = Books::default();
                for mark in (task..OPERATIONS).step_by(usize::try_from(TASKS).unwrap()) {
                    let again = || {
                        let push = doc! { "$push": { "log": mark } };
                        logs.update_one(doc! { "_id": task }, push)
                    };
                    let mut ended = again().await;
                    while ended.is_err() {
                        ended = again().await;
                    }
                    books.note([mark], &ended);
                }
                books
            });
        }
        let books = gather(tasks).await;

        let applied = books::logged(&books::documents(&set, DATABASE, "logs"));
        let audit = books.audit(&applied);
        let replies = proxy.lost_replies();
        let secs = began.elapsed().as_secs_f32();
        report(&format!(
            "updates with a naive retry: {} requests and {replies} replies lost in {secs:.1} s; \
             {audit}; {books}",
            proxy.lost_requests()
        ));
        assert!(replies > 20, "too few were lost to show anything");
        let too_many = applied.values().sum::<usize>() - applied.len();
        assert_eq!(too_many, replies);
        assert!(!audit.duplicated.is_empty());
    })
    .await;
}

async fn gather(mut tasks: JoinSet<Books>) -> Books {
    let mut books = Books::default();
    while let Some(done) = tasks.join_next().await {
        books.absorb(done.expect("no task panics"));
    }
    books
}
