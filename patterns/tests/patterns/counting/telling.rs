//! What is told of increments that fail: never that they are not counted if they may be.

use blackpipe::proxy::{Proxy, Reaction, Rule};
use steadfast::{IndexModel, bson::doc, error::Outcome, options::IndexOptions};
use steadfast_embedded::Deployment;
use steadfast_patterns::counter::{Fields, IncrementState, IncrementStep};

use super::{Counting, with_real_servers};

#[tokio::test]
async fn a_unique_index_that_lets_no_second_counter_in_is_named() {
    let set = Deployment::replica_set(1).start();
    for uri in with_real_servers(set.uri()) {
        let counting = Counting::at(&uri).await;
        let unique = IndexOptions::builder().unique(true).build();
        let index = IndexModel::builder().keys(doc! { "email": 1 }).options(unique).build();
        counting.collection.create_index(index).await.unwrap();
        counting.counters.increment("day").await.unwrap();
        let error = counting.counters.increment("night").await.unwrap_err();
        assert_eq!(
            (error.step(), error.state()),
            (IncrementStep::One, IncrementState::MaybePending),
            "{error}"
        );
        assert_eq!(error.error().and_then(|error| error.code()), Some(11000), "{error}");
    }
}

#[tokio::test]
async fn an_intent_that_may_have_begun_is_not_said_to_be_open_by_a_call_that_is_refused() {
    let set = Deployment::replica_set(1).start();
    let counting = Counting::at(&set.uri()).await;
    let intent = counting.counters.intend("day", 1);
    counting.counters.finish(&intent).await.unwrap();
    let mut twice = Fields::default();
    twice.done = "pending".to_owned();
    let wrong = counting.counters.clone().fields(twice);
    for error in [wrong.finish(&intent).await, wrong.give_up(&intent).await] {
        let error = error.unwrap_err();
        assert_eq!(
            (error.step(), error.state()),
            (IncrementStep::Validation, IncrementState::MaybePending)
        );
        assert_eq!(error.into_error().outcome(), Outcome::MaybeApplied);
    }
    let error = wrong.increment("day").await.unwrap_err();
    assert_eq!(error.state(), IncrementState::NeverBegun, "nobody else knows of it");
    assert!(error.into_error().outcome().is_certainly_not_applied());
}

#[tokio::test]
async fn an_error_without_its_intent_still_tells_what_became_of_the_increment() {
    let set = Deployment::replica_set(1).start();
    let proxy = Proxy::builder(set.uri()).start().await.unwrap();
    let counting = Counting::at(&format!("{}&retryWrites=false", proxy.uri())).await;
    counting.collection.insert_one(doc! { "_id": "day", "counter": i64::MAX }).await.unwrap();
    // It is pending, although the last request was refused.
    let error = counting.counters.increment("day").await.unwrap_err();
    assert_eq!(error.state(), IncrementState::Pending);
    assert_eq!(error.into_error().outcome(), Outcome::MaybeApplied);
    // The first was carried out, although the second was refused.
    proxy.add(Rule::new(Reaction::lose_reply()).command("update").times(1));
    proxy.add(Rule::new(Reaction::error(13)).command("update"));
    let error = counting.counters.increment("day").await.unwrap_err();
    assert_eq!(error.state(), IncrementState::MaybePending, "{error}");
    assert_eq!(error.into_error().outcome(), Outcome::MaybeApplied);
}
