//! Errors of zones.

use super::{contradiction::Contradictions, layout::LayoutError, step::Step};
use steadfast::error::Error;

/// Errors of zones.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZonesError {
    /// The layout is invalid.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The server is not a mongos.
    #[error("{found} replied, which has no zones: connect to the mongos of a sharded cluster")]
    #[non_exhaustive]
    NotMongos {
        /// Kind of server.
        found: String,
    },
    /// The cluster contradicts the layout. Nothing was changed.
    #[error(transparent)]
    Contradictions(#[from] Contradictions),
    /// A step failed. Those before it are done; the rest can be applied later.
    #[error("step {number} of {steps} failed, to {step}: {error}")]
    #[non_exhaustive]
    Step {
        /// The step.
        step: Box<Step>,
        /// Number of the step in the plan, from 1.
        number: usize,
        /// Number of steps in the plan.
        steps: usize,
        /// Error of the step.
        #[source]
        error: Error,
    },
    /// Chunks are misplaced, and the balancer will not move them.
    #[error("the chunks will not be moved to their zones: {reason}")]
    #[non_exhaustive]
    CannotComply {
        /// Reason.
        reason: String,
    },
    /// The cluster could not be read.
    #[error(transparent)]
    Failed(#[from] Error),
}
