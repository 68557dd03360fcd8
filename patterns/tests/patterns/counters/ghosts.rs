//! Step ones that arrive late: sent by a client that got no answer, stuck somewhere, and executed when nobody
//! thinks of them any more.

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

use crate::dice::Dice;

/// The messages that are on their way or stuck.
#[derive(Clone, Default)]
pub(super) struct Ghosts {
    stuck: Arc<Mutex<Vec<(String, Document)>>>,
    delivered: Arc<AtomicUsize>,
    effective: Arc<AtomicUsize>,
}

impl Ghosts {
    /// Watches a client that does not use retryable writes: with them, the server would know a late message
    /// again by its transaction number.
    pub(super) fn watch(&self) -> EventHandler<CommandEvent> {
        let (stuck, sent) = (Arc::clone(&self.stuck), Mutex::new(BTreeMap::new()));
        EventHandler::callback(move |event| match event {
            CommandEvent::Started(event) if is_step_one(&event.command) => {
                let message = (event.db, without_session(event.command));
                sent.lock().unwrap().insert(event.request_id, message);
            }
            CommandEvent::Succeeded(event) => drop(sent.lock().unwrap().remove(&event.request_id)),
            CommandEvent::Failed(event) => {
                let message = sent.lock().unwrap().remove(&event.request_id);
                // A server's refusal is an answer.
                if event.failure.code().is_none() {
                    stuck.lock().unwrap().extend(message);
                }
            }
            _ => {}
        })
    }

    /// Some of what is stuck arrives.
    pub(super) async fn arrive(&self, client: &Client, dice: &mut Dice) {
        let stuck = mem::take(&mut *self.stuck.lock().unwrap());
        let (now, later): (Vec<_>, Vec<_>) = stuck.into_iter().partition(|_| dice.one_in(3));
        self.stuck.lock().unwrap().extend(later);
        for (db, message) in now {
            let answer = client.database(&db).run_command(message).await;
            self.delivered.fetch_add(1, Relaxed);
            if answer.is_ok_and(|answer| answer.get_i32("n").is_ok_and(|n| n == 1)) {
                self.effective.fetch_add(1, Relaxed);
            }
        }
    }

    /// How many arrived, and how many of those took effect.
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
