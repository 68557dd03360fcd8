//! Handle of a running deployment.

use std::{fmt, net::SocketAddr, sync::Arc};

use bson::Document;

use super::{Builder, Faults, net::Endpoint};
use blackpipe_base::runtime::TaskRuntime;

/// A MongoDB deployment inside this process. Its servers listen on the loopback interface. See the
/// [crate](super).
///
/// Dropping it closes all connections and ports and discards all data.
pub struct Deployment {
    pub(super) version: String,
    pub(super) members: Vec<Member>,
    pub(super) shards: Vec<Shard>,
    pub(super) faults: Faults,
    /// User of the connection strings.
    pub(super) login: Option<(String, String)>,
    /// Options of the connection strings.
    pub(super) options: String,
    /// Runtime of its tasks.
    pub(super) _runtime: TaskRuntime,
}

impl Deployment {
    /// Builder of a standalone server.
    ///
    /// ```
    /// use steadfast_embedded::Deployment;
    ///
    /// let server = Deployment::standalone().start();
    /// assert_eq!(server.primary(), Some(0));
    /// ```
    pub fn standalone() -> Builder {
        Builder::standalone()
    }

    /// Builder of a replica set. The first member is primary at the start, unless it has [priority
    /// 0](Builder::priority_zero).
    ///
    /// ```
    /// use steadfast_embedded::Deployment;
    ///
    /// let set = Deployment::replica_set(3).start();
    /// assert!(set.uri().ends_with("replicaSet=rs0"));
    /// ```
    pub fn replica_set(members: usize) -> Builder {
        Builder::replica_set(members)
    }

    /// Builder of a sharded cluster. Each shard is a replica set with this name. The
    /// [members](Self::members) of the deployment are its mongos. [`shard`](Self::shard) returns a
    /// shard and its members.
    ///
    /// ```
    /// use steadfast_embedded::Deployment;
    ///
    /// let cluster = Deployment::sharded(&["alfa", "bravo"]).start();
    /// assert_eq!(cluster.members().len(), 1);
    /// assert_eq!(cluster.shard("alfa").members().len(), 3);
    /// ```
    pub fn sharded(shards: &[&str]) -> Builder {
        Builder::sharded(shards)
    }

    /// Server version that it emulates, such as `8.0.0`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Connection string of the deployment, with credentials if it requires authentication.
    pub fn uri(&self) -> String {
        let hosts: Vec<_> = self.members.iter().map(|it| it.address().to_string()).collect();
        match self.options.as_str() {
            // Behind a load balancer, clients have one address.
            "loadBalanced=true" => self.uri_of(&hosts[0], &self.options),
            options => self.uri_of(&hosts.join(","), options),
        }
    }

    /// Connection string of one server, with `directConnection=true`.
    ///
    /// # Panics
    ///
    /// Panics if there is no such server.
    pub fn direct_uri(&self, member: usize) -> String {
        let host = self.members[member].address().to_string();
        self.uri_of(&host, "directConnection=true")
    }

    fn uri_of(&self, hosts: &str, options: &str) -> String {
        let login = match &self.login {
            Some((user, password)) => format!("{}:{}@", escaped(user), escaped(password)),
            None => String::new(),
        };
        let separator = if options.is_empty() { "" } else { "?" };
        format!("mongodb://{login}{hosts}/{separator}{options}")
    }

    /// Servers in order. In a sharded cluster these are the mongos.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// A server by its index, from 0.
    ///
    /// # Panics
    ///
    /// Panics if there is no such server.
    pub fn member(&self, member: usize) -> &Member {
        &self.members[member]
    }

    /// Shards of a sharded cluster. Empty for other deployments.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// A shard by its name.
    ///
    /// # Panics
    ///
    /// Panics if there is no such shard.
    pub fn shard(&self, name: &str) -> &Shard {
        let found = self.shards.iter().find(|shard| shard.name == name);
        found.unwrap_or_else(|| panic!("no shard {name}; Deployment::shards lists the names"))
    }

    /// Index of the primary, if there is one. A standalone server is always primary. In a sharded
    /// cluster only shards have a primary.
    pub fn primary(&self) -> Option<usize> {
        self.faults.set().and_then(|set| set.primary())
    }

    /// Waits for a primary that reaches a majority and returns its index.
    ///
    /// # Panics
    ///
    /// Panics if this is a sharded cluster. Use [`Shard::wait_for_primary`] there.
    pub async fn wait_for_primary(&self) -> usize {
        self.faults.replica_set().wait_for_primary().await
    }

    /// Waits until all running members have replicated all writes of their primary, on all shards.
    pub async fn wait_for_replication(&self) {
        for set in self.faults.all_sets() {
            set.wait_for_replication().await;
        }
    }

    /// Faults that the test can inject.
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        let of_shards = self.shards.iter().flat_map(|shard| &shard.members);
        self.members.iter().chain(of_shards).for_each(|member| member.endpoint.close());
    }
}

impl fmt::Debug for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deployment").field("members", &self.members).finish_non_exhaustive()
    }
}

/// A server of a deployment: a `mongod` or a `mongos`.
pub struct Member {
    pub(super) endpoint: Arc<Endpoint>,
}

impl Member {
    /// Address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.endpoint.address
    }

    /// Current reply to `hello`, without the fields of a connection.
    pub fn hello(&self) -> Document {
        self.endpoint.server().host.hello()
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Member").field(&self.address()).finish()
    }
}

/// A shard of a sharded cluster: a replica set.
#[derive(Debug)]
pub struct Shard {
    pub(super) name: String,
    pub(super) members: Vec<Member>,
    pub(super) faults: Faults,
}

impl Shard {
    /// Name of the shard.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Members in order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Index of the primary, if there is one.
    pub fn primary(&self) -> Option<usize> {
        self.faults.replica_set().primary()
    }

    /// Waits for a primary that reaches a majority and returns its index.
    pub async fn wait_for_primary(&self) -> usize {
        self.faults.replica_set().wait_for_primary().await
    }

    /// Faults of this shard. Members are those of the shard, from 0.
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }
}

/// Percent-encoding for connection strings.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_escaped_in_connection_strings() {
        assert_eq!(escaped("p@ss:w/örd"), "p%40ss%3Aw%2F%C3%B6rd");
    }
}
