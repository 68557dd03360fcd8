//! Several servers with one script: a replica set whose primary moves, or the routers of a cluster.

use std::{fmt, sync::Arc};

use super::{Conversation, Exchange, Expected, NotKept, Receiving, Role, Server, Stage, receives};

/// Several servers with one script. What is expected of it may come to any of them, unless it is said
/// [which](Expected::at).
///
/// ```
/// use blackpipe::server::{Deployment, error, insert};
///
/// let set = Deployment::replica_set(3);
/// set.expect(insert("db.things").at(0).then(error(10107).labelled("RetryableWriteError")));
/// set.expect(insert("db.things").at(1));
/// // … start the insert, and when it has been refused:
/// set.elect(1);
/// # std::mem::forget(set);
/// ```
///
/// When the primary changes, the members tell the drivers that watch them at once, and a write that
/// comes to a member which is not primary is refused as such, unless the script has it otherwise.
pub struct Deployment {
    servers: Vec<Server>,
    stage: Arc<Stage>,
    answers_for_script: bool,
}

impl Deployment {
    pub(super) fn new(servers: Vec<Server>, stage: Arc<Stage>) -> Self {
        Self { servers, stage, answers_for_script: true }
    }

    /// A replica set of so many members, of which the first is primary.
    pub fn replica_set(members: usize) -> Self {
        Server::builder().replica_set(members)
    }

    /// So many routers of a sharded cluster.
    pub fn routers(routers: usize) -> Self {
        Server::builder().routers(routers)
    }

    /// The servers.
    pub fn members(&self) -> &[Server] {
        &self.servers
    }

    /// One of the servers, counted from 0.
    pub fn member(&self, member: usize) -> &Server {
        &self.servers[member]
    }

    /// A connection string of all servers, with these options, which may be empty.
    pub fn uri(&self, options: &str) -> String {
        let hosts: Vec<_> = self.servers.iter().map(Server::address).collect();
        let is_set = self.servers.iter().any(|it| it.play.standing.borrow().role.is_member());
        let set = if is_set { "replicaSet=set&" } else { "" };
        format!("mongodb://{}/?{set}{options}", hosts.join(","))
    }

    /// Which member is primary.
    pub fn primary(&self) -> Option<usize> {
        self.servers.iter().position(|it| it.play.standing.borrow().role == Role::Primary)
    }

    /// Makes this member the primary, whichever was it before.
    ///
    /// # Panics
    ///
    /// If there is no such member, or the deployment is no replica set.
    pub fn elect(&self, member: usize) {
        let elected = self.servers[member].address();
        self.assign(Some(&elected));
    }

    /// Has the primary step down. There is none until one is [elected](Self::elect).
    pub fn step_down(&self) {
        self.assign(None);
    }

    /// What was the primary is told first that it is none.
    fn assign(&self, primary: Option<&str>) {
        let mut order: Vec<_> = self.servers.iter().collect();
        order.sort_by_key(|server| Some(server.address().as_str()) == primary);
        for server in order {
            server.play.standing.send_modify(|standing| {
                assert!(standing.role.is_member(), "only a replica set has a primary");
                let is_elected = primary == Some(standing.me.as_str());
                standing.role = if is_elected { Role::Primary } else { Role::Secondary };
                standing.election += u32::from(primary.is_some());
                standing.primary = primary.map(ToOwned::to_owned);
                standing.changed();
            });
        }
    }

    /// Expects a request after all that is expected already, to whichever server it comes.
    pub fn expect(&self, exchange: impl Into<Exchange>) {
        self.stage.expect([exchange.into()]);
    }

    /// Expects some requests after all that is expected already, whichever of them comes first.
    pub fn expect_in_any_order(&self, exchanges: impl IntoIterator<Item = impl Into<Exchange>>) {
        self.stage.expect(exchanges.into_iter().map(Into::into));
    }

    /// Does this whenever such a request comes that is not expected, now or later.
    pub fn whenever(&self, exchange: impl Into<Exchange>) {
        self.stage.whenever(exchange.into());
    }

    /// Expects a request after all that is expected already, and gives it to the test when it comes.
    pub fn receives(&self, expected: Expected) -> Receiving {
        receives(&self.stage, expected)
    }

    /// All that was said so far, in the order in which it was, to be shown.
    pub fn transcript(&self) -> Conversation {
        self.stage.transcript()
    }

    /// Waits until all that is expected has come, or something came that was not expected.
    ///
    /// # Panics
    ///
    /// If it does not come within a time that only a hang exceeds.
    pub async fn settled(&self) {
        self.stage.settled().await;
    }

    /// Whether the script was kept so far: all that is expected came, and nothing else.
    pub fn check(&self) -> Result<(), NotKept> {
        self.stage.check()
    }

    /// Ends the servers, and the test if the script was not kept.
    ///
    /// # Panics
    ///
    /// If something expected has not come, or something came that was not expected. The panic shows
    /// the conversation.
    #[track_caller]
    pub fn finish(mut self) {
        self.answers_for_script = false;
        if let Err(not_kept) = self.check() {
            panic!("{not_kept}");
        }
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        if self.answers_for_script {
            self.stage.answer_for_script();
        }
    }
}

impl fmt::Debug for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deployment").field("servers", &self.servers).finish_non_exhaustive()
    }
}
