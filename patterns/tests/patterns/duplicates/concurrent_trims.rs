//! Two concurrent trims that would delete each other's copy: one copy stays for every interleaving.

use std::{
    sync::{Arc, mpsc},
    thread,
};

use steadfast::{
    Client, Collection,
    bson::{Document, doc},
    event::{EventHandler, command::CommandEvent},
    options::ClientOptions,
};
use steadfast_embedded::Deployment;
use steadfast_patterns::duplicates::{Duplicates, Keep, TrimReport};

use super::id;

/// Commands of a trim of one event: find, read again, mark, confirm (two updates), delete.
const STEPS: [&str; 6] = ["find", "find", "update", "update", "update", "delete"];

/// A trim in a thread of its own that pauses before one of its commands.
struct PausedTrim {
    /// Receives a message when the trim has paused or ended.
    stopped: mpsc::Receiver<()>,
    resume: mpsc::Sender<()>,
    thread: thread::JoinHandle<TrimReport>,
}

impl PausedTrim {
    fn start(uri: String, keep: Keep, before: usize) -> Self {
        let (stop, stopped) = mpsc::channel();
        let (resume, resumed) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let ended = stop.clone();
            let state = std::sync::Mutex::new((0, stop, resumed));
            let handler = EventHandler::callback(move |event| {
                let CommandEvent::Started(started) = event else { return };
                let mut state = state.lock().unwrap();
                if !STEPS.contains(&started.command_name.as_str()) {
                    return;
                }
                if state.0 == before {
                    state.1.send(()).unwrap();
                    state.2.recv().unwrap();
                }
                state.0 += 1;
            });
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let report = runtime.unwrap().block_on(trim(&uri, keep, handler));
            // The receiver has gone if the trim paused.
            let _ = ended.send(());
            report
        });
        Self { stopped, resume, thread }
    }

    fn wait(&self) {
        self.stopped.recv().unwrap();
    }

    fn finish(self) -> TrimReport {
        let _ = self.resume.send(());
        self.thread.join().unwrap()
    }
}

async fn trim(uri: &str, keep: Keep, handler: EventHandler<CommandEvent>) -> TrimReport {
    let mut options = ClientOptions::parse(uri).await.unwrap();
    options.command_event_handler = Some(handler);
    let client = Client::with_options(options).unwrap();
    let messages: Collection<Document> = client.database("app").collection("messages");
    let duplicates = Duplicates::of(&messages).key(["message_id"]).keep(keep);
    duplicates.trim(doc! {}).dry_run(false).await.unwrap()
}

fn copy(second: u8, datacenter: &str) -> Document {
    doc! { "_id": id(second, 1), "message_id": 1, "datacenter": datacenter }
}

/// Returns the remaining copies after one trim ran up to a command, then another one up to a command, then the
/// first to its end, then the other.
fn left(copies: &[Document], keep: [Keep; 2], stops: [usize; 2]) -> Vec<Document> {
    let deployment = Arc::new(Deployment::replica_set(1).in_thread().start());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(Client::with_uri_str(deployment.uri())).unwrap();
    let messages: Collection<Document> = client.database("app").collection("messages");
    runtime.block_on(messages.insert_many(copies).into_future()).unwrap();
    let first = PausedTrim::start(deployment.uri(), keep[0], stops[0]);
    first.wait();
    let second = PausedTrim::start(deployment.uri(), keep[1], stops[1]);
    second.wait();
    let mut deleted = first.finish().deleted;
    deleted += second.finish().deleted;
    let left = runtime.block_on(super::all(&messages));
    assert_eq!(left.len() + usize::try_from(deleted).unwrap(), copies.len());
    left
}

#[test]
fn opposite_concurrent_trims_keep_one_of_two_copies() {
    let copies = [copy(1, "alfa"), copy(2, "bravo")];
    for one in 0..STEPS.len() {
        for other in 0..STEPS.len() {
            let left = left(&copies, [Keep::First, Keep::Last], [one, other]);
            assert!(!left.is_empty(), "both copies are gone: {one}, {other}");
        }
    }
}

#[test]
fn opposite_concurrent_trims_keep_one_of_three_copies() {
    let copies = [copy(1, "alfa"), copy(2, "bravo"), copy(3, "alfa")];
    for (one, other) in [(2, 3), (3, 3), (4, 3), (5, 3), (3, 4), (3, 5), (4, 4), (5, 5)] {
        let left = left(&copies, [Keep::First, Keep::Last], [one, other]);
        assert!(!left.is_empty(), "all copies are gone: {one}, {other}");
    }
}

#[test]
fn equal_concurrent_trims_delete_each_copy_once() {
    let copies = [copy(1, "alfa"), copy(2, "bravo")];
    for one in 0..STEPS.len() {
        for other in 0..STEPS.len() {
            let left = left(&copies, [Keep::Last, Keep::Last], [one, other]);
            assert!(left.iter().any(|it| it["datacenter"].as_str() == Some("bravo")));
        }
    }
}
