//! Zones: each datacenter's documents live on its shards.
//!
//! An application that writes to the nearest datacenter, and must be able to write when another one is
//! gone, needs a sharded cluster in which a field of each document says where it lives. MongoDB does that
//! with zones: shards are put into a zone, and ranges of the shard key are assigned to it. The shard key
//! begins with the field that names the datacenter; the range of a datacenter is from
//! `{ datacenter: "alfa", userid: MinKey }` up to `{ datacenter: "alfa", userid: MaxKey }`.
//!
//! The order of things matters. If zones and ranges are there when an empty collection is sharded, its
//! chunks begin where they belong. The other way round, all of it is on one shard, and the balancer has
//! to move it.
//!
//! A [`Layout`] says which shards are where. [`plan`] compares it with the [`Cluster`] and says what is
//! missing, in the right order, or what contradicts it; applying the plan can be done again at any time,
//! by anyone. [`status`] says where the documents are; [`removal`] takes the layout back.
//!
//! ```no_run
//! # async fn run(client: steadfast::Client) -> Result<(), steadfast::patterns::zones::ZonesError> {
//! use steadfast::patterns::zones::{self, Cluster, Layout};
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
//! The program `steadfast zones` does the same from a file. What the application does with such a
//! cluster is in [`local_writes`](super::local_writes).

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
    apply::{Apply, Progress},
    cluster::{Balancer, Chunk, Cluster, Found, Index, Kind, Range, Shard},
    contradiction::{Contradiction, Contradictions},
    error::ZonesError,
    layout::{Datacenter, Layout, LayoutError},
    members::{ShardMember, ShardMembers},
    plan::{Plan, plan, removal},
    status::{Misplaced, RangeStatus, ShardStatus, Status, Verdict, status, until_compliant},
    step::{Step, StepKind},
};
