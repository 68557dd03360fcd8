//! GridFS: files in pieces.

use crate::{Case, Context, LoadError, Suite, unified};

/// The suite.
pub const SUITE: Suite = Suite { name: "gridfs", load };

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    unified::cases(context, SUITE.name, &[""])
}
