//! Clock skew between client and server, and expired intents.

use std::time::Duration;

use steadfast::bson::{DateTime, doc};
use steadfast_embedded::Deployment;
use steadfast_patterns::counter::{CounterErrorCause, Counters, Finished, IncrementState, Intent};

use super::{CounterFixture, real_standalone, with_real_servers};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the same intent, made earlier by `by`, or later if `sign` is negative.
fn earlier(intent: &Intent, by: Duration, sign: i64) -> Intent {
    let mut stored = ::bson::serialize_to_document(intent).unwrap();
    for field in ["since", "until"] {
        let time = stored.get_datetime(field).unwrap().timestamp_millis();
        let time = time - sign * i64::try_from(by.as_millis()).unwrap();
        stored.insert(field, DateTime::from_millis(time));
    }
    ::bson::deserialize_from_document(stored).unwrap()
}

#[tokio::test]
async fn error_of_a_slow_client_clock_has_both_times() {
    let server = Deployment::replica_set(1).start();
    let fixture = CounterFixture::at(&server.uri()).await;
    server.faults().clock_skew(0, 5 * MINUTE);

    let error = fixture.counters.increment("day").await.unwrap_err();

    assert_eq!(error.state(), IncrementState::NeverBegun);
    let CounterErrorCause::TooLate { until, server, client } = error.cause() else {
        panic!("{error}")
    };
    assert!(client < until && until < server, "{error}");
    let text = error.to_string();
    assert!(text.contains(&server.to_string()) && text.contains(&client.to_string()), "{text}");
    assert_eq!(fixture.settled_value().await, 0);
}

#[tokio::test]
async fn error_of_a_fast_client_clock_has_both_times() {
    let server = Deployment::replica_set(1).start();
    let fixture = CounterFixture::at(&server.uri()).await;
    let intent = earlier(&fixture.counters.intend("day", 1), 5 * MINUTE, -1);
    let error = fixture.counters.finish(&intent).await.unwrap_err();
    assert!(
        matches!(error.cause(), CounterErrorCause::TooEarly { since, server, .. } if server < since)
    );
    assert_eq!(fixture.settled_value().await, 0);
    // It can be finished when the server's clock reaches the window.
    server.faults().clock_skew(0, 5 * MINUTE);
    assert_eq!(fixture.counters.finish(&intent).await.unwrap(), Finished::Counted);
}

#[tokio::test]
async fn expired_intent_is_never_begun_until_its_tombstone_may_be_removed() {
    let set = Deployment::replica_set(3).start();
    for uri in with_real_servers(set.uri()).into_iter().chain(real_standalone()) {
        let fixture = CounterFixture::at(&uri).await;
        let counters = &fixture.counters;
        let old = earlier(&counters.intend("day", 1), 10 * MINUTE, 1);
        for _ in 0..2 {
            assert_eq!(counters.finish(&old).await.unwrap(), Finished::NeverBegun);
        }
        let older = earlier(&counters.intend("day", 1), 2 * DAY, 1);
        assert_eq!(counters.finish(&older).await.unwrap(), Finished::TooLate);
        assert_eq!(fixture.settled_value().await, 0);
        assert_eq!(fixture.document().await.get_array("done").unwrap().len(), 1);
    }
}

#[tokio::test]
async fn begun_intent_is_finished_at_any_age() {
    let set = Deployment::replica_set(3).start();
    let fixture = CounterFixture::at(&set.uri()).await;
    let old = earlier(&fixture.counters.intend("day", 7), 2 * DAY, 1);
    let entry = doc! { "token": old.token(), "by": 7_i64, "until": old.until() };
    let document = doc! { "_id": "day", "counter": 0_i64, "pending": [entry] };
    fixture.collection.insert_one(document).await.unwrap();
    assert_eq!(fixture.counters.finish(&old).await.unwrap(), Finished::Counted);
    assert_eq!(fixture.settled_value().await, 7);
}

#[tokio::test]
async fn tombstone_is_removed_only_after_the_margin() {
    let server = Deployment::replica_set(1).start();
    let fixture = CounterFixture::at(&server.uri()).await;
    let counters: &Counters = &fixture.counters;
    let intent = counters.intend("day", 1);
    counters.finish(&intent).await.unwrap();
    assert!(!counters.remove_tombstone(&intent).await.unwrap(), "it is too early");
    assert!(!fixture.deliver_step_one_late().await);
    server.faults().clock_skew(0, 3 * MINUTE);
    assert!(counters.remove_tombstone(&intent).await.unwrap());
    assert!(fixture.document().await.get_array("done").unwrap().is_empty());
    assert!(!fixture.deliver_step_one_late().await);
    assert_eq!(fixture.settled_value().await, 1);
}
