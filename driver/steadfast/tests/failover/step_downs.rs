//! Planned failovers, which raise no error in the application.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use steadfast::{
    Client, Collection,
    bson::{Document, doc},
    error::Error,
};
use testbed::{Options, ReplicaSet};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    bounded,
    increment_load::{Failover, IncrementLoad, RetryPolicy},
    is_unlabelled_step_down, report,
};

/// Replica set with a long election time-out, so that a slow primary on a busy machine causes no additional
/// election: a write is retried once, so two failovers at a time would fail it.
fn set_with_long_election_timeout() -> Arc<ReplicaSet> {
    let options = Options::new().election_timeout(Duration::from_secs(10));
    Arc::new(ReplicaSet::start(3, options).unwrap())
}

/// The write concern is `majority`, so that each write can be checked to be applied exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_error_reaches_the_application_while_primaries_step_down() {
    testbed::require!(V6_0);
    let load = bounded(async {
        IncrementLoad::over(
            set_with_long_election_timeout(),
            &[Failover::StepDown; 4],
            4_000,
            RetryPolicy::Driver,
        )
        .await
    })
    .await;
    report(&format!("increments through step-downs: {load}"));
    load.audit.assert_clean();
    assert_eq!(load.record.failed(), load.unlabelled, "{}", load.record);
    assert!(load.counter >= 4_000 - load.unlabelled && load.counter <= 4_000, "{load}");
}

/// A failover may roll back writes with `w: 1`, so only errors are counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_reads_nor_writes_of_w_1_fail_while_primaries_step_down() {
    testbed::require!(V6_0);
    const TASKS: i32 = 8;
    const STEP_DOWNS: usize = 3;
    /// Number of rounds of all tasks before each step-down, and after the last.
    const BETWEEN: u32 = 500;
    bounded(async {
        let set = set_with_long_election_timeout();
        let client = Client::with_uri_str(format!("{}&w=1", set.uri())).await.unwrap();
        let things = client.database("failover").collection::<Document>("things");
        things.insert_many((0..TASKS).map(|task| doc! { "_id": task, "n": 0 })).await.unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let done = Arc::new(Semaphore::new(0));
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let (things, over, done) = (things.clone(), Arc::clone(&over), Arc::clone(&done));
            tasks.spawn(async move { read_and_write(&things, task, &over, &done).await });
        }
        for _ in 0..STEP_DOWNS {
            done.acquire_many(BETWEEN).await.unwrap().forget();
            let set = Arc::clone(&set);
            tokio::task::spawn_blocking(move || Failover::StepDown.inject(&set)).await.unwrap();
        }
        done.acquire_many(BETWEEN).await.unwrap().forget();
        over.store(true, Relaxed);
        let (mut operations, mut errors) = (0, Vec::new());
        while let Some(done) = tasks.join_next().await {
            let (count, failed) = done.unwrap();
            operations += count;
            errors.extend(failed);
        }
        report(&format!(
            "reads and writes of w: 1 through {STEP_DOWNS} step-downs: {operations} operations, {} \
             errors",
            errors.len()
        ));
        assert!(errors.is_empty(), "{errors:?}");
    })
    .await;
}

/// Runs operations until the end of the test. Returns their number, and the errors.
async fn read_and_write(
    things: &Collection<Document>,
    task: i32,
    over: &AtomicBool,
    done: &Semaphore,
) -> (usize, Vec<Error>) {
    let (mut operations, mut errors) = (0, Vec::new());
    while !over.load(Relaxed) {
        let one = doc! { "_id": task };
        let written = things.update_one(one.clone(), doc! { "$inc": { "n": 1 } }).await;
        let read = things.find_one(one).await;
        operations += 2;
        errors.extend(written.err().filter(|error| !is_unlabelled_step_down(error)));
        errors.extend(read.err());
        done.add_permits(1);
    }
    (operations, errors)
}
