//! Connection strings: hosts, users, databases and warnings.

use super::parsed_uri::UriFile;
use crate::{Case, Context, LoadError, Suite};

/// The suite.
pub const SUITE: Suite = Suite { name: "connection_string", load };

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    load_uri_cases(context, SUITE.name)
}

/// Loads the cases of a suite in the format that `connection_string` and `uri_options` share.
pub(super) fn load_uri_cases(context: &Context, suite: &str) -> Result<Vec<Case>, LoadError> {
    let mut cases = Vec::new();
    for file in context.spec.files(suite)? {
        let parsed: UriFile = file.json()?;
        cases.extend(parsed.tests.into_iter().map(|case| {
            Case::new(file.name.clone(), case.description.clone(), move || case.check())
        }));
    }
    Ok(cases)
}
