//! The same operations, by chance, on the embedded deployment and on a real server: the answers are
//! the same, and so is what is stored in the end.
//!
//! A few thousand operations run with the other tests. `STEADFAST_DIFFERENTIAL=100000` runs as many as
//! it says, `STEADFAST_SEED=7` others than usual.
#![allow(missing_docs)]

mod compare;
mod dice;
mod expressions;
mod filters;
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
    compare::{are_same, difference, essence, is_optimizers},
    dice::Dice,
    operations::{INDEXED, MADE, Operation, PLAIN, indexes},
    scenarios::{Addresses, Target, compare_on},
    server::{Server, UNREADABLE},
    tally::Tally,
};

/// After so many operations the collections are compared and begun anew, so that they stay small.
const ROUND: usize = 250;

/// So many differences are shown.
const SHOWN: usize = 100;

/// What an expression that fails for a document does to a pipeline depends on what the server's
/// optimizer has made of it: a constant may be computed though no document comes to it, a `$match`
/// may go before the stage that fails. So there are two real servers, one of which takes pipelines as
/// they are, and where the two differ, either is right.
struct Servers {
    real: Server,
    literal: Server,
    ours: Server,
    tally: Tally,
    version: Version,
}

/// What came of an operation.
enum Verdict {
    Same,
    /// The real servers do not agree. After a write, what is stored may differ from now on.
    Undecided,
    /// In words.
    Different(String),
}

impl Servers {
    fn all(&mut self, command: &Document) {
        for server in [&mut self.real, &mut self.literal, &mut self.ours] {
            let reply = server.run(command);
            assert!(reply.get_f64("ok").is_ok_and(|ok| ok == 1.0), "{command}: {reply}");
        }
    }

    fn begin(&mut self, dice: &mut Dice) {
        self.all(&doc! { "dropDatabase": 1, "$db": "differential" });
        self.all(&doc! { "create": PLAIN, "$db": "differential" });
        self.all(&doc! { "create": MADE, "$db": "differential" });
        self.all(&doc! { "createIndexes": INDEXED, "indexes": indexes(), "$db": "differential" });
        let mut others: Vec<_> = (0..8).map(|_| dice.stored()).collect();
        others.iter_mut().zip(0..).for_each(|(other, id)| drop(other.insert("_id", id)));
        self.all(&doc! { "insert": "other", "documents": others, "$db": "differential" });
    }

    fn compare(&mut self, operation: &Operation) -> Verdict {
        let [real, literal, ours] = [&mut self.real, &mut self.literal, &mut self.ours]
            .map(|server| server.run_to_end(&operation.command));
        self.tally.note(&operation.command, &real);
        let says_nothing = |it: &Document| it.contains_key(UNREADABLE) || is_optimizers(it);
        if says_nothing(&real) || says_nothing(&literal) {
            return Verdict::Undecided;
        }
        let essence = |reply| essence(operation, reply, self.version);
        let same = |left, right| are_same(&essence(left), &essence(right));
        match (same(&real, &literal), same(&real, &ours) || same(&literal, &ours)) {
            (true, true) => Verdict::Same,
            (false, true) => Verdict::Undecided,
            // 8.2 leaves out what nothing reads later, and orders conditions as it likes.
            (_, false) if operation.may_fail_unseen(self.version) && fails_once(&real, &ours) => {
                Verdict::Undecided
            }
            (_, false) => {
                let [theirs, own] = [&real, &ours].map(essence);
                let where_ = difference("", &theirs, &own).unwrap_or_default();
                Verdict::Different(format!(
                    "{}\n  mongod:   {real}\n  embedded: {ours}\n  at {where_}",
                    operation.command
                ))
            }
        }
    }

    /// Operations until one differs, and then what is stored; with care, after each that writes.
    fn round(&mut self, dice: &mut Dice, careful: bool) -> Verdict {
        self.begin(dice);
        for _ in 0..ROUND {
            let operation = dice.operation();
            let verdict = self.compare(&operation);
            match verdict {
                Verdict::Same if careful && operation.writes => match self.compare_stored() {
                    Verdict::Different(difference) => {
                        let command = operation.command;
                        return Verdict::Different(format!("{command}\n  and then {difference}"));
                    }
                    Verdict::Same | Verdict::Undecided => {}
                },
                Verdict::Same => {}
                Verdict::Undecided => {
                    self.tally.undecided += 1;
                    if operation.writes {
                        return verdict;
                    }
                }
                Verdict::Different(_) => return verdict,
            }
        }
        self.compare_stored()
    }

    fn compare_stored(&mut self) -> Verdict {
        for collection in [PLAIN, INDEXED, MADE] {
            let command = doc! {
                "find": collection,
                "sort": { "_id": 1 },
                "batchSize": 1000,
                "$db": "differential",
            };
            let verdict = self.compare(&Operation { command, ordered: true, writes: false });
            if !matches!(verdict, Verdict::Same) {
                return verdict;
            }
        }
        Verdict::Same
    }
}

/// Returns `true` if exactly one of the replies is an error.
fn fails_once(one: &Document, other: &Document) -> bool {
    one.contains_key("code") != other.contains_key("code")
}

/// A server that takes pipelines and filters as they are.
fn literal(version: Version) -> Mongod {
    let options = Options::new().version(version);
    let mongod = Mongod::standalone(options).unwrap_or_else(|error| panic!("{error}"));
    for name in ["disablePipelineOptimization", "disableMatchExpressionOptimization"] {
        let command = doc! { "configureFailPoint": name, "mode": "alwaysOn" };
        mongod.run_command("admin", command).expect("a fail point that is known");
    }
    // Nor does it translate them: what the other engine of 6.0 joins has lost the types of some values.
    let classic = match version {
        Version::V6_0 => doc! { "setParameter": 1, "internalQueryForceClassicEngine": true },
        _ => doc! { "setParameter": 1, "internalQueryFrameworkControl": "forceClassicEngine" },
    };
    mongod.run_command("admin", classic).expect("a parameter that is known");
    mongod
}

fn asked(variable: &str, usual: usize) -> usize {
    env::var(variable).map_or(usual, |number| number.parse().expect("a number"))
}

/// Compares random operations on the embedded deployment with those on servers of this version.
#[allow(clippy::print_stdout)]
fn compare_with(version: Version, usual: usize) {
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

    let seed = asked("STEADFAST_SEED", 1);
    let operations = asked("STEADFAST_DIFFERENTIAL", usual);
    let mut differences = Vec::new();
    let mut round = seed * 1_000_000;
    while servers.tally.operations() < operations {
        let dice = || Dice::new(u64::try_from(round).expect("a seed"), version);
        if let Verdict::Different(late) = servers.round(&mut dice(), false) {
            // Once more, to find the operation with which it began.
            match servers.round(&mut dice(), true) {
                Verdict::Different(difference) => differences.push(difference),
                Verdict::Same | Verdict::Undecided => differences.push(late),
            }
        }
        round += 1;
    }
    println!("MongoDB {version}, seed {seed}: {}", servers.tally);
    let shown: Vec<_> = differences.iter().take(SHOWN).map(String::as_str).collect();
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
    // An idle shard holds up the change streams of a cluster until it writes its next no-op entry.
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
        .routers(2)
        .shard_members(1)
        .start();
    compare_on(Target::Sharded, &real, &Addresses::of_embedded(&embedded));
}
