//! Discovery of the servers of a deployment, from the SDAM events of the driver.

use std::{collections::BTreeMap, time::Duration};

use steadfast::{
    Client, ServerDescription, ServerType, TopologyDescription, TopologyType,
    bson::{Document, doc},
    error::{Error, ErrorKind},
    event::{EventHandler, sdam::SdamEvent},
    options::{ClientOptions, ConnectionString, ServerAddress},
};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use super::{
    facts::{DeploymentFailure, DeploymentKind, Facts, Server},
    queries, shards,
};
use crate::{duration, notes::Notes};

/// Time without a result after which a note is printed.
const NOTE_AFTER: Duration = Duration::from_secs(1);

/// Collects the facts of a deployment within `limit`.
///
/// Six tenths of the time are for discovery, the rest for commands to the servers.
pub(super) async fn facts(
    uri: &str,
    parsed: ConnectionString,
    limit: Duration,
    notes: &Notes,
) -> Facts {
    let now = Instant::now();
    let (found_by, end) = (now + limit.mul_f64(0.6), now + limit);
    let selection_timeout = found_by - now;
    let mut facts = Facts::before(parsed, selection_timeout);
    let options = match timeout_at(found_by, ClientOptions::parse(uri)).await {
        Ok(Ok(options)) => options,
        Ok(Err(error)) => {
            facts.failure = Some(failure(&error));
            return facts;
        }
        Err(_) => {
            facts.failure =
                Some(DeploymentFailure::Dns("the DNS servers did not reply".to_owned()));
            return facts;
        }
    };
    facts.seeds.clone_from(&options.hosts);
    facts.uri.replica_set.clone_from(&options.repl_set_name);
    facts.uri.load_balanced = options.load_balanced;
    let shard_options = shards::options(&options);
    let (state, client) = match open(options, selection_timeout) {
        Ok(opened) => opened,
        Err(error) => {
            facts.failure = Some(failure(&error));
            return facts;
        }
    };
    let finding = find(&client, state.clone(), found_by);
    facts.failure = with_note(finding, &facts.seeds, selection_timeout, notes).await;
    describe(&mut facts, &state.borrow());
    queries::run(&client, &mut facts, end).await;
    shards::examine(&shard_options, &mut facts, end).await;
    facts
}

/// Creates a client, and a receiver of its SDAM state.
fn open(
    mut options: ClientOptions,
    selection_timeout: Duration,
) -> Result<(watch::Receiver<SdamState>, Client), Error> {
    let (sender, state) = watch::channel(SdamState::default());
    let handler =
        EventHandler::callback(move |event| sender.send_modify(|state| state.apply(event)));
    options.sdam_event_handler = Some(handler);
    options.server_selection_timeout = Some(selection_timeout);
    // A time-out that is too short is reported as a finding, and must not prevent the others.
    options.timeout = None;
    options.socket_timeout = None;
    options.wait_queue_timeout = None;
    options.app_name.get_or_insert_with(|| "steadfast doctor".to_owned());
    Ok((state, Client::with_options(options)?))
}

/// State of the deployment according to SDAM events.
#[derive(Clone, Debug, Default)]
struct SdamState {
    topology: TopologyDescription,
    /// Last available description of each server.
    known: BTreeMap<ServerAddress, ServerDescription>,
    /// Last `hello` reply of each server.
    hellos: BTreeMap<ServerAddress, Document>,
    /// Error of the last heartbeat of each server, if it failed.
    errors: BTreeMap<ServerAddress, String>,
}

impl SdamState {
    fn apply(&mut self, event: SdamEvent) {
        match event {
            SdamEvent::TopologyDescriptionChanged(event) => {
                self.topology = event.new_description;
                let available = self.topology.servers.values().filter(|it| it.is_available());
                self.known.extend(available.map(|it| (it.address.clone(), it.clone())));
            }
            SdamEvent::ServerHeartbeatSucceeded(event) => {
                self.errors.remove(&event.server_address);
                self.hellos.insert(event.server_address, event.reply);
            }
            SdamEvent::ServerHeartbeatFailed(event) => {
                self.errors.insert(event.server_address, event.failure.to_string());
            }
            _ => {}
        }
    }

    /// Returns `true` if each server has replied or its heartbeat has failed.
    fn is_settled(&self) -> bool {
        let begun = !self.hellos.is_empty() || !self.errors.is_empty();
        let load_balanced = self.topology.topology_type == TopologyType::LoadBalanced;
        let mut servers = self.topology.servers.values();
        load_balanced || begun && servers.all(|it| it.is_available() || it.error.is_some())
    }

    /// Returns `true` if no server has replied as a member of the deployment.
    ///
    /// A server that was available before may be marked unknown because authentication failed. The operation reports
    /// that error.
    fn is_unreachable(&self) -> bool {
        let mut addresses = self.topology.servers.keys();
        self.is_settled() && addresses.all(|address| !self.known.contains_key(address))
    }
}

/// Waits until the type of each server is known. Returns the reason if the deployment cannot be used.
async fn find(
    client: &Client,
    mut state: watch::Receiver<SdamState>,
    found_by: Instant,
) -> Option<DeploymentFailure> {
    let admin = client.database("admin");
    let ping = async { admin.run_command(doc! { "ping": 1 }).await };
    let mut watching = state.clone();
    let usable = async {
        tokio::select! {
            reply = ping => reply.err().map(|error| failure(&error)),
            _ = watching.wait_for(SdamState::is_unreachable) => {
                Some(DeploymentFailure::NoServer("no server replied".to_owned()))
            }
        }
    };
    let late = DeploymentFailure::NoServer("no writable server was found in time".to_owned());
    let failure = timeout_at(found_by, usable).await.unwrap_or(Some(late));
    // Servers without a reply until then are described as unreachable.
    let _ = timeout_at(found_by, state.wait_for(SdamState::is_settled)).await;
    let incompatible = state.borrow().topology.compatibility_error.clone();
    incompatible.map(DeploymentFailure::Incompatible).or(failure)
}

/// Runs the work, and prints a note if it takes long.
async fn with_note<T>(
    work: impl Future<Output = T>,
    seeds: &[ServerAddress],
    selection_timeout: Duration,
    notes: &Notes,
) -> T {
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => done,
        () = tokio::time::sleep(NOTE_AFTER) => {
            let seeds: Vec<_> = seeds.iter().map(ToString::to_string).collect();
            let (seeds, rest) = (seeds.join(", "), duration::show(selection_timeout));
            notes.info(format_args!("looking for the servers of {seeds} (time-out {rest}) …"));
            work.await
        }
    }
}

fn failure(error: &Error) -> DeploymentFailure {
    let message = error.to_string();
    match &*error.kind {
        ErrorKind::Authentication { .. } => DeploymentFailure::Authentication(message),
        ErrorKind::DnsResolve { .. } => DeploymentFailure::Dns(message),
        ErrorKind::InvalidTlsConfig { .. } => DeploymentFailure::Tls(message),
        ErrorKind::ServerSelection { .. } => DeploymentFailure::NoServer(message),
        ErrorKind::IncompatibleServer { .. } => DeploymentFailure::Incompatible(message),
        _ => DeploymentFailure::Other(message),
    }
}

/// Converts the SDAM state to facts.
fn describe(facts: &mut Facts, state: &SdamState) {
    let topology = &state.topology;
    for described in topology.servers.values() {
        let address = &described.address;
        let hello = state.hellos.get(address);
        // The driver marks a server unknown after an authentication error, although it replies.
        let has_auth_error = matches!(facts.failure, Some(DeploymentFailure::Authentication(_)));
        let described = state.known.get(address).filter(|_| has_auth_error).unwrap_or(described);
        let mut server = server(described, hello);
        if !server.is_reached() {
            server.error = state.errors.get(address).cloned().or(server.error);
        }
        match hello.map(|hello| from_hello(address.clone(), hello)) {
            Some(other) if !server.is_reached() && is_of_another_set(facts, &other) => {
                facts.left_out.push(other);
            }
            _ => facts.servers.push(server),
        }
    }
    for seed in facts.seeds.iter().filter(|seed| !topology.servers.contains_key(seed)) {
        let hello = state.hellos.get(seed);
        facts.left_out.extend(hello.map(|hello| from_hello(seed.clone(), hello)));
    }
    facts.kind = match topology.topology_type {
        TopologyType::ReplicaSetNoPrimary | TopologyType::ReplicaSetWithPrimary => {
            DeploymentKind::ReplicaSet
        }
        TopologyType::Sharded => DeploymentKind::Sharded,
        TopologyType::LoadBalanced => DeploymentKind::LoadBalanced,
        _ => match facts.reached().next().map(|server| server.server_type) {
            Some(ServerType::Standalone) => DeploymentKind::Standalone,
            Some(ServerType::Mongos) => DeploymentKind::Sharded,
            Some(ServerType::LoadBalancer) => DeploymentKind::LoadBalanced,
            Some(_) => DeploymentKind::ReplicaSet,
            None => DeploymentKind::Unknown,
        },
    };
    // The requested replica set, without a reply.
    if facts.reached().next().is_none() && facts.kind != DeploymentKind::LoadBalanced {
        facts.kind = DeploymentKind::Unknown;
    }
}

/// Returns `true` for a server that is not a member of the requested replica set.
fn is_of_another_set(facts: &Facts, server: &Server) -> bool {
    facts.uri.replica_set.is_some() && server.set_name != facts.uri.replica_set
}

fn server(described: &ServerDescription, hello: Option<&Document>) -> Server {
    // A load balancer has no wire version.
    let wire_version = Some(described.max_wire_version).filter(|version| *version > 0);
    Server {
        server_type: described.server_type,
        error: described.error.clone(),
        max_wire_version: wire_version,
        set_name: described.set_name.clone(),
        tags: described.tags.clone(),
        session_timeout: described.logical_session_timeout,
        last_write: described.last_write_date,
        compressors: hello.map(compressors).unwrap_or_default(),
        round_trips: described.average_round_trip_time.into_iter().collect(),
        ..Server::unknown(described.address.clone())
    }
}

/// Describes a server that the driver has removed, from its `hello` reply.
fn from_hello(address: ServerAddress, hello: &Document) -> Server {
    let is = |field| hello.get_bool(field).unwrap_or(false);
    let server_type = if hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid") {
        ServerType::Mongos
    } else if hello.contains_key("setName") {
        match (is("isWritablePrimary") || is("ismaster"), is("secondary")) {
            (true, _) => ServerType::RsPrimary,
            (false, true) => ServerType::RsSecondary,
            (false, false) => ServerType::RsOther,
        }
    } else if is("isreplicaset") {
        ServerType::RsGhost
    } else {
        ServerType::Standalone
    };
    Server {
        server_type,
        max_wire_version: hello.get_i32("maxWireVersion").ok(),
        set_name: hello.get_str("setName").ok().map(ToOwned::to_owned),
        ..Server::unknown(address)
    }
}

fn compressors(hello: &Document) -> Vec<String> {
    let names = hello.get_array("compression").map(Vec::as_slice).unwrap_or_default();
    names.iter().filter_map(|name| name.as_str().map(ToOwned::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_server_is_described_by_its_hello_reply() {
        let address = ServerAddress::default();
        for (hello, what) in [
            (doc! { "msg": "isdbgrid" }, ServerType::Mongos),
            (doc! { "setName": "rs", "isWritablePrimary": true }, ServerType::RsPrimary),
            (doc! { "setName": "rs", "secondary": true }, ServerType::RsSecondary),
            (doc! { "setName": "rs" }, ServerType::RsOther),
            (doc! { "isreplicaset": true }, ServerType::RsGhost),
            (doc! { "isWritablePrimary": true }, ServerType::Standalone),
        ] {
            assert_eq!(from_hello(address.clone(), &hello).server_type, what, "{hello}");
        }
    }

    #[test]
    fn state_is_not_settled_before_the_first_reply() {
        let mut state = SdamState::default();
        assert!(!state.is_settled() && !state.is_unreachable());
        state.errors.insert(ServerAddress::default(), "connection refused".to_owned());
        assert!(state.is_settled() && state.is_unreachable(), "the only server was removed");
        let address = ServerAddress::default();
        let mut topology = TopologyDescription::default();
        topology.servers.insert(address.clone(), ServerDescription::unknown(address));
        state.topology = topology;
        assert!(!state.is_settled(), "another server has not replied yet");
    }

    #[test]
    fn available_server_that_became_unknown_is_not_unreachable() {
        let address = ServerAddress::default();
        let unknown = |known: bool| {
            let mut state = SdamState::default();
            let server = ServerDescription::unknown_because(
                address.clone(),
                "an operation failed",
                std::time::Instant::now(),
            );
            state.topology.servers.insert(address.clone(), server.clone());
            state.hellos.insert(address.clone(), Document::new());
            if known {
                state.known.insert(address.clone(), server);
            }
            state
        };
        assert!(!unknown(true).is_unreachable());
        assert!(unknown(false).is_unreachable(), "it belongs to another set");
    }
}
