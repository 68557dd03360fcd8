//! Carrying an increment out: the requests of its course, and what is told when it fails.

use bson::{DateTime, Document};

use super::{
    Cause, CounterError, Counters, Intent, Step,
    course::{Answer, Ask, Course, End, Place, Settled},
    documents::{self, Statement},
    error::CounterResult,
};
use crate::{
    error::{Error, ErrorKind, Result, WriteFailure},
    options::{ReadConcern, ReadPreference, SelectionCriteria, WriteConcern},
    patterns::again::{self, Sendings},
    results::UpdateResult,
};

/// "Use of undefined variable": a server before 4.2 has no `$$NOW`.
const UNDEFINED_VARIABLE: i32 = 17276;
/// A read concern was asked of a server that is in no replica set.
const NOT_A_REPLICA_SET: i32 = 123;

impl Counters {
    /// Follows a course to its end.
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
                        Answer::Failed { in_doubt, can_retry: again::can_retry_at_once(&error) },
                        Some(error),
                    )
                }
            };
            let Some(end) = course.hear(answer) else { continue };
            let intent = || Intent { stage: course.stage, ..intent.clone() };
            return conclude(end, error, intent);
        }
    }

    /// Refuses what cannot be asked. Of an intent that others may have begun that says nothing.
    fn check(&self, intent: &Intent, course: &Course) -> CounterResult<()> {
        intent.check().and_then(|()| self.fields.check()).map_err(|error| CounterError {
            intent: Box::new(intent.clone()),
            step: Step::Asking,
            known: course.known(),
            cause: Box::new(Cause::Failed(error)),
        })
    }

    async fn perform(&self, intent: &Intent, ask: Ask) -> Result<Answer> {
        let fields = &self.fields;
        let matched = async |statement| -> Result<bool> {
            Ok(self.update_once(statement, false).await?.matched_count > 0)
        };
        Ok(match ask {
            Ask::StepOne => Answer::StepOne(matched(documents::step_one(fields, intent)).await?),
            Ask::Create => Answer::Created(self.create(intent).await?),
            Ask::Look => Answer::Found(self.look(intent).await?),
            Ask::GiveUp => {
                Answer::GaveUp(matched(documents::give_up(fields, intent, self.keep)).await?)
            }
            Ask::StepTwo { leaves_tombstone } => {
                matched(documents::step_two(fields, intent, leaves_tombstone)).await?;
                Answer::StepTwo
            }
        })
    }

    /// Makes the counter's document; whether there was none.
    async fn create(&self, intent: &Intent) -> Result<bool> {
        match self.update_once(documents::create(&self.fields, &intent.id), true).await {
            Ok(result) => Ok(result.upserted_id.is_some()),
            // Another has made it at the same time.
            Err(error) if is_made_by_another(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Where a token is, as a deposed primary cannot tell.
    async fn look(&self, intent: &Intent) -> Result<Place> {
        let found = match self.look_with(intent, ReadConcern::linearizable()).await {
            // There is but one server, which cannot be deposed.
            Err(error) if error.code() == Some(NOT_A_REPLICA_SET) => {
                self.look_with(intent, ReadConcern::local()).await?
            }
            other => other?,
        };
        Place::read(found.as_ref())
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

    /// An update that is safe to repeat, repeated if its failure may pass.
    pub(super) async fn update(&self, statement: &Statement) -> Result<UpdateResult> {
        // Each has the time that the collection gives to one.
        let mut sendings = Sendings::begin(self.retries, None, None);
        let send = |_| self.update_once(statement.clone(), false);
        sendings.until_answered(|timeout| Box::pin(send(timeout))).await.map_err(explained)
    }

    async fn update_once(&self, statement: Statement, upsert: bool) -> Result<UpdateResult> {
        let Statement { filter, update } = statement;
        let update = self.collection.update_one(filter, update).write_concern(self.durably());
        match upsert {
            true => update.upsert(true).await,
            false => update.await,
        }
    }

    /// A majority has it, whatever the collection says: what could be undone by a failover could be
    /// lost, or counted again. In the journal: where there is but one server, it may crash.
    fn durably(&self) -> WriteConcern {
        let durably = WriteConcern::majority().with_journal(true);
        match self.collection.write_concern().and_then(|concern| concern.w_timeout) {
            Some(timeout) => durably.with_w_timeout(timeout),
            None => durably,
        }
    }
}

/// Whether there is a document with this `_id` already. Another unique index may refuse the counter, too: to
/// try again would not help.
fn is_made_by_another(error: &Error) -> bool {
    let index = match &*error.kind {
        ErrorKind::Write(WriteFailure::WriteError(refusal)) => refusal.key_pattern.as_ref(),
        _ => None,
    };
    error.is_duplicate_key_error() && index.is_none_or(|fields| fields.keys().eq(["_id"]))
}

fn conclude(end: End, error: Option<Error>, intent: impl Fn() -> Intent) -> CounterResult<Settled> {
    let (step, known, cause) = match end {
        End::Settled(settled) => return Ok(settled),
        End::Failed { step, known } => {
            let cause = error.map_or(Cause::Unsettled, |error| Cause::Failed(explained(error)));
            (step, known, cause)
        }
        End::TooEarly { server, known } => {
            let cause = Cause::TooEarly { since: intent().since, server, client: DateTime::now() };
            (Step::One, known, cause)
        }
        End::Unsettled { known } => (Step::Settling, known, Cause::Unsettled),
    };
    Err(CounterError { intent: Box::new(intent()), step, known, cause: Box::new(cause) })
}

/// Says of a server without `$$NOW` that it is too old.
pub(super) fn explained(error: Error) -> Error {
    if error.code() != Some(UNDEFINED_VARIABLE) {
        return error;
    }
    let message = "counters go by the server's clock ($$NOW), which takes MongoDB 4.2";
    Error::wrapping(ErrorKind::IncompatibleServer { message: message.to_owned() }, error)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;
    use crate::error::CommandError;

    #[test]
    fn a_server_without_a_clock_for_queries_is_said_to_be_too_old() {
        let undefined = |code: i32| {
            let reply =
                rawdoc! { "ok": 0, "code": code, "errmsg": "Use of undefined variable: NOW" };
            explained(CommandError::from_reply(&reply).expect("it is an error"))
        };
        let error = undefined(UNDEFINED_VARIABLE);
        assert!(matches!(&*error.kind, ErrorKind::IncompatibleServer { .. }), "{error}");
        assert!(error.to_string().contains("4.2"), "{error}");
        assert!(matches!(&*undefined(2).kind, ErrorKind::Command(_)));
    }
}
