//! Operations of a test, and comparison of their results with the expected ones.

mod arguments;
mod bucket;
mod bulk_write;
mod change_streams;
mod client;
mod collection;
mod cursor;
mod database;
mod find_one_and;
mod indexes;
mod reads;
mod results;
mod runner;
mod session;
mod writes;

/// Awaits an action, in a session if the operation has one.
macro_rules! awaited {
    ($session:ident, $action:expr) => {
        match $session.as_mut() {
            None => $action.await,
            Some(in_use) => $action.session(in_use.session()).await,
        }
    };
}

/// Awaits an action that returns a cursor, in a session if the operation has one, and collects the cursor's documents.
macro_rules! collected {
    ($session:ident, $action:expr) => {
        match $session.as_mut() {
            None => results::items($action.await?).await,
            Some(in_use) => {
                let cursor = $action.session(in_use.session()).await?;
                results::items_in_session(cursor, in_use.session()).await
            }
        }
    };
}
/// Awaits an action, with `timeoutMS` if the operation has it.
macro_rules! within {
    ($timeout:ident, $action:expr) => {
        match $timeout {
            None => $action.await,
            Some(limit) => $action.timeout(limit).await,
        }
    };
}
use {awaited, collected, within};

use std::{pin::Pin, sync::Arc};

use bson::{Bson, Document};
use steadfast::{Collection, error::Error};

use self::arguments::Arguments;
pub(super) use self::results::{
    bulk_write as bulk_write_result, by_index, partial as partial_bulk_write_result,
};
use super::{
    entities::{Entity, SharedCursor},
    errors,
    matching::Matcher,
    run::TestRun,
    schema::{Expectation, Operation},
    test_error::{TestError, TestResult},
};

/// Result of an operation.
#[derive(Debug)]
pub(super) enum OperationResult {
    /// No result.
    Nothing,
    /// A value. A document is compared as a root-level document.
    Value(Bson),
    /// Documents of a cursor. Each is compared as a root-level document.
    Documents(Vec<Document>),
    /// A cursor.
    Cursor(SharedCursor),
    /// A created collection.
    Collection(Collection<Document>),
}

/// Error of an operation.
#[derive(Debug)]
pub(super) enum OperationError {
    /// Error of the driver, which a test may expect.
    Driver(Error),
    /// Error that ends the test.
    Test(TestError),
}

/// Result or error of an operation.
type CallResult = Result<OperationResult, OperationError>;

impl From<Error> for OperationError {
    fn from(error: Error) -> Self {
        Self::Driver(error)
    }
}

impl<S: Into<TestError>> From<S> for OperationError
where
    S: NoDriverError,
{
    fn from(error: S) -> Self {
        Self::Test(error.into())
    }
}

/// Errors that end a test, as opposed to the driver's errors, which a test may expect.
pub(super) trait NoDriverError {}
impl NoDriverError for TestError {}
impl NoDriverError for String {}
impl NoDriverError for &str {}
impl NoDriverError for bson::error::Error {}

/// Executes an operation of the test or of one of its threads.
pub(super) fn execute(
    run: Arc<TestRun>,
    operation: Operation,
) -> Pin<Box<dyn Future<Output = TestResult<()>> + Send>> {
    Box::pin(async move { execute_for_error(run, operation).await.map(drop) })
}

/// Executes an operation and returns the driver's error, also if it is the expected one.
fn execute_for_error(
    run: Arc<TestRun>,
    operation: Operation,
) -> Pin<Box<dyn Future<Output = TestResult<Option<Error>>> + Send>> {
    Box::pin(async move {
        let Operation { name, object, arguments, expect } = operation;
        let arguments = Arguments::new(&name, arguments);
        let done = if object == "testRunner" {
            runner::call(&run, &name, arguments).await.map_err(OperationError::Test)
        } else {
            call(&run, &object, &name, arguments).await
        };
        let failed = match &done {
            Err(OperationError::Driver(error)) => Some(error.clone()),
            Ok(_) | Err(OperationError::Test(_)) => None,
        };
        check_result(&run, &name, &expect, done)
            .map_err(|error| error.within(format!("{object}.{name}")))?;
        Ok(failed)
    })
}

async fn call(
    run: &Arc<TestRun>,
    object: &str,
    name: &str,
    mut arguments: Arguments,
) -> CallResult {
    arguments.lock_session(&run.entities).await?;
    match run.entities.get(object)? {
        Entity::Client(entity) => client::call(&entity, name, arguments).await,
        Entity::Database(database) => database::call(&database, name, arguments).await,
        Entity::Collection(collection) => collection::call(&collection, name, arguments).await,
        Entity::Bucket(bucket) => bucket::call(&bucket, name, arguments).await,
        Entity::Session(entity) => session::call(run, &entity, name, arguments).await,
        Entity::Cursor(shared) => cursor::call(run, &shared, name, arguments).await,
        other @ (Entity::Thread(_) | Entity::Topology(_) | Entity::Bson(_)) => {
            Err(TestError::failed(format!("{other:?} has no operations")).into())
        }
    }
}

/// Fails unless the result or error is the one that the test expects.
fn check_result(
    run: &TestRun,
    name: &str,
    expect: &Expectation,
    done: CallResult,
) -> TestResult<()> {
    let done = match done {
        Err(OperationError::Test(error)) => return Err(error),
        Err(OperationError::Driver(error)) => Err(error),
        Ok(outcome) => Ok(outcome),
    };
    let matcher = Matcher::new(&run.entities);
    match (expect, done) {
        (Expectation::Anything, _) => Ok(()),
        (Expectation::Error(expected), Err(error)) => {
            errors::expect(&matcher, expected, name, &error)
                .map_err(|mismatch| mismatch.within(format!("the error is {error:?}")))
        }
        (Expectation::Error(_), Ok(outcome)) => {
            Err(TestError::failed(format!("expected an error, not the result {outcome:?}")))
        }
        (Expectation::Success { .. }, Err(error)) => Err(TestError::failed(format!("{error:?}"))),
        (Expectation::Success { result, save_as }, Ok(outcome)) => {
            if let Some(expected) = result {
                outcome.expect(&matcher, expected)?;
            }
            match save_as {
                Some(name) => run.entities.add(name, outcome.into_entity()?),
                None => Ok(()),
            }
        }
    }
}

impl OperationResult {
    fn expect(&self, matcher: &Matcher<'_>, expected: &Bson) -> TestResult<()> {
        let checked = match self {
            Self::Nothing => matcher.value(expected, None, true),
            Self::Value(value) => matcher.value(expected, Some(value), true),
            Self::Documents(documents) => matcher.documents(expected, documents),
            Self::Cursor(_) | Self::Collection(_) => {
                return Err(TestError::failed("cursors and collections are not compared"));
            }
        };
        checked.map_err(|error| error.within(format!("result {self:?}")))
    }

    fn into_entity(self) -> TestResult<Entity> {
        match self {
            Self::Nothing => Err(TestError::failed("there is no result to save")),
            Self::Value(value) => Ok(Entity::Bson(value)),
            Self::Documents(documents) => {
                Ok(Entity::Bson(documents.into_iter().map(Bson::Document).collect()))
            }
            Self::Cursor(cursor) => Ok(Entity::Cursor(cursor)),
            Self::Collection(collection) => Ok(Entity::Collection(collection)),
        }
    }
}

/// Error of an operation that the driver does not implement, or that the format does not have.
fn unknown(of: &str, name: &str) -> OperationError {
    let feature = match name {
        "count" => "the deprecated count, which the driver leaves out",
        "rename" => "renaming of collections",
        _ => return TestError::failed(format!("unknown operation {name} of a {of}")).into(),
    };
    TestError::needs(feature).into()
}
