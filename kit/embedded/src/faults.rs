//! What can be done to a deployment: members die, freeze, lose each other, lag, shed load.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use bson::{Document, Uuid, doc};

use super::{
    deployment::{Member, Shard},
    limiter::Limit,
    net::Door,
    server::{Latency, Server},
    set::ReplicaSet,
};

/// What can be done to a deployment. [`Deployment::faults`](super::Deployment::faults) gives it; it
/// can be cloned and taken to another task or thread.
///
/// Servers are counted from 0.
///
/// ```
/// use steadfast_embedded::Deployment;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let set = Deployment::replica_set(3).start();
/// assert_eq!(set.primary(), Some(0));
/// set.faults().step_down();
/// assert_ne!(set.until_primary().await, 0);
/// # }
/// ```
///
/// # Panics
///
/// All that are told a server panic if there is none of that number. What is about members of a
/// replica set panics if these are routers: then ask [a shard](super::Deployment::shard).
#[derive(Clone)]
pub struct Faults {
    doors: Vec<Arc<Door>>,
    /// The set whose members they are; none if they are routers.
    sets: Vec<Arc<ReplicaSet>>,
    /// The sets behind them, if they are routers.
    shards: Vec<Arc<ReplicaSet>>,
}

/// A deployment refused to do what a test asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

impl Refused {
    pub(super) fn new(why: String) -> Self {
        Self(why)
    }
}

impl Faults {
    pub(super) fn new(members: &[Member], sets: Vec<Arc<ReplicaSet>>, shards: &[Shard]) -> Self {
        let doors = members.iter().map(|member| member.door.clone()).collect();
        let shards = shards.iter().flat_map(|shard| shard.faults.sets.clone()).collect();
        Self { doors, sets, shards }
    }

    pub(super) fn set(&self) -> Option<&Arc<ReplicaSet>> {
        self.sets.first()
    }

    #[track_caller]
    pub(super) fn the_set(&self) -> &Arc<ReplicaSet> {
        self.set().expect("routers are no members of a replica set: ask a shard")
    }

    pub(super) fn all_sets(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.sets.iter().chain(&self.shards)
    }

    fn server(&self, member: usize) -> &Server {
        self.doors[member].server()
    }

    /// A server's process ends, as by `kill -9`: its connections are reset, and nobody listens at its
    /// address. What is in its log stays, for when it is started again.
    pub fn kill(&self, member: usize) {
        self.server(member).host.kill();
        self.doors[member].follow();
    }

    /// A server that was [killed](Self::kill) is started again, at the same address. Its fail points
    /// are off.
    pub fn restart(&self, member: usize) {
        self.server(member).forget();
        self.server(member).host.restart();
        self.doors[member].follow();
    }

    /// A server stands still, as by `kill -STOP`: it keeps its connections and answers nothing.
    pub fn freeze(&self, member: usize) {
        self.server(member).host.freeze();
    }

    /// A server that stood still goes on as if nothing had happened.
    pub fn thaw(&self, member: usize) {
        self.server(member).host.thaw();
    }

    /// Closes all connections of a server. New ones are welcome.
    pub fn close_connections(&self, member: usize) {
        self.doors[member].close_connections();
    }

    /// Members reach those of their own group only; who is in no group is alone. Clients still reach
    /// all of them.
    pub fn partition(&self, groups: &[&[usize]]) {
        self.the_set().partition(groups);
    }

    /// All members reach each other again.
    pub fn heal(&self) {
        self.the_set().heal();
    }

    /// The primary steps down. Another member is elected at once if one can be, unless elections are
    /// [up to the test](super::Builder::manual_elections).
    pub fn step_down(&self) {
        self.the_set().step_down();
    }

    /// This member becomes primary, if most members vote for it.
    pub fn elect(&self, member: usize) -> Result<(), Refused> {
        self.the_set().elect(member).map_err(|fault| Refused(fault.message))
    }

    /// A secondary has nothing of what is written from now on, until replication is
    /// [released](Self::release_replication).
    pub fn hold_replication(&self, member: usize) {
        self.the_set().hold_replication(member);
    }

    /// A secondary has everything again.
    pub fn release_replication(&self, member: usize) {
        self.the_set().release_replication(member);
    }

    /// A secondary has what is written only after so long.
    pub fn replication_latency(&self, member: usize, latency: Duration) {
        self.the_set().replication_latency(member, latency);
    }

    /// The clock of a server is ahead by so much.
    pub fn clock_skew(&self, member: usize, ahead: Duration) {
        self.the_set().clock_skew(member, ahead);
    }

    /// A server looks at each request only after so long, and sends its reply so long after it was
    /// done.
    pub fn latency(&self, member: usize, before: Duration, after: Duration) {
        self.server(member).slow_down(Latency { before, after, jitter: Duration::ZERO });
    }

    /// The same, and up to so much longer each, by chance.
    pub fn latency_with_jitter(
        &self,
        member: usize,
        before: Duration,
        after: Duration,
        jitter: Duration,
    ) {
        self.server(member).slow_down(Latency { before, after, jitter });
    }

    /// A server takes so many requests a second, and so many at once if it had few before. The rest is
    /// rejected as the Client Backpressure specification shows it: error 462, labelled
    /// `SystemOverloadedError` and `RetryableError`. (MongoDB 8.2.0 itself answers 449 with the first
    /// label only.)
    /// Hello and logging in are exempt, and so is, if clients must log in, who has not yet.
    pub fn request_rate(&self, member: usize, per_second: f64, burst: f64) {
        self.server(member).requests.set(Limit::new(per_second, burst));
    }

    /// A server takes so many new connections a second, and so many at once if it had few before. The
    /// rest is closed before a word is said.
    pub fn connection_rate(&self, member: usize, per_second: f64, burst: f64) {
        self.server(member).establishing.set(Limit::new(per_second, burst));
    }

    /// A server sheds nothing any more.
    pub fn no_limits(&self, member: usize) {
        self.server(member).requests.set(Limit::default());
        self.server(member).establishing.set(Limit::default());
    }

    /// Sets a fail point of a server as the command does:
    /// `{ configureFailPoint: "failCommand", mode: …, data: … }`.
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
    /// server.faults().fail_point(0, next_insert).unwrap();
    /// ```
    pub fn fail_point(&self, member: usize, command: Document) -> Result<(), Refused> {
        let done = self.server(member).configure(&command);
        done.map(drop).map_err(|fault| Refused(fault.message))
    }

    /// Turns a fail point of a server off.
    pub fn fail_point_off(&self, member: usize, name: &str) -> Result<(), Refused> {
        self.fail_point(member, doc! { "configureFailPoint": name, "mode": "off" })
    }

    /// How often each statement of a retryable write, and each commit of a transaction, was executed,
    /// as the log of the newest member has it. More than once is once too often.
    ///
    /// Of a sharded cluster, statements are those of all shards together, and a commit is one however
    /// many shards took part.
    pub fn executions(&self) -> Vec<Execution> {
        let mut found: BTreeMap<([u8; 16], i64, Option<i32>), usize> = BTreeMap::new();
        for execution in self.all_sets().flat_map(|set| set.executions()) {
            let Ok(session) = execution.session.id.try_into() else { continue };
            let times = found.entry((session, execution.number, execution.statement)).or_default();
            *times = match execution.statement {
                Some(_) => *times + execution.times,
                None => (*times).max(execution.times),
            };
        }
        let read = found.into_iter().map(|((session, transaction, statement), times)| {
            let session = Uuid::from_bytes(session);
            Execution { session, transaction, statement, times }
        });
        read.collect()
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").finish_non_exhaustive()
    }
}

/// How often something was executed that must be executed at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Execution {
    /// The session's id.
    pub session: Uuid,
    /// The number of the transaction, or of the retryable write (`txnNumber`).
    pub transaction: i64,
    /// Which statement of a retryable write; `None` for the commit of a transaction.
    pub statement: Option<i32>,
    /// How often.
    pub times: usize,
}
