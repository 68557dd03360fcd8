//! Runs scenarios on two deployments and reports all differences at once.

use std::{
    collections::BTreeMap,
    fmt::Write,
    net::SocketAddr,
    time::{Duration, Instant},
};

use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};
use steadfast_embedded::Deployment;

use super::{
    Scenario, Step, StepMode, Target,
    exceptions::EXCEPTIONS,
    reply::{Difference, differences},
};
use crate::server::Server;

/// Maximum time for the documents of one step.
const DOCUMENTS_TIMEOUT: Duration = Duration::from_secs(60);

/// Addresses of a deployment's servers.
pub(crate) struct Addresses {
    /// The primary, or each mongos.
    pub(crate) front: Vec<SocketAddr>,
    pub(crate) secondary: Option<SocketAddr>,
    pub(crate) shards: Vec<SocketAddr>,
}

impl Addresses {
    pub(crate) fn of_embedded(deployment: &Deployment) -> Self {
        let members: Vec<_> = deployment.members().iter().map(|it| it.address()).collect();
        match deployment.shards() {
            [] => Self { front: vec![members[0]], secondary: Some(members[1]), shards: Vec::new() },
            shards => {
                let shards = shards.iter().map(|shard| shard.members()[0].address()).collect();
                Self { front: members, secondary: None, shards }
            }
        }
    }

    fn of(&self, connection: &str) -> SocketAddr {
        match connection {
            "mongos1" => self.front[1],
            "secondary" => self.secondary.expect("a replica set"),
            "shard0" => self.shards[0],
            "shard1" => self.shards[1],
            _ => self.front[0],
        }
    }
}

/// A deployment with the connections of one scenario.
struct Side<'a> {
    addresses: &'a Addresses,
    connections: BTreeMap<&'static str, Server>,
    database: String,
    values: BTreeMap<String, Bson>,
}

impl<'a> Side<'a> {
    fn new(addresses: &'a Addresses, scenario: &Scenario) -> Self {
        let database = scenario.name.replace([' ', ',', '.', '$', '/'], "_");
        Self { addresses, connections: BTreeMap::new(), database, values: BTreeMap::new() }
    }

    /// Connections are opened when they are first used and after they have been closed.
    fn connection(&mut self, name: &'static str) -> &mut Server {
        let address = self.addresses.of(name);
        self.connections.entry(name).or_insert_with(|| Server::at(address))
    }

    fn run(&mut self, name: &'static str, command: &Document) -> Document {
        match self.connection(name).try_run(command) {
            Ok(mut reply) => {
                // Shards reply in any order.
                if let Ok(shards) = reply.get_document_mut("shards") {
                    let sorted: BTreeMap<_, _> = std::mem::take(shards).into_iter().collect();
                    shards.extend(sorted);
                }
                reply
            }
            Err(_) => {
                self.connections.remove(name);
                doc! { "connection": "closed" }
            }
        }
    }

    fn set_up(&mut self, target: Target, scenario: &Scenario) {
        if target == Target::ReplicaSet {
            return;
        }
        let namespace = format!("{}.s", self.database);
        let mut commands =
            vec![doc! { "enableSharding": &self.database, "primaryShard": "shard0" }];
        if scenario.has_sharded_collection {
            for (zone, min, max) in
                [("shard0", Bson::MinKey, Bson::Int32(0)), ("shard1", Bson::Int32(0), Bson::MaxKey)]
            {
                let (min, max) = (doc! { "k": min }, doc! { "k": max });
                commands.push(doc! { "addShardToZone": zone, "zone": zone });
                commands.push(doc! {
                    "updateZoneKeyRange": &namespace,
                    "min": min,
                    "max": max,
                    "zone": zone,
                });
            }
            commands.push(doc! { "shardCollection": &namespace, "key": { "k": 1 } });
        }
        for mut command in commands {
            command.insert("$db", "admin");
            let reply = self.run("a", &command);
            assert!(reply.get_f64("ok").is_ok_and(|ok| ok == 1.0), "{command}: {reply}");
        }
    }

    fn step(&mut self, step: &Step) -> Document {
        let mut command = self.filled_in(&step.command);
        if !command.contains_key("$db") {
            command.insert("$db", &self.database);
        }
        let reply = match step.mode {
            StepMode::Unacknowledged => {
                self.connection(step.connection).send(&command);
                doc! { "sent": true }
            }
            StepMode::UntilDocuments(count) => self.until(step.connection, &command, count),
            StepMode::OneReply | StepMode::Preparation => self.run(step.connection, &command),
        };
        for (name, path) in &step.keep {
            self.values.insert((*name).to_owned(), at(&reply, path).unwrap_or(Bson::Null));
        }
        reply
    }

    /// Repeats a `getMore` until it has returned `count` documents, or the cursor is exhausted.
    fn until(&mut self, name: &'static str, command: &Document, count: usize) -> Document {
        let started = Instant::now();
        let is_sharded = !self.addresses.shards.is_empty();
        let mut all = Vec::new();
        loop {
            let mut reply = self.run(name, command);
            let Ok(cursor) = reply.get_document_mut("cursor") else { return reply };
            let is_open = cursor.get_i64("id").is_ok_and(|id| id != 0);
            all.append(cursor.get_array_mut("nextBatch").unwrap_or(&mut Vec::new()));
            // mongos closes the cursor with the invalidate event or with the next reply.
            let is_closing = is_sharded && all.last().is_some_and(is_invalidate);
            let is_complete = all.len() >= count && !is_closing;
            if is_complete || !is_open || started.elapsed() > DOCUMENTS_TIMEOUT {
                if is_sharded {
                    sort_within_transactions(&mut all);
                    cursor.remove("invalidated");
                }
                cursor.insert("nextBatch", all);
                return reply;
            }
        }
    }

    fn filled_in(&mut self, command: &Document) -> Document {
        let fields = command.iter().map(|(name, value)| (name.clone(), self.value(value)));
        fields.collect()
    }

    fn value(&mut self, value: &Bson) -> Bson {
        match value {
            Bson::Document(document) => self.filled_in(document).into(),
            Bson::Array(values) => {
                values.iter().map(|value| self.value(value)).collect::<Vec<_>>().into()
            }
            Bson::String(text) if text.contains("@db") => {
                text.replace("@db", &self.database).into()
            }
            Bson::String(text) => match text.strip_prefix('@') {
                Some(name) if name.starts_with("lsid") => self.session(name).into(),
                Some(name) => self.values.get(name).cloned().unwrap_or(Bson::Null),
                None => value.clone(),
            },
            other => other.clone(),
        }
    }

    /// A session id from the names of the scenario and of the session.
    fn session(&self, name: &str) -> Document {
        let half = |seed: u64| {
            let text = format!("{}/{name}", self.database);
            let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
            text.bytes().fold(seed, mix).to_be_bytes()
        };
        let bytes = [half(0xCBF2_9CE4_8422_2325), half(0x9E37_79B9_7F4A_7C15)].concat();
        doc! { "id": Binary { subtype: BinarySubtype::Uuid, bytes } }
    }
}

fn is_invalidate(event: &Bson) -> bool {
    event
        .as_document()
        .is_some_and(|it| it.get_str("operationType").is_ok_and(|it| it == "invalidate"))
}

/// Sorts the events of each transaction. Those of several shards come in any order.
fn sort_within_transactions(events: &mut [Bson]) {
    let field = |event: &Bson, name: &str| event.as_document().and_then(|it| it.get(name).cloned());
    let transaction = |event: &Bson| Some((field(event, "lsid")?, field(event, "txnNumber")?));
    let is_same = |a: &Bson, b: &Bson| transaction(a).is_some() && transaction(a) == transaction(b);
    for run in events.chunk_by_mut(is_same) {
        run.sort_by_cached_key(|event| {
            ["documentKey", "operationType"].map(|name| field(event, name).map(|it| it.to_string()))
        });
    }
}

/// The value at a path with dots.
fn at(document: &Document, path: &str) -> Option<Bson> {
    path.split('.').try_fold(Bson::from(document.clone()), |value, name| match value {
        Bson::Document(document) => document.get(name).cloned(),
        Bson::Array(values) => values.get(name.parse::<usize>().ok()?).cloned(),
        _ => None,
    })
}

fn replies(target: Target, addresses: &Addresses, scenario: &Scenario) -> Vec<Document> {
    let mut side = Side::new(addresses, scenario);
    side.set_up(target, scenario);
    scenario.steps.iter().map(|step| side.step(step)).collect()
}

/// Runs all scenarios for this target on both deployments.
///
/// # Panics
///
/// Panics with the list of differences that are not exceptions, and of exceptions that do not differ.
#[allow(clippy::print_stdout)]
pub(crate) fn compare_on(target: Target, real: &Addresses, embedded: &Addresses) {
    let exceptions: Vec<_> = EXCEPTIONS.iter().filter(|it| it.target == target).collect();
    let mut report = String::new();
    let (mut commands, mut differing, mut known_fields) = (0, 0, 0);
    let scenarios = super::all();
    let is_for_target = |it: &&Scenario| it.only.is_none_or(|only| only == target);
    for scenario in scenarios.iter().filter(is_for_target) {
        let theirs = replies(target, real, scenario);
        let ours = replies(target, embedded, scenario);
        for (step, (theirs, ours)) in scenario.steps.iter().zip(theirs.iter().zip(&ours)) {
            commands += 1;
            if step.mode == StepMode::Preparation {
                continue;
            }
            let listed = exceptions.iter().find(|it| it.is_about(scenario, step));
            let found = differences(theirs, ours);
            let unlisted: Vec<_> =
                found.iter().filter(|it| !listed.is_some_and(|listed| listed.has(it))).collect();
            if !unlisted.is_empty() {
                let _ = writeln!(
                    report,
                    "\n{} / {}\n  command:  {}\n  real:     {theirs}\n  embedded: {ours}",
                    scenario.name, step.label, step.command
                );
            }
            for Difference { path, real, embedded } in &unlisted {
                let _ = writeln!(report, "  - {path}: real {real}, embedded {embedded}");
            }
            let known = found.len() - unlisted.len();
            if let Some(listed) = listed.filter(|it| it.fields.len() != known) {
                let _ = writeln!(
                    report,
                    "\n{} / {}\n  - {known} of {} fields that are listed as exceptions differ in that way ({})",
                    scenario.name,
                    step.label,
                    listed.fields.len(),
                    listed.reason
                );
            }
            differing += unlisted.len();
            known_fields += known;
        }
    }
    println!("{target:?}: {commands} commands compared, {known_fields} known differences");
    assert!(report.is_empty(), "{differing} new differences on {target:?}:\n{report}");
}
