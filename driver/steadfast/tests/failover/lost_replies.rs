//! Retryable writes of every kind whose requests and replies a proxy drops.

use std::time::Instant;

use steadfast::{
    Client,
    bson::{Document, doc},
};
use testbed::{Options, ReplicaSet};
use tokio::task::JoinSet;

use crate::{
    bounded,
    lossy_proxy::LossyProxy,
    marked_writes::{MarkedCollections, WriteKind, count_applied},
    report,
    write_record::{self, ReportedOutcome, WriteRecord},
};

/// Number of tasks. Each has its own client: after a lost message a client waits for the next check of its server,
/// at most twice a second. With one client for all tasks, most operations would fail in connection checkout, and
/// few messages would be lost.
const TASKS: i64 = 32;
/// Odd and small, so that retries are lost as well.
const LOSE_EVERY: u64 = 7;
const DATABASE: &str = "lost";

/// pitfalls 4, 6, 8 and 36
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_replies_are_not_applied_twice() {
    testbed::require!(V6_0);
    bounded(async {
        const OPERATIONS: i64 = 2_000;
        let began = Instant::now();
        let set = ReplicaSet::start(1, Options::new()).unwrap();
        let direct = Client::with_uri_str(set.uri()).await.unwrap();
        MarkedCollections::prepare(&direct.database(DATABASE), TASKS, OPERATIONS).await;
        let proxy = LossyProxy::start(set.addresses()[0], LOSE_EVERY).await;

        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let client = Client::with_uri_str(proxy.uri()).await.unwrap();
            let collections = MarkedCollections::within(&client.database(DATABASE));
            tasks.spawn(async move {
                let mut record = WriteRecord::default();
                for operation in (task..OPERATIONS).step_by(usize::try_from(TASKS).unwrap()) {
                    let kind = WriteKind::of(operation);
                    let result = collections.write(kind, task, operation).await;
                    if let Err(error) = &result {
                        assert!(!error.is_duplicate_key_error(), "our own insert: {error}");
                    }
                    record.add(kind.marks(operation), &result);
                }
                record
            });
        }
        let record = gather(tasks).await;

        let audit = record.audit(&count_applied(OPERATIONS, |name| {
            write_record::documents(&set, DATABASE, name)
        }));
        let secs = began.elapsed().as_secs_f32();
        let (requests, replies) = (proxy.lost_requests(), proxy.lost_replies());
        report(&format!(
            "writes of all kinds: {requests} requests and {replies} replies lost in {secs:.1} s; \
             {audit}; {record}"
        ));
        audit.assert_clean();
        proxy.assert_none_twice();
        assert!(requests > 100 && replies > 100, "too few were lost to show anything");
        let acknowledged = record.count(ReportedOutcome::Acknowledged);
        assert!(acknowledged > 9 * record.failed(), "nearly all survive a loss");
        assert!(record.uncertain() > 0, "some meet with two losses");
    })
    .await;
}

/// The same losses with a naive retry by the application. Each lost reply adds exactly one duplicate, which shows
/// that the test above detects duplicates.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn naive_retry_applies_a_write_with_a_lost_reply_twice() {
    testbed::require!(V6_0);
    bounded(async {
        const OPERATIONS: i64 = 700;
        let began = Instant::now();
        let set = ReplicaSet::start(1, Options::new()).unwrap();
        let direct = Client::with_uri_str(set.uri()).await.unwrap();
        let logs = direct.database(DATABASE).collection::<Document>("logs");
        logs.insert_many((0..TASKS).map(|task| doc! { "_id": task, "log": [] })).await.unwrap();
        let proxy = LossyProxy::start(set.addresses()[0], LOSE_EVERY).await;
        let uri = format!("{}&retryWrites=false", proxy.uri());

        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let client = Client::with_uri_str(&uri).await.unwrap();
            let logs = client.database(DATABASE).collection::<Document>("logs");
            tasks.spawn(async move {
                let mut record = WriteRecord::default();
                for mark in (task..OPERATIONS).step_by(usize::try_from(TASKS).unwrap()) {
                    let again = || {
                        let push = doc! { "$push": { "log": mark } };
                        logs.update_one(doc! { "_id": task }, push)
                    };
                    let mut result = again().await;
                    while result.is_err() {
                        result = again().await;
                    }
                    record.add([mark], &result);
                }
                record
            });
        }
        let record = gather(tasks).await;

        let applied = write_record::logged(&write_record::documents(&set, DATABASE, "logs"));
        let audit = record.audit(&applied);
        let replies = proxy.lost_replies();
        let secs = began.elapsed().as_secs_f32();
        report(&format!(
            "updates with a naive retry: {} requests and {replies} replies lost in {secs:.1} s; \
             {audit}; {record}",
            proxy.lost_requests()
        ));
        assert!(replies > 20, "too few were lost to show anything");
        let too_many = applied.values().sum::<usize>() - applied.len();
        assert_eq!(too_many, replies);
        assert!(!audit.duplicated.is_empty());
    })
    .await;
}

async fn gather(mut tasks: JoinSet<WriteRecord>) -> WriteRecord {
    let mut record = WriteRecord::default();
    while let Some(done) = tasks.join_next().await {
        record.absorb(done.expect("no task panics"));
    }
    record
}
