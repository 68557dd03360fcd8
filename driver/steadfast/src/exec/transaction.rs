//! Transaction context of a command, from its first attempt to its end.
//!
//! [`steadfast_core::transaction`] decides which fields a command of a transaction has and what its
//! errors mean. This module applies that to the session, and pins the transaction to the mongos, or
//! behind a load balancer to the connection, that it began on.

use std::sync::Arc;

use steadfast_core::{
    description::{ServerDescription, ServerType},
    retry::{AttemptFailure, NextStep, Retry, RetryVerdict},
    transaction::{TransactionPosition, TransactionState, unpins},
};

use crate::{
    command::{Command, CommandKind, Target},
    error::Result,
    pin::{PinnedConnection, PinnedServer},
    session::{self, Session, TransactionScope},
    topology::Server,
};

/// Position of a command in a transaction, if it is part of one.
pub(super) struct TransactionContext {
    position: TransactionPosition,
    /// Session of the transaction. `None` if it is no longer the session's transaction.
    session: Option<Arc<Session>>,
    /// `txnNumber` of the transaction.
    number: Option<i64>,
    /// Pinned server of the first attempt of an abort.
    abort_pin: Option<PinnedServer>,
}

impl TransactionContext {
    /// Determines the position of a command.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Transaction`](crate::error::ErrorKind::Transaction) if the transaction that the
    /// command was built in has ended.
    pub(super) fn of(command: &Command) -> Result<Self> {
        let outside = Self {
            position: TransactionPosition::Outside,
            session: None,
            number: None,
            abort_pin: None,
        };
        let Some(session) = &command.session else { return Ok(outside) };
        if session.kind == session::SessionKind::Implicit {
            return Ok(outside);
        }
        let (position, abort_pin) = match command.kind {
            CommandKind::EndTransaction if command.name == "commitTransaction" => {
                (TransactionPosition::Commit, None)
            }
            CommandKind::EndTransaction => match &command.abandoned {
                Some(abandoned) => (TransactionPosition::Abort, abandoned.pin.clone()),
                None => (TransactionPosition::Abort, session.pin()),
            },
            CommandKind::Read
            | CommandKind::RetryableWrite
            | CommandKind::Write
            | CommandKind::Generic
            | CommandKind::GetMore => (session.begin_operation(command.scope)?, None),
        };
        if position == TransactionPosition::Outside {
            return Ok(outside);
        }
        let number = match (&command.abandoned, command.scope) {
            (Some(abandoned), _) => abandoned.transaction.number(),
            (None, TransactionScope::Inside(number)) => number,
            (None, TransactionScope::Outside | TransactionScope::Independent) => {
                session.transaction(|transaction| transaction.number())
            }
        };
        // Only the session's own transaction changes the session's state.
        let session = command.abandoned.is_none().then(|| Arc::clone(session));
        Ok(Self { position, session, number: Some(number), abort_pin })
    }

    pub(super) fn position(&self) -> TransactionPosition {
        self.position
    }

    /// Returns the `txnNumber` of the transaction.
    pub(super) fn number(&self) -> Option<i64> {
        self.number
    }

    /// Adds the outcomes of earlier calls of `commitTransaction` to those of this one.
    pub(super) fn resume(&self, retry: Retry) -> Retry {
        match &self.session {
            Some(session) if self.position == TransactionPosition::Commit => retry
                .continuing_from(session.transaction(|transaction| transaction.commits().clone())),
            _ => retry,
        }
    }

    /// Begins an attempt. Returns the pinned server of the cursor or of the transaction.
    pub(super) fn begin_attempt(&mut self, target: &Target) -> Option<PinnedServer> {
        let pinned = match (&self.session, self.position) {
            (_, TransactionPosition::Abort) => self.abort_pin.take(),
            (None, _) | (_, TransactionPosition::Outside) => None,
            (Some(session), TransactionPosition::First | TransactionPosition::Later) => {
                session.pin()
            }
            (Some(session), TransactionPosition::Commit) => {
                session.transaction(|transaction| transaction.begin_commit_attempt());
                session.pin()
            }
        };
        match target {
            Target::Cursor(pin) => Some(pin.clone()),
            Target::Write | Target::Read(_) | Target::WritingAggregate(_) => pinned,
        }
    }

    /// Pins the transaction to the selected mongos, or to the connection behind a load balancer.
    pub(super) fn pin(
        &self,
        pin: &mut Option<PinnedServer>,
        server: &Arc<Server>,
        description: Option<&ServerDescription>,
        load_balanced: bool,
    ) {
        let Some(session) =
            self.session.as_ref().filter(|_| self.position == TransactionPosition::First)
        else {
            return;
        };
        let connection = match description.map(|server| server.server_type) {
            _ if pin.is_some() => return,
            _ if load_balanced => PinnedConnection::of_transaction(),
            Some(ServerType::Mongos) => PinnedConnection::default(),
            _ => return,
        };
        let pinned = PinnedServer { server: Arc::clone(server), connection };
        session.set_pin(pinned.clone());
        *pin = Some(pinned);
    }

    /// Records that the command is about to be sent.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Transaction`](crate::error::ErrorKind::Transaction) if the transaction has
    /// ended: its session, or the future that was to commit it, was dropped.
    pub(super) fn begin_send(&self) -> Result<()> {
        if let (Some(session), Some(number)) = (&self.session, self.number) {
            session.transaction(|transaction| transaction.begin_send(self.position, number))?;
            if self.position == TransactionPosition::Abort {
                drop(session.unpin());
            }
        }
        Ok(())
    }

    /// Records a failed attempt, after which `retry` decided on `verdict`. Returns the label that its
    /// error gets.
    pub(super) fn attempt_failed(
        &self,
        failure: &AttemptFailure<'_>,
        retry: &Retry,
        verdict: &RetryVerdict,
    ) -> Option<&'static str> {
        let session = self.session.as_ref()?;
        let retryable = verdict.add_retryable_write_label || failure.labels.retryable_write;
        let label = self.position.label(failure, retryable);
        let is_retried = matches!(verdict.next, NextStep::Retry { .. });
        let keeps_pin = session.transaction(|transaction| {
            transaction.end_attempt_failed(self.position, failure.labels);
            if self.position == TransactionPosition::Commit {
                // If the future is dropped in the backoff, this remains the outcome of the commit.
                transaction.commit_ended(retry.outcomes().clone());
            }
            // Only the pinned mongos has the operations that the transaction has sent.
            is_retried && transaction.state() == TransactionState::InProgress
        });
        if !keeps_pin && unpins(self.position, failure.labels, label) {
            drop(session.unpin());
        }
        label
    }

    /// Unpins the session because no server could be selected. Returns the label that the error gets.
    pub(super) fn selection_failed(&self) -> Option<&'static str> {
        let (label, session) = (self.position.label_without_server()?, self.session.as_ref()?);
        drop(session.unpin());
        Some(label)
    }

    /// Records the end of the command.
    pub(super) fn end(&self, retry: &Retry, succeeded: bool) {
        let Some(session) =
            self.session.as_ref().filter(|_| self.position == TransactionPosition::Commit)
        else {
            return;
        };
        let mut commits = retry.outcomes().clone();
        if succeeded {
            commits.record_success();
        }
        session.transaction(|transaction| transaction.commit_ended(commits));
    }
}
