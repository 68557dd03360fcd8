//! Retries of operations behind a proxy that loses requests and replies, on embedded and real servers; and the
//! check of updates.

mod finds_deletes_updates;
mod inserts;
mod many_inserts;
mod older_servers;
mod update_check;
mod validation;

use blackpipe::proxy::{Proxy, Reaction, Rule};
use steadfast::{
    Client, Collection,
    bson::{Document, doc},
};
use steadfast_embedded::Deployment;
use testbed::{Mongod, Options, ReplicaSet, Version};

/// A collection behind a proxy, with its servers.
pub(crate) struct ProxiedCollection {
    pub(crate) proxy: Proxy,
    pub(crate) client: Client,
    pub(crate) orders: Collection<Document>,
    /// Number of attempts that the driver makes for a failed write.
    pub(crate) attempts: u64,
    _servers: RunningServers,
}

#[expect(dead_code, reason = "what is held ends with the fixture")]
enum RunningServers {
    Embedded(Deployment),
    Set(ReplicaSet),
    Standalone(Mongod),
}

impl ProxiedCollection {
    /// An embedded replica set.
    pub(crate) async fn embedded(retry_writes: bool) -> Self {
        let set = Deployment::replica_set(1).start();
        Self::before(set.uri(), retry_writes, RunningServers::Embedded(set)).await
    }

    /// An embedded sharded cluster.
    pub(crate) async fn sharded(retry_writes: bool) -> Self {
        let cluster = Deployment::sharded(&["alfa", "bravo"]).start();
        Self::before(cluster.uri(), retry_writes, RunningServers::Embedded(cluster)).await
    }

    /// A replica set with `retryWrites=false` and a standalone server, both embedded: neither has retryable
    /// writes.
    pub(crate) async fn each_embedded() -> Vec<Self> {
        let standalone = Deployment::standalone().start();
        let standalone =
            Self::before(standalone.uri(), true, RunningServers::Embedded(standalone)).await;
        vec![Self::embedded(false).await, standalone]
    }

    /// Those of [`each_embedded`](Self::each_embedded), and real servers if they are available.
    pub(crate) async fn each() -> Vec<Self> {
        let mut fixtures = Self::each_embedded().await;
        let Some(()) = testbed::found_or_skip(testbed::servers(Version::V6_0)) else {
            return fixtures;
        };
        let set = ReplicaSet::start(1, Options::new()).unwrap();
        let standalone = Mongod::standalone(Options::new()).unwrap();
        fixtures.push(Self::before(set.uri(), false, RunningServers::Set(set)).await);
        let uri = standalone.uri();
        fixtures.push(Self::before(uri, true, RunningServers::Standalone(standalone)).await);
        fixtures
    }

    /// A real replica set, with retryable writes. `None` if it is not available.
    pub(crate) async fn real() -> Option<Self> {
        testbed::found_or_skip(testbed::servers(Version::V6_0))?;
        let real = ReplicaSet::start(1, Options::new()).unwrap();
        Some(Self::before(real.uri(), true, RunningServers::Set(real)).await)
    }

    async fn before(uri: String, retry_writes: bool, servers: RunningServers) -> Self {
        let proxy = Proxy::builder(uri).start().await.unwrap();
        let uri = proxy.uri();
        let mark = if uri.contains('?') { "&" } else { "?" };
        let uri = format!("{uri}{mark}retryWrites={retry_writes}&retryReads=false");
        let client = Client::with_uri_str(uri).await.unwrap();
        let orders = client.database("shop").collection("orders");
        let attempts = if retry_writes && supports_retryable_writes(&servers) { 2 } else { 1 };
        Self { proxy, client, orders, attempts, _servers: servers }
    }

    /// Loses the reply to every attempt of one call.
    pub(crate) fn lose_attempt(&self, command: &str) {
        self.lose_replies(command, self.attempts);
    }

    /// Loses the replies to the next `times` of these commands. The server executes them.
    pub(crate) fn lose_replies(&self, command: &str, times: u64) {
        self.proxy.add(Rule::new(Reaction::lose_reply()).command(command).times(times));
    }

    /// Loses the next `times` of these commands. The server does not execute them.
    pub(crate) fn lose_requests(&self, command: &str, times: u64) {
        self.proxy.add(Rule::new(Reaction::cut_request()).command(command).times(times));
    }

    /// Returns the number of these commands that the proxy received.
    pub(crate) fn sent(&self, command: &str) -> usize {
        let ledger = self.proxy.ledger();
        ledger.entries().filter(|entry| *entry.command == *command).count()
    }

    pub(crate) async fn count(&self, filter: Document) -> u64 {
        self.orders.count_documents(filter).await.unwrap()
    }

    /// Removes all documents and faults.
    pub(crate) async fn clear(&self) {
        self.proxy.clear_rules();
        self.orders.delete_many(doc! {}).await.unwrap();
        self.proxy.clear_ledger();
    }
}

/// Returns `true` if the driver retries writes on these servers.
fn supports_retryable_writes(servers: &RunningServers) -> bool {
    match servers {
        RunningServers::Embedded(deployment) => deployment.uri().contains("replicaSet="),
        RunningServers::Set(_) => true,
        RunningServers::Standalone(_) => false,
    }
}
