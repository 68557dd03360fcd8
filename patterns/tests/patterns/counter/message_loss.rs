//! Lost requests and replies, and late requests, without retryable writes.

use std::time::Duration;

use blackpipe::proxy::{Proxy, Reaction, Rule};
use steadfast::bson::doc;
use steadfast_embedded::Deployment;
use steadfast_patterns::counter::{Finished, IncrementState, IncrementStep};

use super::{CounterFixture, with_real_servers};

/// Creates a fixture behind a proxy, without retryable writes, with a counter of 0.
async fn fixture_behind(proxy: &Proxy) -> CounterFixture {
    let uri = proxy.uri();
    let separator = if uri.contains('?') { '&' } else { '?' };
    let fixture = CounterFixture::at(&format!("{uri}{separator}retryWrites=false")).await;
    fixture.collection.insert_one(doc! { "_id": "day", "counter": 0_i64 }).await.unwrap();
    fixture.sent();
    fixture
}

#[tokio::test]
async fn increment_with_a_lost_message_counts_once() {
    let set = Deployment::replica_set(3).start();
    for uri in with_real_servers(set.uri()) {
        let proxy = Proxy::builder(&uri).start().await.unwrap();
        for reaction in [Reaction::lose_reply(), Reaction::cut_request()] {
            for step in [1, 2] {
                let fixture = fixture_behind(&proxy).await;
                proxy.add(Rule::new(reaction.clone()).name("lost").command("update").nth(step));

                fixture.counters.increment("day").await.unwrap();

                proxy.remove("lost");
                assert_eq!(fixture.sent().len(), 3, "one was sent twice");
                assert_eq!(fixture.settled_value().await, 1, "{reaction:?} of step {step}");
                // A step one that was sent twice may arrive again. One that was sent once may not.
                let done = fixture.document().await.get_array("done").map_or(0, Vec::len);
                assert_eq!(done, usize::from(step == 1));
            }
        }
    }
}

#[tokio::test]
async fn late_step_one_is_not_counted_again() {
    let set = Deployment::replica_set(3).start();
    let proxy = Proxy::builder(set.uri()).start().await.unwrap();
    let fixture = fixture_behind(&proxy).await;
    proxy.add(Rule::new(Reaction::cut_request()).name("lost").command("update").nth(1));
    fixture.counters.increment("day").await.unwrap();
    proxy.remove("lost");

    assert!(!fixture.deliver_step_one_late().await, "the tombstone stops it");
    for member in 0..3 {
        set.faults().clock_skew(member, Duration::from_secs(3 * 24 * 60 * 60));
    }
    let report = fixture.counters.sweep().await.unwrap();
    assert_eq!((report.finished, report.tombstones_removed), (0, 1));
    assert!(!fixture.deliver_step_one_late().await, "the clock stops it");
    assert_eq!(fixture.settled_value().await, 1);
}

#[tokio::test]
async fn swept_increment_is_not_begun_again() {
    let set = Deployment::replica_set(3).start();
    let proxy = Proxy::builder(set.uri()).start().await.unwrap();
    let fixture = fixture_behind(&proxy).await;
    proxy.add(Rule::new(Reaction::lose_reply()).name("lost").command("update"));
    let error = fixture.counters.increment("day").await.unwrap_err();
    proxy.remove("lost");
    assert_eq!((error.step(), error.state()), (IncrementStep::One, IncrementState::MaybePending));
    assert!(error.error().unwrap().is_network_error());

    assert_eq!(fixture.counters.sweep().await.unwrap().finished, 0, "it is too young");
    for member in 0..3 {
        set.faults().clock_skew(member, Duration::from_secs(3 * 60));
    }
    assert_eq!(fixture.counters.sweep().await.unwrap().finished, 1);
    assert_eq!(fixture.settled_value().await, 1);
    // A new primary has a slow clock: the tombstone rejects the step one.
    for member in 0..3 {
        set.faults().clock_skew(member, Duration::ZERO);
    }
    assert!(!fixture.deliver_step_one_late().await);
    assert_eq!(fixture.counters.finish(error.intent()).await.unwrap(), Finished::Counted);
    assert_eq!(fixture.settled_value().await, 1);
}

#[tokio::test]
async fn stored_intent_is_finished_after_a_failure_at_any_step() {
    let set = Deployment::replica_set(3).start();
    for uri in with_real_servers(set.uri()) {
        let proxy = Proxy::builder(&uri).start().await.unwrap();
        for reaction in [Reaction::lose_reply(), Reaction::cut_request()] {
            for before in [0, 1] {
                for is_stored in [true, false] {
                    let fixture = fixture_behind(&proxy).await;
                    let rule = Rule::new(reaction.clone()).name("lost").command("update");
                    proxy.add(rule.skip(before));
                    let counters = fixture.counters.clone().retries(0);
                    let intent = counters.intend("day", 1);
                    let error = match is_stored {
                        true => counters.finish(&intent).await.unwrap_err(),
                        false => counters.increment("day").await.unwrap_err(),
                    };
                    proxy.remove("lost");
                    let known = [IncrementState::MaybePending, IncrementState::MaybeCounted];
                    assert_eq!(error.state(), known[usize::try_from(before).unwrap()]);

                    let intent = if is_stored { &intent } else { error.intent() };
                    for _ in 0..2 {
                        let finished = fixture.counters.finish(intent).await.unwrap();
                        assert_eq!(finished, Finished::Counted);
                        assert_eq!(fixture.settled_value().await, 1);
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn increment_continues_after_a_failover() {
    let set = Deployment::replica_set(3).start();
    let uri = format!("{}&retryWrites=false", set.uri());
    let fixture = CounterFixture::at(&uri).await;
    fixture.counters.increment("day").await.unwrap();
    set.faults().kill(set.primary().unwrap());
    fixture.counters.increment("day").await.unwrap();
    assert_eq!(fixture.settled_value().await, 2);
}
