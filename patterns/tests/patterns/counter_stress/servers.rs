//! Deployments of the stress test (an embedded or real replica set, or a real sharded cluster), their
//! failovers, and the faults of the network.

use std::{sync::Arc, time::Duration};

use blackpipe::proxy::{Direction, Reaction, Rule};
use steadfast::bson::doc;
use steadfast_embedded::Deployment;
use testbed::{Options, ReplicaSet};

use crate::{rng::Rng, sharded_collection::ShardedCollection};

/// Namespace of the counters.
pub(super) const COUNTERS: &str = "counting.days";

/// Fault of a primary.
#[derive(Clone, Copy, Debug)]
pub(super) enum Failover {
    StepDown,
    /// Kills it as `kill -9` does, and restarts it after the election.
    Kill,
    /// Partitions it from the other members, but not from clients. Embedded deployments only; a real primary
    /// steps down instead.
    CutOff,
    /// Moves all chunks of the counters to the other shard. Sharded clusters only.
    Migration,
}

pub(super) enum StressServers {
    Embedded(Box<Deployment>),
    Real(Arc<ReplicaSet>),
    Sharded(ShardedCollection),
}

impl StressServers {
    pub(super) fn embedded(seed: u64) -> Self {
        let quickly = Duration::from_millis(100);
        let set = Deployment::replica_set(3).seed(seed).election_timeout(quickly).start();
        Self::Embedded(Box::new(set))
    }

    pub(super) fn real() -> Self {
        // With the default of sixteen writer threads, three members would spend most of their time on
        // switching between threads.
        let options = Options::new().parameter("replWriterThreadCount=2");
        Self::Real(Arc::new(ReplicaSet::start(3, options).unwrap()))
    }

    pub(super) fn sharded() -> Self {
        Self::Sharded(ShardedCollection::create(COUNTERS, doc! { "_id": "hashed" }))
    }

    pub(super) fn uri(&self) -> String {
        match self {
            Self::Embedded(deployment) => deployment.uri(),
            Self::Real(set) => set.uri(),
            Self::Sharded(days) => days.uri(),
        }
    }

    /// Causes a failover. Returns when there is another primary, or when the chunks have moved.
    pub(super) async fn fail_over(&self, failover: Failover) {
        match self {
            Self::Embedded(deployment) => fail_over_embedded(deployment, failover).await,
            Self::Real(set) => {
                let set = Arc::clone(set);
                let fail_over = move || fail_over_real(&set, failover);
                tokio::task::spawn_blocking(fail_over).await.expect("it fails over");
            }
            Self::Sharded(days) => {
                let days = days.clone();
                let migrate = move || days.move_all_chunks();
                tokio::task::spawn_blocking(migrate).await.expect("the chunks move");
            }
        }
    }
}

async fn fail_over_embedded(deployment: &Deployment, failover: Failover) {
    let faults = deployment.faults();
    let primary = deployment.wait_for_primary().await;
    match failover {
        Failover::StepDown | Failover::Migration => faults.step_down(),
        Failover::Kill => {
            faults.kill(primary);
            deployment.wait_for_primary().await;
            faults.restart(primary);
        }
        Failover::CutOff => {
            let others: Vec<_> = (0..3).filter(|&other| other != primary).collect();
            faults.partition(&[&[primary], &others]);
            deployment.wait_for_primary().await;
            faults.heal();
        }
    }
    deployment.wait_for_primary().await;
}

fn fail_over_real(set: &ReplicaSet, failover: Failover) {
    match failover {
        Failover::StepDown | Failover::CutOff | Failover::Migration => {
            set.step_down().unwrap();
            set.wait_for_primary().unwrap();
        }
        Failover::Kill => {
            let primary = set.wait_for_primary().unwrap();
            set.kill(primary).unwrap();
            set.wait_for_primary().unwrap();
            set.restart(primary).unwrap();
        }
    }
}

/// Returns rules that disturb the commands of counters and sweeps.
pub(super) fn network_faults(rng: &mut Rng) -> Vec<Rule> {
    let (half, ms) = (usize::try_from(rng.below(100)).expect("small"), 1 + rng.below(10));
    let reactions = [
        (Reaction::cut_request(), 0.002),
        (Reaction::cut_request_after(half).with_reset(), 0.001),
        (Reaction::lose_reply(), 0.003),
        (Reaction::cut_reply_after(half), 0.001),
        (Reaction::lose_reply().with_reset(), 0.001),
        (Reaction::Delay { ms, direction: Direction::Request }, 0.01),
        (Reaction::Delay { ms, direction: Direction::Reply }, 0.01),
    ];
    let rule = |(reaction, chance)| {
        let rule = Rule::new(reaction).probability(chance).seed(rng.next_u64());
        ["update", "findAndModify", "find", "aggregate"].into_iter().fold(rule, Rule::command)
    };
    reactions.map(rule).into()
}
