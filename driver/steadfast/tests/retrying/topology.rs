//! The error of each attempt, also of a retry, updates the topology before the next attempt begins.

use std::sync::{Arc, Mutex};

use steadfast::event::{EventHandler, sdam::SdamEvent};

use super::*;

/// Change of the topology after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    ServerUnknown,
    PoolCleared,
}

const UNKNOWN: &[Change] = &[Change::ServerUnknown];
const UNKNOWN_AND_CLEARED: &[Change] = &[Change::ServerUnknown, Change::PoolCleared];

/// Runs an insert with these faults. Returns the changes after the start of each attempt and before the next, or
/// before the call returned.
async fn changes(faults: &[Fault]) -> Vec<BTreeSet<Change>> {
    let deployment = Deployment::primary();
    // A set for each attempt. The first one contains the changes before the first attempt.
    let changes = Arc::new(Mutex::new(vec![BTreeSet::new()]));
    let note = |change: Change| {
        let changes = Arc::clone(&changes);
        move || changes.lock().unwrap().last_mut().unwrap().extend([change])
    };
    let (unknown, cleared) = (note(Change::ServerUnknown), note(Change::PoolCleared));
    let attempts = Arc::clone(&changes);
    let mut options = ClientOptions::parse(deployment.uri("")).await.unwrap();
    options.command_event_handler = Some(EventHandler::callback(move |event| {
        if matches!(event, CommandEvent::Started(it) if it.command_name == "insert") {
            attempts.lock().unwrap().push(BTreeSet::new());
        }
    }));
    options.sdam_event_handler = Some(EventHandler::callback(move |event| match event {
        SdamEvent::ServerDescriptionChanged(it) if it.new_description.error.is_some() => unknown(),
        _ => {}
    }));
    options.cmap_event_handler = Some(EventHandler::callback(move |event| {
        if matches!(event, CmapEvent::PoolCleared(_)) {
            cleared();
        }
    }));
    let client = Client::with_options(options).unwrap();
    deployment.inject(faults);
    let books: BookCollection = client.database("db").collection("books");
    let error = bounded(books.insert_one(doc! { "_id": 1 })).await.unwrap_err();
    assert_eq!(error.attempts().len(), faults.len(), "{faults:?}: {error:?}");
    let changes = changes.lock().unwrap().clone();
    assert!(changes[0].is_empty(), "{changes:?}");
    changes[1..].to_vec()
}

#[tokio::test]
async fn the_error_of_each_attempt_updates_the_topology_before_the_next() {
    // An error with this code does not mark the server unknown.
    let harmless = (Fault::CommandError(HOST_UNREACHABLE, RETRYABLE), &[][..]);
    let stepped_down = (Fault::CommandError(NOT_WRITABLE_PRIMARY, RETRYABLE), UNKNOWN);
    let shut_down = (Fault::CommandError(INTERRUPTED_AT_SHUTDOWN, RETRYABLE), UNKNOWN_AND_CLEARED);
    let broken = (Fault::LostReply, UNKNOWN_AND_CLEARED);
    let all = [harmless, stepped_down, shut_down, broken];
    for (first, retry) in all.into_iter().flat_map(|first| all.map(|retry| (first, retry))) {
        let expected = [first.1, retry.1].map(|changes| changes.iter().copied().collect());
        assert_eq!(changes(&[first.0, retry.0]).await, expected, "{first:?}, {retry:?}");
    }
}
