//! Transactions: what state a session's transaction is in, what its commands say, and what failing
//! means for it.
//!
//! One [`Transaction`] lives as long as its session and serves one transaction after the other. It
//! knows nothing of sockets: the driver tells it what is called and what is sent, and adds to
//! commands and errors what it says.
//!
//! # The states
//!
//! | state \ call     | `start`    | `commit`              | `abort`              | any other operation |
//! |------------------|------------|-----------------------|----------------------|---------------------|
//! | none             | starting   | error                 | error                | none                |
//! | starting         | error      | committed, empty; nothing is sent | aborted; nothing is sent | in progress, once it is sent |
//! | in progress      | error      | committed             | aborted              | in progress         |
//! | committed, empty | starting   | the same; nothing is sent | error            | none                |
//! | committed        | starting   | the same; sent again  | error                | none                |
//! | aborted          | starting   | error                 | error                | none                |
//!
//! An error changes nothing. A transaction is committed, or aborted, from the moment that its end is
//! asked for, whatever comes of the command: so a commit whose reply was lost, or whose future was
//! dropped, can be asked for again.

mod commit;
mod convenient;
mod failing;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bson::RawDocumentBuf;

pub use self::{
    commit::commit_write_concern,
    convenient::{AfterCommit, Convenience, NoTimeLeft},
    failing::{Part, UNKNOWN_TRANSACTION_COMMIT_RESULT, unpins},
};
use crate::{
    concern::{ReadConcern, WriteConcern},
    retry::{Labels, Ledger},
    selection::SelectionCriteria,
};

/// How a transaction runs, when all that can be inherited was.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// What its first command says that all of it is to see.
    pub read_concern: Option<ReadConcern>,
    /// How durable its commit, or its abort, must be.
    pub write_concern: Option<WriteConcern>,
    /// Which servers its reads may go to. Only the primary will do, which shows with the first read.
    pub criteria: Option<SelectionCriteria>,
    /// How long the server may work on a commit.
    pub max_commit_time: Option<Duration>,
}

impl Settings {
    /// These, and where they say nothing the `others`.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            read_concern: self.read_concern.or(others.read_concern),
            write_concern: self.write_concern.or(others.write_concern),
            criteria: self.criteria.or(others.criteria),
            max_commit_time: self.max_commit_time.or(others.max_commit_time),
        }
    }
}

/// Where a session's transaction is; the [module](self) says how it gets there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// There is none.
    #[default]
    None,
    /// It was started, and no server has heard of it.
    Starting,
    /// A command of it was sent.
    InProgress,
    /// Its commit was asked for.
    Committed {
        /// Whether no command of it was ever sent.
        empty: bool,
    },
    /// Its abort was asked for.
    Aborted,
}

/// A call that the state does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// One transaction at a time.
    #[error("transaction already in progress")]
    AlreadyInProgress,
    /// There is nothing to commit or to abort.
    #[error("no transaction started")]
    NotStarted,
    /// What was aborted cannot be committed.
    #[error("Cannot call commitTransaction after calling abortTransaction")]
    CommitAfterAbort,
    /// What was committed, or may have been, cannot be aborted.
    #[error("Cannot call abortTransaction after calling commitTransaction")]
    AbortAfterCommit,
    /// It is aborted.
    #[error("cannot call abortTransaction twice")]
    AbortTwice,
    /// Somebody must hear whether it was committed.
    #[error("transactions do not support unacknowledged write concerns")]
    Unacknowledged,
    /// The session has used up all its transaction numbers.
    #[error("the session has used up all its transaction numbers")]
    NoNumberLeft,
    /// A command was built in a transaction that has since been committed or aborted.
    #[error(
        "the transaction of this command ended before the command was sent; start a new \
         transaction and run its operations again"
    )]
    Ended,
}

/// What ending a transaction takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum End {
    /// Nothing: no server has heard of it.
    Nothing,
    /// A command.
    Send,
}

/// The transaction of a session.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    state: State,
    number: i64,
    settings: Settings,
    recovery_token: Option<RawDocumentBuf>,
    /// Aborted by the driver, because what was to end it was dropped.
    abandoned: bool,
    /// An abort is needed that has not been sent yet, or that an overloaded server rejected.
    abort_unsent: bool,
    /// The server reported that it has aborted the transaction.
    aborted_by_server: bool,
    /// Whether a commit was tried that a server may have carried out.
    commit_tried: bool,
    /// The same, the attempt under way left out.
    commit_tried_before: bool,
    /// What the commits so far came to, over all calls.
    commits: Ledger,
}

impl Transaction {
    /// Where it is.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether operations are part of it now.
    pub fn is_active(&self) -> bool {
        match self.state {
            State::Starting | State::InProgress => true,
            State::None | State::Committed { .. } | State::Aborted => false,
        }
    }

    /// The number that all its commands bear.
    pub fn number(&self) -> i64 {
        self.number
    }

    /// How it runs.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// By what another router can find out how it ended.
    pub fn recovery_token(&self) -> Option<&RawDocumentBuf> {
        self.recovery_token.as_ref()
    }

    /// Starts a transaction. The number is asked for only if it can be started.
    pub fn start(
        &mut self,
        settings: Settings,
        next_number: impl FnOnce() -> Option<i64>,
    ) -> Result<(), Misuse> {
        if self.is_active() {
            return Err(Misuse::AlreadyInProgress);
        }
        if settings.write_concern.as_ref().is_some_and(|concern| !concern.is_acknowledged()) {
            return Err(Misuse::Unacknowledged);
        }
        let number = next_number().ok_or(Misuse::NoNumberLeft)?;
        *self = Self { state: State::Starting, number, settings, ..Self::default() };
        Ok(())
    }

    /// Returns the position of an operation, other than a commit or an abort, that was built in the
    /// transaction with this number.
    pub fn begin_operation(&mut self, number: i64) -> Result<Part, Misuse> {
        match self.state {
            _ if self.number != number => Err(Misuse::Ended),
            State::Starting => Ok(Part::First),
            State::InProgress => Ok(Part::Later),
            State::None | State::Committed { .. } | State::Aborted => Err(Misuse::Ended),
        }
    }

    /// Begins an operation outside of any transaction. The state of an ended transaction is reset;
    /// an active one is left as it is. Returns `true` if the state was reset.
    pub fn begin_outside(&mut self) -> bool {
        if self.is_active() {
            return false;
        }
        *self = Self::default();
        true
    }

    /// A command at this position of the transaction with this number is about to be sent. An
    /// operation of a transaction that has ended must not be sent: the server would execute it
    /// outside of the transaction, or start the transaction again.
    pub fn sending(&mut self, part: Part, number: i64) -> Result<(), Misuse> {
        match part {
            Part::First | Part::Later if self.begin_operation(number).is_err() => {
                return Err(Misuse::Ended);
            }
            // An error of the driver before this leaves the transaction to be started by the next.
            Part::First => self.state = State::InProgress,
            // If its future is dropped, this is what is known of the commit.
            Part::Commit => self.commits.send_off(),
            Part::Abort => self.abort_unsent = false,
            Part::Outside | Part::Later => {}
        }
        Ok(())
    }

    /// The commit is asked for, the first time or again.
    pub fn commit(&mut self) -> Result<End, Misuse> {
        match self.state {
            State::None => Err(Misuse::NotStarted),
            State::Aborted => Err(Misuse::CommitAfterAbort),
            State::Starting | State::Committed { empty: true } => {
                self.state = State::Committed { empty: true };
                Ok(End::Nothing)
            }
            State::InProgress | State::Committed { empty: false } => {
                self.state = State::Committed { empty: false };
                Ok(End::Send)
            }
        }
    }

    /// The abort is asked for.
    pub fn abort(&mut self) -> Result<End, Misuse> {
        let end = match self.state {
            State::None => return Err(Misuse::NotStarted),
            State::Committed { .. } => return Err(Misuse::AbortAfterCommit),
            // The application did not call it before.
            State::Aborted if std::mem::take(&mut self.abandoned) => End::Nothing,
            State::Aborted => return Err(Misuse::AbortTwice),
            State::Starting => End::Nothing,
            State::InProgress => End::Send,
        };
        self.abort_unsent = end == End::Send;
        self.state = State::Aborted;
        Ok(end)
    }

    /// Aborts it if it is active, because the session or the future that was to end it was dropped.
    /// Nothing of it is sent from here on, but for the abort if that is returned as needed.
    pub fn abandon(&mut self) -> End {
        if self.take_unexecuted_end() == End::Send {
            return End::Send;
        }
        let end = match self.state {
            State::None | State::Committed { .. } | State::Aborted => return End::Nothing,
            State::Starting => End::Nothing,
            State::InProgress => End::Send,
        };
        (self.state, self.abandoned) = (State::Aborted, true);
        end
    }

    /// Turns a commit or an abort that no server executed into an abort to send: its future was
    /// dropped before it was sent, or an overloaded server rejected it. The transaction would stay
    /// open on the server otherwise. Anything else is left as it is.
    pub fn take_unexecuted_end(&mut self) -> End {
        match self.state {
            State::Committed { empty: false } if self.is_commit_unexecuted() => {
                (self.state, self.abandoned) = (State::Aborted, true);
                End::Send
            }
            State::Aborted if std::mem::take(&mut self.abort_unsent) => End::Send,
            _ => End::Nothing,
        }
    }

    fn is_commit_unexecuted(&self) -> bool {
        self.commits.outcome().is_certainly_not_applied() && !self.aborted_by_server
    }

    /// Stores the recovery token of a reply to a command of the transaction with this number. The
    /// latest counts. A late reply to an earlier transaction changes nothing.
    pub fn see_recovery_token(&mut self, number: i64, token: RawDocumentBuf) {
        if self.state == State::InProgress && self.number == number {
            self.recovery_token = Some(token);
        }
    }

    /// A commit is about to be tried, again or for the first time.
    pub fn begin_commit_attempt(&mut self) {
        self.commit_tried_before = std::mem::replace(&mut self.commit_tried, true);
    }

    /// Records the labels of a failed attempt to commit or to abort. An overloaded server rejects
    /// the command unexecuted: a commit then does not count as tried, and an abort is still needed.
    pub fn end_attempt_failed(&mut self, part: Part, labels: Labels) {
        let rejected = labels.system_overloaded && labels.retryable;
        match part {
            Part::Commit => {
                self.aborted_by_server = labels.transient_transaction;
                if rejected {
                    self.commit_tried = self.commit_tried_before;
                }
            }
            Part::Abort => self.abort_unsent = rejected,
            Part::Outside | Part::First | Part::Later => {}
        }
    }

    /// The write concern of the commit that is being tried.
    pub fn commit_write_concern(&self) -> Option<WriteConcern> {
        commit_write_concern(self.settings.write_concern.as_ref(), self.commit_tried_before)
    }

    /// What the commits so far came to, for the next to go on from.
    pub fn commits(&self) -> &Ledger {
        &self.commits
    }

    /// A call of commit has ended, with what all so far came to.
    pub fn commit_ended(&mut self, commits: Ledger) {
        self.commits = commits;
    }
}
