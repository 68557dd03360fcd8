//! Transactions: started, committed and aborted one call at a time.

use crate::{Case, Context, LoadError, Suite, unified};

/// The suite.
pub const SUITE: Suite = Suite { name: "transactions", load };

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    unified::cases(context, SUITE.name, &["unified"])
}
