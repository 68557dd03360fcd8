//! History of an error: failed attempts and the outcome of a write.

use std::time::Duration;

use steadfast_core::{address::ServerAddress, retry::Outcome};

use super::{Error, ErrorKind, WriteFailure};

/// Failed attempt of a command.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Attempt {
    /// Address of the server.
    pub server: ServerAddress,
    /// Connection id assigned by the driver. `None` if no connection was checked out.
    pub connection: Option<u32>,
    /// Request id of the message. `None` if nothing was sent.
    pub request_id: Option<i32>,
    /// Error labels of the attempt.
    pub labels: Vec<String>,
    /// Backoff before the attempt.
    pub backoff: Duration,
    /// Duration of the attempt, including server selection.
    pub duration: Duration,
}

/// Failed attempts in order. Only the first ten and the last ten are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttemptLog {
    recorded: Vec<Attempt>,
    omitted: usize,
}

impl AttemptLog {
    /// Number of first, and of last, attempts that are kept.
    const HALF: usize = 10;

    pub(crate) fn push(&mut self, attempt: Attempt) {
        if self.recorded.len() == 2 * Self::HALF {
            self.recorded.remove(Self::HALF);
            self.omitted += 1;
        }
        self.recorded.push(attempt);
    }

    /// Appends the attempts of a later command.
    pub(crate) fn append(&mut self, later: &Self) {
        for (index, attempt) in later.recorded.iter().enumerate() {
            if index == Self::HALF {
                self.omitted += later.omitted;
            }
            self.push(attempt.clone());
        }
    }

    pub(crate) fn recorded(&self) -> &[Attempt] {
        &self.recorded
    }

    /// Returns the number of all attempts.
    pub(crate) fn count(&self) -> usize {
        self.recorded.len() + self.omitted
    }
}

impl FromIterator<Attempt> for AttemptLog {
    fn from_iter<I: IntoIterator<Item = Attempt>>(attempts: I) -> Self {
        let mut log = Self::default();
        attempts.into_iter().for_each(|attempt| log.push(attempt));
        log
    }
}

/// Attempts of a command and their outcome.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) outcome: Outcome,
    pub(crate) attempts: AttemptLog,
}

impl History {
    /// Returns the history of an error that another replaces.
    pub(crate) fn of(error: &Error) -> Self {
        let attempts = error.attempt_log().cloned().unwrap_or_default();
        Self { outcome: error.outcome(), attempts }
    }

    /// Appends the attempts of a later command of the same operation.
    pub(crate) fn append(&mut self, later: &Self) {
        self.outcome = self.outcome.max(later.outcome);
        self.attempts.append(&later.attempts);
    }
}

impl Error {
    /// Returns the outcome of the write: whether it was sent, and whether it was applied.
    ///
    /// The rules are documented at [`Outcome`]. For calls of several commands (`insert_many`,
    /// `bulk_write`, GridFS) the outcome covers the whole call:
    /// [`MaybeApplied`](Outcome::MaybeApplied) if a part was or may have been applied. The kind of
    /// the error contains the results of the parts.
    ///
    /// ```
    /// use steadfast::error::{Error, Outcome};
    ///
    /// fn may_repeat(error: &Error) -> bool {
    ///     error.outcome().is_certainly_not_applied()
    /// }
    ///
    /// fn explain(error: &Error) -> &'static str {
    ///     match error.outcome() {
    ///         Outcome::NotSent => "not sent to any server",
    ///         Outcome::NotApplied => "sent, but nothing was written",
    ///         Outcome::MaybeApplied => "applied, applied in part, or not applied",
    ///         Outcome::AppliedNotDurable => "applied, but a failover may roll it back",
    ///     }
    /// }
    /// ```
    pub fn outcome(&self) -> Outcome {
        let of_call = self.details.as_ref().and_then(|details| details.outcome_of_call);
        of_call.unwrap_or_else(|| self.outcome_of_command())
    }

    fn outcome_of_command(&self) -> Outcome {
        match &*self.kind {
            ErrorKind::InsertMany(error) => self.outcome_of_batch(
                !error.inserted_ids.is_empty(),
                error.write_errors.is_some(),
                error.write_concern_error.is_some(),
            ),
            ErrorKind::BulkWrite(error) => self.outcome_of_batch(
                error.partial_result.is_some(),
                !error.write_errors.is_empty(),
                !error.write_concern_errors.is_empty(),
            ),
            ErrorKind::GridFs(error) if self.history().is_none() => error.outcome(),
            _ => match self.history() {
                Some(history) => history.outcome,
                None => self.default_outcome(),
            },
        }
    }

    /// Returns the failed attempts of the command, or of all commands of a bulk write, in order.
    ///
    /// Of more than twenty, the first ten and the last ten are kept;
    /// [`attempt_count`](Self::attempt_count) counts all.
    ///
    /// ```
    /// use steadfast::error::Error;
    ///
    /// fn explain(error: &Error) {
    ///     for attempt in error.attempts() {
    ///         println!("{} after {:?}: {:?}", attempt.server, attempt.duration, attempt.labels);
    ///     }
    /// }
    /// ```
    pub fn attempts(&self) -> &[Attempt] {
        self.attempt_log().map_or(&[], AttemptLog::recorded)
    }

    /// Returns the number of failed attempts of the command, or of all commands of a bulk write.
    pub fn attempt_count(&self) -> usize {
        self.attempt_log().map_or(0, AttemptLog::count)
    }

    /// Returns the failed attempts.
    pub(crate) fn attempt_log(&self) -> Option<&AttemptLog> {
        match self.history() {
            Some(history) => Some(&history.attempts),
            None => self.batch_end().and_then(Error::attempt_log),
        }
    }

    fn outcome_of_batch(&self, any_applied: bool, any_failed: bool, not_durable: bool) -> Outcome {
        let end = self.batch_end().map(Error::outcome);
        // Outcome of the batches with error replies.
        let answered = self.history().map(|history| history.outcome);
        match (end, any_applied) {
            (Some(Outcome::MaybeApplied | Outcome::AppliedNotDurable), _) | (Some(_), true) => {
                Outcome::MaybeApplied
            }
            (Some(end), false) => end.max(answered.unwrap_or_default()).min(Outcome::MaybeApplied),
            (None, true) if any_failed || !not_durable => Outcome::MaybeApplied,
            (None, true) => Outcome::AppliedNotDurable,
            (None, false) => answered.unwrap_or(Outcome::NotApplied),
        }
    }

    /// Returns the outcome of an error without a command, or of an error in the reply of the first
    /// attempt.
    fn default_outcome(&self) -> Outcome {
        match &*self.kind {
            ErrorKind::Write(WriteFailure::WriteConcernError(_)) => Outcome::AppliedNotDurable,
            ErrorKind::Write(WriteFailure::WriteError(_)) => Outcome::NotApplied,
            // The command succeeded, but its reply is malformed.
            ErrorKind::InvalidResponse { .. }
            | ErrorKind::Bson(_)
            | ErrorKind::BsonDeserialization(_)
                if self.server_address().is_some() =>
            {
                Outcome::MaybeApplied
            }
            _ => Outcome::NotSent,
        }
    }

    fn history(&self) -> Option<&History> {
        self.details.as_ref()?.history.as_ref()
    }

    /// Converts the error of one command into that of a call of several commands. `earlier` is the
    /// outcome of the commands before it. Unless it is the last command, the call is not applied as
    /// a whole.
    pub(crate) fn within_call(mut self, earlier: Outcome, is_last: bool) -> Self {
        let at_most = if is_last { Outcome::AppliedNotDurable } else { Outcome::MaybeApplied };
        let outcome = self.outcome().min(at_most).max(earlier);
        self.details_mut().outcome_of_call = Some(outcome);
        self
    }

    pub(crate) fn with_history(mut self, history: History) -> Self {
        let details = self.details_mut();
        let of_call = &mut details.outcome_of_call;
        *of_call = of_call.map(|outcome| outcome.max(history.outcome));
        details.history = Some(history);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(numbers: std::ops::Range<u32>) -> AttemptLog {
        numbers
            .map(|number| Attempt {
                server: ServerAddress::parse("db1").unwrap(),
                connection: Some(number),
                request_id: None,
                labels: Vec::new(),
                backoff: Duration::ZERO,
                duration: Duration::ZERO,
            })
            .collect()
    }

    fn recorded(log: &AttemptLog) -> Vec<u32> {
        log.recorded().iter().filter_map(|attempt| attempt.connection).collect()
    }

    #[test]
    fn first_and_last_attempts_are_kept_and_all_are_counted() {
        let few = attempts(0..20);
        assert_eq!((recorded(&few), few.count()), ((0..20).collect(), 20));
        let many = attempts(0..6597);
        let ends: Vec<_> = (0..10).chain(6587..6597).collect();
        assert_eq!((recorded(&many), many.count()), (ends, 6597));
    }

    #[test]
    fn attempts_of_several_commands_are_added_up() {
        let mut all = attempts(0..100);
        all.append(&attempts(100..200));
        let ends: Vec<_> = (0..10).chain(190..200).collect();
        assert_eq!((recorded(&all), all.count()), (ends, 200));
        let mut few = attempts(0..3);
        few.append(&attempts(3..50));
        let ends: Vec<_> = (0..10).chain(40..50).collect();
        assert_eq!((recorded(&few), few.count()), (ends, 50));
    }
}
