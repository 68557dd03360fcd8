//! Requests and replies that are lost, and requests that come late, with a driver that retries nothing by
//! itself.

use std::time::Duration;

use blackpipe::proxy::{Proxy, Reaction, Rule};
use steadfast::bson::doc;
use steadfast_embedded::Deployment;
use steadfast_patterns::counter::{Finished, IncrementState, IncrementStep};

use super::{Counting, with_real_servers};

/// Behind a proxy, without retryable writes, with a counter that is at 0.
async fn behind(proxy: &Proxy) -> Counting {
    let uri = proxy.uri();
    let separator = if uri.contains('?') { '&' } else { '?' };
    let counting = Counting::at(&format!("{uri}{separator}retryWrites=false")).await;
    counting.collection.insert_one(doc! { "_id": "day", "counter": 0_i64 }).await.unwrap();
    counting.sent();
    counting
}

#[tokio::test]
async fn an_increment_whose_messages_are_lost_counts_once() {
    let set = Deployment::replica_set(3).start();
    for uri in with_real_servers(set.uri()) {
        let proxy = Proxy::builder(&uri).start().await.unwrap();
        for reaction in [Reaction::lose_reply(), Reaction::cut_request()] {
            for step in [1, 2] {
                let counting = behind(&proxy).await;
                proxy.add(Rule::new(reaction.clone()).name("lost").command("update").nth(step));

                counting.counters.increment("day").await.unwrap();

                proxy.remove("lost");
                assert_eq!(counting.sent().len(), 3, "one was sent twice");
                assert_eq!(counting.settled().await, 1, "{reaction:?} of step {step}");
                // A step one that was sent twice could come again; one that was sent once cannot.
                let done = counting.document().await.get_array("done").map_or(0, Vec::len);
                assert_eq!(done, usize::from(step == 1));
            }
        }
    }
}

#[tokio::test]
async fn a_step_one_that_comes_late_is_not_counted_again() {
    let set = Deployment::replica_set(3).start();
    let proxy = Proxy::builder(set.uri()).start().await.unwrap();
    let counting = behind(&proxy).await;
    proxy.add(Rule::new(Reaction::cut_request()).name("lost").command("update").nth(1));
    counting.counters.increment("day").await.unwrap();
    proxy.remove("lost");

    assert!(!counting.deliver_step_one_late().await, "the tombstone stops it");
    for member in 0..3 {
        set.faults().clock_skew(member, Duration::from_secs(3 * 24 * 60 * 60));
    }
    let report = counting.counters.sweep().await.unwrap();
    assert_eq!((report.finished, report.tombstones_removed), (0, 1));
    assert!(!counting.deliver_step_one_late().await, "the clock stops it");
    assert_eq!(counting.settled().await, 1);
}

#[tokio::test]
async fn what_the_sweep_has_finished_is_not_begun_again() {
    let set = Deployment::replica_set(3).start();
    let proxy = Proxy::builder(set.uri()).start().await.unwrap();
    let counting = behind(&proxy).await;
    proxy.add(Rule::new(Reaction::lose_reply()).name("lost").command("update"));
    let error = counting.counters.increment("day").await.unwrap_err();
    proxy.remove("lost");
    assert_eq!((error.step(), error.state()), (IncrementStep::One, IncrementState::MaybePending));
    assert!(error.error().unwrap().is_network_error());

    assert_eq!(counting.counters.sweep().await.unwrap().finished, 0, "it is too young");
    for member in 0..3 {
        set.faults().clock_skew(member, Duration::from_secs(3 * 60));
    }
    assert_eq!(counting.counters.sweep().await.unwrap().finished, 1);
    assert_eq!(counting.settled().await, 1);
    // A server that comes to office with a clock that is behind: the tombstone stops it.
    for member in 0..3 {
        set.faults().clock_skew(member, Duration::ZERO);
    }
    assert!(!counting.deliver_step_one_late().await);
    assert_eq!(counting.counters.finish(error.intent()).await.unwrap(), Finished::Counted);
    assert_eq!(counting.settled().await, 1);
}

#[tokio::test]
async fn whoever_has_the_intent_finishes_what_broke_anywhere() {
    let set = Deployment::replica_set(3).start();
    for uri in with_real_servers(set.uri()) {
        let proxy = Proxy::builder(&uri).start().await.unwrap();
        for reaction in [Reaction::lose_reply(), Reaction::cut_request()] {
            for before in [0, 1] {
                for is_stored in [true, false] {
                    let counting = behind(&proxy).await;
                    let rule = Rule::new(reaction.clone()).name("lost").command("update");
                    proxy.add(rule.skip(before));
                    let counters = counting.counters.clone().retries(0);
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
                        let finished = counting.counters.finish(intent).await.unwrap();
                        assert_eq!(finished, Finished::Counted);
                        assert_eq!(counting.settled().await, 1);
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn an_increment_goes_on_through_a_failover() {
    let set = Deployment::replica_set(3).start();
    let uri = format!("{}&retryWrites=false", set.uri());
    let counting = Counting::at(&uri).await;
    counting.counters.increment("day").await.unwrap();
    set.faults().kill(set.primary().unwrap());
    counting.counters.increment("day").await.unwrap();
    assert_eq!(counting.settled().await, 2);
}
