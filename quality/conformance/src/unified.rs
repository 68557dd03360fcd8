//! The unified test format: MongoDB's tests of drivers against a real deployment.
//!
//! A file is parsed ([`schema`]), a deployment that suits each of its tests is chosen
//! ([`deployment`], [`requirements`]), and the test is run ([`run`]): the things it names are made
//! ([`entities`]), its operations carried out ([`operations`]), and what came of them compared with
//! what it expects ([`matching`], [`events`], [`logs`], [`errors`], [`collection_data`]).
//!
//! A test that asks for what the driver does not have is skipped when the runner meets it, with
//! what is lacking as the reason; no list of names says which those are. On a deployment tests run one
//! at a time, whatever suite they are of, because fail points are the whole deployment's.

mod collection_data;
mod deployment;
mod entities;
mod errors;
mod events;
mod fail_points;
mod logs;
mod matching;
mod operations;
mod pace;
mod requirements;
mod run;
mod schema;
mod stop;
#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError};

use self::{
    deployment::{Deployment, NoDeployment},
    schema::TestFile,
    stop::Stop,
};
use crate::{Case, CaseResult, Context, LoadError, SpecFile};

/// Stops all real servers that cases have started. A case that needs them again starts them again.
pub fn stop_servers() {
    deployment::stop_servers();
}

/// The tests in these subfolders of a suite, a case each.
pub(crate) fn cases(
    context: &Context,
    suite: &str,
    subfolders: &[&str],
) -> Result<Vec<Case>, LoadError> {
    cases_judged(context, suite, subfolders, |file| match TIMED_FILES.contains(&file) {
        true => in_two_tries,
        false => |run| run(AS_PUBLISHED),
    })
}

/// Files of suites that otherwise measure no times.
const TIMED_FILES: [&str; 1] = ["unified/error-labels-blockConnection.json"];

/// The tests in these subfolders of a suite that measures times. On a machine that is busy with other
/// things a moment may come too late for a test though nothing is wrong: a test that fails is run
/// once more, with all its times ten times as long, and that it was is told.
pub(crate) fn timed_cases(
    context: &Context,
    suite: &str,
    subfolders: &[&str],
) -> Result<Vec<Case>, LoadError> {
    cases_judged(context, suite, subfolders, |_| in_two_tries)
}

fn in_two_tries(run: &dyn Fn(i32) -> CaseResult) -> CaseResult {
    const WITH_MORE_TIME: i32 = 10;
    CaseResult::of_two_tries(|| run(AS_PUBLISHED), || run(WITH_MORE_TIME))
}

/// Runs a test, and says what its result comes to. The number says how many times as long as published all
/// its times are.
type Judge = fn(&dyn Fn(i32) -> CaseResult) -> CaseResult;

const AS_PUBLISHED: i32 = 1;

/// The tests in these subfolders, of which each must fail.
pub(crate) fn failing_cases(
    context: &Context,
    suite: &str,
    subfolders: &[&str],
) -> Result<Vec<Case>, LoadError> {
    cases_judged(context, suite, subfolders, |_| {
        |run| match run(AS_PUBLISHED) {
            CaseResult::Fail(_) => CaseResult::Pass,
            CaseResult::Pass | CaseResult::PassAtSecondTry(_) => {
                CaseResult::Fail("it passes, and must not".to_owned())
            }
            skipped @ CaseResult::Skip(_) => skipped,
        }
    })
}

fn cases_judged(
    context: &Context,
    suite: &str,
    subfolders: &[&str],
    judge_of: fn(&str) -> Judge,
) -> Result<Vec<Case>, LoadError> {
    let mut cases = Vec::new();
    for file in context.spec.files_in(suite, subfolders)? {
        match parse(&file, AS_PUBLISHED) {
            Ok(parsed) => {
                let judge = judge_of(&file.name);
                cases.extend(cases_of(context, file, parsed, judge));
            }
            Err(why) => cases.push(Case::new(&file.name, "is understood", || Err(why))),
        }
    }
    Ok(cases)
}

/// The files in these subfolders, of which each must be refused, a case each.
pub(crate) fn refused_cases(
    context: &Context,
    suite: &str,
    subfolders: &[&str],
) -> Result<Vec<Case>, LoadError> {
    let files = context.spec.files_in(suite, subfolders)?;
    Ok(files
        .into_iter()
        .map(|file| {
            let name = file.name.clone();
            Case::new(name, "is refused", move || match parse(&file, AS_PUBLISHED) {
                Ok(_) => Err("it is not refused".to_owned()),
                Err(_) => Ok(()),
            })
        })
        .collect())
}

fn parse(file: &SpecFile, pace: i32) -> Result<TestFile, String> {
    let document = file.document().map_err(|error| error.to_string())?;
    TestFile::parse(match pace {
        AS_PUBLISHED => document,
        longer => pace::slowed(document, longer),
    })
}

fn cases_of(context: &Context, source: SpecFile, file: TestFile, judge: Judge) -> Vec<Case> {
    let (source, file) = (Arc::new(source), Arc::new(file));
    let context = Arc::new(context.clone());
    let case = |at: usize| {
        let (source, file) = (Arc::clone(&source), Arc::clone(&file));
        let context = Arc::clone(&context);
        let (name, description) = (source.name.clone(), file.tests[at].description.clone());
        let run = move |pace| match pace {
            AS_PUBLISHED => run_one(&context, &file, at),
            longer => match parse(&source, longer) {
                Ok(slow) => run_one(&context, &slow, at),
                Err(why) => CaseResult::Fail(why),
            },
        };
        Case::new(name, description, move || judge(&run))
    };
    (0..file.tests.len()).map(case).collect()
}

/// Runs the test at this place in its file.
fn run_one(context: &Context, file: &TestFile, at: usize) -> CaseResult {
    let test = &file.tests[at];
    if let Some(reason) = &test.skip_reason {
        return CaseResult::Skip(reason.clone());
    }
    let requirements = test.run_on_requirements.as_deref();
    let deployment = match Deployment::for_test(context, file, requirements) {
        Ok(deployment) => deployment,
        Err(NoDeployment::Unmet(lacking)) => return CaseResult::Skip(lacking),
        Err(NoDeployment::Broken(why)) => return CaseResult::Fail(why),
    };
    let turn = Arc::clone(&deployment.turn);
    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
    match run::run(deployment, file, test) {
        Ok(()) => CaseResult::Pass,
        Err(Stop::Failed(why)) => CaseResult::Fail(why),
        Err(Stop::Unsupported(lacking)) => CaseResult::Skip(lacking),
    }
}
