//! What can go wrong with zones.

use super::{contradiction::Contradictions, layout::LayoutError, step::Step};
use crate::error::Error;

/// What can go wrong with zones.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZonesError {
    /// The layout is not one.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// What answers is no router of a sharded cluster.
    #[error(
        "{found} answers, which has no zones: connect to the mongos of a sharded cluster, also when the \
         shards are replica sets that can be connected to"
    )]
    #[non_exhaustive]
    NotARouter {
        /// What it is.
        found: String,
    },
    /// The cluster has what the layout contradicts. Nothing was changed.
    #[error(transparent)]
    Contradictions(#[from] Contradictions),
    /// A step failed. Those before it are done; once the reason is gone, the rest can be applied.
    #[error("step {number} of {steps} failed, to {step}: {error}")]
    #[non_exhaustive]
    Step {
        /// The step.
        step: Box<Step>,
        /// Which one of the plan it is, counted from 1: so many less one are done.
        number: usize,
        /// How many steps the plan has.
        steps: usize,
        /// What failed.
        #[source]
        error: Error,
    },
    /// Waiting would be in vain: chunks are in the wrong place, and nothing will move them.
    #[error("chunks would never get to their places: {why}")]
    #[non_exhaustive]
    InVain {
        /// Why.
        why: String,
    },
    /// The cluster could not be read.
    #[error(transparent)]
    Failed(#[from] Error),
}
