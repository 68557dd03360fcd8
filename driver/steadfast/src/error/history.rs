//! What went before an error: the attempts that were made, and what became of the write.

use std::time::Duration;

use steadfast_core::{address::ServerAddress, retry::Outcome};

use super::{Error, ErrorKind, WriteFailure};

/// One attempt at a command that failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Attempt {
    /// The server it went to.
    pub server: ServerAddress,
    /// The driver's number for the connection; none if there was none.
    pub connection: Option<u32>,
    /// The number of the request; none if nothing was sent.
    pub request_id: Option<i32>,
    /// The labels of its error.
    pub labels: Vec<String>,
    /// How long was waited before it.
    pub backoff: Duration,
    /// How long it took, the selection of the server included.
    pub duration: Duration,
}

/// Failed attempts in order. Of many, only the first and the last are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttemptLog {
    kept: Vec<Attempt>,
    left_out: usize,
}

impl AttemptLog {
    /// Number of attempts that are kept of the beginning, and as many of the end.
    const HALF: usize = 10;

    pub(crate) fn push(&mut self, attempt: Attempt) {
        if self.kept.len() == 2 * Self::HALF {
            self.kept.remove(Self::HALF);
            self.left_out += 1;
        }
        self.kept.push(attempt);
    }

    /// Adds the attempts of a later command.
    pub(crate) fn append(&mut self, later: &Self) {
        for (index, attempt) in later.kept.iter().enumerate() {
            if index == Self::HALF {
                self.left_out += later.left_out;
            }
            self.push(attempt.clone());
        }
    }

    pub(crate) fn kept(&self) -> &[Attempt] {
        &self.kept
    }

    /// Number of all attempts.
    pub(crate) fn count(&self) -> usize {
        self.kept.len() + self.left_out
    }
}

impl FromIterator<Attempt> for AttemptLog {
    fn from_iter<I: IntoIterator<Item = Attempt>>(attempts: I) -> Self {
        let mut log = Self::default();
        attempts.into_iter().for_each(|attempt| log.push(attempt));
        log
    }
}

/// The attempts of a command, and what they came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) outcome: Outcome,
    pub(crate) attempts: AttemptLog,
}

impl History {
    /// The history of another error, for one that takes its place.
    pub(crate) fn of(error: &Error) -> Self {
        let attempts = error.attempt_log().cloned().unwrap_or_default();
        Self { outcome: error.outcome(), attempts }
    }

    /// Adds the attempts of a later command of the same operation.
    pub(crate) fn append(&mut self, later: &Self) {
        self.outcome = self.outcome.max(later.outcome);
        self.attempts.append(&later.attempts);
    }
}

impl Error {
    /// What became of the write: whether it was sent, and whether it was applied.
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
    ///         Outcome::NotSent => "no server has seen it",
    ///         Outcome::NotApplied => "it was refused, and nothing was written",
    ///         Outcome::MaybeApplied => "it was applied, or part of it, or not at all",
    ///         Outcome::AppliedNotDurable => "it was applied, but may yet be undone by a failover",
    ///     }
    /// }
    /// ```
    ///
    /// The rules are written on [`Outcome`]. Of a batch (`insert_many`, `bulk_write`) it tells of
    /// the whole: [`MaybeApplied`](Outcome::MaybeApplied) if a part was applied, or may have been;
    /// the error's kind then holds what is known of each part. The same holds for every call that sends
    /// several commands, as those of GridFS do.
    pub fn outcome(&self) -> Outcome {
        let of_call = self.details.as_ref().and_then(|details| details.outcome_of_call);
        of_call.unwrap_or_else(|| self.outcome_of_command())
    }

    fn outcome_of_command(&self) -> Outcome {
        match &*self.kind {
            ErrorKind::InsertMany(error) => self.of_batch(
                !error.inserted_ids.is_empty(),
                error.write_errors.is_some(),
                error.write_concern_error.is_some(),
            ),
            ErrorKind::BulkWrite(error) => self.of_batch(
                error.partial_result.is_some(),
                !error.write_errors.is_empty(),
                !error.write_concern_errors.is_empty(),
            ),
            ErrorKind::GridFs(error) if self.history().is_none() => error.outcome(),
            _ => match self.history() {
                Some(history) => history.outcome,
                None => self.without_history(),
            },
        }
    }

    /// Failed attempts at the command, or of a batch at its commands, in order. Empty if there was
    /// none. Of more than twenty, the first ten and the last ten are kept;
    /// [`attempt_count`](Self::attempt_count) counts all.
    pub fn attempts(&self) -> &[Attempt] {
        self.attempt_log().map_or(&[], AttemptLog::kept)
    }

    /// Number of failed attempts at the command, or of a batch at its commands.
    pub fn attempt_count(&self) -> usize {
        self.attempt_log().map_or(0, AttemptLog::count)
    }

    /// The record of the attempts.
    pub(crate) fn attempt_log(&self) -> Option<&AttemptLog> {
        match self.history() {
            Some(history) => Some(&history.attempts),
            None => self.end_of_batch().and_then(Error::attempt_log),
        }
    }

    fn of_batch(&self, any_applied: bool, any_refused: bool, not_durable: bool) -> Outcome {
        let end = self.end_of_batch().map(Error::outcome);
        // Of the batches that were answered with errors.
        let answered = self.history().map(|history| history.outcome);
        match (end, any_applied) {
            (Some(Outcome::MaybeApplied | Outcome::AppliedNotDurable), _) | (Some(_), true) => {
                Outcome::MaybeApplied
            }
            (Some(end), false) => end.max(answered.unwrap_or_default()).min(Outcome::MaybeApplied),
            (None, true) if any_refused || !not_durable => Outcome::MaybeApplied,
            (None, true) => Outcome::AppliedNotDurable,
            (None, false) => answered.unwrap_or(Outcome::NotApplied),
        }
    }

    /// Of an error that no command led to, or that was read from a reply at the first attempt.
    fn without_history(&self) -> Outcome {
        match &*self.kind {
            ErrorKind::Write(WriteFailure::WriteConcernError(_)) => Outcome::AppliedNotDurable,
            ErrorKind::Write(WriteFailure::WriteError(_)) => Outcome::NotApplied,
            // The reply of a command that succeeded could not be read.
            ErrorKind::InvalidResponse { .. } | ErrorKind::Bson(_)
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

    /// Returns the error of a call of several commands, of which one failed with this error. `earlier` is
    /// the outcome of the commands before it. Unless it is the last command, the call is not applied as
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

    fn kept(log: &AttemptLog) -> Vec<u32> {
        log.kept().iter().filter_map(|attempt| attempt.connection).collect()
    }

    #[test]
    fn of_many_attempts_the_first_and_the_last_are_kept_and_all_are_counted() {
        let few = attempts(0..20);
        assert_eq!((kept(&few), few.count()), ((0..20).collect(), 20));
        let many = attempts(0..6597);
        let ends: Vec<_> = (0..10).chain(6587..6597).collect();
        assert_eq!((kept(&many), many.count()), (ends, 6597));
    }

    #[test]
    fn attempts_of_several_commands_are_added_up() {
        let mut all = attempts(0..100);
        all.append(&attempts(100..200));
        let ends: Vec<_> = (0..10).chain(190..200).collect();
        assert_eq!((kept(&all), all.count()), (ends, 200));
        let mut few = attempts(0..3);
        few.append(&attempts(3..50));
        let ends: Vec<_> = (0..10).chain(40..50).collect();
        assert_eq!((kept(&few), few.count()), (ends, 50));
    }
}
