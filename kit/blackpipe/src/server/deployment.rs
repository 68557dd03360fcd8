//! Servers with a common script: a replica set with elections, or several mongos.

use std::{fmt, sync::Arc};

use super::{
    Exchange, ExpectedRequest, PendingRequest, Role, ScriptError, Server, SharedScript, Transcript,
    receives,
};

/// Servers with a common script. An expected request may arrive at any of them, unless
/// [`at`](ExpectedRequest::at) names one.
///
/// ```
/// use blackpipe::server::{Deployment, error, insert};
///
/// let set = Deployment::replica_set(3);
/// set.expect(insert("db.things").at(0).then(error(10107).labelled("RetryableWriteError")));
/// set.expect(insert("db.things").at(1));
/// // … start the insert and wait for the error, then:
/// set.elect(1);
/// # std::mem::forget(set);
/// ```
///
/// When the primary changes, members that stream `hello` send the new reply immediately. A write to
/// a secondary gets `NotWritablePrimary`, unless the script expects it.
pub struct Deployment {
    servers: Vec<Server>,
    script: Arc<SharedScript>,
    checks_script: bool,
}

impl Deployment {
    pub(super) fn new(servers: Vec<Server>, script: Arc<SharedScript>) -> Self {
        Self { servers, script, checks_script: true }
    }

    /// Starts a replica set. The first member is primary.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub fn replica_set(members: usize) -> Self {
        Server::builder().replica_set(members)
    }

    /// Starts several mongos of a sharded cluster.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub fn mongos(count: usize) -> Self {
        Server::builder().mongos(count)
    }

    /// Returns the servers.
    pub fn members(&self) -> &[Server] {
        &self.servers
    }

    /// Returns a server by its index.
    ///
    /// # Panics
    ///
    /// Panics if there is no such server.
    pub fn member(&self, member: usize) -> &Server {
        &self.servers[member]
    }

    /// Returns a connection string with all servers and these options, which may be empty.
    pub fn uri(&self, options: &str) -> String {
        let hosts: Vec<_> = self.servers.iter().map(Server::address).collect();
        let is_set = self.servers.iter().any(|it| it.inner.hello.borrow().role.is_member());
        let set = if is_set { "replicaSet=set&" } else { "" };
        format!("mongodb://{}/?{set}{options}", hosts.join(","))
    }

    /// Returns the index of the primary. `None` without a primary.
    pub fn primary(&self) -> Option<usize> {
        self.servers.iter().position(|it| it.inner.hello.borrow().role == Role::Primary)
    }

    /// Makes a member the primary.
    ///
    /// # Panics
    ///
    /// Panics if there is no such member, or the deployment is not a replica set.
    pub fn elect(&self, member: usize) {
        let elected = self.servers[member].address();
        self.set_primary(Some(&elected));
    }

    /// Lets the primary step down. There is no primary until the next [`elect`](Self::elect).
    ///
    /// # Panics
    ///
    /// Panics if the deployment is not a replica set.
    pub fn step_down(&self) {
        self.set_primary(None);
    }

    /// Updates the old primary first, so that there are never two.
    fn set_primary(&self, primary: Option<&str>) {
        let mut order: Vec<_> = self.servers.iter().collect();
        order.sort_by_key(|server| Some(server.address().as_str()) == primary);
        for server in order {
            server.inner.hello.send_modify(|hello| {
                assert!(hello.role.is_member(), "only a replica set has a primary");
                let is_elected = primary == Some(hello.me.as_str());
                hello.role = if is_elected { Role::Primary } else { Role::Secondary };
                hello.election += u32::from(primary.is_some());
                hello.primary = primary.map(ToOwned::to_owned);
                hello.changed();
            });
        }
    }

    /// Appends an expected request to the script, at any server.
    pub fn expect(&self, exchange: impl Into<Exchange>) {
        self.script.expect([exchange.into()]);
    }

    /// Appends a group of expected requests that may arrive in any order.
    pub fn expect_in_any_order(&self, exchanges: impl IntoIterator<Item = impl Into<Exchange>>) {
        self.script.expect(exchanges.into_iter().map(Into::into));
    }

    /// Defines the response to requests that the script does not expect next. Later definitions
    /// take precedence.
    pub fn whenever(&self, exchange: impl Into<Exchange>) {
        self.script.whenever(exchange.into());
    }

    /// Appends an expected request whose response the test decides when it arrives.
    pub fn receives(&self, expected: ExpectedRequest) -> PendingRequest {
        receives(&self.script, expected)
    }

    /// Returns the transcript of all servers so far.
    pub fn transcript(&self) -> Transcript {
        self.script.transcript()
    }

    /// Waits until all expected requests arrived or the script failed.
    ///
    /// # Panics
    ///
    /// Panics after 60 seconds.
    pub async fn wait_for_script(&self) {
        self.script.wait_for_script().await;
    }

    /// Checks that all expected requests arrived and no others did.
    ///
    /// # Errors
    ///
    /// Fails if an expected request did not arrive, an unexpected one did, or code of the test
    /// panicked.
    pub fn check(&self) -> Result<(), ScriptError> {
        self.script.check()
    }

    /// Stops the servers and checks the script.
    ///
    /// # Panics
    ///
    /// Panics if an expected request did not arrive or an unexpected one did. The message shows the
    /// transcript.
    #[track_caller]
    pub fn finish(mut self) {
        self.checks_script = false;
        if let Err(not_kept) = self.check() {
            panic!("{not_kept}");
        }
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        if self.checks_script {
            self.script.check_on_drop();
        }
    }
}

impl fmt::Debug for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deployment").field("servers", &self.servers).finish_non_exhaustive()
    }
}
