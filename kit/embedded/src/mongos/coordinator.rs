//! Two-phase commit coordinator.
//!
//! First every shard prepares its part with a majority of its members. Then the commit entry of the
//! first shard, once majority-committed, is the decision. The other shards follow it under any
//! primary. A transaction that a shard cannot prepare is aborted on all shards.
//!
//! A task of the cluster runs the protocol. It continues if the client disconnects. A repeated
//! commit, through any mongos, joins it.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

use steadfast_query::{Code, Fault};
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::Instant,
};

use super::{
    cluster::{Cluster, TRANSACTION_LIFETIME, locked},
    multi_shard::majority_primary,
    operation::{MongosCommand, task_panicked},
    shard::{ShardClient, with_label},
};
use crate::{
    namespace::Namespace,
    oplog::{OpTime, OrderedTimestamp, TransactionId},
    set::State,
};

/// Outcome of a two-phase commit, once it is known.
type CommitOutcome = Option<Result<(), Fault>>;

/// A two-phase commit in progress.
#[derive(Debug)]
pub(super) struct Coordinator {
    outcome: watch::Receiver<CommitOutcome>,
    task: AbortHandle,
    /// Collections whose chunks must not move meanwhile.
    namespaces: BTreeSet<Namespace>,
}

impl Coordinator {
    /// Returns `true` if the transaction changes a collection.
    pub(super) fn concerns(&self, namespace: &Namespace) -> bool {
        self.namespaces.contains(namespace)
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        // A finished coordinator has been removed before, so this aborts only unfinished tasks.
        self.task.abort();
    }
}

/// Commits a transaction on these shards. The first one stores the decision.
pub(super) async fn commit(
    op: &MongosCommand,
    id: &TransactionId,
    shards: &[String],
    namespaces: BTreeSet<Namespace>,
) -> Result<(), Fault> {
    let cluster = op.cluster();
    let outcome = {
        let mut coordinators = locked(&cluster.coordinators);
        match coordinators.get(id) {
            Some(known) => known.outcome.clone(),
            None => {
                let shards = shards.iter().map(|name| cluster.shard(name).cloned());
                let shards = shards.collect::<Result<_, _>>()?;
                let (sender, outcome) = watch::channel(None);
                let task = run(Arc::downgrade(cluster), id.clone(), shards, sender);
                let task = tokio::spawn(task).abort_handle();
                let coordinator = Coordinator { outcome: outcome.clone(), task, namespaces };
                coordinators.insert(id.clone(), coordinator);
                outcome
            }
        }
    };
    finished(op, outcome).await
}

/// Waits for the outcome of a commit in progress, if there is one.
pub(super) async fn join(op: &MongosCommand, id: &TransactionId) -> Option<Result<(), Fault>> {
    let outcome = locked(&op.cluster().coordinators).get(id)?.outcome.clone();
    Some(finished(op, outcome).await)
}

async fn finished(
    op: &MongosCommand,
    mut outcome: watch::Receiver<CommitOutcome>,
) -> Result<(), Fault> {
    let known = async {
        match outcome.wait_for(Option::is_some).await {
            Ok(known) => known.clone().unwrap_or(Ok(())),
            // The cluster was dropped.
            Err(_) => Err(Fault::new(Code::INTERRUPTED_AT_SHUTDOWN, "interrupted at shutdown")),
        }
    };
    match op.call.max_time {
        None => known.await,
        Some(_) => tokio::time::timeout_at(op.deadline, known).await.unwrap_or_else(|_| {
            Err(Fault::new(Code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit"))
        }),
    }
}

async fn run(
    cluster: Weak<Cluster>,
    id: TransactionId,
    shards: Vec<ShardClient>,
    sender: watch::Sender<CommitOutcome>,
) {
    let prepared = prepare(&shards, &id).await;
    let outcome = match prepared {
        Ok(visible) => {
            let committed = run_decision(&shards, |state, primary, now| {
                state.commit_prepared(primary, &id, visible, now)
            });
            committed.await
        }
        // A repeated commit: the first one has finished on all shards.
        Err(fault) if fault.code == Code::TRANSACTION_COMMITTED => Ok(()),
        Err(fault) => {
            sender.send_replace(Some(Err(with_label(fault.clone(), "TransientTransactionError"))));
            let aborted = run_decision(&shards, |state, primary, now| {
                state.abort_prepared(primary, &id, now)
            });
            aborted.await.and(Err(fault))
        }
    };
    if let Some(cluster) = cluster.upgrade() {
        locked(&cluster.coordinators).remove(&id);
    }
    sender.send_if_modified(|known| {
        let first = known.is_none();
        if first {
            *known = Some(outcome);
        }
        first
    });
}

/// Prepares the transaction on all shards. Returns the time from which snapshots show it after the
/// commit.
async fn prepare(shards: &[ShardClient], id: &TransactionId) -> Result<OrderedTimestamp, Fault> {
    let deadline = Some(Instant::now() + TRANSACTION_LIFETIME);
    let mut preparing = JoinSet::new();
    for shard in shards {
        let (shard, id) = (shard.clone(), id.clone());
        preparing.spawn(async move {
            let step =
                |state: &mut State, primary, now| state.prepare_transaction(primary, &id, now);
            run_until_durable(&shard, deadline, step).await
        });
    }
    let mut newest = OrderedTimestamp::default();
    while let Some(prepared) = preparing.join_next().await {
        let at = prepared.map_err(task_panicked)??;
        newest = newest.max(at.timestamp);
    }
    Ok(newest)
}

/// Executes the last step on all shards, one after the other.
async fn run_decision(
    shards: &[ShardClient],
    mut step: impl FnMut(&mut State, usize, Instant) -> Result<OpTime, Fault>,
) -> Result<(), Fault> {
    for shard in shards {
        run_until_durable(shard, None, &mut step).await?;
    }
    Ok(())
}

/// Executes a step on the primary of a shard, again on each new primary, until the entry is
/// majority-committed.
async fn run_until_durable(
    shard: &ShardClient,
    deadline: Option<Instant>,
    mut step: impl FnMut(&mut State, usize, Instant) -> Result<OpTime, Fault>,
) -> Result<OpTime, Fault> {
    let shared = shard.set.shared();
    let mut watch = shared.watch();
    let stepped = async {
        loop {
            watch.mark_unchanged();
            let done = shared.change_if_appended(|state, now| {
                let primary = majority_primary(state)?;
                let at = match step(state, primary, now) {
                    Ok(at) => at,
                    Err(fault) => return Some(Err(fault)),
                };
                state.replicate(now);
                state.is_committed(at).then_some(Ok(at))
            });
            if let Some(done) = done {
                return done;
            }
            // The set holds the sender.
            let _ = watch.changed().await;
        }
    };
    match deadline {
        None => stepped.await,
        Some(deadline) => tokio::time::timeout_at(deadline, stepped).await.unwrap_or_else(|_| {
            Err(Fault::new(
                Code::NO_SUCH_TRANSACTION,
                format!("shard {} did not prepare the transaction in time", shard.name),
            ))
        }),
    }
}
