//! Delayed step ones: the client received no reply, and the server executes the request later.

use std::{
    collections::BTreeMap,
    mem,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use steadfast::{
    Client,
    bson::Document,
    event::{EventHandler, command::CommandEvent},
};

use crate::rng::Rng;

/// Requests of step one without a reply.
#[derive(Clone, Default)]
pub(super) struct DelayedRequests {
    delayed: Arc<Mutex<Vec<(String, Document)>>>,
    delivered: Arc<AtomicUsize>,
    effective: Arc<AtomicUsize>,
}

impl DelayedRequests {
    /// Collects the requests of a client without retryable writes. With retryable writes, the server would
    /// recognise a late request by its `txnNumber`.
    pub(super) fn watch(&self) -> EventHandler<CommandEvent> {
        let (delayed, sent) = (Arc::clone(&self.delayed), Mutex::new(BTreeMap::new()));
        EventHandler::callback(move |event| match event {
            CommandEvent::Started(event) if is_step_one(&event.command) => {
                let message = (event.db, without_session(event.command));
                sent.lock().unwrap().insert(event.request_id, message);
            }
            CommandEvent::Succeeded(event) => drop(sent.lock().unwrap().remove(&event.request_id)),
            CommandEvent::Failed(event) => {
                let message = sent.lock().unwrap().remove(&event.request_id);
                // An error of the server is a reply.
                if event.failure.code().is_none() {
                    delayed.lock().unwrap().extend(message);
                }
            }
            _ => {}
        })
    }

    /// Sends a third of the delayed requests.
    pub(super) async fn deliver(&self, client: &Client, rng: &mut Rng) {
        let delayed = mem::take(&mut *self.delayed.lock().unwrap());
        let (now, later): (Vec<_>, Vec<_>) = delayed.into_iter().partition(|_| rng.one_in(3));
        self.delayed.lock().unwrap().extend(later);
        for (db, message) in now {
            let reply = client.database(&db).run_command(message).await;
            self.delivered.fetch_add(1, Relaxed);
            if reply.is_ok_and(|reply| reply.get_i32("n").is_ok_and(|n| n == 1)) {
                self.effective.fetch_add(1, Relaxed);
            }
        }
    }

    /// Returns the number of delivered requests, and of those that had an effect.
    pub(super) fn delivered(&self) -> (usize, usize) {
        (self.delivered.load(Relaxed), self.effective.load(Relaxed))
    }
}

fn is_step_one(command: &Document) -> bool {
    let updates = command.get_array("updates").into_iter().flatten();
    let mut updates = updates.filter_map(|update| update.as_document()?.get_document("u").ok());
    updates.any(|update| update.contains_key("$addToSet") && !update.contains_key("$inc"))
}

fn without_session(command: Document) -> Document {
    const OF_SESSIONS: [&str; 4] = ["lsid", "txnNumber", "$clusterTime", "$db"];
    command.into_iter().filter(|(name, _)| !OF_SESSIONS.contains(&name.as_str())).collect()
}
