//! Server discovery and monitoring: scripted replies and errors, and the expected topology.

use std::time::{Duration, Instant};

use bson::{Bson, Document, RawDocumentBuf, oid::ObjectId};
use steadfast_core::{
    address::ServerAddress,
    connection_string::{ConnectionString, HostInfo},
    description::{ServerDescription, ServerType, TopologyDescription, TopologyVersion},
    hello::HelloReply,
    sdam::{
        ApplicationError, ApplicationErrorKind, CheckFailure, CheckFailureKind, CheckSuccess,
        CommandFailure, ConnectionPhase, Topology, TopologyEffect, TopologyInput, TopologySettings,
    },
};

use crate::{Case, Context, LoadError, Suite, unified};

/// The suite.
pub const SUITE: Suite = Suite { name: "discovery_and_monitoring", load };

/// Folders whose files need no server. Those in `unified` need one.
const FOLDERS: &[&str] = &["errors", "load-balanced", "rs", "sharded", "single"];

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    let mut cases = Vec::new();
    for file in context.spec.files_in(SUITE.name, FOLDERS)? {
        let test = file.document()?;
        let description = text(&test, "description").to_owned();
        cases.push(Case::new(&file.name, description, move || check(&test)));
    }
    cases.extend(unified::cases(context, SUITE.name, &["unified"])?);
    Ok(cases)
}

fn check(test: &Document) -> Result<(), String> {
    let mut script = ScriptedTopology::start(test)?;
    for (number, phase) in documents(test, "phases").enumerate() {
        script.apply_phase(phase)?;
        let outcome = phase.get_document("outcome").map_err(|error| error.to_string())?;
        script.expect(outcome).map_err(|why| format!("phase {number}: {why}"))?;
    }
    Ok(())
}

/// A topology that gets its input from the phases of a test.
pub(super) struct ScriptedTopology {
    topology: Topology,
    effects: Vec<TopologyEffect>,
}

impl ScriptedTopology {
    pub(super) fn start(test: &Document) -> Result<Self, String> {
        let settings = settings(text(test, "uri"))?;
        let (topology, effects) = Topology::new(settings, Instant::now());
        Ok(Self { topology, effects })
    }

    /// Applies the replies of a phase, then its errors.
    pub(super) fn apply_phase(&mut self, phase: &Document) -> Result<(), String> {
        for response in phase.get_array("responses").into_iter().flatten() {
            let response = response.as_array().ok_or("a response is not a pair")?;
            let [Bson::String(address), Bson::Document(reply)] = response.as_slice() else {
                return Err("a response is not a pair of address and reply".to_owned());
            };
            let outcome = heartbeat_result(reply)?;
            self.apply(TopologyInput::Heartbeat { address: parse(address)?, outcome });
        }
        for error in documents(phase, "applicationErrors") {
            let address = parse(text(error, "address"))?;
            if let Some(error) = self.application_error(&address, error)? {
                self.apply(TopologyInput::OperationError { address, error });
            }
        }
        Ok(())
    }

    /// Takes the effects since the last call.
    pub(super) fn take_effects(&mut self) -> Vec<TopologyEffect> {
        std::mem::take(&mut self.effects)
    }

    fn apply(&mut self, input: TopologyInput) {
        self.effects.extend(self.topology.apply(input, Instant::now()));
    }

    /// Error that the driver reports to the topology; `None` if it reports none.
    fn application_error(
        &self,
        address: &ServerAddress,
        error: &Document,
    ) -> Result<Option<ApplicationError>, String> {
        let cause = match text(error, "type") {
            "network" => ApplicationErrorKind::Network,
            "timeout" => ApplicationErrorKind::NetworkTimeout,
            "command" => match command_failure(error) {
                Some(failure) => ApplicationErrorKind::Command(failure),
                None => return Ok(None),
            },
            other => return Err(format!("unknown type of error {other}")),
        };
        let phase = match text(error, "when") {
            "beforeHandshakeCompletes" => ConnectionPhase::Connecting,
            "afterHandshakeCompletes" => ConnectionPhase::Established,
            other => return Err(format!("unknown phase of error {other}")),
        };
        // The pool labels errors that a connection rate limiter may have caused.
        let overloaded = phase == ConnectionPhase::Connecting
            && matches!(
                cause,
                ApplicationErrorKind::Network | ApplicationErrorKind::NetworkTimeout
            );
        let current = self.topology.generation(address, None).unwrap_or(0);
        let generation = match error.get("generation") {
            None => current,
            Some(generation) => integer(generation)?.try_into().map_err(|_| "bad generation")?,
        };
        let message = format!("{cause:?}");
        let service_id = None;
        Ok(Some(ApplicationError { phase, cause, message, generation, service_id, overloaded }))
    }

    fn expect(&self, outcome: &Document) -> Result<(), String> {
        let actual = self.topology.description();
        for (key, expected) in outcome {
            match key.as_str() {
                "servers" => {
                    let expected = expected.as_document().ok_or("servers is not a document")?;
                    self.expect_servers(actual, expected)?;
                }
                "topologyType" => same(key, expected, actual.topology_type.name())?,
                "setName" => same(key, expected, actual.set_name.as_deref())?,
                "logicalSessionTimeoutMinutes" => {
                    same(key, expected, minutes(actual.logical_session_timeout))?;
                }
                "maxSetVersion" => same(key, expected, actual.max_set_version)?,
                "maxElectionId" => same(key, expected, actual.max_election_id)?,
                "compatible" => same(key, expected, actual.compatibility_error.is_none())?,
                other => return Err(format!("unknown expectation {other}")),
            }
        }
        Ok(())
    }

    fn expect_servers(
        &self,
        actual: &TopologyDescription,
        expected: &Document,
    ) -> Result<(), String> {
        if actual.servers.len() != expected.len() {
            let actual: Vec<_> = actual.servers.keys().map(ToString::to_string).collect();
            let expected: Vec<_> = expected.keys().collect();
            return Err(format!("servers are {actual:?}, not {expected:?}"));
        }
        for (address, expected) in expected {
            let server = actual
                .servers
                .get(&parse(address)?)
                .ok_or_else(|| format!("{address} is missing"))?;
            let expected = expected.as_document().ok_or("a server is not a document")?;
            self.expect_server(server, expected).map_err(|why| format!("{address}: {why}"))?;
        }
        Ok(())
    }

    fn expect_server(&self, server: &ServerDescription, expected: &Document) -> Result<(), String> {
        // A load balancer has no wire versions; the description has zeros.
        let wire_version =
            |version| (server.server_type != ServerType::LoadBalancer).then_some(version);
        for (key, expected) in expected {
            match key.as_str() {
                "type" => same(key, expected, server.server_type.name())?,
                "setName" => same(key, expected, server.set_name.as_deref())?,
                "setVersion" => same(key, expected, server.set_version)?,
                "electionId" => same(key, expected, server.election_id)?,
                "logicalSessionTimeoutMinutes" => {
                    same(key, expected, minutes(server.logical_session_timeout))?;
                }
                "minWireVersion" => same(key, expected, wire_version(server.min_wire_version))?,
                "maxWireVersion" => same(key, expected, wire_version(server.max_wire_version))?,
                "topologyVersion" => same(key, expected, server.topology_version.map(to_bson))?,
                "error" => expect_error(server, expected)?,
                "pool" => self.expect_pool(server, expected)?,
                other => return Err(format!("unknown expectation {other}")),
            }
        }
        Ok(())
    }

    fn expect_pool(&self, server: &ServerDescription, expected: &Bson) -> Result<(), String> {
        let expected = expected.as_document().ok_or("pool is not a document")?;
        let expected = integer(expected.get("generation").ok_or("no generation")?)?;
        let actual = self.topology.generation(&server.address, None);
        if actual.and_then(|actual| i64::try_from(actual).ok()) != Some(expected) {
            return Err(format!("the pool's generation is {actual:?}, not {expected}"));
        }
        Ok(())
    }
}

/// Result of a heartbeat. An empty reply stands for a network error.
fn heartbeat_result(reply: &Document) -> Result<Result<CheckSuccess, CheckFailure>, String> {
    if reply.is_empty() {
        let message = "the connection broke".to_owned();
        return Ok(Err(CheckFailure { kind: CheckFailureKind::Network, message }));
    }
    let raw = RawDocumentBuf::try_from(reply).map_err(|error| error.to_string())?;
    let reply = HelloReply::parse(&raw).map_err(|error| error.to_string())?;
    Ok(Ok(CheckSuccess { reply, round_trip: Some(Duration::from_millis(1)) }))
}

/// Error of the command or of its write concern in a reply.
fn command_failure(error: &Document) -> Option<CommandFailure> {
    let response = error.get_document("response").ok()?;
    let ok = response.get("ok").is_some_and(|ok| integer(ok) == Ok(1));
    let failure = if ok { response.get_document("writeConcernError").ok()? } else { response };
    Some(CommandFailure {
        code: failure.get_i32("code").ok(),
        message: text(failure, "errmsg").to_owned(),
        topology_version: response.get_document("topologyVersion").ok().and_then(|version| {
            Some(TopologyVersion {
                process_id: version.get_object_id("processId").ok()?,
                counter: version.get_i64("counter").ok()?,
            })
        }),
    })
}

fn settings(uri: &str) -> Result<TopologySettings, String> {
    let uri = ConnectionString::parse(uri).map_err(|error| error.to_string())?;
    let HostInfo::HostIdentifiers(seeds) = uri.host_info else {
        return Err("the connection string names no servers".to_owned());
    };
    let id = ObjectId::new();
    let first = seeds.first().cloned().ok_or("no seed")?;
    Ok(if uri.load_balanced == Some(true) {
        TopologySettings::load_balanced(id, first)
    } else if uri.direct_connection == Some(true) {
        TopologySettings::direct(id, first).replica_set(uri.replica_set)
    } else {
        TopologySettings::discovering(id, seeds).replica_set(uri.replica_set)
    })
}

fn expect_error(server: &ServerDescription, expected: &Bson) -> Result<(), String> {
    let expected = expected.as_str().ok_or("error is not a string")?;
    match &server.error {
        Some(error) if error.contains(expected) => Ok(()),
        error => Err(format!("the error is {error:?}, not \"{expected}\"")),
    }
}

fn same(key: &str, expected: &Bson, actual: impl Into<Bson>) -> Result<(), String> {
    let actual = actual.into();
    // A type of single-threaded drivers; for others it is `Unknown`.
    let is_possible_primary = expected.as_str() == Some("PossiblePrimary");
    if *expected == actual || (is_possible_primary && actual.as_str() == Some("Unknown")) {
        Ok(())
    } else {
        Err(format!("{key} is {actual}, not {expected}"))
    }
}

fn to_bson(version: TopologyVersion) -> Bson {
    bson::doc! {"processId": version.process_id, "counter": version.counter}.into()
}

fn minutes(timeout: Option<Duration>) -> Option<i32> {
    timeout.map(|timeout| i32::try_from(timeout.as_secs() / 60).unwrap_or(i32::MAX))
}

fn integer(value: &Bson) -> Result<i64, String> {
    match value {
        Bson::Int32(number) => Ok((*number).into()),
        Bson::Int64(number) => Ok(*number),
        other => Err(format!("{other} is not an integer")),
    }
}

pub(super) fn parse(address: &str) -> Result<ServerAddress, String> {
    ServerAddress::parse(address).map_err(|error| error.to_string())
}

pub(super) fn text<'a>(document: &'a Document, key: &str) -> &'a str {
    document.get_str(key).unwrap_or_default()
}

pub(super) fn documents<'a>(
    document: &'a Document,
    key: &str,
) -> impl Iterator<Item = &'a Document> {
    document.get_array(key).into_iter().flatten().filter_map(Bson::as_document)
}
