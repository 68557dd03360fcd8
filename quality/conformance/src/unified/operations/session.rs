//! What sessions do.

use std::sync::Arc;

use bson::Bson;
use steadfast::{ClientSession, error::Error, options::TransactionOptions};

use super::{Arguments, Done, Failure, Outcome, execute_within, within};
use crate::unified::{
    entities::SessionEntity,
    run::Run,
    schema::Operation,
    stop::{Step, Stop},
};

pub(super) async fn call(
    run: &Arc<Run>,
    entity: &SessionEntity,
    name: &str,
    mut arguments: Arguments,
) -> Done {
    match name {
        "endSession" => {
            arguments.done()?;
            entity.end().await?;
            Ok(Outcome::Nothing)
        }
        "getSnapshotTime" => {
            arguments.done()?;
            let time = entity.take().await?.session().snapshot_time();
            Ok(Outcome::Value(time.map_or(Bson::Null, Bson::Timestamp)))
        }
        "startTransaction" => {
            let options: TransactionOptions = arguments.options()?;
            let mut in_use = entity.take().await?;
            Ok(in_use.session().start_transaction().with_options(options).await?.into())
        }
        "commitTransaction" => {
            let timeout = arguments.timeout()?;
            arguments.done()?;
            let mut in_use = entity.take().await?;
            Ok(within!(timeout, in_use.session().commit_transaction())?.into())
        }
        "abortTransaction" => {
            let timeout = arguments.timeout()?;
            arguments.done()?;
            let mut in_use = entity.take().await?;
            Ok(within!(timeout, in_use.session().abort_transaction())?.into())
        }
        "withTransaction" => with_transaction(run, entity, arguments).await,
        _ => Err(Stop::failed(format!("unknown operation {name} of a session")).into()),
    }
}

/// What a callback works with.
struct Callback<'a> {
    run: &'a Arc<Run>,
    entity: &'a SessionEntity,
    operations: Vec<Operation>,
    /// Why the test cannot go on.
    stop: Option<Stop>,
}

async fn with_transaction(
    run: &Arc<Run>,
    entity: &SessionEntity,
    mut arguments: Arguments,
) -> Done {
    let operations: Vec<Operation> = arguments.required("callback")?;
    let options: TransactionOptions = arguments.options()?;
    let mut callback = Callback { run, entity, operations, stop: None };
    let mut session = entity.take_away().await?;
    let transaction = session.start_transaction().with_options(options);
    let done = transaction
        .and_run(&mut callback, |session, callback| Box::pin(callback.call(session)))
        .await;
    entity.bring_back(session).await;
    match callback.stop {
        Some(stop) => Err(stop.into()),
        None => Ok(done?.into()),
    }
}

impl Callback<'_> {
    /// Carries out its operations. They find the session under its name; another stands in for it
    /// in the meantime.
    async fn call(&mut self, session: &mut ClientSession) -> Result<(), Error> {
        let stand_in = session.client().start_session().await?;
        self.entity.bring_back(std::mem::replace(session, stand_in)).await;
        let done = self.operate().await;
        match self.entity.take_away().await {
            Ok(held) => *session = held,
            Err(stop) => self.stop = Some(stop),
        }
        match done {
            Ok(()) => Ok(()),
            Err(Failure::Driver(error)) => Err(error),
            Err(Failure::Stop(stop)) => {
                self.stop = Some(stop);
                Err(Error::custom("the test cannot go on"))
            }
        }
    }

    async fn operate(&self) -> Result<(), Failure> {
        for operation in &self.operations {
            let done: Step<_> = execute_within(Arc::clone(self.run), operation.clone()).await;
            if let Some(error) = done? {
                return Err(error.into());
            }
        }
        Ok(())
    }
}
