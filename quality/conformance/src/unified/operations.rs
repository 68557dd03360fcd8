//! What a test does, and whether what comes of it is what it expects.

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

/// Awaits an action, in the session if there is one.
macro_rules! awaited {
    ($session:ident, $action:expr) => {
        match $session.as_mut() {
            None => $action.await,
            Some(in_use) => $action.session(in_use.session()).await,
        }
    };
}

/// Awaits an action that gives a cursor, in the session if there is one, and all that the cursor
/// gives.
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
/// Awaits an action, within a time limit if there is one.
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
    run::Run,
    schema::{Expectation, Operation},
    stop::{Step, Stop},
};

/// What an operation answered.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Nothing at all.
    Nothing,
    /// A value; a document is a whole thing.
    Value(Bson),
    /// What a cursor gave, each a whole thing.
    Documents(Vec<Document>),
    /// A cursor.
    Cursor(SharedCursor),
    /// A collection that was made.
    Collection(Collection<Document>),
}

/// Why an operation did not answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The driver says so, as a test may expect.
    Driver(Error),
    /// The test cannot go on.
    Stop(Stop),
}

/// What became of an operation.
type Done = Result<Outcome, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Driver(error)
    }
}

impl<S: Into<Stop>> From<S> for Failure
where
    S: NotAnError,
{
    fn from(stop: S) -> Self {
        Self::Stop(stop.into())
    }
}

/// Tells the reasons to stop from the driver's errors, which a test may expect.
pub(super) trait NotAnError {}
impl NotAnError for Stop {}
impl NotAnError for String {}
impl NotAnError for &str {}
impl NotAnError for bson::error::Error {}

/// Carries out an operation, be it of the test or of one of its threads.
pub(super) fn execute(
    run: Arc<Run>,
    operation: Operation,
) -> Pin<Box<dyn Future<Output = Step<()>> + Send>> {
    Box::pin(async move { execute_within(run, operation).await.map(drop) })
}

/// Carries out an operation, and gives the driver's error even if that is the one expected.
fn execute_within(
    run: Arc<Run>,
    operation: Operation,
) -> Pin<Box<dyn Future<Output = Step<Option<Error>>> + Send>> {
    Box::pin(async move {
        let Operation { name, object, arguments, expect } = operation;
        let arguments = Arguments::new(&name, arguments);
        let done = if object == "testRunner" {
            runner::call(&run, &name, arguments).await.map_err(Failure::Stop)
        } else {
            call(&run, &object, &name, arguments).await
        };
        let failed = match &done {
            Err(Failure::Driver(error)) => Some(error.clone()),
            Ok(_) | Err(Failure::Stop(_)) => None,
        };
        judge(&run, &name, &expect, done)
            .map_err(|stop| stop.within(format!("{object}.{name}")))?;
        Ok(failed)
    })
}

async fn call(run: &Arc<Run>, object: &str, name: &str, mut arguments: Arguments) -> Done {
    arguments.find_session(&run.entities).await?;
    match run.entities.get(object)? {
        Entity::Client(entity) => client::call(&entity, name, arguments).await,
        Entity::Database(database) => database::call(&database, name, arguments).await,
        Entity::Collection(collection) => collection::call(&collection, name, arguments).await,
        Entity::Bucket(bucket) => bucket::call(&bucket, name, arguments).await,
        Entity::Session(entity) => session::call(run, &entity, name, arguments).await,
        Entity::Cursor(shared) => cursor::call(run, &shared, name, arguments).await,
        other @ (Entity::Thread(_) | Entity::Topology(_) | Entity::Bson(_)) => {
            Err(Stop::failed(format!("{other:?} can do nothing")).into())
        }
    }
}

/// Whether what became of an operation is what the test expects.
fn judge(run: &Run, name: &str, expect: &Expectation, done: Done) -> Step<()> {
    let done = match done {
        Err(Failure::Stop(stop)) => return Err(stop),
        Err(Failure::Driver(error)) => Err(error),
        Ok(outcome) => Ok(outcome),
    };
    let matcher = Matcher::new(&run.entities);
    match (expect, done) {
        (Expectation::Anything, _) => Ok(()),
        (Expectation::Error(expected), Err(error)) => {
            errors::expect(&matcher, expected, name, &error)
                .map_err(|stop| stop.within(format!("the error is {error:?}")))
        }
        (Expectation::Error(_), Ok(outcome)) => {
            Err(Stop::failed(format!("expected an error, but it answered {outcome:?}")))
        }
        (Expectation::Success { .. }, Err(error)) => Err(Stop::failed(format!("{error:?}"))),
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

impl Outcome {
    fn expect(&self, matcher: &Matcher<'_>, expected: &Bson) -> Step<()> {
        let checked = match self {
            Self::Nothing => matcher.value(expected, None, true),
            Self::Value(value) => matcher.value(expected, Some(value), true),
            Self::Documents(documents) => matcher.documents(expected, documents),
            Self::Cursor(_) | Self::Collection(_) => {
                return Err(Stop::failed("cursors and collections are not compared"));
            }
        };
        checked.map_err(|stop| stop.within(format!("result {self:?}")))
    }

    fn into_entity(self) -> Step<Entity> {
        match self {
            Self::Nothing => Err(Stop::failed("there is no result to be kept")),
            Self::Value(value) => Ok(Entity::Bson(value)),
            Self::Documents(documents) => {
                Ok(Entity::Bson(documents.into_iter().map(Bson::Document).collect()))
            }
            Self::Cursor(cursor) => Ok(Entity::Cursor(cursor)),
            Self::Collection(collection) => Ok(Entity::Collection(collection)),
        }
    }
}

/// An operation that the format knows and the driver has not, or one that nobody knows.
fn unknown(of: &str, name: &str) -> Failure {
    let lacking = match name {
        "count" => "the deprecated count, which the driver leaves out",
        "rename" => "renaming of collections",
        _ => return Stop::failed(format!("unknown operation {name} of a {of}")).into(),
    };
    Stop::needs(lacking).into()
}
