//! Faults that a test can inject into a deployment.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use bson::{Document, Uuid, doc};

use super::{
    deployment::{Member, Shard},
    limiter::RateLimit,
    net::Endpoint,
    server::{Latency, Server},
    set::ReplicaSet,
};

/// Injects faults into a deployment. [`Deployment::faults`](super::Deployment::faults) returns it.
/// Clones act on the same deployment from other tasks and threads.
///
/// Servers are numbered from 0.
///
/// ```
/// use steadfast_embedded::Deployment;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let set = Deployment::replica_set(3).start();
/// assert_eq!(set.primary(), Some(0));
/// set.faults().step_down();
/// assert_ne!(set.wait_for_primary().await, 0);
/// # }
/// ```
///
/// # Panics
///
/// All methods with a server number panic if there is no such server. Methods about replication and
/// elections panic for the mongos of a sharded cluster. Use the faults of a
/// [shard](super::Deployment::shard) there.
#[derive(Clone)]
pub struct Faults {
    endpoints: Vec<Arc<Endpoint>>,
    /// Replica set of these servers. Empty for mongos.
    sets: Vec<Arc<ReplicaSet>>,
    /// Shards behind these servers, if they are mongos.
    shards: Vec<Arc<ReplicaSet>>,
}

/// Error reply of a server to an injected fault or to a cluster operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DeploymentError(String);

impl DeploymentError {
    pub(super) fn new(why: String) -> Self {
        Self(why)
    }
}

impl Faults {
    pub(super) fn new(members: &[Member], sets: Vec<Arc<ReplicaSet>>, shards: &[Shard]) -> Self {
        let endpoints = members.iter().map(|member| member.endpoint.clone()).collect();
        let shards = shards.iter().flat_map(|shard| shard.faults.sets.clone()).collect();
        Self { endpoints, sets, shards }
    }

    pub(super) fn set(&self) -> Option<&Arc<ReplicaSet>> {
        self.sets.first()
    }

    #[track_caller]
    pub(super) fn replica_set(&self) -> &Arc<ReplicaSet> {
        self.set().expect("a mongos is not a member of a replica set; use the faults of a shard (Deployment::shard)")
    }

    pub(super) fn all_sets(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.sets.iter().chain(&self.shards)
    }

    fn server(&self, member: usize) -> &Server {
        self.endpoints[member].server()
    }

    /// Kills the process of a server, as `kill -9` does: its connections are reset and its port
    /// is closed. The oplog and data survive for [`restart`](Self::restart). Open cursors
    /// and transactions are lost.
    pub fn kill(&self, member: usize) {
        self.server(member).host.kill();
        self.endpoints[member].follow_process_state();
    }

    /// Restarts a server that was [killed](Self::kill), at the same address. Its fail points are
    /// off.
    pub fn restart(&self, member: usize) {
        self.server(member).reset();
        self.server(member).host.restart();
        self.endpoints[member].follow_process_state();
    }

    /// Stops the process of a server, as `kill -STOP` does: connections stay open and get no
    /// replies.
    pub fn freeze(&self, member: usize) {
        self.server(member).host.freeze();
    }

    /// Continues a [frozen](Self::freeze) server.
    pub fn thaw(&self, member: usize) {
        self.server(member).host.thaw();
    }

    /// Closes all connections of a server. It still accepts new ones.
    pub fn close_connections(&self, member: usize) {
        self.endpoints[member].close_connections();
    }

    /// Partitions the members into groups. Members of different groups do not reach each other. A
    /// member in no group is isolated. Clients still reach all members.
    pub fn partition(&self, groups: &[&[usize]]) {
        self.replica_set().partition(groups);
    }

    /// Ends all partitions.
    pub fn heal(&self) {
        self.replica_set().heal();
    }

    /// Makes the primary step down. Another electable member is elected at once, unless [elections
    /// are manual](super::Builder::manual_elections).
    pub fn step_down(&self) {
        self.replica_set().step_down();
    }

    /// Elects a member, as `replSetStepUp` does.
    ///
    /// # Errors
    ///
    /// Returns an error if the member does not get the votes of a majority.
    pub fn elect(&self, member: usize) -> Result<(), DeploymentError> {
        self.replica_set().elect(member).map_err(|fault| DeploymentError(fault.message))
    }

    /// Stops replication to a secondary until [`release_replication`](Self::release_replication).
    pub fn hold_replication(&self, member: usize) {
        self.replica_set().hold_replication(member);
    }

    /// Resumes replication to a secondary.
    pub fn release_replication(&self, member: usize) {
        self.replica_set().release_replication(member);
    }

    /// Delays replication to a secondary by this time.
    pub fn replication_latency(&self, member: usize, latency: Duration) {
        self.replica_set().replication_latency(member, latency);
    }

    /// Sets the clock of a server ahead by this time.
    pub fn clock_skew(&self, member: usize, ahead: Duration) {
        self.replica_set().clock_skew(member, ahead);
    }

    /// Delays each request by `before` and each reply by `after`. The effect of a write exists
    /// before its delayed reply.
    pub fn latency(&self, member: usize, before: Duration, after: Duration) {
        self.server(member).set_latency(Latency { before, after, jitter: Duration::ZERO });
    }

    /// Delays requests and replies with additional random jitter, up to `jitter` each.
    pub fn latency_with_jitter(
        &self,
        member: usize,
        before: Duration,
        after: Duration,
        jitter: Duration,
    ) {
        self.server(member).set_latency(Latency { before, after, jitter });
    }

    /// Limits the requests per second of a server, with a token bucket of `burst` requests. Other
    /// requests get error 462 with the labels `SystemOverloadedError` and `RetryableError`, as the
    /// Client Backpressure specification shows. (MongoDB 8.2.0 itself replies with error 449 and
    /// the first label only.)
    ///
    /// `hello` and authentication commands are exempt. With authentication, so are clients that
    /// have not logged in yet.
    ///
    /// ```
    /// use steadfast_embedded::Deployment;
    ///
    /// let server = Deployment::standalone().start();
    /// server.faults().request_rate(0, 100.0, 20.0);
    /// server.faults().clear_rate_limits(0);
    /// ```
    pub fn request_rate(&self, member: usize, per_second: f64, burst: f64) {
        self.server(member).requests.set(RateLimit::new(per_second, burst));
    }

    /// Limits the new connections per second of a server, with a token bucket of `burst`
    /// connections. Other connections are closed without a reply.
    pub fn connection_rate(&self, member: usize, per_second: f64, burst: f64) {
        self.server(member).new_connections.set(RateLimit::new(per_second, burst));
    }

    /// Removes the limits of [`request_rate`](Self::request_rate) and
    /// [`connection_rate`](Self::connection_rate).
    pub fn clear_rate_limits(&self, member: usize) {
        self.server(member).requests.set(RateLimit::default());
        self.server(member).new_connections.set(RateLimit::default());
    }

    /// Configures a fail point of a server, as the command does: `{ configureFailPoint:
    /// "failCommand", mode: …, data: … }`.
    ///
    /// ```
    /// use steadfast_embedded::Deployment;
    /// use bson::doc;
    ///
    /// let server = Deployment::standalone().start();
    /// let next_insert = doc! {
    ///     "configureFailPoint": "failCommand",
    ///     "mode": { "times": 1 },
    ///     "data": { "failCommands": ["insert"], "closeConnection": true },
    /// };
    /// server.faults().configure_fail_point(0, next_insert).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the server rejects the command.
    pub fn configure_fail_point(
        &self,
        member: usize,
        command: Document,
    ) -> Result<(), DeploymentError> {
        let done = self.server(member).configure_fail_point(&command);
        done.map(drop).map_err(|fault| DeploymentError(fault.message))
    }

    /// Turns a fail point of a server off.
    ///
    /// # Errors
    ///
    /// Returns an error if the fail point is unknown.
    pub fn disable_fail_point(&self, member: usize, name: &str) -> Result<(), DeploymentError> {
        self.configure_fail_point(member, doc! { "configureFailPoint": name, "mode": "off" })
    }

    /// Counts the executions of each retryable write statement and of each commit, from the oplog
    /// of the most up-to-date member. A count above 1 is a bug.
    ///
    /// In a sharded cluster, executions of a statement are added up over all shards. A commit on
    /// several shards counts once.
    ///
    /// ```
    /// use steadfast_embedded::Deployment;
    ///
    /// let set = Deployment::replica_set(3).start();
    /// assert!(set.faults().executions().iter().all(|execution| execution.count == 1));
    /// ```
    pub fn executions(&self) -> Vec<Execution> {
        let mut found: BTreeMap<([u8; 16], i64, Option<i32>), usize> = BTreeMap::new();
        for execution in self.all_sets().flat_map(|set| set.executions()) {
            let Ok(session) = execution.session.id.try_into() else { continue };
            let count = found.entry((session, execution.number, execution.statement)).or_default();
            *count = match execution.statement {
                Some(_) => *count + execution.count,
                None => (*count).max(execution.count),
            };
        }
        let read = found.into_iter().map(|((session, txn_number, stmt_id), count)| {
            let session = Uuid::from_bytes(session);
            Execution { session, txn_number, stmt_id, count }
        });
        read.collect()
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").finish_non_exhaustive()
    }
}

/// Number of executions of a statement or commit that must be executed at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Execution {
    /// Session id (`lsid.id`).
    pub session: Uuid,
    /// Number of the retryable write or transaction (`txnNumber`).
    pub txn_number: i64,
    /// Statement id of a retryable write (`stmtId`). `None` for the commit of a transaction.
    pub stmt_id: Option<i32>,
    /// Number of executions.
    pub count: usize,
}
