//! What was observed of a client so far.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bson::{Bson, Document, oid::ObjectId};
use steadfast::{
    event::{
        EventHandler,
        cmap::CmapEvent,
        command::{CommandEvent, CommandStartedEvent},
        sdam::SdamEvent,
    },
    options::{ClientOptions, ServerAddress},
};
use steadfast_core::description::TopologyDescription;
use tokio::sync::Notify;

use super::Event;
use crate::unified::schema::{ClientSpec, EventName};

/// Which events of a client a test looks at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    events: BTreeSet<EventName>,
    ignored_commands: BTreeSet<String>,
    sensitive_commands: bool,
}

impl Watch {
    pub(crate) fn of(client: &ClientSpec) -> Self {
        let list = |list: &[String]| list.iter().cloned().collect::<BTreeSet<_>>();
        let ignored = client.ignore_command_monitoring_events.as_deref();
        Self {
            events: client
                .observe_events
                .iter()
                .flat_map(|events| events.iter().copied())
                .collect(),
            ignored_commands: ignored.map(list).unwrap_or_default(),
            sensitive_commands: client.observe_sensitive_commands,
        }
    }

    fn ignores_command(&self, event: &CommandStartedEvent) -> bool {
        let name = event.command_name.as_str();
        name == "configureFailPoint"
            || self.ignored_commands.contains(name)
            || (!self.sensitive_commands && is_sensitive(name, &event.command))
    }
}

/// Commands with secrets. That a `hello` has one shows in that the driver shows nothing of it.
fn is_sensitive(name: &str, command: &Document) -> bool {
    const SENSITIVE: &[&str] = &[
        "authenticate",
        "saslStart",
        "saslContinue",
        "getnonce",
        "createUser",
        "updateUser",
        "copydbgetnonce",
        "copydbsaslstart",
        "copydb",
    ];
    let is = |other: &&str| other.eq_ignore_ascii_case(name);
    SENSITIVE.iter().any(is) || (["hello", "ismaster"].iter().any(is) && command.is_empty())
}

/// What was observed of a client so far. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug, Default)]
struct State {
    watch: Watch,
    closed: bool,
    events: Vec<Event>,
    /// Requests of which nothing is kept.
    ignored_requests: BTreeSet<i32>,
    topology_id: Option<ObjectId>,
    description: Option<TopologyDescription>,
    checked_out: i64,
    ready_connections: BTreeMap<ServerAddress, usize>,
    last_fail_point: Option<ServerAddress>,
    /// Where the last command of each session went.
    sessions: Vec<(Bson, ServerAddress)>,
    killed_cursors: usize,
    aborted_transactions: usize,
}

impl Journal {
    pub(crate) fn new(watch: Watch) -> Self {
        let journal = Self::default();
        journal.lock().watch = watch;
        journal
    }

    /// Has the client tell all to this journal.
    pub(crate) fn listen(&self, options: &mut ClientOptions) {
        let journal = self.clone();
        options.command_event_handler =
            Some(EventHandler::callback(move |event| journal.note(Event::Command(event))));
        let journal = self.clone();
        options.cmap_event_handler =
            Some(EventHandler::callback(move |event| journal.note(Event::Cmap(event))));
        let journal = self.clone();
        options.sdam_event_handler =
            Some(EventHandler::callback(move |event| journal.note(Event::Sdam(event))));
    }

    /// Keeps nothing from now on.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }

    /// Forgets the events so far.
    pub(crate) fn forget(&self) {
        self.lock().events.clear();
    }

    /// The events so far.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.lock().events.clone()
    }

    /// The last two commands that were sent.
    pub(crate) fn last_two_commands(&self) -> Option<[Document; 2]> {
        let state = self.lock();
        let mut commands = state.events.iter().rev().filter_map(|event| match event {
            Event::Command(CommandEvent::Started(event)) => Some(event.command.clone()),
            _ => None,
        });
        Some([commands.next()?, commands.next()?])
    }

    /// How many connections are checked out.
    pub(crate) fn checked_out(&self) -> i64 {
        self.lock().checked_out
    }

    /// The id by which log messages name the client.
    pub(crate) fn topology_id(&self) -> Option<ObjectId> {
        self.lock().topology_id
    }

    /// The deployment as the client knows it.
    pub(crate) fn description(&self) -> Option<TopologyDescription> {
        self.lock().description.clone()
    }

    /// The server that was last told to fail.
    pub(crate) fn last_fail_point(&self) -> Option<ServerAddress> {
        self.lock().last_fail_point.clone()
    }

    /// The server that the last command of a session went to.
    pub(crate) fn server_of(&self, session: &Document) -> Option<ServerAddress> {
        let id = Bson::Document(session.clone());
        self.lock().sessions.iter().find(|(known, _)| *known == id).map(|(_, at)| at.clone())
    }

    /// How often a server was asked to forget a cursor, and has answered.
    pub(crate) fn killed_cursors(&self) -> usize {
        self.lock().killed_cursors
    }

    /// How often a server was asked to abort a transaction, and has answered.
    pub(crate) fn aborted_transactions(&self) -> usize {
        self.lock().aborted_transactions
    }

    /// Whether each server that holds data has that many connections ready.
    pub(crate) fn pools_are_populated(&self, connections: usize) -> bool {
        let state = self.lock();
        let Some(description) = &state.description else { return false };
        let mut servers = description.servers.values().peekable();
        servers.peek().is_some()
            && servers.filter(|server| server.server_type.name() != "RSArbiter").all(|server| {
                server.server_type.is_data_bearing()
                    && state
                        .ready_connections
                        .get(&server.address)
                        .is_some_and(|&n| n >= connections)
            })
    }

    /// Waits until `ready` is true of the journal; false if that takes too long.
    pub(crate) async fn wait(&self, limit: Duration, ready: impl Fn(&Self) -> bool) -> bool {
        let wait = async {
            loop {
                let news = self.0.news.notified();
                if ready(self) {
                    return;
                }
                news.await;
            }
        };
        tokio::time::timeout(limit, wait).await.is_ok()
    }

    fn note(&self, event: Event) {
        self.lock().note(event);
        self.0.news.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self, event: Event) {
        let ignored = match &event {
            Event::Command(event) => self.note_command(event),
            Event::Cmap(event) => self.note_connection(event),
            Event::Sdam(event) => self.note_topology(event),
        };
        let watched = event.name().is_some_and(|name| self.watch.events.contains(&name));
        if watched && !ignored && !self.closed {
            self.events.push(event);
        }
    }

    /// Whether the command is one to be ignored.
    fn note_command(&mut self, event: &CommandEvent) -> bool {
        match event {
            CommandEvent::Started(event) => {
                if event.command_name == "configureFailPoint" {
                    self.last_fail_point = Some(event.connection.address.clone());
                }
                if let Some(session) = event.command.get("lsid") {
                    self.sessions.retain(|(known, _)| known != session);
                    self.sessions.push((session.clone(), event.connection.address.clone()));
                }
                let ignored = self.watch.ignores_command(event);
                if ignored {
                    self.ignored_requests.insert(event.request_id);
                }
                ignored
            }
            CommandEvent::Succeeded(event) => self.note_end(&event.command_name, event.request_id),
            CommandEvent::Failed(event) => self.note_end(&event.command_name, event.request_id),
            _ => true,
        }
    }

    /// Whether the command is one to be ignored.
    fn note_end(&mut self, command: &str, request_id: i32) -> bool {
        if command == "killCursors" {
            self.killed_cursors += 1;
        }
        if command == "abortTransaction" {
            self.aborted_transactions += 1;
        }
        self.ignored_requests.contains(&request_id)
    }

    fn note_connection(&mut self, event: &CmapEvent) -> bool {
        match event {
            CmapEvent::ConnectionCheckedOut(_) => self.checked_out += 1,
            CmapEvent::ConnectionCheckedIn(_) => self.checked_out -= 1,
            CmapEvent::ConnectionReady(event) => {
                *self.ready_connections.entry(event.address.clone()).or_default() += 1;
            }
            _ => {}
        }
        false
    }

    fn note_topology(&mut self, event: &SdamEvent) -> bool {
        match event {
            SdamEvent::TopologyOpening(event) => self.topology_id = Some(event.topology_id),
            SdamEvent::TopologyDescriptionChanged(event) => {
                self.description = Some(event.new_description.clone());
            }
            _ => {}
        }
        false
    }
}
