//! Sweep: the tokens that it finishes, those that it keeps, and its report.

use std::time::Duration;

use blackpipe::proxy::{Proxy, Reaction, Rule};
use steadfast::bson::{Bson, DateTime, Document, doc, oid::ObjectId};
use steadfast_embedded::Deployment;

use super::{CounterFixture, with_real_servers};

fn ago(minutes: i64) -> DateTime {
    DateTime::from_millis(DateTime::now().timestamp_millis() - minutes * 60_000)
}

fn token(by: i64, until: DateTime) -> Bson {
    doc! { "token": ObjectId::new(), "by": by, "until": until }.into()
}

fn plain(made: DateTime) -> Bson {
    let mut bytes = ObjectId::new().bytes();
    let seconds = u32::try_from(made.timestamp_millis() / 1000).unwrap();
    bytes[..4].copy_from_slice(&seconds.to_be_bytes());
    ObjectId::from_bytes(bytes).into()
}

/// Returns a counter with entries of every form. Tokens of 2 and 3 and one plain token are due.
fn mixed() -> Document {
    let tombstone = |until| doc! { "token": ObjectId::new(), "until": until };
    doc! {
        "_id": "day",
        "counter": 100,
        "pending": [
            token(2, ago(5)), token(3, ago(2)), token(50, ago(0)), token(50, ago(-1)),
            plain(ago(2 * 24 * 60)), plain(ago(60)),
            "what is this", 3, doc! { "token": 3 },
        ],
        "done": [tombstone(ago(2 * 24 * 60)), tombstone(ago(60))],
    }
}

#[tokio::test]
async fn sweep_finishes_old_tokens_and_keeps_young_ones() {
    let set = Deployment::replica_set(3).start();
    for uri in with_real_servers(set.uri()) {
        let fixture = CounterFixture::at(&uri).await;
        fixture.collection.insert_one(mixed()).await.unwrap();
        let before = fixture.document().await;
        for is_dry in [true, false] {
            assert_eq!(fixture.document().await, before);
            let mut reported = 0;
            let sweep = fixture.counters.sweep().dry_run(is_dry);
            let report = sweep.progress(|so_far| reported = so_far.finished).await.unwrap();
            assert_eq!((report.documents, report.finished, report.by), (1, 3, 6));
            assert_eq!((report.left_alone, report.tombstones_removed), (6, 1));
            assert_eq!((report.already_gone, report.failed, reported), (0, 0, 3));
        }
        let after = fixture.document().await;
        assert_eq!(after.get_i64("counter").unwrap(), 106);
        assert_eq!(after.get_array("pending").unwrap().len(), 6);
        // One tombstone was removed, and two were added.
        assert_eq!(after.get_array("done").unwrap().len(), 3);
        let again = fixture.counters.sweep().await.unwrap();
        assert_eq!((again.finished, again.tombstones_removed), (0, 0));
        assert_eq!(fixture.document().await, after);
    }
}

#[tokio::test]
async fn invalid_counter_does_not_stop_the_sweep() {
    let set = Deployment::replica_set(3).start();
    for uri in with_real_servers(set.uri()) {
        let fixture = CounterFixture::at(&uri).await;
        let due = || vec![token(1, ago(5))];
        let documents = [
            doc! { "_id": 1, "counter": "many", "pending": due() },
            doc! { "_id": 2, "counter": i64::MAX, "pending": due() },
            doc! { "_id": 3, "counter": 0, "pending": { "0": 1 } },
            doc! { "_id": 4, "counter": 0, "pending": due(), "done": 3 },
            doc! { "_id": 5, "counter": 7, "pending": due() },
        ];
        fixture.collection.insert_many(documents).await.unwrap();
        let report = fixture.counters.sweep().batch_size(2).await.unwrap();
        assert_eq!((report.finished, report.failed), (1, 3));
        let mut failed: Vec<_> = report.failures.iter().map(|failure| &failure.id).collect();
        failed.sort_by_key(|id| id.as_i32());
        assert_eq!(failed, [&Bson::Int32(1), &Bson::Int32(2), &Bson::Int32(4)]);
        assert_eq!(fixture.counters.value(5).await.unwrap(), Some(8));
    }
}

#[tokio::test]
async fn concurrent_sweeps_count_each_token_once() {
    const TOKENS: i64 = 250;
    let set = Deployment::replica_set(3).start();
    for uri in with_real_servers(set.uri()) {
        let fixture = CounterFixture::at(&uri).await;
        let tokens: Vec<_> = (0..TOKENS).map(|_| token(1, ago(5))).collect();
        let document = doc! { "_id": "day", "counter": 0_i64, "pending": tokens };
        fixture.collection.insert_one(document).await.unwrap();
        let counters = &fixture.counters;
        let (one, two, three) = tokio::join!(
            counters.sweep().into_future(),
            counters.sweep().into_future(),
            counters.sweep().into_future()
        );
        let finished: u64 = [one, two, three].into_iter().map(|it| it.unwrap().finished).sum();
        assert_eq!(finished, 250);
        assert_eq!(fixture.settled_value().await, TOKENS);
    }
}

#[tokio::test]
async fn tokens_whose_sum_overflows_are_finished_one_by_one() {
    let set = Deployment::replica_set(1).start();
    let fixture = CounterFixture::at(&set.uri()).await;
    let tokens = [token(i64::MAX, ago(5)), token(5, ago(5))];
    let document = doc! { "_id": "day", "counter": -10_i64, "pending": tokens.to_vec() };
    fixture.collection.insert_one(document).await.unwrap();
    let report = fixture.counters.sweep().margin(Duration::ZERO).await.unwrap();
    assert_eq!((report.finished, report.by), (2, i128::from(i64::MAX) + 5));
    assert_eq!(fixture.settled_value().await, i64::MAX - 5);
}

#[tokio::test]
async fn repeated_token_counts_once() {
    let set = Deployment::replica_set(1).start();
    for uri in with_real_servers(set.uri()) {
        let fixture = CounterFixture::at(&uri).await;
        let (ours, plain) = (token(5, ago(5)), plain(ago(2 * 24 * 60)));
        let pending = [&ours, &ours, &plain, &plain, &token(50, ago(0))].map(Bson::clone);
        let day = doc! { "_id": "day", "counter": 0, "pending": pending.to_vec() };
        fixture.collection.insert_one(day).await.unwrap();
        for is_dry in [true, false] {
            let report = fixture.counters.sweep().dry_run(is_dry).await.unwrap();
            assert_eq!((report.finished, report.by, report.left_alone), (2, 6, 1));
        }
        assert_eq!(fixture.counters.value("day").await.unwrap(), Some(6));
        assert_eq!(fixture.document().await.get_array("pending").unwrap().len(), 1);
    }
}

#[tokio::test]
async fn failed_sweep_has_reported_the_tokens_that_it_finished() {
    let set = Deployment::replica_set(1).start();
    let proxy = Proxy::builder(set.uri()).start().await.unwrap();
    let fixture = CounterFixture::at(&proxy.uri()).await;
    let pending: Vec<_> = (0..250).map(|_| token(1, ago(5))).collect();
    let day = doc! { "_id": "day", "counter": 0, "pending": pending };
    fixture.collection.insert_one(day).await.unwrap();
    proxy.add(Rule::new(Reaction::error(13)).command("update").nth(2));
    let mut reported = 0;
    let sweep = fixture.counters.sweep().progress(|so_far| reported = so_far.finished);
    assert_eq!(sweep.await.unwrap_err().code(), Some(13));
    assert_eq!(reported, 100);
    assert_eq!(fixture.counters.value("day").await.unwrap(), Some(100));
}
