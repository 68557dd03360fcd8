//! A deployment as a test holds it.

use std::{fmt, net::SocketAddr, sync::Arc};

use bson::Document;

use super::{Builder, Faults, net::Door};
use blackpipe_base::runtime::TaskRuntime;

/// A MongoDB deployment inside this process, on ports of this machine. See the [module](super).
///
/// It ends when it is dropped: its connections, its ports, its data.
pub struct Deployment {
    pub(super) version: String,
    pub(super) members: Vec<Member>,
    pub(super) shards: Vec<Shard>,
    pub(super) faults: Faults,
    /// The user that connection strings name.
    pub(super) login: Option<(String, String)>,
    /// What else connection strings say.
    pub(super) options: String,
    /// Where its tasks run.
    pub(super) _home: TaskRuntime,
}

impl Deployment {
    /// A server of its own, which is no member of a replica set.
    pub fn standalone() -> Builder {
        Builder::standalone()
    }

    /// A replica set of so many members. The first is primary when it starts, if it [may
    /// be](Builder::priority_zero).
    pub fn replica_set(members: usize) -> Builder {
        Builder::replica_set(members)
    }

    /// A sharded cluster with these shards, each a replica set, and a router. Its
    /// [members](Self::members) are its routers; those of shards are asked for
    /// [by the shard's name](Self::shard).
    pub fn sharded(shards: &[&str]) -> Builder {
        Builder::sharded(shards)
    }

    /// The version of MongoDB that it passes for: `8.0.0`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The connection string for a client, with user and password if it takes any.
    pub fn uri(&self) -> String {
        let hosts: Vec<_> = self.members.iter().map(|it| it.address().to_string()).collect();
        match self.options.as_str() {
            // A client behind a load balancer knows one address.
            "loadBalanced=true" => self.uri_of(&hosts[0], &self.options),
            options => self.uri_of(&hosts.join(","), options),
        }
    }

    /// The connection string for a client that talks to this server alone, whatever that is.
    ///
    /// # Panics
    ///
    /// If there is none of that number.
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

    /// Its servers, in order; of a sharded cluster the routers.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// One of its servers, counted from 0.
    ///
    /// # Panics
    ///
    /// If there is none of that number.
    pub fn member(&self, member: usize) -> &Member {
        &self.members[member]
    }

    /// The shards of a sharded cluster.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The shard of this name.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn shard(&self, name: &str) -> &Shard {
        let found = self.shards.iter().find(|shard| shard.name == name);
        found.unwrap_or_else(|| panic!("there is no shard {name}"))
    }

    /// Which server is primary, if one is at the moment. A standalone server always is; in a sharded
    /// cluster only shards have one.
    pub fn primary(&self) -> Option<usize> {
        self.faults.set().and_then(|set| set.primary())
    }

    /// Waits until there is a primary that reaches most members, and says which server it is.
    ///
    /// # Panics
    ///
    /// If it is a sharded cluster: then ask a shard.
    pub async fn until_primary(&self) -> usize {
        self.faults.the_set().until_primary().await
    }

    /// Waits until every member that runs has all that its primary has, in a sharded cluster on every
    /// shard.
    pub async fn until_replicated(&self) {
        for set in self.faults.all_sets() {
            set.until_replicated().await;
        }
    }

    /// What can be done to it, from anywhere.
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        let of_shards = self.shards.iter().flat_map(|shard| &shard.members);
        self.members.iter().chain(of_shards).for_each(|member| member.door.close());
    }
}

impl fmt::Debug for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deployment").field("members", &self.members).finish_non_exhaustive()
    }
}

/// One server of a deployment.
pub struct Member {
    pub(super) door: Arc<Door>,
}

impl Member {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.door.address
    }

    /// What it would reply to a hello now, but for what is about a connection.
    pub fn hello(&self) -> Document {
        self.door.server().host.hello()
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Member").field(&self.address()).finish()
    }
}

/// A shard of a sharded cluster, which is a replica set.
#[derive(Debug)]
pub struct Shard {
    pub(super) name: String,
    pub(super) members: Vec<Member>,
    pub(super) faults: Faults,
}

impl Shard {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its members, in order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Which member is primary, if one is at the moment.
    pub fn primary(&self) -> Option<usize> {
        self.faults.the_set().primary()
    }

    /// Waits until there is a primary that reaches most members, and says which member it is.
    pub async fn until_primary(&self) -> usize {
        self.faults.the_set().until_primary().await
    }

    /// What can be done to it: members are its own, counted from 0.
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }
}

/// Text as it stands in a connection string.
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
