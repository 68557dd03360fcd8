//! Target of a connection: a member of a replica set, a standalone server, or a mongos.

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

/// Executes the commands of connections.
#[derive(Clone, Debug)]
pub(crate) enum Host {
    /// A member of a replica set, or a standalone server.
    Member(Membership),
    /// A mongos.
    Router(Arc<Router>),
}

/// A member and its replica set.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(crate) node: Arc<Node>,
    pub(crate) set: Arc<ReplicaSet>,
    /// Index of the member.
    pub(crate) index: usize,
}

impl Host {
    /// Members of a set, in order.
    pub(crate) fn members(set: &Arc<ReplicaSet>) -> Vec<Self> {
        let nodes = set.nodes().into_iter().enumerate();
        nodes
            .map(|(index, node)| Self::Member(Membership { node, set: set.clone(), index }))
            .collect()
    }

    /// Runs a command and returns the complete reply. The future can be dropped at any time.
    pub(crate) async fn run(&self, call: Call) -> Document {
        match self {
            Self::Member(member) => member.node.run(call).await,
            Self::Router(router) => router.run(call).await,
        }
    }

    /// Returns `true` for commands that open or continue a change stream.
    pub(crate) fn watches(&self, name: &str, body: &Document) -> bool {
        match self {
            Self::Member(member) => member.node.watches(name, body),
            Self::Router(router) => router.watches(name, body),
        }
    }

    /// Adds `$clusterTime` and `operationTime` where they are missing.
    pub(crate) fn stamp(&self, reply: &mut Document) {
        if reply.contains_key("$clusterTime") {
            return;
        }
        match self {
            Self::Member(member) => member.node.stamp(reply),
            Self::Router(router) => router.stamp(reply),
        }
    }

    /// Reply to `hello` without the fields of a connection.
    pub(crate) fn hello(&self) -> Document {
        match self {
            Self::Member(member) => member.node.hello(),
            Self::Router(router) => router.hello(),
        }
    }

    /// Changes whenever [`hello`](Self::hello) changes.
    pub(crate) fn topology(&self) -> watch::Receiver<u64> {
        match self {
            Self::Member(member) => member.node.topology(),
            Self::Router(router) => router.topology(),
        }
    }

    /// Process state of the server.
    pub(crate) fn power(&self) -> watch::Receiver<Power> {
        match self {
            Self::Member(member) => member.node.power(),
            Self::Router(router) => router.power(),
        }
    }

    /// Static facts about the server.
    pub(crate) fn about(&self) -> &About {
        match self {
            Self::Member(member) => member.node.about(),
            Self::Router(router) => router.about(),
        }
    }

    /// Kills the process.
    pub(crate) fn kill(&self) {
        match self {
            Self::Member(member) => member.set.kill(member.index),
            Self::Router(router) => router.set_power(Power::Off),
        }
    }

    /// Restarts the process.
    pub(crate) fn restart(&self) {
        match self {
            Self::Member(member) => member.set.restart(member.index),
            Self::Router(router) => router.set_power(Power::On),
        }
    }

    /// Freezes the process.
    pub(crate) fn freeze(&self) {
        match self {
            Self::Member(member) => member.set.freeze(member.index),
            Self::Router(router) => router.set_power(Power::Frozen),
        }
    }

    /// Continues the process.
    pub(crate) fn thaw(&self) {
        match self {
            Self::Member(member) => member.set.thaw(member.index),
            Self::Router(router) => router.set_power(Power::On),
        }
    }

    /// Stops or resumes replication from other members.
    pub(crate) fn hold_replication(&self, holds: bool) {
        match (self, holds) {
            (Self::Member(member), true) => member.set.hold_replication(member.index),
            (Self::Member(member), false) => member.set.release_replication(member.index),
            (Self::Router(_), _) => {}
        }
    }

    /// `topologyVersion` of `NotWritablePrimary` and similar errors.
    pub(crate) fn topology_version(&self) -> Option<Bson> {
        self.hello().remove("topologyVersion")
    }

    /// Returns `true` if the server accepts writes.
    pub(crate) fn is_writable(&self) -> bool {
        self.hello().get_bool("isWritablePrimary").unwrap_or(false)
    }
}
