//! Requests of an increment, and its errors.

use bson::{DateTime, Document};

use super::{
    CounterError, CounterErrorCause, Counters, IncrementStep, Intent,
    course::{CounterReply, CounterRequest, Course, CourseEnd, Settled, TokenState},
    documents::{self, Statement},
    error::CounterResult,
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
    /// Runs the requests of a course to its end.
    pub(super) async fn follow(
        &self,
        intent: &Intent,
        mut course: Course,
    ) -> CounterResult<Settled> {
        self.check(intent, &course)?;
        loop {
            let (answer, error) = match self.perform(intent, course.ask()).await {
                Ok(answer) => (answer, None),
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
            let Some(end) = course.apply(answer) else { continue };
            let intent = || Intent { stage: course.stage, ..intent.clone() };
            return conclude(end, error, intent);
        }
    }

    /// Rejects invalid ids and field names. An intent that others may have begun keeps its state.
    fn check(&self, intent: &Intent, course: &Course) -> CounterResult<()> {
        intent.check().and_then(|()| self.fields.check()).map_err(|error| CounterError {
            intent: Box::new(intent.clone()),
            step: IncrementStep::Asking,
            state: course.state(),
            cause: Box::new(CounterErrorCause::Failed(error)),
        })
    }

    async fn perform(&self, intent: &Intent, ask: CounterRequest) -> Result<CounterReply> {
        let fields = &self.fields;
        let matched = async |statement| -> Result<bool> {
            Ok(self.update_once(statement, false).await?.matched_count > 0)
        };
        Ok(match ask {
            CounterRequest::StepOne => {
                CounterReply::StepOne(matched(documents::step_one(fields, intent)).await?)
            }
            CounterRequest::Create => CounterReply::Created(self.create(intent).await?),
            CounterRequest::Look => CounterReply::Found(self.look(intent).await?),
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
            Err(error) if is_made_by_another(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Reads the state of a token, so that a primary that has stepped down cannot answer.
    async fn look(&self, intent: &Intent) -> Result<TokenState> {
        let found = match self.look_with(intent, ReadConcern::linearizable()).await {
            // A standalone server, which cannot step down.
            Err(error) if error.code() == Some(NOT_A_REPLICA_SET) => {
                self.look_with(intent, ReadConcern::local()).await?
            }
            other => other?,
        };
        TokenState::read(found.as_ref())
    }

    async fn look_with(&self, intent: &Intent, concern: ReadConcern) -> Result<Option<Document>> {
        let mut cursor = self
            .collection
            .aggregate(documents::look(&self.fields, intent))
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
        retry.run(|timeout| Box::pin(send(timeout))).await.map_err(explained)
    }

    async fn update_once(&self, statement: Statement, upsert: bool) -> Result<UpdateResult> {
        let Statement { filter, update } = statement;
        let update = self.collection.update_one(filter, update).write_concern(self.durably());
        match upsert {
            true => update.upsert(true).await,
            false => update.await,
        }
    }

    /// Write concern `majority` with journaling, whatever the collection's: an update that is rolled back could
    /// be lost, or counted again. A standalone server may crash before it writes its journal.
    fn durably(&self) -> WriteConcern {
        let durably = WriteConcern::majority().with_journal(true);
        match self.collection.write_concern().and_then(|concern| concern.w_timeout) {
            Some(timeout) => durably.with_w_timeout(timeout),
            None => durably,
        }
    }
}

/// Returns `true` if a document with this `_id` exists. Another unique index may reject the counter as well; a
/// retry would not help then.
fn is_made_by_another(error: &Error) -> bool {
    let index = match &*error.kind {
        ErrorKind::Write(WriteFailure::WriteError(refusal)) => refusal.key_pattern.as_ref(),
        _ => None,
    };
    error.is_duplicate_key_error() && index.is_none_or(|fields| fields.keys().eq(["_id"]))
}

fn conclude(
    end: CourseEnd,
    error: Option<Error>,
    intent: impl Fn() -> Intent,
) -> CounterResult<Settled> {
    let (step, state, cause) = match end {
        CourseEnd::Settled(settled) => return Ok(settled),
        CourseEnd::Failed { step, state } => {
            let cause = error.map_or(CounterErrorCause::Unsettled, |error| {
                CounterErrorCause::Failed(explained(error))
            });
            (step, state, cause)
        }
        CourseEnd::TooEarly { server, state } => {
            let cause = CounterErrorCause::TooEarly {
                since: intent().since,
                server,
                client: DateTime::now(),
            };
            (IncrementStep::One, state, cause)
        }
        CourseEnd::Unsettled { state } => {
            (IncrementStep::Settling, state, CounterErrorCause::Unsettled)
        }
    };
    Err(CounterError { intent: Box::new(intent()), step, state, cause: Box::new(cause) })
}

/// Replaces the error of a server without `$$NOW`.
pub(super) fn explained(error: Error) -> Error {
    if error.code() != Some(UNDEFINED_VARIABLE) {
        return error;
    }
    let message = "counters go by the server's clock ($$NOW), which takes MongoDB 4.2";
    Error::incompatible_server(message).with_context_of(&error).with_source(error)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn a_server_without_a_clock_for_queries_is_said_to_be_too_old() {
        let undefined = |code: i32| {
            let error = doc! { "code": code, "errmsg": "Use of undefined variable: NOW" };
            let error = bson::deserialize_from_document(error).unwrap();
            explained(Error::from(ErrorKind::Write(WriteFailure::WriteError(error))))
        };
        let error = undefined(UNDEFINED_VARIABLE);
        assert!(matches!(&*error.kind, ErrorKind::IncompatibleServer { .. }), "{error}");
        assert!(error.to_string().contains("4.2"), "{error}");
        assert!(matches!(&*undefined(2).kind, ErrorKind::Write(_)));
    }
}
