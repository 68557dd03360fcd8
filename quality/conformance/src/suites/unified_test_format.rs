//! Tests of test runners: files whose tests pass, files whose tests fail, and invalid files.

use crate::{Case, Context, LoadError, Suite, unified};

/// The suite.
pub const SUITE: Suite = Suite { name: "unified-test-format", load };

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    let mut cases = unified::cases(context, SUITE.name, &["valid-pass"])?;
    cases.extend(unified::failing_cases(context, SUITE.name, &["valid-fail"])?);
    cases.extend(unified::invalid_file_cases(context, SUITE.name, &["invalid"])?);
    Ok(cases)
}
