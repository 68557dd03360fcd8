//! Increments without faults, and calls that are rejected.

use steadfast::bson::{Bson, Regex, doc};
use steadfast_embedded::Deployment;
use steadfast_patterns::counter::{Fields, Finished, IncrementState, IncrementStep};

use super::{CounterFixture, real_standalone, with_real_servers};

#[tokio::test]
async fn increment_takes_two_round_trips_and_writes_the_articles_document() {
    let set = Deployment::replica_set(3).start();
    let alone = Deployment::standalone().start();
    let mut uris = with_real_servers(set.uri());
    uris.push(alone.uri());
    uris.extend(real_standalone());
    for uri in uris {
        let fixture = CounterFixture::at(&uri).await;
        fixture.collection.insert_one(doc! { "_id": "day", "counter": 41_i64 }).await.unwrap();
        fixture.sent();

        fixture.counters.increment("day").await.unwrap();

        assert_eq!(fixture.sent(), ["update", "update"]);
        let expected = doc! { "_id": "day", "counter": 42_i64, "pending": [] };
        assert_eq!(fixture.document().await, expected);
        assert_eq!(fixture.counters.value("day").await.unwrap(), Some(42));
        assert_eq!(fixture.counters.value("night").await.unwrap(), None);
    }
}

#[tokio::test]
async fn first_increment_creates_the_document() {
    let set = Deployment::replica_set(3).start();
    for uri in with_real_servers(set.uri()) {
        let fixture = CounterFixture::at(&uri).await;
        fixture.counters.increment("day").await.unwrap();
        assert_eq!(fixture.sent(), ["update", "update", "update", "update"]);
        // Step one was sent twice.
        assert_eq!(fixture.document().await.get_array("done").unwrap().len(), 1);
        fixture.counters.increment_by("day", -3).await.unwrap();
        fixture.counters.increment_by("day", 0).await.unwrap();
        assert_eq!(fixture.settled_value().await, -2);
        assert_eq!(fixture.document().await.get_array("done").unwrap().len(), 1);
    }
}

#[tokio::test]
async fn intent_finished_several_times_counts_once() {
    let set = Deployment::replica_set(3).start();
    for uri in with_real_servers(set.uri()).into_iter().chain(real_standalone()) {
        let fixture = CounterFixture::at(&uri).await;
        let counters = &fixture.counters;
        let intent = counters.intend("day", 5);
        let stored = ::bson::serialize_to_document(&intent).unwrap();
        assert_eq!(counters.finish(&intent).await.unwrap(), Finished::Counted);
        let restored = ::bson::deserialize_from_document(stored).unwrap();
        assert_eq!(counters.finish(&restored).await.unwrap(), Finished::Counted);
        assert_eq!(counters.give_up(&restored).await.unwrap(), Finished::Counted);
        assert_eq!(fixture.settled_value().await, 5);
        assert!(!fixture.deliver_step_one_late().await);
    }
}

#[tokio::test]
async fn intent_that_was_given_up_is_never_counted() {
    let set = Deployment::replica_set(3).start();
    for uri in with_real_servers(set.uri()) {
        let fixture = CounterFixture::at(&uri).await;
        let intent = fixture.counters.intend("day", 1);
        assert_eq!(fixture.counters.give_up(&intent).await.unwrap(), Finished::NeverBegun);
        assert_eq!(fixture.counters.finish(&intent).await.unwrap(), Finished::NeverBegun);
        assert_eq!(fixture.settled_value().await, 0);
    }
}

#[tokio::test]
async fn counter_id_can_be_any_id_of_a_document() {
    let set = Deployment::replica_set(1).start();
    let fixture = CounterFixture::at(&set.uri()).await;
    for id in [
        Bson::Int32(3),
        Bson::Document(doc! { "day": 3, "page": "home" }),
        Bson::ObjectId(steadfast::bson::oid::ObjectId::new()),
        Bson::Boolean(true),
    ] {
        fixture.counters.increment(id.clone()).await.unwrap();
        assert_eq!(fixture.counters.value(id).await.unwrap(), Some(1));
    }
    fixture.sent();
    let (pattern, options) = ("a".try_into().unwrap(), "".try_into().unwrap());
    for id in [
        Bson::Null,
        Bson::Array(vec![]),
        Bson::RegularExpression(Regex { pattern, options }),
        Bson::Document(doc! { "$gt": 0 }),
    ] {
        let error = fixture.counters.increment(id).await.unwrap_err();
        assert_eq!(
            (error.step(), error.state()),
            (IncrementStep::Validation, IncrementState::NeverBegun)
        );
        assert!(error.error().unwrap().is_invalid_argument());
    }
    assert!(fixture.sent().is_empty());
}

#[tokio::test]
async fn counter_fields_can_be_renamed_and_nested() {
    let set = Deployment::replica_set(1).start();
    let fixture = CounterFixture::at(&set.uri()).await;
    let fields = |pending: &str| {
        let mut fields = Fields::default();
        fields.counter = "stats.views".to_owned();
        fields.pending = pending.to_owned();
        fields.done = "stats.done".to_owned();
        fields
    };
    let counters = fixture.counters.clone().fields(fields("stats.pending"));
    counters.increment("day").await.unwrap();
    counters.increment("day").await.unwrap();
    assert_eq!(counters.value("day").await.unwrap(), Some(2));
    for bad in ["stats", "stats.views.x", "", "_id", "$x", "a..b"] {
        let counters = fixture.counters.clone().fields(fields(bad));
        let error = counters.increment("day").await.unwrap_err();
        assert!(error.error().unwrap().is_invalid_argument(), "{bad}: {error}");
    }
}

#[tokio::test]
async fn server_error_is_reported_and_the_increment_is_not_lost() {
    let set = Deployment::replica_set(3).start();
    for uri in with_real_servers(set.uri()) {
        let fixture = CounterFixture::at(&uri).await;
        for (bad, step, known) in [
            (
                doc! { "_id": "word", "counter": "many" },
                IncrementStep::Two,
                IncrementState::Pending,
            ),
            (
                doc! { "_id": "full", "counter": i64::MAX },
                IncrementStep::Two,
                IncrementState::Pending,
            ),
            (doc! { "_id": "odd", "pending": 3 }, IncrementStep::One, IncrementState::NeverBegun),
        ] {
            let id = bad.get_str("_id").unwrap().to_owned();
            fixture.collection.insert_one(bad).await.unwrap();
            let error = fixture.counters.increment(id.clone()).await.unwrap_err();
            assert_eq!((error.step(), error.state()), (step, known), "{error}");
            assert!(error.error().unwrap().code().is_some(), "{error}");
            if known == IncrementState::Pending {
                let repaired = doc! { "$set": { "counter": 0_i64 } };
                fixture.collection.update_one(doc! { "_id": &id }, repaired).await.unwrap();
                let finished = fixture.counters.finish(error.intent()).await.unwrap();
                assert_eq!(finished, Finished::Counted);
                assert_eq!(fixture.counters.value(id).await.unwrap(), Some(1));
            }
        }
    }
}
