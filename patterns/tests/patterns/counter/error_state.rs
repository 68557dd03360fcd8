//! State of failed increments: an increment that may be counted is never reported as not counted.

use blackpipe::proxy::{Proxy, Reaction, Rule};
use steadfast::{IndexModel, bson::doc, error::Outcome, options::IndexOptions};
use steadfast_embedded::Deployment;
use steadfast_patterns::counter::{Fields, IncrementState, IncrementStep};

use super::{CounterFixture, with_real_servers};

#[tokio::test]
async fn duplicate_in_another_unique_index_fails_step_one() {
    let set = Deployment::replica_set(1).start();
    for uri in with_real_servers(set.uri()) {
        let fixture = CounterFixture::at(&uri).await;
        let unique = IndexOptions::builder().unique(true).build();
        let index = IndexModel::builder().keys(doc! { "email": 1 }).options(unique).build();
        fixture.collection.create_index(index).await.unwrap();
        fixture.counters.increment("day").await.unwrap();
        let error = fixture.counters.increment("night").await.unwrap_err();
        assert_eq!(
            (error.step(), error.state()),
            (IncrementStep::One, IncrementState::MaybePending),
            "{error}"
        );
        assert_eq!(error.error().and_then(|error| error.code()), Some(11000), "{error}");
    }
}

#[tokio::test]
async fn invalid_call_does_not_report_a_begun_intent_as_never_begun() {
    let set = Deployment::replica_set(1).start();
    let fixture = CounterFixture::at(&set.uri()).await;
    let intent = fixture.counters.intend("day", 1);
    fixture.counters.finish(&intent).await.unwrap();
    let mut twice = Fields::default();
    twice.done = "pending".to_owned();
    let wrong = fixture.counters.clone().fields(twice);
    for error in [wrong.finish(&intent).await, wrong.give_up(&intent).await] {
        let error = error.unwrap_err();
        assert_eq!(
            (error.step(), error.state()),
            (IncrementStep::Validation, IncrementState::MaybePending)
        );
        assert_eq!(error.into_error().outcome(), Outcome::MaybeApplied);
    }
    let error = wrong.increment("day").await.unwrap_err();
    assert_eq!(error.state(), IncrementState::NeverBegun, "no other client has the intent");
    assert!(error.into_error().outcome().is_certainly_not_applied());
}

#[tokio::test]
async fn converted_error_has_the_outcome_of_the_increment() {
    let set = Deployment::replica_set(1).start();
    let proxy = Proxy::builder(set.uri()).start().await.unwrap();
    let fixture = CounterFixture::at(&format!("{}&retryWrites=false", proxy.uri())).await;
    fixture.collection.insert_one(doc! { "_id": "day", "counter": i64::MAX }).await.unwrap();
    // The token is pending although the last request failed.
    let error = fixture.counters.increment("day").await.unwrap_err();
    assert_eq!(error.state(), IncrementState::Pending);
    assert_eq!(error.into_error().outcome(), Outcome::MaybeApplied);
    // The first request was executed although the second failed.
    proxy.add(Rule::new(Reaction::lose_reply()).command("update").times(1));
    proxy.add(Rule::new(Reaction::error(13)).command("update"));
    let error = fixture.counters.increment("day").await.unwrap_err();
    assert_eq!(error.state(), IncrementState::MaybePending, "{error}");
    assert_eq!(error.into_error().outcome(), Outcome::MaybeApplied);
}
