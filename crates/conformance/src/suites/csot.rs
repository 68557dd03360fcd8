//! Time limits of calls (`timeoutMS`).

use crate::{Case, Context, LoadError, Suite, unified};

/// The suite.
pub const SUITE: Suite = Suite { name: "csot", load };

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    unified::timed_cases(context, SUITE.name, &[""])
}
