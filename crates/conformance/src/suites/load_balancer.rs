//! Load balancers: `serviceId` and pinned connections.

use crate::{Case, Context, LoadError, Suite, unified};

/// The suite.
pub const SUITE: Suite = Suite { name: "load_balancer", load };

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    unified::cases(context, SUITE.name, &[""])
}
