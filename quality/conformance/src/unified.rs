//! Runner of the unified test format: MongoDB's tests of drivers against a deployment.
//!
//! The runner parses a file ([`schema`]), chooses a deployment for each test ([`deployment`], [`requirements`]) and runs
//! the test ([`run`]): it creates the entities ([`entities`]), executes the operations ([`operations`]), and compares
//! results, events, log messages, errors and documents with the expected ones ([`matching`], [`events`], [`logs`],
//! [`errors`], [`collection_data`]).
//!
//! A test that requires a feature that the driver does not implement is skipped when the runner reaches it, and the
//! missing feature is the reason. There is no list of such tests. A deployment runs one test at a time, because fail
//! points affect the whole deployment.

mod collection_data;
mod deployment;
mod entities;
mod errors;
mod events;
mod fail_points;
mod logs;
mod matching;
mod operations;
mod requirements;
mod run;
mod schema;
mod test_error;
#[cfg(test)]
mod tests;
mod time_scale;

use std::sync::{Arc, PoisonError};

use self::{
    deployment::{Deployment, NoDeployment},
    schema::TestFile,
    test_error::TestError,
};
use crate::{Case, CaseResult, Context, LoadError, SpecFile};

/// Stops all real servers that cases have started. A later case that needs them starts them again.
pub fn stop_servers() {
    deployment::stop_servers();
}

/// Loads the tests in these subfolders of a suite, a case each.
pub(crate) fn cases(
    context: &Context,
    suite: &str,
    subfolders: &[&str],
) -> Result<Vec<Case>, LoadError> {
    cases_with_policy(context, suite, subfolders, |file| match TIMED_FILES.contains(&file) {
        true => with_second_try,
        false => |run| run(UNSCALED),
    })
}

/// Files that measure time, in suites that do not.
const TIMED_FILES: [&str; 1] = ["unified/error-labels-blockConnection.json"];

/// Loads the tests in these subfolders of a suite that measures time. A test that fails, for example because the machine
/// is busy, is run a second time with all its times multiplied by ten, and the report says so.
pub(crate) fn timed_cases(
    context: &Context,
    suite: &str,
    subfolders: &[&str],
) -> Result<Vec<Case>, LoadError> {
    cases_with_policy(context, suite, subfolders, |_| with_second_try)
}

fn with_second_try(run: &dyn Fn(i32) -> CaseResult) -> CaseResult {
    const SECOND_TRY_SCALE: i32 = 10;
    CaseResult::of_two_tries(|| run(UNSCALED), || run(SECOND_TRY_SCALE))
}

/// Runs a test and derives the result of the case. The argument of the run is the factor of all times of the test.
type RunPolicy = fn(&dyn Fn(i32) -> CaseResult) -> CaseResult;

const UNSCALED: i32 = 1;

/// Loads the tests in these subfolders, each of which must fail.
pub(crate) fn failing_cases(
    context: &Context,
    suite: &str,
    subfolders: &[&str],
) -> Result<Vec<Case>, LoadError> {
    cases_with_policy(context, suite, subfolders, |_| {
        |run| match run(UNSCALED) {
            CaseResult::Fail(_) => CaseResult::Pass,
            CaseResult::Pass | CaseResult::PassAtSecondTry(_) => {
                CaseResult::Fail("the test passes but must fail".to_owned())
            }
            skipped @ CaseResult::Skip(_) => skipped,
        }
    })
}

fn cases_with_policy(
    context: &Context,
    suite: &str,
    subfolders: &[&str],
    policy_of: fn(&str) -> RunPolicy,
) -> Result<Vec<Case>, LoadError> {
    let mut cases = Vec::new();
    for file in context.spec.files_in(suite, subfolders)? {
        match parse(&file, UNSCALED) {
            Ok(parsed) => {
                let policy = policy_of(&file.name);
                cases.extend(cases_of(context, file, parsed, policy));
            }
            Err(why) => cases.push(Case::new(&file.name, "is valid", || Err(why))),
        }
    }
    Ok(cases)
}

/// Loads the files in these subfolders, each of which must be invalid, a case each.
pub(crate) fn invalid_file_cases(
    context: &Context,
    suite: &str,
    subfolders: &[&str],
) -> Result<Vec<Case>, LoadError> {
    let files = context.spec.files_in(suite, subfolders)?;
    Ok(files
        .into_iter()
        .map(|file| {
            let name = file.name.clone();
            Case::new(name, "is rejected", move || match parse(&file, UNSCALED) {
                Ok(_) => Err("the file is not rejected".to_owned()),
                Err(_) => Ok(()),
            })
        })
        .collect())
}

fn parse(file: &SpecFile, time_scale: i32) -> Result<TestFile, String> {
    let document = file.document().map_err(|error| error.to_string())?;
    TestFile::parse(match time_scale {
        UNSCALED => document,
        factor => time_scale::scaled(document, factor),
    })
}

fn cases_of(context: &Context, source: SpecFile, file: TestFile, policy: RunPolicy) -> Vec<Case> {
    let (source, file) = (Arc::new(source), Arc::new(file));
    let context = Arc::new(context.clone());
    let case = |at: usize| {
        let (source, file) = (Arc::clone(&source), Arc::clone(&file));
        let context = Arc::clone(&context);
        let (name, description) = (source.name.clone(), file.tests[at].description.clone());
        let run = move |time_scale| match time_scale {
            UNSCALED => run_one(&context, &file, at),
            factor => match parse(&source, factor) {
                Ok(scaled) => run_one(&context, &scaled, at),
                Err(why) => CaseResult::Fail(why),
            },
        };
        Case::new(name, description, move || policy(&run))
    };
    (0..file.tests.len()).map(case).collect()
}

/// Runs the test at this index of its file.
fn run_one(context: &Context, file: &TestFile, at: usize) -> CaseResult {
    let test = &file.tests[at];
    if let Some(reason) = &test.skip_reason {
        return CaseResult::Skip(reason.clone());
    }
    let requirements = test.run_on_requirements.as_deref();
    let deployment = match Deployment::for_test(context, file, requirements) {
        Ok(deployment) => deployment,
        Err(NoDeployment::UnmetRequirement(missing)) => return CaseResult::Skip(missing),
        Err(NoDeployment::Unreachable(why)) => return CaseResult::Fail(why),
    };
    let lock = Arc::clone(&deployment.lock);
    let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    match run::run(deployment, file, test) {
        Ok(()) => CaseResult::Pass,
        Err(TestError::Failed(why)) => CaseResult::Fail(why),
        Err(TestError::Unsupported(feature)) => CaseResult::Skip(feature),
    }
}
