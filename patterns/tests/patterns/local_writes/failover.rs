//! Failed, slow and recovered datacenters; dropped futures and writers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use steadfast::{
    error::Outcome,
    event::{EventHandler, command::CommandEvent},
    options::ClientOptions,
};
use steadfast_patterns::local_writes::LocalWriteError;

use super::*;

#[tokio::test]
async fn writer_fails_over_and_fails_back() {
    let (pair, clock) = TwoDatacenters::start().await;
    kill_all(&pair.alfa);
    let receipt = past_limit(&clock, pair.writer.insert(&message(1)), async {}).await.unwrap();
    assert_eq!(receipt.datacenter(), "bravo");
    assert_eq!(receipt.failed().len(), 1);
    assert_eq!(receipt.failed()[0].datacenter, "alfa");
    assert_ne!(receipt.failed()[0].id, receipt.id());
    assert_eq!(only_copy(&pair.at_bravo, 1).await, written(receipt.id(), 1, "bravo"));

    let status = pair.writer.datacenters();
    assert_eq!((&*status[0].name, status[0].is_up), ("alfa", false));
    assert!(status[0].last_error.is_some());
    assert_eq!((status[1].is_up, &status[1].last_error), (true, &None));
    // alfa is marked down: the next document goes straight to bravo.
    let receipt = pair.writer.insert(&message(2)).await.unwrap();
    assert_eq!((receipt.datacenter(), receipt.failed().len()), ("bravo", 0));

    restart_all(&pair.alfa);
    until_probed_up(&clock, &pair.writer).await;
    let receipt = pair.writer.insert(&message(3)).await.unwrap();
    assert_eq!((receipt.datacenter(), receipt.failed().len()), ("alfa", 0));
    assert!(pair.writer.datacenters()[0].last_error.is_none());
    let metrics = pair.writer.metrics();
    let alfa = metrics.datacenter("alfa").unwrap();
    assert_eq!((alfa.written, alfa.failed, alfa.marked_down, alfa.marked_up), (1, 1, 1, 1));
    assert_eq!(alfa.probes, alfa.probes_failed + 1, "the last one succeeded");
    assert_eq!(metrics.datacenter("bravo").unwrap().written, 2);
    assert_eq!((metrics.switched, metrics.all_down), (1, 0));
}

#[tokio::test]
async fn receipt_lists_the_copy_of_a_late_acknowledgement() {
    let (pair, clock) = TwoDatacenters::start().await;
    hold_majority(&pair.alfa);
    let there = until_written(&pair.at_alfa, 1);
    let receipt = past_limit(&clock, pair.writer.insert(&message(1)), there).await.unwrap();
    assert_eq!(receipt.datacenter(), "bravo");
    let [copy] = &receipt.may_also_be_in().collect::<Vec<_>>()[..] else { panic!("{receipt:?}") };
    assert_eq!(copy.datacenter, "alfa");
    assert!(!copy.outcome.is_certainly_not_applied());
    assert_eq!(only_copy(&pair.at_alfa, 1).await, written(copy.id, 1, "alfa"));
    assert_eq!(only_copy(&pair.at_bravo, 1).await, written(receipt.id(), 1, "bravo"));
    assert_eq!(pair.writer.metrics().datacenter("alfa").unwrap().in_doubt, 1);
}

#[tokio::test]
async fn datacenter_without_majority_stays_down() {
    let (pair, clock) = TwoDatacenters::start().await;
    hold_majority(&pair.alfa);
    // The primary replies to reads, which is not sufficient.
    let there = until_written(&pair.at_alfa, 1);
    past_limit(&clock, pair.writer.insert(&message(1)), there).await.unwrap();
    for nth in 1..=2 {
        failed_probe(&clock, &pair.writer, "alfa", nth).await;
    }
    assert_eq!(up(&pair.writer), [false, true]);

    release(&pair.alfa);
    until_probed_up(&clock, &pair.writer).await;
    assert_eq!(pair.writer.insert(&message(2)).await.unwrap().datacenter(), "alfa");
}

#[tokio::test]
async fn receipt_lists_no_copy_of_a_write_that_was_not_applied() {
    let (pair, _clock) = TwoDatacenters::start().await;
    let rejection = doc! { "failCommands": ["insert"], "errorCode": 13 };
    fail(&pair.alfa, "alwaysOn", &rejection);
    let receipt = pair.writer.insert(&message(1)).await.unwrap();
    assert_eq!(receipt.datacenter(), "bravo");
    assert_eq!(receipt.failed()[0].outcome, Outcome::NotApplied);
    assert_eq!(receipt.may_also_be_in().count(), 0);
    assert!(copies(&pair.at_alfa, 1).await.is_empty());
}

#[tokio::test]
async fn all_down_error_has_the_outcome_of_each_attempt() {
    let (pair, clock) = TwoDatacenters::start().await;
    hold_majority(&pair.alfa);
    kill_all(&pair.bravo);
    let (write, there) = (pair.writer.insert(&message(1)), until_written(&pair.at_alfa, 1));
    let error = past_both_limits(&clock, &pair.writer, write, there).await.unwrap_err();
    let LocalWriteError::AllDown { attempts, .. } = &error else { panic!("{error}") };
    let tried: Vec<_> = attempts.iter().map(|attempt| &*attempt.datacenter).collect();
    assert_eq!(tried, ["alfa", "bravo"]);
    assert!(error.may_be_in().any(|copy| copy.datacenter == "alfa"));
    assert_eq!(only_copy(&pair.at_alfa, 1).await, written(attempts[0].id, 1, "alfa"));
    let text = error.to_string();
    for part in ["all datacenters are down", "alfa (", "bravo (", "a copy may exist"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(std::error::Error::source(&error).is_some());
    assert_eq!(up(&pair.writer), [false, false]);
    assert_eq!(pair.writer.metrics().all_down, 1);

    restart_all(&pair.bravo);
    release(&pair.alfa);
    until_probed_up(&clock, &pair.writer).await;
    assert_eq!(pair.writer.insert(&message(2)).await.unwrap().datacenter(), "alfa");
}

#[tokio::test]
async fn down_datacenter_is_tried_as_a_last_resort() {
    let (pair, clock) =
        TwoDatacenters::with(|builder| builder.probe_every(Duration::from_secs(3600))).await;
    kill_all(&pair.alfa);
    kill_all(&pair.bravo);
    let write = pair.writer.insert(&message(1));
    past_both_limits(&clock, &pair.writer, write, async {}).await.unwrap_err();
    assert_eq!(up(&pair.writer), [false, false]);
    restart_all(&pair.bravo);
    // No probe was sent yet, and alfa is still down.
    let write = in_time(async {
        loop {
            if let Ok(receipt) = pair.writer.insert(&message(2)).await {
                break receipt;
            }
        }
    });
    let receipt = clock.pass_until(PROBE_EVERY, write).await;
    assert_eq!(receipt.datacenter(), "bravo");
    assert_eq!(up(&pair.writer), [false, true]);
    let metrics = pair.writer.metrics();
    assert_eq!(metrics.datacenter("bravo").unwrap().marked_up, 1);
    assert_eq!(metrics.datacenter("bravo").unwrap().probes, 0);
}

#[tokio::test]
async fn concurrent_failed_writes_mark_a_datacenter_down_once() {
    let (pair, clock) =
        TwoDatacenters::with(|builder| builder.probe_every(Duration::from_secs(3600))).await;
    hold_majority(&pair.alfa);
    let writes = (0..20).map(|id| {
        let writer = pair.writer.clone();
        tokio::spawn(async move { writer.insert(&message(id)).await.unwrap() })
    });
    let writes: Vec<_> = writes.collect();
    until_written(&pair.at_alfa, 20).await;
    clock.pass(LIMIT).await;
    for write in writes {
        assert_eq!(write.await.unwrap().datacenter(), "bravo");
    }
    let alfa = pair.writer.metrics().datacenter("alfa").unwrap().clone();
    assert_eq!((alfa.marked_down, alfa.marked_up), (1, 0));
    assert_eq!((alfa.failed, alfa.written), (20, 0));
}

#[tokio::test]
async fn late_failure_does_not_mark_a_recovered_datacenter_down() {
    let (pair, clock) = TwoDatacenters::start().await;
    let blocked = doc! { "failCommands": ["insert"], "blockConnection": true, "blockTimeMS": 5000 };
    fail(&pair.alfa, doc! { "times": 2 }, &blocked);
    let late = |id| {
        let writer = pair.writer.clone();
        tokio::spawn(async move { writer.insert(&message(id)).await.unwrap() })
    };
    let first = late(1);
    clock.pass(LIMIT / 2).await;
    let second = late(2);
    clock.pass(LIMIT / 2).await;
    assert_eq!(first.await.unwrap().datacenter(), "bravo");
    assert_eq!(up(&pair.writer), [false, true]);
    clock.pass(PROBE_EVERY).await;
    pair.writer.until_all_up().await;
    assert!(!second.is_finished());
    clock.pass(LIMIT / 2).await;
    assert_eq!(second.await.unwrap().datacenter(), "bravo");
    assert_eq!(up(&pair.writer), [true, true]);
    let alfa = pair.writer.metrics().datacenter("alfa").unwrap().clone();
    assert_eq!((alfa.failed, alfa.marked_down, alfa.marked_up), (2, 1, 1));
    assert_eq!((alfa.probes, alfa.probes_failed), (1, 0));
}

#[tokio::test]
async fn failover_within_the_time_limit_stays_in_the_datacenter() {
    let (pair, clock) =
        TwoDatacenters::with(|builder| builder.acknowledged_within(TEST_TIMEOUT)).await;
    pair.alfa.faults().kill(pair.alfa.primary().unwrap());
    let write = pair.writer.insert(&message(1));
    let receipt = clock.pass_until(PROBE_EVERY, write).await.unwrap();
    assert_eq!((receipt.datacenter(), receipt.failed().len()), ("alfa", 0));
    assert_eq!(copies(&pair.at_alfa, 1).await.len(), 1);
}

/// Drops a pending future after this number of polls.
async fn drop_after_polls<T>(turns: i64, future: impl Future<Output = T>) {
    let mut future = std::pin::pin!(future);
    for _ in 0..turns {
        tokio::select! {
            biased;
            _ = &mut future => panic!("the future ended"),
            () = tokio::task::yield_now() => {}
        }
    }
}

#[tokio::test]
async fn dropped_write_does_not_change_the_state_of_the_writer() {
    let (pair, _clock) =
        TwoDatacenters::with(|builder| builder.acknowledged_within(TEST_TIMEOUT)).await;
    hold_majority(&pair.alfa);
    // Each future is dropped at another point.
    for id in 0..20 {
        drop_after_polls(id, pair.writer.insert(&message(id))).await;
        drop_after_polls(id, pair.writer.insert_many([message(id), message(id)])).await;
    }
    drop(pair.writer.insert(&message(0)));
    assert_eq!(up(&pair.writer), [true, true]);
    release(&pair.alfa);
    let receipt = in_time(pair.writer.insert(&message(100))).await.unwrap();
    assert_eq!((receipt.datacenter(), receipt.failed().len()), ("alfa", 0));
    for id in 0..20 {
        assert!(copies(&pair.at_alfa, id).await.len() <= 3);
        assert!(copies(&pair.at_bravo, id).await.is_empty());
    }
    let metrics = pair.writer.metrics();
    assert_eq!(metrics.datacenter("alfa").unwrap().failed, 0);
}

#[tokio::test]
async fn datacenter_with_unauthorized_probes_is_marked_up() {
    let (pair, clock) = TwoDatacenters::start().await;
    let rejection = doc! { "failCommands": ["delete"], "errorCode": 13 };
    fail(&pair.alfa, "alwaysOn", &rejection);
    hold_majority(&pair.alfa);
    let there = until_written(&pair.at_alfa, 1);
    let receipt = past_limit(&clock, pair.writer.insert(&message(1)), there).await.unwrap();
    assert_eq!(receipt.datacenter(), "bravo");
    clock.pass(PROBE_EVERY).await;
    pair.writer.until_all_up().await;
    release(&pair.alfa);
    assert_eq!(pair.writer.insert(&message(2)).await.unwrap().datacenter(), "alfa");
}

/// Returns a collection whose client counts its `delete` commands.
async fn counting_deletes(deployment: &Deployment) -> (Collection<Document>, Arc<AtomicUsize>) {
    let begun = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&begun);
    let mut options = ClientOptions::parse(deployment.uri()).await.unwrap();
    options.command_event_handler = Some(EventHandler::callback(move |event| {
        if matches!(event, CommandEvent::Started(started) if started.command_name == "delete") {
            counter.fetch_add(1, Ordering::SeqCst);
        }
    }));
    let client = Client::with_options(options).unwrap();
    (client.database("app").collection("messages"), begun)
}

/// Returns a writer to a single datacenter that it has marked down, because writes do not reach a majority:
/// with the default limit of two seconds, and a second between probes.
async fn marked_down() -> (Deployment, Collection<Document>, Arc<AtomicUsize>, LocalWriter, Clock) {
    let alfa = Deployment::replica_set(3).start();
    let (collection, deletes) = counting_deletes(&alfa).await;
    let writer = LocalWriter::builder().datacenter("alfa", &collection).build().unwrap();
    collection.count_documents(doc! {}).await.unwrap();
    let clock = Clock::stopped();
    hold_majority(&alfa);
    let pass = async {
        until_written(&collection, 1).await;
        clock.pass(2 * SECOND).await;
    };
    tokio::join!(writer.insert(&message(1)), pass).0.unwrap_err();
    (alfa, collection, deletes, writer, clock)
}

const SECOND: Duration = Duration::from_secs(1);

/// Moves the clock by an hour, one second at a time.
async fn pass_an_hour(clock: &Clock) {
    for _ in 0..3600 {
        clock.pass(SECOND).await;
    }
}

#[tokio::test]
async fn probes_end_with_the_writer() {
    let (alfa, collection, deletes, writer, clock) = marked_down().await;
    let clone = writer.clone();
    drop(writer);
    // Each probe begins a second after the failed one before, which took two seconds.
    for probe in 1..=20 {
        assert_eq!(deletes.load(Ordering::SeqCst), probe - 1);
        clock.pass(SECOND).await;
        wait_until(|| deletes.load(Ordering::SeqCst) == probe).await;
        clock.pass(2 * SECOND).await;
        wait_until(|| clone.metrics().datacenters[0].probes_failed == probe as u64).await;
    }
    drop(clone);
    pass_an_hour(&clock).await;
    assert_eq!(deletes.load(Ordering::SeqCst), 20);
    // The client is still usable.
    release(&alfa);
    collection.insert_one(message(2)).await.unwrap();
}

#[tokio::test]
async fn datacenters_that_are_up_are_not_probed() {
    let (alfa, _collection, deletes, writer, clock) = marked_down().await;
    release(&alfa);
    clock.pass(SECOND).await;
    writer.until_all_up().await;
    assert_eq!(deletes.load(Ordering::SeqCst), 1);
    writer.insert(&message(2)).await.unwrap();
    pass_an_hour(&clock).await;
    assert_eq!(deletes.load(Ordering::SeqCst), 1);
    assert_eq!(writer.metrics().datacenters[0].probes, 1);
}

#[test]
fn probes_end_with_their_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let pair = runtime.block_on(async {
        let pair = TwoDatacenters::running(|builder| builder.acknowledged_within(REAL_LIMIT)).await;
        kill_all(&pair.alfa);
        pair.writer.insert(&message(1)).await.unwrap();
        pair
    });
    assert_eq!(up(&pair.writer), [false, true]);
    drop(runtime);
    // A writer without a runtime can still be queried and dropped.
    assert_eq!(up(&pair.writer.clone()), [false, true]);
}

#[test]
fn write_in_another_runtime_restarts_the_probes() {
    let start = || Deployment::replica_set(3).in_thread().start();
    let (alfa, bravo) = (start(), start());
    let lasting = tokio::runtime::Runtime::new().unwrap();
    let writer = lasting.block_on(async {
        LocalWriter::builder()
            .datacenter("alfa", messages(&alfa).await)
            .datacenter("bravo", messages(&bravo).await)
            .acknowledged_within(REAL_LIMIT)
            .probe_every(Duration::from_millis(20))
            .build()
            .unwrap()
    });
    kill_all(&alfa);
    let passing = tokio::runtime::Runtime::new().unwrap();
    passing.block_on(writer.insert(&message(1))).unwrap();
    drop(passing);
    assert_eq!(up(&writer), [false, true]);
    restart_all(&alfa);
    lasting.block_on(async {
        in_time(writer.insert(&message(2))).await.unwrap();
        in_time(writer.until_all_up()).await;
        assert_eq!(in_time(writer.insert(&message(3))).await.unwrap().datacenter(), "alfa");
    });
}
