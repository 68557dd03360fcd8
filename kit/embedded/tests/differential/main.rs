//! Random operations on the embedded deployment and on a real server. Replies and stored documents
//! must agree.
//!
//! A few thousand operations run by default. `STEADFAST_DIFFERENTIAL=100000` sets their number,
//! `STEADFAST_SEED=7` the seed.
#![allow(missing_docs)]

mod compare;
mod expressions;
mod filters;
mod generator;
mod operations;
mod pipelines;
mod scenarios;
mod server;
mod tally;
mod updates;
mod values;

use std::env;

use bson::{Document, doc};
use steadfast_embedded::Deployment;
use testbed::{ClusterOptions, Mongod, Options, ShardedCluster, Version};

use crate::{
    compare::{are_identical, comparable_part, difference, is_optimizer_error},
    generator::Generator,
    operations::{INDEXED, OUTPUT, Operation, PLAIN, indexes},
    scenarios::{Addresses, Target, compare_on},
    server::{Server, UNREADABLE},
    tally::Tally,
};

/// Operations between two comparisons of the stored documents. Afterwards the collections are
/// dropped, so that they stay small.
const ROUND: usize = 250;

/// Maximum number of reported differences.
const MAX_REPORTED: usize = 100;

/// The servers under comparison.
///
/// Whether a failing expression fails a pipeline depends on the server's optimizer: it may compute
/// constants that no document needs, or move a `$match` before the failing stage. So there are two
/// real servers. One of them, `literal`, does not optimize pipelines. Where the two disagree,
/// either reply is accepted.
struct Servers {
    real: Server,
    literal: Server,
    ours: Server,
    tally: Tally,
    version: Version,
}

/// Result of a comparison.
enum Comparison {
    Same,
    /// The real servers disagree. After a write, their stored documents may differ.
    Undecided,
    /// Description of the difference.
    Different(String),
}

impl Servers {
    fn all(&mut self, command: &Document) {
        for server in [&mut self.real, &mut self.literal, &mut self.ours] {
            let reply = server.run(command);
            assert!(reply.get_f64("ok").is_ok_and(|ok| ok == 1.0), "{command}: {reply}");
        }
    }

    fn begin(&mut self, generator: &mut Generator) {
        self.all(&doc! { "dropDatabase": 1, "$db": "differential" });
        self.all(&doc! { "create": PLAIN, "$db": "differential" });
        self.all(&doc! { "create": OUTPUT, "$db": "differential" });
        self.all(&doc! { "createIndexes": INDEXED, "indexes": indexes(), "$db": "differential" });
        let mut others: Vec<_> = (0..8).map(|_| generator.stored()).collect();
        others.iter_mut().zip(0..).for_each(|(other, id)| drop(other.insert("_id", id)));
        self.all(&doc! { "insert": "other", "documents": others, "$db": "differential" });
    }

    fn compare(&mut self, operation: &Operation) -> Comparison {
        let [real, literal, ours] = [&mut self.real, &mut self.literal, &mut self.ours]
            .map(|server| server.run_to_end(&operation.command));
        self.tally.note(&operation.command, &real);
        let says_nothing = |it: &Document| it.contains_key(UNREADABLE) || is_optimizer_error(it);
        if says_nothing(&real) || says_nothing(&literal) {
            return Comparison::Undecided;
        }
        let comparable_part = |reply| comparable_part(operation, reply, self.version);
        let same = |left, right| are_identical(&comparable_part(left), &comparable_part(right));
        match (same(&real, &literal), same(&real, &ours) || same(&literal, &ours)) {
            (true, true) => Comparison::Same,
            (false, true) => Comparison::Undecided,
            // 8.2 omits fields that no later stage reads, and evaluates conditions in any order.
            (_, false) if operation.may_fail_unseen(self.version) && fails_once(&real, &ours) => {
                Comparison::Undecided
            }
            (_, false) => {
                let [theirs, own] = [&real, &ours].map(comparable_part);
                let where_ = difference("", &theirs, &own).unwrap_or_default();
                Comparison::Different(format!(
                    "{}\n  mongod:   {real}\n  embedded: {ours}\n  at {where_}",
                    operation.command
                ))
            }
        }
    }

    /// Runs operations until one differs, then compares the stored documents. With `careful`,
    /// compares them after each write.
    fn round(&mut self, generator: &mut Generator, careful: bool) -> Comparison {
        self.begin(generator);
        for _ in 0..ROUND {
            let operation = generator.operation();
            let verdict = self.compare(&operation);
            match verdict {
                Comparison::Same if careful && operation.writes => match self.compare_stored() {
                    Comparison::Different(difference) => {
                        let command = operation.command;
                        return Comparison::Different(format!(
                            "{command}\n  and then {difference}"
                        ));
                    }
                    Comparison::Same | Comparison::Undecided => {}
                },
                Comparison::Same => {}
                Comparison::Undecided => {
                    self.tally.undecided += 1;
                    if operation.writes {
                        return verdict;
                    }
                }
                Comparison::Different(_) => return verdict,
            }
        }
        self.compare_stored()
    }

    fn compare_stored(&mut self) -> Comparison {
        for collection in [PLAIN, INDEXED, OUTPUT] {
            let command = doc! {
                "find": collection,
                "sort": { "_id": 1 },
                "batchSize": 1000,
                "$db": "differential",
            };
            let verdict = self.compare(&Operation { command, ordered: true, writes: false });
            if !matches!(verdict, Comparison::Same) {
                return verdict;
            }
        }
        Comparison::Same
    }
}

/// Returns `true` if exactly one of the replies is an error.
fn fails_once(one: &Document, other: &Document) -> bool {
    one.contains_key("code") != other.contains_key("code")
}

/// A server that executes pipelines and filters as they are, without optimization.
fn literal(version: Version) -> Mongod {
    let options = Options::new().version(version);
    let mongod = Mongod::standalone(options).unwrap_or_else(|error| panic!("{error}"));
    for name in ["disablePipelineOptimization", "disableMatchExpressionOptimization"] {
        let command = doc! { "configureFailPoint": name, "mode": "alwaysOn" };
        mongod.run_command("admin", command).expect("a known fail point");
    }
    // Nor does it use the slot-based engine, whose `$lookup` in 6.0 loses the types of some values.
    let classic = match version {
        Version::V6_0 => doc! { "setParameter": 1, "internalQueryForceClassicEngine": true },
        _ => doc! { "setParameter": 1, "internalQueryFrameworkControl": "forceClassicEngine" },
    };
    mongod.run_command("admin", classic).expect("a known parameter");
    mongod
}

fn from_env(variable: &str, default: usize) -> usize {
    env::var(variable).map_or(default, |number| number.parse().expect("a number"))
}

/// Compares random operations on the embedded deployment with those on servers of this version.
#[allow(clippy::print_stdout)]
fn compare_with(version: Version, default: usize) {
    let mongod = testbed::shared::standalone_of(version).unwrap_or_else(|error| panic!("{error}"));
    let series = version.as_str().rsplit_once('.').map_or("", |(series, _)| series);
    let embedded = Deployment::standalone().version(series).start();
    let literal = literal(version);
    let mut servers = Servers {
        real: Server::at(mongod.address()),
        literal: Server::at(literal.address()),
        ours: Server::at(embedded.member(0).address()),
        tally: Tally::default(),
        version,
    };

    let seed = from_env("STEADFAST_SEED", 1);
    let operations = from_env("STEADFAST_DIFFERENTIAL", default);
    let mut differences = Vec::new();
    let mut round = seed * 1_000_000;
    while servers.tally.operations() < operations {
        let generator = || Generator::new(u64::try_from(round).expect("a seed"), version);
        if let Comparison::Different(late) = servers.round(&mut generator(), false) {
            // Repeats the round carefully, to find the first operation that differs.
            match servers.round(&mut generator(), true) {
                Comparison::Different(difference) => differences.push(difference),
                Comparison::Same | Comparison::Undecided => differences.push(late),
            }
        }
        round += 1;
    }
    println!("MongoDB {version}, seed {seed}: {}", servers.tally);
    let shown: Vec<_> = differences.iter().take(MAX_REPORTED).map(String::as_str).collect();
    let count = differences.len();
    assert!(shown.is_empty(), "{count} differences, seed {seed}:\n{}", shown.join("\n"));
}

#[test]
fn random_operations_have_the_same_results_as_on_mongodb_6_0() {
    testbed::require!(V6_0);
    compare_with(Version::V6_0, 3_000);
}

#[test]
fn random_operations_have_the_same_results_as_on_mongodb_8_2() {
    testbed::require!(V8_2);
    compare_with(Version::V8_2, 3_000);
}

#[test]
fn scenarios_have_the_same_replies_as_on_a_replica_set_of_mongodb_8_2() {
    testbed::require!(V8_2);
    let set = testbed::shared::replica_set_of(Version::V8_2).expect("a replica set");
    let primary = set.wait_for_primary().expect("a primary");
    let addresses = set.addresses();
    let real = Addresses {
        front: vec![addresses[primary]],
        secondary: Some(addresses[(primary + 1) % addresses.len()]),
        shards: Vec::new(),
    };
    let embedded = Deployment::replica_set(3).version("8.2").start();
    compare_on(Target::ReplicaSet, &real, &Addresses::of_embedded(&embedded));
}

#[test]
fn scenarios_have_the_same_replies_as_through_mongos_8_2() {
    testbed::require!(V8_2);
    // An idle shard delays the change streams of a cluster until it writes its next no-op entry.
    let options = Options::new().version(Version::V8_2).parameter("periodicNoopIntervalSecs=1");
    let cluster = ShardedCluster::start(ClusterOptions::new().options(options)).expect("a cluster");
    let real = Addresses {
        front: cluster.mongos().iter().map(|mongos| mongos.address()).collect(),
        secondary: None,
        shards: cluster.shards().iter().map(|shard| shard.addresses()[0]).collect(),
    };
    let shards = [cluster.shard_name(0), cluster.shard_name(1)];
    let embedded = Deployment::sharded(&[&shards[0], &shards[1]])
        .version("8.2")
        .mongos_count(2)
        .members_per_shard(1)
        .start();
    compare_on(Target::ShardedCollection, &real, &Addresses::of_embedded(&embedded));
}
