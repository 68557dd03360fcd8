//! Operations of sessions.

use std::sync::Arc;

use bson::Bson;
use steadfast::{ClientSession, error::Error, options::TransactionOptions};

use super::{Arguments, CallResult, OperationError, OperationResult, execute_for_error, within};
use crate::unified::{
    entities::SessionEntity,
    run::TestRun,
    schema::Operation,
    test_error::{TestError, TestResult},
};

pub(super) async fn call(
    run: &Arc<TestRun>,
    entity: &SessionEntity,
    name: &str,
    mut arguments: Arguments,
) -> CallResult {
    match name {
        "endSession" => {
            arguments.done()?;
            entity.end().await?;
            Ok(OperationResult::Nothing)
        }
        "getSnapshotTime" => {
            arguments.done()?;
            let time = entity.lock().await?.session().snapshot_time();
            Ok(OperationResult::Value(time.map_or(Bson::Null, Bson::Timestamp)))
        }
        "startTransaction" => {
            let options: TransactionOptions = arguments.options()?;
            let mut in_use = entity.lock().await?;
            Ok(in_use.session().start_transaction().with_options(options).await?.into())
        }
        "commitTransaction" => {
            let timeout = arguments.timeout()?;
            arguments.done()?;
            let mut in_use = entity.lock().await?;
            Ok(within!(timeout, in_use.session().commit_transaction())?.into())
        }
        "abortTransaction" => {
            let timeout = arguments.timeout()?;
            arguments.done()?;
            let mut in_use = entity.lock().await?;
            Ok(within!(timeout, in_use.session().abort_transaction())?.into())
        }
        "withTransaction" => with_transaction(run, entity, arguments).await,
        _ => Err(TestError::failed(format!("unknown operation {name} of a session")).into()),
    }
}

/// Callback of `withTransaction`.
struct Callback<'a> {
    run: &'a Arc<TestRun>,
    entity: &'a SessionEntity,
    operations: Vec<Operation>,
    /// Error of the callback that ends the test.
    error: Option<TestError>,
}

async fn with_transaction(
    run: &Arc<TestRun>,
    entity: &SessionEntity,
    mut arguments: Arguments,
) -> CallResult {
    let operations: Vec<Operation> = arguments.required("callback")?;
    let options: TransactionOptions = arguments.options()?;
    let mut callback = Callback { run, entity, operations, error: None };
    let mut session = entity.remove().await?;
    let transaction = session.start_transaction().with_options(options);
    let done = transaction
        .and_run(&mut callback, |session, callback| Box::pin(callback.call(session)))
        .await;
    entity.restore(session).await;
    match callback.error {
        Some(error) => Err(error.into()),
        None => Ok(done?.into()),
    }
}

impl Callback<'_> {
    /// Executes the operations. The entity has the session meanwhile, and `and_run` has a substitute.
    async fn call(&mut self, session: &mut ClientSession) -> Result<(), Error> {
        let substitute = session.client().start_session().await?;
        self.entity.restore(std::mem::replace(session, substitute)).await;
        let done = self.run_operations().await;
        match self.entity.remove().await {
            Ok(held) => *session = held,
            Err(error) => self.error = Some(error),
        }
        match done {
            Ok(()) => Ok(()),
            Err(OperationError::Driver(error)) => Err(error),
            Err(OperationError::Test(error)) => {
                self.error = Some(error);
                Err(Error::custom("the test has ended"))
            }
        }
    }

    async fn run_operations(&self) -> Result<(), OperationError> {
        for operation in &self.operations {
            let done: TestResult<_> =
                execute_for_error(Arc::clone(self.run), operation.clone()).await;
            if let Some(error) = done? {
                return Err(error.into());
            }
        }
        Ok(())
    }
}
