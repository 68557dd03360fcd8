//! Options of connection strings: valid values, and options that exclude each other.

use super::connection_string::load_uri_cases;
use crate::{Case, Context, LoadError, Suite};

/// The suite.
pub const SUITE: Suite = Suite { name: "uri_options", load };

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    load_uri_cases(context, SUITE.name)
}
