//! The unified test format's tests of test runners: files to be run, files of which each test must
//! fail, and files to be refused.

use crate::{Case, Context, LoadError, Suite, unified};

/// The suite.
pub const SUITE: Suite = Suite { name: "unified-test-format", load };

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    let mut cases = unified::cases(context, SUITE.name, &["valid-pass"])?;
    cases.extend(unified::failing_cases(context, SUITE.name, &["valid-fail"])?);
    cases.extend(unified::refused_cases(context, SUITE.name, &["invalid"])?);
    Ok(cases)
}
