//! Clocks that differ, and intents that are old.

use std::time::Duration;

use steadfast::bson::{DateTime, doc};
use steadfast_embedded::Deployment;
use steadfast_patterns::counter::{CounterErrorCause, Counters, Finished, IncrementState, Intent};

use super::{Counting, real_standalone, with_real_servers};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The same intent, made so much earlier, or, with a negative number, later.
fn earlier(intent: &Intent, by: Duration, sign: i64) -> Intent {
    let mut stored = steadfast::bson::serialize_to_document(intent).unwrap();
    for field in ["since", "until"] {
        let time = stored.get_datetime(field).unwrap().timestamp_millis();
        let time = time - sign * i64::try_from(by.as_millis()).unwrap();
        stored.insert(field, DateTime::from_millis(time));
    }
    steadfast::bson::deserialize_from_document(stored).unwrap()
}

#[tokio::test]
async fn a_client_whose_clock_is_behind_is_told_so_with_both_times() {
    let server = Deployment::replica_set(1).start();
    let counting = Counting::at(&server.uri()).await;
    server.faults().clock_skew(0, 5 * MINUTE);

    let error = counting.counters.increment("day").await.unwrap_err();

    assert_eq!(error.state(), IncrementState::NeverBegun);
    let CounterErrorCause::TooLate { until, server, client } = error.cause() else {
        panic!("{error}")
    };
    assert!(client < until && until < server, "{error}");
    let text = error.to_string();
    assert!(text.contains(&server.to_string()) && text.contains(&client.to_string()), "{text}");
    assert_eq!(counting.settled().await, 0);
}

#[tokio::test]
async fn a_client_whose_clock_is_ahead_is_told_so() {
    let server = Deployment::replica_set(1).start();
    let counting = Counting::at(&server.uri()).await;
    let intent = earlier(&counting.counters.intend("day", 1), 5 * MINUTE, -1);
    let error = counting.counters.finish(&intent).await.unwrap_err();
    assert!(
        matches!(error.cause(), CounterErrorCause::TooEarly { since, server, .. } if server < since)
    );
    assert_eq!(counting.settled().await, 0);
    // It can be finished when it is time.
    server.faults().clock_skew(0, 5 * MINUTE);
    assert_eq!(counting.counters.finish(&intent).await.unwrap(), Finished::Counted);
}

#[tokio::test]
async fn an_intent_that_is_too_old_to_begin_is_given_up_and_one_older_still_cannot_be_told_of() {
    let set = Deployment::replica_set(3).start();
    for uri in with_real_servers(set.uri()).into_iter().chain(real_standalone()) {
        let counting = Counting::at(&uri).await;
        let counters = &counting.counters;
        let old = earlier(&counters.intend("day", 1), 10 * MINUTE, 1);
        for _ in 0..2 {
            assert_eq!(counters.finish(&old).await.unwrap(), Finished::NeverBegun);
        }
        let older = earlier(&counters.intend("day", 1), 2 * DAY, 1);
        assert_eq!(counters.finish(&older).await.unwrap(), Finished::TooLate);
        assert_eq!(counting.settled().await, 0);
        assert_eq!(counting.document().await.get_array("done").unwrap().len(), 1);
    }
}

#[tokio::test]
async fn an_intent_that_has_begun_is_finished_however_old_it_is() {
    let set = Deployment::replica_set(3).start();
    let counting = Counting::at(&set.uri()).await;
    let old = earlier(&counting.counters.intend("day", 7), 2 * DAY, 1);
    let entry = doc! { "token": old.token(), "by": 7_i64, "until": old.until() };
    let document = doc! { "_id": "day", "counter": 0_i64, "pending": [entry] };
    counting.collection.insert_one(document).await.unwrap();
    assert_eq!(counting.counters.finish(&old).await.unwrap(), Finished::Counted);
    assert_eq!(counting.settled().await, 7);
}

#[tokio::test]
async fn a_tombstone_is_forgotten_when_no_step_one_can_come() {
    let server = Deployment::replica_set(1).start();
    let counting = Counting::at(&server.uri()).await;
    let counters: &Counters = &counting.counters;
    let intent = counters.intend("day", 1);
    counters.finish(&intent).await.unwrap();
    assert!(!counters.remove_tombstone(&intent).await.unwrap(), "it is too early");
    assert!(!counting.deliver_step_one_late().await);
    server.faults().clock_skew(0, 3 * MINUTE);
    assert!(counters.remove_tombstone(&intent).await.unwrap());
    assert!(counting.document().await.get_array("done").unwrap().is_empty());
    assert!(!counting.deliver_step_one_late().await);
    assert_eq!(counting.settled().await, 1);
}
