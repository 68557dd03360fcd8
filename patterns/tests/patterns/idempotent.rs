//! Operations that are sent again, and what is there afterwards: behind a proxy that loses requests and
//! replies, on embedded deployments and on real servers; and the check of updates, judged by what updates
//! do.

mod finds_deletes_updates;
mod inserts;
mod many_inserts;
mod older_servers;
mod refusals;
mod update_check;

use blackpipe::proxy::{Proxy, Reaction, Rule};
use steadfast::{
    Client, Collection,
    bson::{Document, doc},
};
use steadfast_embedded::Deployment;
use testbed::{Mongod, Options, ReplicaSet, Version};

/// A collection behind a proxy, and the servers behind that.
pub(crate) struct Stage {
    pub(crate) proxy: Proxy,
    pub(crate) client: Client,
    pub(crate) orders: Collection<Document>,
    /// How often the driver itself sends a write that fails.
    pub(crate) attempts: u64,
    _servers: Servers,
}

#[expect(dead_code, reason = "what is held ends with the stage")]
enum Servers {
    Embedded(Deployment),
    Set(ReplicaSet),
    Standalone(Mongod),
}

impl Stage {
    /// An embedded replica set.
    pub(crate) async fn embedded(retry_writes: bool) -> Self {
        let set = Deployment::replica_set(1).start();
        Self::before(set.uri(), retry_writes, Servers::Embedded(set)).await
    }

    /// An embedded sharded cluster.
    pub(crate) async fn sharded(retry_writes: bool) -> Self {
        let cluster = Deployment::sharded(&["alfa", "bravo"]).start();
        Self::before(cluster.uri(), retry_writes, Servers::Embedded(cluster)).await
    }

    /// A set and a standalone server, embedded. Neither has retryable writes: the one is told not to, the
    /// other knows none.
    pub(crate) async fn each_embedded() -> Vec<Self> {
        let standalone = Deployment::standalone().start();
        let standalone = Self::before(standalone.uri(), true, Servers::Embedded(standalone)).await;
        vec![Self::embedded(false).await, standalone]
    }

    /// The same, and the same of real servers, unless these are not available.
    pub(crate) async fn each() -> Vec<Self> {
        let mut stages = Self::each_embedded().await;
        let Some(()) = testbed::found_or_skip(testbed::servers(Version::V6_0)) else {
            return stages;
        };
        let set = ReplicaSet::start(1, Options::new()).unwrap();
        let standalone = Mongod::standalone(Options::new()).unwrap();
        stages.push(Self::before(set.uri(), false, Servers::Set(set)).await);
        let uri = standalone.uri();
        stages.push(Self::before(uri, true, Servers::Standalone(standalone)).await);
        stages
    }

    /// A real replica set, with retryable writes. `None` if it is not available.
    pub(crate) async fn real() -> Option<Self> {
        testbed::found_or_skip(testbed::servers(Version::V6_0))?;
        let real = ReplicaSet::start(1, Options::new()).unwrap();
        Some(Self::before(real.uri(), true, Servers::Set(real)).await)
    }

    async fn before(uri: String, retry_writes: bool, servers: Servers) -> Self {
        let proxy = Proxy::builder(uri).start().await.unwrap();
        let uri = proxy.uri();
        let mark = if uri.contains('?') { "&" } else { "?" };
        let uri = format!("{uri}{mark}retryWrites={retry_writes}&retryReads=false");
        let client = Client::with_uri_str(uri).await.unwrap();
        let orders = client.database("shop").collection("orders");
        let attempts = if retry_writes && knows_retries(&servers) { 2 } else { 1 };
        Self { proxy, client, orders, attempts, _servers: servers }
    }

    /// Loses the reply to every attempt of one sending.
    pub(crate) fn lose_sending(&self, command: &str) {
        self.lose_replies(command, self.attempts);
    }

    /// Loses the replies to the next so many of these commands: they are carried out.
    pub(crate) fn lose_replies(&self, command: &str, times: u64) {
        self.proxy.add(Rule::new(Reaction::lose_reply()).command(command).times(times));
    }

    /// Loses the next so many of these commands: they are not carried out.
    pub(crate) fn lose_requests(&self, command: &str, times: u64) {
        self.proxy.add(Rule::new(Reaction::cut_request()).command(command).times(times));
    }

    /// How often such a command has come to the proxy.
    pub(crate) fn sent(&self, command: &str) -> usize {
        let ledger = self.proxy.ledger();
        ledger.entries().filter(|entry| *entry.command == *command).count()
    }

    pub(crate) async fn count(&self, filter: Document) -> u64 {
        self.orders.count_documents(filter).await.unwrap()
    }

    /// Begins anew, without documents and without faults.
    pub(crate) async fn clear(&self) {
        self.proxy.clear_rules();
        self.orders.delete_many(doc! {}).await.unwrap();
        self.proxy.clear_ledger();
    }
}

/// Whether the driver sends a write again by itself.
fn knows_retries(servers: &Servers) -> bool {
    match servers {
        Servers::Embedded(deployment) => deployment.uri().contains("replicaSet="),
        Servers::Set(_) => true,
        Servers::Standalone(_) => false,
    }
}
