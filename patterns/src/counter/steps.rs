//! Requests of an increment, and its errors.

use bson::{DateTime, Document};

use super::{
    CounterError, CounterErrorCause, Counters, IncrementStep, Intent,
    documents::{self, Statement},
    error::CounterResult,
    increment::{CounterReply, CounterRequest, Increment, IncrementEnd, Resolution, TokenState},
};
use crate::retry::{self, RetryState};
use steadfast::{
    error::{Error, ErrorKind, Result, WriteFailure},
    options::{ReadConcern, ReadPreference, SelectionCriteria, WriteConcern},
    results::UpdateResult,
};

/// "Use of undefined variable": servers before 4.2 have no `$$NOW`.
const UNDEFINED_VARIABLE: i32 = 17276;
/// Error of a read concern on a server that is not in a replica set.
const NOT_A_REPLICA_SET: i32 = 123;

impl Counters {
    /// Runs an increment to its end.
    pub(super) async fn run(
        &self,
        intent: &Intent,
        mut increment: Increment,
    ) -> CounterResult<Resolution> {
        self.check(intent, &increment)?;
        loop {
            let (reply, error) = match self.send(intent, increment.request()).await {
                Ok(reply) => (reply, None),
                Err(error) => {
                    let in_doubt = !error.outcome().is_certainly_not_applied();
                    (
                        CounterReply::Failed {
                            in_doubt,
                            can_retry: retry::can_retry_at_once(&error),
                        },
                        Some(error),
                    )
                }
            };
            let Some(end) = increment.apply(reply) else { continue };
            let intent = || Intent { stage: increment.stage, ..intent.clone() };
            return conclude(end, error, intent);
        }
    }

    /// Rejects invalid ids and field names. The error has the state of the intent, which others may have begun.
    fn check(&self, intent: &Intent, increment: &Increment) -> CounterResult<()> {
        intent.check().and_then(|()| self.fields.check()).map_err(|error| CounterError {
            intent: Box::new(intent.clone()),
            step: IncrementStep::Validation,
            state: increment.state(),
            cause: Box::new(CounterErrorCause::Failed(error)),
        })
    }

    async fn send(&self, intent: &Intent, request: CounterRequest) -> Result<CounterReply> {
        let fields = &self.fields;
        let matched = async |statement| -> Result<bool> {
            Ok(self.update_once(statement, false).await?.matched_count > 0)
        };
        Ok(match request {
            CounterRequest::StepOne => {
                CounterReply::StepOne(matched(documents::step_one(fields, intent)).await?)
            }
            CounterRequest::CreateCounter => CounterReply::Created(self.create(intent).await?),
            CounterRequest::ReadToken => CounterReply::Token(self.read_token(intent).await?),
            CounterRequest::GiveUp => {
                CounterReply::GaveUp(matched(documents::give_up(fields, intent, self.keep)).await?)
            }
            CounterRequest::StepTwo { leaves_tombstone } => {
                matched(documents::step_two(fields, intent, leaves_tombstone)).await?;
                CounterReply::StepTwo
            }
        })
    }

    /// Inserts the counter's document. Returns `true` if it was missing.
    async fn create(&self, intent: &Intent) -> Result<bool> {
        match self.update_once(documents::create(&self.fields, &intent.id), true).await {
            Ok(result) => Ok(result.upserted_id.is_some()),
            // Another client has inserted it at the same time.
            Err(error) if is_created_concurrently(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Reads the state of a token with read concern `linearizable`, so that a primary that has stepped down cannot
    /// reply.
    async fn read_token(&self, intent: &Intent) -> Result<TokenState> {
        let found = match self.read_token_with(intent, ReadConcern::linearizable()).await {
            // A standalone server, which cannot step down.
            Err(error) if error.code() == Some(NOT_A_REPLICA_SET) => {
                self.read_token_with(intent, ReadConcern::local()).await?
            }
            other => other?,
        };
        TokenState::read(found.as_ref())
    }

    async fn read_token_with(
        &self,
        intent: &Intent,
        concern: ReadConcern,
    ) -> Result<Option<Document>> {
        let mut cursor = self
            .collection
            .aggregate(documents::read_token(&self.fields, intent))
            .read_concern(concern)
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .await?;
        match cursor.advance().await? {
            true => cursor.deserialize_current().map(Some),
            false => Ok(None),
        }
    }

    /// Runs an idempotent update, with retries.
    pub(super) async fn update(&self, statement: &Statement) -> Result<UpdateResult> {
        // Each attempt has the time limit of the collection.
        let mut retry = RetryState::begin(self.retries, None, None);
        let send = |_| self.update_once(statement.clone(), false);
        retry.run(|timeout| Box::pin(send(timeout))).await.map_err(with_explanation)
    }

    async fn update_once(&self, statement: Statement, upsert: bool) -> Result<UpdateResult> {
        let Statement { filter, update } = statement;
        let update = self.collection.update_one(filter, update).write_concern(self.write_concern());
        match upsert {
            true => update.upsert(true).await,
            false => update.await,
        }
    }

    /// Returns write concern `majority` with journaling: an update that is rolled back could be lost, or counted
    /// again, and a standalone server may crash before it writes its journal. Only `wtimeout` is that of the
    /// collection.
    fn write_concern(&self) -> WriteConcern {
        let durable = WriteConcern::majority().with_journal(true);
        match self.collection.write_concern().and_then(|concern| concern.w_timeout) {
            Some(timeout) => durable.with_w_timeout(timeout),
            None => durable,
        }
    }
}

/// Returns `true` if a document with this `_id` exists. A duplicate in another unique index is an error, which a
/// retry does not resolve.
fn is_created_concurrently(error: &Error) -> bool {
    let index = match &*error.kind {
        ErrorKind::Write(WriteFailure::WriteError(refusal)) => refusal.key_pattern.as_ref(),
        _ => None,
    };
    error.is_duplicate_key_error() && index.is_none_or(|fields| fields.keys().eq(["_id"]))
}

fn conclude(
    end: IncrementEnd,
    error: Option<Error>,
    intent: impl Fn() -> Intent,
) -> CounterResult<Resolution> {
    let (step, state, cause) = match end {
        IncrementEnd::Resolved(resolution) => return Ok(resolution),
        IncrementEnd::Failed { step, state } => {
            let cause = error.map_or(CounterErrorCause::Contended, |error| {
                CounterErrorCause::Failed(with_explanation(error))
            });
            (step, state, cause)
        }
        IncrementEnd::TooEarly { server, state } => {
            let cause = CounterErrorCause::TooEarly {
                since: intent().since,
                server,
                client: DateTime::now(),
            };
            (IncrementStep::One, state, cause)
        }
        IncrementEnd::Contended { state } => {
            (IncrementStep::Lookup, state, CounterErrorCause::Contended)
        }
    };
    Err(CounterError { intent: Box::new(intent()), step, state, cause: Box::new(cause) })
}

/// Explains the error of a server without `$$NOW`.
pub(super) fn with_explanation(error: Error) -> Error {
    if error.code() != Some(UNDEFINED_VARIABLE) {
        return error;
    }
    let message = "counters use the clock of the server ($$NOW), which requires MongoDB 4.2";
    Error::incompatible_server(message).with_context_of(&error).with_source(error)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn server_without_the_now_variable_is_reported_as_incompatible() {
        let undefined = |code: i32| {
            let error = doc! { "code": code, "errmsg": "Use of undefined variable: NOW" };
            let error = bson::deserialize_from_document(error).unwrap();
            with_explanation(Error::from(ErrorKind::Write(WriteFailure::WriteError(error))))
        };
        let error = undefined(UNDEFINED_VARIABLE);
        assert!(matches!(&*error.kind, ErrorKind::IncompatibleServer { .. }), "{error}");
        assert!(error.to_string().contains("4.2"), "{error}");
        assert!(matches!(&*undefined(2).kind, ErrorKind::Write(_)));
    }
}
