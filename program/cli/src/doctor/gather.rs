//! Finding the servers of a deployment, by watching the driver find them.

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
    ask,
    facts::{Facts, Failure, Kind, Server},
    shards,
};
use crate::{duration, notes::Notes};

/// After so long in silence, people are told what is waited for.
const SILENCE: Duration = Duration::from_secs(1);

/// Finds out all there is to know, within `limit`.
///
/// Six tenths of the time are for finding the servers, the rest for asking them.
pub(super) async fn facts(
    uri: &str,
    parsed: ConnectionString,
    limit: Duration,
    notes: &Notes,
) -> Facts {
    let now = Instant::now();
    let (found_by, asked_by) = (now + limit.mul_f64(0.6), now + limit);
    let selection_timeout = found_by - now;
    let mut facts = Facts::before(parsed, selection_timeout);
    let options = match timeout_at(found_by, ClientOptions::parse(uri)).await {
        Ok(Ok(options)) => options,
        Ok(Err(error)) => {
            facts.failure = Some(failure(&error));
            return facts;
        }
        Err(_) => {
            facts.failure = Some(Failure::Dns("the name servers did not answer".to_owned()));
            return facts;
        }
    };
    facts.seeds.clone_from(&options.hosts);
    facts.uri.replica_set.clone_from(&options.repl_set_name);
    facts.uri.load_balanced = options.load_balanced;
    let shard_options = shards::options(&options);
    let (seen, client) = match open(options, selection_timeout) {
        Ok(opened) => opened,
        Err(error) => {
            facts.failure = Some(failure(&error));
            return facts;
        }
    };
    let finding = find(&client, seen.clone(), found_by);
    facts.failure = telling(finding, &facts.seeds, selection_timeout, notes).await;
    describe(&mut facts, &seen.borrow());
    ask::all(&client, &mut facts, asked_by).await;
    shards::ask(&shard_options, &mut facts, asked_by).await;
    facts
}

/// A client, and what it sees of its servers.
fn open(
    mut options: ClientOptions,
    selection_timeout: Duration,
) -> Result<(watch::Receiver<Seen>, Client), Error> {
    let (tell, seen) = watch::channel(Seen::default());
    let handler = EventHandler::callback(move |event| tell.send_modify(|seen| seen.note(event)));
    options.sdam_event_handler = Some(handler);
    options.server_selection_timeout = Some(selection_timeout);
    // A limit that is too short is to be found, not to be met with.
    options.timeout = None;
    options.socket_timeout = None;
    options.wait_queue_timeout = None;
    options.app_name.get_or_insert_with(|| "steadfast doctor".to_owned());
    Ok((seen, Client::with_options(options)?))
}

/// What the driver has seen of the deployment so far.
#[derive(Clone, Debug, Default)]
struct Seen {
    topology: TopologyDescription,
    /// Servers as they were when they were last known.
    known: BTreeMap<ServerAddress, ServerDescription>,
    /// What servers last said of themselves.
    hellos: BTreeMap<ServerAddress, Document>,
    /// Why servers last said nothing.
    errors: BTreeMap<ServerAddress, String>,
}

impl Seen {
    fn note(&mut self, event: SdamEvent) {
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

    /// Whether each server has answered, or failed to.
    fn is_settled(&self) -> bool {
        let begun = !self.hellos.is_empty() || !self.errors.is_empty();
        let load_balanced = self.topology.topology_type == TopologyType::LoadBalanced;
        let mut servers = self.topology.servers.values();
        load_balanced || begun && servers.all(|it| it.is_available() || it.error.is_some())
    }

    /// Whether each server has failed to answer, or is not one that was asked for.
    ///
    /// One that was known and is not any more may be held back for a refused login: that is for the
    /// call to say which met with it.
    fn is_hopeless(&self) -> bool {
        let mut addresses = self.topology.servers.keys();
        self.is_settled() && addresses.all(|address| !self.known.contains_key(address))
    }
}

/// Waits until it is known what each server is. Why the deployment cannot be used, if so.
async fn find(
    client: &Client,
    mut seen: watch::Receiver<Seen>,
    found_by: Instant,
) -> Option<Failure> {
    let admin = client.database("admin");
    let ping = async { admin.run_command(doc! { "ping": 1 }).await };
    let mut watching = seen.clone();
    let usable = async {
        tokio::select! {
            answer = ping => answer.err().map(|error| failure(&error)),
            _ = watching.wait_for(Seen::is_hopeless) => {
                Some(Failure::NoServer("no server answered".to_owned()))
            }
        }
    };
    let late = Failure::NoServer("no server that takes writes was found in time".to_owned());
    let failure = timeout_at(found_by, usable).await.unwrap_or(Some(late));
    // Those that have not answered by then are described as such.
    let _ = timeout_at(found_by, seen.wait_for(Seen::is_settled)).await;
    let incompatible = seen.borrow().topology.compatibility_error.clone();
    incompatible.map(Failure::Incompatible).or(failure)
}

/// Does the work, and tells people what is waited for if it takes long.
async fn telling<T>(
    work: impl Future<Output = T>,
    seeds: &[ServerAddress],
    selection_timeout: Duration,
    notes: &Notes,
) -> T {
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => done,
        () = tokio::time::sleep(SILENCE) => {
            let seeds: Vec<_> = seeds.iter().map(ToString::to_string).collect();
            let (seeds, rest) = (seeds.join(", "), duration::show(selection_timeout));
            notes.say(format_args!("looking for the servers of {seeds}, for {rest} at most …"));
            work.await
        }
    }
}

fn failure(error: &Error) -> Failure {
    let said = error.to_string();
    match &*error.kind {
        ErrorKind::Authentication { .. } => Failure::Login(said),
        ErrorKind::DnsResolve { .. } => Failure::Dns(said),
        ErrorKind::InvalidTlsConfig { .. } => Failure::Tls(said),
        ErrorKind::ServerSelection { .. } => Failure::NoServer(said),
        ErrorKind::IncompatibleServer { .. } => Failure::Incompatible(said),
        _ => Failure::Other(said),
    }
}

/// What was seen, as facts.
fn describe(facts: &mut Facts, seen: &Seen) {
    let topology = &seen.topology;
    for described in topology.servers.values() {
        let address = &described.address;
        let hello = seen.hellos.get(address);
        // A refused login is held against the server by the driver, though it answers.
        let refused = matches!(facts.failure, Some(Failure::Login(_)));
        let described = seen.known.get(address).filter(|_| refused).unwrap_or(described);
        let mut server = server(described, hello);
        if !server.is_reached() {
            server.error = seen.errors.get(address).cloned().or(server.error);
        }
        match hello.map(|hello| as_it_says(address.clone(), hello)) {
            Some(stranger) if !server.is_reached() && is_stranger(facts, &stranger) => {
                facts.left_out.push(stranger);
            }
            _ => facts.servers.push(server),
        }
    }
    for seed in facts.seeds.iter().filter(|seed| !topology.servers.contains_key(seed)) {
        let hello = seen.hellos.get(seed);
        facts.left_out.extend(hello.map(|hello| as_it_says(seed.clone(), hello)));
    }
    facts.kind = match topology.topology_type {
        TopologyType::ReplicaSetNoPrimary | TopologyType::ReplicaSetWithPrimary => Kind::ReplicaSet,
        TopologyType::Sharded => Kind::Sharded,
        TopologyType::LoadBalanced => Kind::LoadBalanced,
        _ => match facts.reached().next().map(|server| server.server_type) {
            Some(ServerType::Standalone) => Kind::Standalone,
            Some(ServerType::Mongos) => Kind::Sharded,
            Some(ServerType::LoadBalancer) => Kind::LoadBalanced,
            Some(_) => Kind::ReplicaSet,
            None => Kind::Unknown,
        },
    };
    // The set that was asked for, of which nobody answered.
    if facts.reached().next().is_none() && facts.kind != Kind::LoadBalanced {
        facts.kind = Kind::Unknown;
    }
}

/// Whether it is not of the set that was asked for.
fn is_stranger(facts: &Facts, server: &Server) -> bool {
    facts.uri.replica_set.is_some() && server.set_name != facts.uri.replica_set
}

fn server(described: &ServerDescription, hello: Option<&Document>) -> Server {
    // A load balancer has none.
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

/// A server that the driver does not keep, by what it says of itself.
fn as_it_says(address: ServerAddress, hello: &Document) -> Server {
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
    fn a_server_that_is_not_kept_is_known_by_its_words() {
        let address = ServerAddress::default();
        for (hello, what) in [
            (doc! { "msg": "isdbgrid" }, ServerType::Mongos),
            (doc! { "setName": "rs", "isWritablePrimary": true }, ServerType::RsPrimary),
            (doc! { "setName": "rs", "secondary": true }, ServerType::RsSecondary),
            (doc! { "setName": "rs" }, ServerType::RsOther),
            (doc! { "isreplicaset": true }, ServerType::RsGhost),
            (doc! { "isWritablePrimary": true }, ServerType::Standalone),
        ] {
            assert_eq!(as_it_says(address.clone(), &hello).server_type, what, "{hello}");
        }
    }

    #[test]
    fn nothing_is_settled_before_a_first_answer() {
        let mut seen = Seen::default();
        assert!(!seen.is_settled() && !seen.is_hopeless());
        seen.errors.insert(ServerAddress::default(), "refused".to_owned());
        assert!(seen.is_settled() && seen.is_hopeless(), "its only server is not used any more");
        let address = ServerAddress::default();
        let mut topology = TopologyDescription::default();
        topology.servers.insert(address.clone(), ServerDescription::unknown(address));
        seen.topology = topology;
        assert!(!seen.is_settled(), "another has not answered yet");
    }

    #[test]
    fn a_server_that_answers_and_is_not_used_is_no_reason_to_give_up() {
        let address = ServerAddress::default();
        let held_back = |known: bool| {
            let mut seen = Seen::default();
            let server = ServerDescription::unknown_because(
                address.clone(),
                "an operation failed",
                std::time::Instant::now(),
            );
            seen.topology.servers.insert(address.clone(), server.clone());
            seen.hellos.insert(address.clone(), Document::new());
            if known {
                seen.known.insert(address.clone(), server);
            }
            seen
        };
        assert!(!held_back(true).is_hopeless());
        assert!(held_back(false).is_hopeless(), "it is of another set");
    }
}
