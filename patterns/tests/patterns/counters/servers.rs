//! The deployment below: an embedded or a real replica set, or a real sharded cluster; how it fails, and the bad
//! network before it.

use std::{sync::Arc, time::Duration};

use blackpipe::proxy::{Direction, Reaction, Rule};
use steadfast::bson::doc;
use steadfast_embedded::Deployment;
use testbed::{Options, ReplicaSet};

use crate::{dice::Dice, sharded_collection::ShardedCollection};

/// The counters' collection.
pub(super) const COUNTERS: &str = "counting.days";

/// What befalls a primary.
#[derive(Clone, Copy, Debug)]
pub(super) enum Failover {
    StepDown,
    /// As by `kill -9`; it is started again when there is another.
    Kill,
    /// It is cut off from the other members, and not from the clients. Of an embedded deployment only; a
    /// real one steps down.
    CutOff,
    /// All chunks of the counters move to the other shard. Of a sharded cluster only.
    Migration,
}

pub(super) enum Servers {
    Embedded(Box<Deployment>),
    Real(Arc<ReplicaSet>),
    Sharded(ShardedCollection),
}

impl Servers {
    pub(super) fn embedded(seed: u64) -> Self {
        let quickly = Duration::from_millis(100);
        let set = Deployment::replica_set(3).seed(seed).election_timeout(quickly).start();
        Self::Embedded(Box::new(set))
    }

    pub(super) fn real() -> Self {
        // Three members with the usual sixteen threads each would spend most of their time on handing each
        // other little work.
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

    /// Returns when it is over: when there is another primary, or when the chunks have moved.
    pub(super) async fn befall(&self, failover: Failover) {
        match self {
            Self::Embedded(deployment) => befall_embedded(deployment, failover).await,
            Self::Real(set) => {
                let set = Arc::clone(set);
                let befall = move || befall_real(&set, failover);
                tokio::task::spawn_blocking(befall).await.expect("it fails over");
            }
            Self::Sharded(days) => {
                let days = days.clone();
                let migrate = move || days.swap_shards();
                tokio::task::spawn_blocking(migrate).await.expect("the chunks move");
            }
        }
    }
}

async fn befall_embedded(deployment: &Deployment, failover: Failover) {
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

fn befall_real(set: &ReplicaSet, failover: Failover) {
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

/// What the network does to the commands of counters and of sweeps.
pub(super) fn bad_network(dice: &mut Dice) -> Vec<Rule> {
    let (half, ms) = (usize::try_from(dice.below(100)).expect("small"), 1 + dice.below(10));
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
        let rule = Rule::new(reaction).probability(chance).seed(dice.roll());
        ["update", "findAndModify", "find", "aggregate"].into_iter().fold(rule, Rule::command)
    };
    reactions.map(rule).into()
}
