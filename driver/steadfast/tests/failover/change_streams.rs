//! Change streams during failovers: one event for each write, in order.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::TryStreamExt;
use steadfast::{
    Client, Collection,
    bson::{Document, doc},
    change_stream::{ChangeStream, event::ChangeStreamEvent},
    event::{EventHandler, command::CommandEvent},
    options::{ClientOptions, WriteConcern},
};
use testbed::{Options, ReplicaSet};
use tokio::task::JoinHandle;

use crate::{bounded, increment_load::Failover, report};

type NumberStream = ChangeStream<ChangeStreamEvent<Document>>;

const WRITES: i32 = 600;
/// Number of writes between two failovers.
const BETWEEN: i32 = 150;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_stream_has_one_event_per_write_during_failovers() {
    testbed::require!(V6_0);
    bounded(async {
        let set = Arc::new(ReplicaSet::start(3, Options::new()).unwrap());
        let begun = Arc::new(AtomicUsize::new(0));
        let mut options = ClientOptions::parse(set.uri()).await.unwrap();
        options.command_event_handler = Some(count_aggregates(&begun));
        let client = Client::with_options(options).unwrap();
        let numbers = client.database("failover").collection::<Document>("watched");
        write(&numbers, 0).await;
        let mut stream = numbers.watch().await.unwrap();

        let writer = tokio::spawn(write_through_failovers(Arc::clone(&set), numbers.clone()));
        let (mut received, mut failed) = (Vec::new(), 0);
        while received.len() < usize::try_from(WRITES).unwrap() {
            match stream.try_next().await {
                Ok(event) => {
                    let key = event.expect("the stream is open").document_key.unwrap();
                    received.push(key.get_i32("_id").unwrap());
                }
                // The driver resumes the stream once; the application may resume it, too.
                Err(_) => {
                    failed += 1;
                    stream = resume(&numbers, &stream).await;
                }
            }
        }
        writer.await.unwrap();
        assert_eq!(received, (1..=WRITES).collect::<Vec<_>>());
        let begun = begun.load(Relaxed);
        report(&format!(
            "a change stream through three failovers: {WRITES} writes, as many events, begun \
             {begun} times, {failed} of them by the application"
        ));
        assert!(begun >= 2, "no failover befell the stream");
    })
    .await;
}

/// Resumes a stream, with retries: another primary may fail meanwhile.
async fn resume(numbers: &Collection<Document>, lost: &NumberStream) -> NumberStream {
    loop {
        if let Ok(stream) = numbers.watch().resume_after(lost.resume_token()).await {
            return stream;
        }
    }
}

/// Without a pending `next`, the stream does not detect the death of its member. The resume does not wait for that
/// member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_stream_does_not_wait_for_a_dead_member() {
    testbed::require!(V6_0);
    bounded(async {
        let set = ReplicaSet::start(3, Options::new()).unwrap();
        let setup = format!("{}&serverSelectionTimeoutMS=600000", set.uri());
        let client = Client::with_uri_str(setup).await.unwrap();
        let numbers = client.database("failover").collection::<Document>("watched");
        write(&numbers, 0).await;
        let mut stream = numbers.watch().await.unwrap();
        set.kill(set.wait_for_primary().unwrap()).unwrap();
        // After this write the client has discovered the new primary.
        write(&numbers, 1).await;
        // Much shorter than the server selection time-out.
        let next = tokio::time::timeout(Duration::from_secs(120), stream.try_next()).await;
        let event = next.expect("another member is asked").unwrap().unwrap();
        assert_eq!(event.document_key, Some(doc! { "_id": 1 }));
    })
    .await;
}

/// Counts the `aggregate` commands that open or resume change streams.
fn count_aggregates(begun: &Arc<AtomicUsize>) -> EventHandler<CommandEvent> {
    let begun = Arc::clone(begun);
    EventHandler::callback(move |event| {
        if matches!(event, CommandEvent::Succeeded(it) if it.command_name == "aggregate") {
            begun.fetch_add(1, Relaxed);
        }
    })
}

/// Inserts a number, with retries. A duplicate key error means that an earlier attempt was applied.
async fn write(numbers: &Collection<Document>, number: i32) {
    loop {
        let write = numbers.insert_one(doc! { "_id": number });
        match write.write_concern(WriteConcern::majority()).await {
            Ok(_) => return,
            Err(error) if error.is_duplicate_key_error() => return,
            Err(_) => {}
        }
    }
}

/// Inserts numbers one after the other during failovers.
async fn write_through_failovers(set: Arc<ReplicaSet>, numbers: Collection<Document>) {
    let inject = |failover: Failover| {
        let set = Arc::clone(&set);
        tokio::task::spawn_blocking(move || failover.inject(&set))
    };
    // A member that steps down keeps its change streams; those of a killed member are lost.
    let mut failovers = [Failover::Kill, Failover::Kill, Failover::StepDown].into_iter();
    let mut failing: Option<JoinHandle<()>> = None;
    for number in 1..=WRITES {
        write(&numbers, number).await;
        if number % BETWEEN == 0 {
            if let Some(failing) = failing.take() {
                failing.await.unwrap();
            }
            failing = failovers.next().map(inject);
        }
    }
}
