//! Zones of a sharded cluster: the documents of each datacenter are stored on its shards.
//!
//! An application that writes to the nearest datacenter, and must be able to write when another one is down,
//! needs a sharded cluster in which a field of each document determines its shards. MongoDB's
//! [zones](https://www.mongodb.com/docs/manual/core/zone-sharding/) do that:
//! shards are added to a zone, and ranges of the shard key are assigned to it. The shard key begins with the
//! field of the datacenter. The range of a datacenter is from `{ datacenter: "alfa", userid: MinKey }` up to `{
//! datacenter: "alfa", userid: MaxKey }`.
//!
//! The order matters. If zones and ranges exist when an empty collection is sharded, its chunks are created in
//! the right place. Otherwise all of it is on one shard, and the balancer has to move it.
//!
//! A [`Layout`] has the shards of each datacenter. [`plan`] compares it with the [`Cluster`] and returns the
//! missing steps in order, or the contradictions. A plan can be applied again at any time, by any client.
//! [`status`] returns the location of the documents; [`removal`] plans the removal of the layout.
//!
//! ```no_run
//! # async fn run(client: steadfast::Client) -> Result<(), steadfast_patterns::zones::ZonesError> {
//! use steadfast_patterns::zones::{self, Cluster, Layout};
//!
//! let layout = Layout::new(
//!     "app.messages",
//!     ["datacenter", "userid"],
//!     [("alfa", ["shard0000"]), ("bravo", ["shard0001"])],
//! )?;
//! let cluster = Cluster::read(&client, &layout).await?;
//! let plan = zones::plan(&layout, &cluster)?;
//! print!("{plan}");
//! plan.apply(&client).await?;
//! print!("{}", zones::status(&client, &layout).await?);
//! # Ok(()) }
//! ```
//!
//! The command `steadfast zones` does the same from a file. [`local_writes`](super::local_writes) is for
//! applications on such a cluster.

mod apply;
mod bounds;
mod cluster;
mod contradiction;
mod error;
mod layout;
mod members;
mod plan;
mod read;
mod shell;
mod status;
mod step;

pub use self::{
    apply::{Apply, ApplyProgress},
    cluster::{
        Balancer, Chunk, Cluster, CollectionIndex, CollectionKind, CollectionState, Shard,
        ZoneRange,
    },
    contradiction::{Contradiction, Contradictions},
    error::ZonesError,
    layout::{Datacenter, Layout, LayoutError},
    members::{ShardMember, ShardMembers},
    plan::{Plan, plan, removal},
    status::{
        BalancerVerdict, Misplaced, RangeStatus, ShardStatus, Status, status, until_compliant,
    },
    step::{Step, StepKind},
};
