//! Change streams: what they tell, and how they are taken up again.

use crate::{Case, Context, LoadError, Suite, unified};

/// The suite.
pub const SUITE: Suite = Suite { name: "change_streams", load };

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    unified::cases(context, SUITE.name, &["unified"])
}
