//! What connections talk to: a member of a replica set (or a standalone server), or a router.

use std::sync::Arc;

use bson::{Bson, Document};
use tokio::sync::watch;

use super::{
    call::Call,
    command::About,
    node::{Node, Power},
    router::Router,
    set::ReplicaSet,
};

/// What answers the commands that come through connections.
#[derive(Clone, Debug)]
pub(crate) enum Host {
    /// A member of a set, or a standalone server.
    Member(Membership),
    /// A router of a sharded cluster.
    Router(Arc<Router>),
}

/// A member and the set that it is a member of.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(crate) node: Arc<Node>,
    pub(crate) set: Arc<ReplicaSet>,
    /// Which of its members.
    pub(crate) index: usize,
}

impl Host {
    /// The members of a set, in order.
    pub(crate) fn members(set: &Arc<ReplicaSet>) -> Vec<Self> {
        let nodes = set.nodes().into_iter().enumerate();
        nodes
            .map(|(index, node)| Self::Member(Membership { node, set: set.clone(), index }))
            .collect()
    }

    /// Runs a command to its end, and gives the whole reply. May be dropped at any time.
    pub(crate) async fn run(&self, call: Call) -> Document {
        match self {
            Self::Member(member) => member.node.run(call).await,
            Self::Router(router) => router.run(call).await,
        }
    }

    /// Whether a command opens a change stream, or asks one.
    pub(crate) fn watches(&self, name: &str, body: &Document) -> bool {
        match self {
            Self::Member(member) => member.node.watches(name, body),
            Self::Router(router) => router.watches(name, body),
        }
    }

    /// Adds what stands in every reply, if it is not there.
    pub(crate) fn stamp(&self, reply: &mut Document) {
        if reply.contains_key("$clusterTime") {
            return;
        }
        match self {
            Self::Member(member) => member.node.stamp(reply),
            Self::Router(router) => router.stamp(reply),
        }
    }

    /// What `hello` says, but for what is about the connection.
    pub(crate) fn hello(&self) -> Document {
        match self {
            Self::Member(member) => member.node.hello(),
            Self::Router(router) => router.hello(),
        }
    }

    /// Moves whenever [`hello`](Self::hello) does.
    pub(crate) fn topology(&self) -> watch::Receiver<u64> {
        match self {
            Self::Member(member) => member.node.topology(),
            Self::Router(router) => router.topology(),
        }
    }

    /// Whether it runs.
    pub(crate) fn power(&self) -> watch::Receiver<Power> {
        match self {
            Self::Member(member) => member.node.power(),
            Self::Router(router) => router.power(),
        }
    }

    /// What it tells of itself.
    pub(crate) fn about(&self) -> &About {
        match self {
            Self::Member(member) => member.node.about(),
            Self::Router(router) => router.about(),
        }
    }

    /// Its process ends.
    pub(crate) fn kill(&self) {
        match self {
            Self::Member(member) => member.set.kill(member.index),
            Self::Router(router) => router.set_power(Power::Off),
        }
    }

    /// Its process is started again.
    pub(crate) fn restart(&self) {
        match self {
            Self::Member(member) => member.set.restart(member.index),
            Self::Router(router) => router.set_power(Power::On),
        }
    }

    /// Its process stands still.
    pub(crate) fn freeze(&self) {
        match self {
            Self::Member(member) => member.set.freeze(member.index),
            Self::Router(router) => router.set_power(Power::Frozen),
        }
    }

    /// Its process goes on.
    pub(crate) fn thaw(&self) {
        match self {
            Self::Member(member) => member.set.thaw(member.index),
            Self::Router(router) => router.set_power(Power::On),
        }
    }

    /// Copies nothing from other members, or copies again.
    pub(crate) fn hold_replication(&self, holds: bool) {
        match (self, holds) {
            (Self::Member(member), true) => member.set.hold_replication(member.index),
            (Self::Member(member), false) => member.set.release_replication(member.index),
            (Self::Router(_), _) => {}
        }
    }

    /// Its topology version, which errors that say that it is not primary carry.
    pub(crate) fn topology_version(&self) -> Option<Bson> {
        self.hello().remove("topologyVersion")
    }

    /// Whether it takes writes.
    pub(crate) fn is_writable(&self) -> bool {
        self.hello().get_bool("isWritablePrimary").unwrap_or(false)
    }
}
