//! Causal consistency: `afterClusterTime` in sessions.

use crate::{Case, Context, LoadError, Suite, unified};

/// The suite.
pub const SUITE: Suite = Suite { name: "causal_consistency", load };

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    unified::cases(context, SUITE.name, &[""])
}
