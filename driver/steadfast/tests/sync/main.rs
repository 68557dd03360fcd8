//! The blocking API on embedded deployments. Requires the feature `sync`.
#![allow(missing_docs)]

mod cursors;
mod dropping;
#[path = "../common/every_action.rs"]
mod every_action;
mod gridfs;
mod operations;
mod runtimes;
mod transactions;

use std::{
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use steadfast::{
    bson::Document,
    event::{EventHandler, command::CommandEvent},
    options::ClientOptions,
    sync::{Client, Collection},
};
use steadfast_embedded::Deployment;

/// Time that only a hang exceeds.
const HANG: Duration = Duration::from_secs(60);

/// Returns a replica set of one member, in a thread of its own, and its client.
fn replica_set() -> (Deployment, Client) {
    let deployment = Deployment::replica_set(1).in_thread().start();
    let client = Client::with_uri_str(deployment.uri()).expect("a client");
    (deployment, client)
}

fn collection(client: &Client) -> Collection<Document> {
    client.database("sync").collection("numbers")
}

/// Names of the commands that a client has started.
#[derive(Clone, Default)]
struct StartedCommands(Arc<(Mutex<Vec<String>>, Condvar)>);

impl StartedCommands {
    fn client(&self, deployment: &Deployment) -> Client {
        let mut options = ClientOptions::parse(deployment.uri()).run().expect("valid");
        let recorder = self.clone();
        options.command_event_handler = Some(EventHandler::callback(move |event| {
            if let CommandEvent::Started(event) = event {
                let (names, changed) = &*recorder.0;
                names.lock().expect("not poisoned").push(event.command_name);
                changed.notify_all();
            }
        }));
        Client::with_options(options).expect("a client")
    }

    fn count(&self, name: &str) -> usize {
        let names = self.0.0.lock().expect("not poisoned");
        names.iter().filter(|it| *it == name).count()
    }

    /// Waits until this number of commands with the name was started.
    #[track_caller]
    fn wait_for(&self, count: usize, name: &str) {
        let (names, changed) = &*self.0;
        let missing =
            |names: &mut Vec<String>| names.iter().filter(|it| *it == name).count() < count;
        let names = names.lock().expect("not poisoned");
        let (names, waited) =
            changed.wait_timeout_while(names, HANG, missing).expect("not poisoned");
        assert!(!waited.timed_out(), "no {name} in {names:?}");
    }
}
