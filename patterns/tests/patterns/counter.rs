//! Counters: increments without faults, lost messages, late duplicates, crashes, clocks and sweeps, on
//! embedded and real servers.

mod basic;
mod clocks;
mod error_state;
mod message_loss;
mod sharded;
mod sweep;

use std::sync::{Arc, Mutex};

use steadfast::{
    Client, Collection,
    bson::{Document, doc, oid::ObjectId},
    event::{EventHandler, command::CommandEvent},
    options::ClientOptions,
};
use steadfast_patterns::counter::Counters;

/// Connection strings of this deployment and of the shared real deployment, if it is available.
pub(crate) fn with_real_servers(uri: String) -> Vec<String> {
    let real = testbed::found_or_skip(testbed::shared::servers());
    let real = real.map(|()| testbed::shared::uri().expect("a deployment"));
    [uri].into_iter().chain(real).collect()
}

/// Connection string of a real standalone server, if it is available.
fn real_standalone() -> Option<String> {
    testbed::found_or_skip(testbed::servers(testbed::Version::V6_0))?;
    Some(testbed::shared::standalone().expect("a server").uri())
}

/// A new collection, its counters, and the commands that the client has sent.
struct CounterFixture {
    collection: Collection<Document>,
    counters: Counters,
    sent: Arc<Mutex<Vec<Document>>>,
}

impl CounterFixture {
    async fn at(uri: &str) -> Self {
        let name = format!("counting_{}", ObjectId::new());
        Self::within(uri, &name).await
    }

    async fn within(uri: &str, name: &str) -> Self {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let mut options = ClientOptions::parse(uri).await.unwrap();
        let commands = Arc::clone(&sent);
        options.command_event_handler = Some(EventHandler::callback(move |event| {
            if let CommandEvent::Started(event) = event {
                commands.lock().unwrap().push(event.command.clone());
            }
        }));
        let client = Client::with_options(options).unwrap();
        let collection = client.database("patterns").collection::<Document>(name);
        let counters = Counters::new(&collection);
        Self { collection, counters, sent }
    }

    /// Returns the names of the commands since the last call.
    fn sent(&self) -> Vec<String> {
        let sent = std::mem::take(&mut *self.sent.lock().unwrap());
        sent.iter().filter_map(|command| command.keys().next().cloned()).collect()
    }

    /// Sends the first step one again, as a delayed request. Returns `true` if it had an effect.
    async fn deliver_step_one_late(&self) -> bool {
        let is_step_one = |command: &&Document| command.to_string().contains("$addToSet");
        let first = self.sent.lock().unwrap().iter().find(is_step_one).cloned();
        let mut command = first.expect("it was sent");
        for field in ["lsid", "txnNumber", "$clusterTime", "$db", "$readPreference"] {
            command.remove(field);
        }
        let database = self.collection.client().database("patterns");
        let reply = database.run_command(command).await.unwrap();
        reply.get_i32("nModified").unwrap() > 0
    }

    async fn document(&self) -> Document {
        self.collection.find_one(doc! { "_id": "day" }).await.unwrap().expect("it is there")
    }

    /// Returns the count, and asserts that nothing is pending.
    async fn settled_value(&self) -> i64 {
        let value = self.counters.value_with_pending("day").await.unwrap().unwrap();
        assert_eq!(value.pending, 0, "something is pending");
        value.counted
    }
}
