//! Recorder of a client's events.

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

/// Events of a client that a test observes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObservedEvents {
    events: BTreeSet<EventName>,
    ignored_commands: BTreeSet<String>,
    sensitive_commands: bool,
}

impl ObservedEvents {
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

/// Returns true for commands with secrets. The driver redacts a `hello` with speculative authentication to an empty one.
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

/// Recorded events of a client. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventRecorder(Arc<RecorderShared>);

#[derive(Debug, Default)]
struct RecorderShared {
    state: Mutex<RecorderState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct RecorderState {
    observed: ObservedEvents,
    closed: bool,
    events: Vec<Event>,
    /// Requests whose events are not recorded.
    ignored_requests: BTreeSet<i32>,
    topology_id: Option<ObjectId>,
    description: Option<TopologyDescription>,
    checked_out: i64,
    ready_connections: BTreeMap<ServerAddress, usize>,
    last_fail_point: Option<ServerAddress>,
    /// Server of the last command of each session (`lsid`).
    sessions: Vec<(Bson, ServerAddress)>,
    ended_kill_cursors: usize,
    ended_abort_transactions: usize,
}

impl EventRecorder {
    pub(crate) fn new(observed: ObservedEvents) -> Self {
        let recorder = Self::default();
        recorder.lock().observed = observed;
        recorder
    }

    /// Sets the event handlers of a client.
    pub(crate) fn set_handlers(&self, options: &mut ClientOptions) {
        let recorder = self.clone();
        options.command_event_handler =
            Some(EventHandler::callback(move |event| recorder.record(Event::Command(event))));
        let recorder = self.clone();
        options.cmap_event_handler =
            Some(EventHandler::callback(move |event| recorder.record(Event::Cmap(event))));
        let recorder = self.clone();
        options.sdam_event_handler =
            Some(EventHandler::callback(move |event| recorder.record(Event::Sdam(event))));
    }

    /// Stops recording.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }

    /// Removes the recorded events.
    pub(crate) fn clear_events(&self) {
        self.lock().events.clear();
    }

    /// Returns the recorded events.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.lock().events.clone()
    }

    /// Returns the last two commands, the last first.
    pub(crate) fn last_two_commands(&self) -> Option<[Document; 2]> {
        let state = self.lock();
        let mut commands = state.events.iter().rev().filter_map(|event| match event {
            Event::Command(CommandEvent::Started(event)) => Some(event.command.clone()),
            _ => None,
        });
        Some([commands.next()?, commands.next()?])
    }

    /// Number of connections that are checked out.
    pub(crate) fn checked_out(&self) -> i64 {
        self.lock().checked_out
    }

    /// Topology id of the client, which its log messages contain.
    pub(crate) fn topology_id(&self) -> Option<ObjectId> {
        self.lock().topology_id
    }

    /// Latest topology description of the client.
    pub(crate) fn description(&self) -> Option<TopologyDescription> {
        self.lock().description.clone()
    }

    /// Server of the last `configureFailPoint`.
    pub(crate) fn last_fail_point(&self) -> Option<ServerAddress> {
        self.lock().last_fail_point.clone()
    }

    /// Server of the last command of a session.
    pub(crate) fn server_of(&self, session: &Document) -> Option<ServerAddress> {
        let id = Bson::Document(session.clone());
        self.lock().sessions.iter().find(|(known, _)| *known == id).map(|(_, at)| at.clone())
    }

    /// Number of `killCursors` commands that have ended.
    pub(crate) fn ended_kill_cursors(&self) -> usize {
        self.lock().ended_kill_cursors
    }

    /// Number of `abortTransaction` commands that have ended.
    pub(crate) fn ended_abort_transactions(&self) -> usize {
        self.lock().ended_abort_transactions
    }

    /// Returns true if each data-bearing server has that many established connections.
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

    /// Waits until `ready` returns true; returns false after the time-out.
    pub(crate) async fn wait(&self, timeout: Duration, ready: impl Fn(&Self) -> bool) -> bool {
        let wait = async {
            loop {
                let changed = self.0.changed.notified();
                if ready(self) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(timeout, wait).await.is_ok()
    }

    fn record(&self, event: Event) {
        self.lock().record(event);
        self.0.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, RecorderState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecorderState {
    fn record(&mut self, event: Event) {
        let ignored = match &event {
            Event::Command(event) => self.record_command(event),
            Event::Cmap(event) => self.record_connection(event),
            Event::Sdam(event) => self.record_topology(event),
        };
        let observed = event.name().is_some_and(|name| self.observed.events.contains(&name));
        if observed && !ignored && !self.closed {
            self.events.push(event);
        }
    }

    /// Returns true if the command's events are ignored.
    fn record_command(&mut self, event: &CommandEvent) -> bool {
        match event {
            CommandEvent::Started(event) => {
                if event.command_name == "configureFailPoint" {
                    self.last_fail_point = Some(event.connection.address.clone());
                }
                if let Some(session) = event.command.get("lsid") {
                    self.sessions.retain(|(known, _)| known != session);
                    self.sessions.push((session.clone(), event.connection.address.clone()));
                }
                let ignored = self.observed.ignores_command(event);
                if ignored {
                    self.ignored_requests.insert(event.request_id);
                }
                ignored
            }
            CommandEvent::Succeeded(event) => {
                self.record_end(&event.command_name, event.request_id)
            }
            CommandEvent::Failed(event) => self.record_end(&event.command_name, event.request_id),
            _ => true,
        }
    }

    /// Returns true if the command's events are ignored.
    fn record_end(&mut self, command: &str, request_id: i32) -> bool {
        if command == "killCursors" {
            self.ended_kill_cursors += 1;
        }
        if command == "abortTransaction" {
            self.ended_abort_transactions += 1;
        }
        self.ignored_requests.contains(&request_id)
    }

    fn record_connection(&mut self, event: &CmapEvent) -> bool {
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

    fn record_topology(&mut self, event: &SdamEvent) -> bool {
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
