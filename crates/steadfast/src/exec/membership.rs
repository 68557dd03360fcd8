//! What a command is to the transaction of its session, from its first attempt to its end.
//!
//! What it says and what its errors mean is for [`steadfast_core::transaction`] to say; this carries
//! it to the session, and keeps a transaction with the router, or behind a load balancer with the
//! connection, that it began on.

use std::sync::Arc;

use steadfast_core::{
    description::{ServerDescription, ServerType},
    retry::{Failure, Retry},
    transaction::{Part, unpins},
};

use crate::{
    command::{Command, Kind, Target},
    cursor::{Home, Pinned},
    error::Error,
    session::{self, Session},
    topology::Server,
};

/// A command's part in a transaction, if it has one.
pub(super) struct Membership {
    part: Part,
    /// The session whose transaction it is.
    session: Option<Arc<Session>>,
    number: Option<i64>,
    /// Where an abort goes at first. The session itself has let go of it.
    left: Option<Home>,
}

impl Membership {
    pub(super) fn of(command: &Command) -> Self {
        let outside = Self { part: Part::Outside, session: None, number: None, left: None };
        let Some(session) = &command.session else { return outside };
        if session.kind == session::Kind::Implicit {
            return outside;
        }
        let (part, left) = match command.kind {
            Kind::EndTransaction if command.name == "commitTransaction" => (Part::Commit, None),
            Kind::EndTransaction => (Part::Abort, session.unpin()),
            Kind::Read | Kind::RecognisableWrite | Kind::Write | Kind::Generic | Kind::GetMore => {
                (session.begin_operation(command.belongs), None)
            }
        };
        if part == Part::Outside {
            return outside;
        }
        let number = session.transaction(|transaction| transaction.number());
        Self { part, session: Some(Arc::clone(session)), number: Some(number), left }
    }

    pub(super) fn part(&self) -> Part {
        self.part
    }

    /// The number of the transaction.
    pub(super) fn number(&self) -> Option<i64> {
        self.number
    }

    /// A commit goes on from what is known of the commits before it.
    pub(super) fn resume(&self, retry: Retry) -> Retry {
        match &self.session {
            Some(session) if self.part == Part::Commit => {
                retry.following(session.transaction(|transaction| transaction.commits().clone()))
            }
            _ => retry,
        }
    }

    /// An attempt begins: where it is bound to go, by its cursor or by the transaction.
    pub(super) fn begin_attempt(&mut self, target: &Target) -> Option<Home> {
        let bound = match (&self.session, self.part) {
            (None, _) | (_, Part::Outside) => None,
            (Some(session), Part::First | Part::Later) => session.pin(),
            (Some(session), Part::Commit) => {
                session.transaction(|transaction| transaction.begin_commit_attempt());
                session.pin()
            }
            (Some(_), Part::Abort) => self.left.take(),
        };
        match target {
            Target::Cursor(home) => Some(home.clone()),
            Target::Write | Target::Read(_) | Target::WritingAggregate(_) => bound,
        }
    }

    /// A connection is there. If it is a router's, the transaction that begins stays with it.
    pub(super) fn pin(
        &self,
        home: &mut Option<Home>,
        server: &Arc<Server>,
        description: Option<&ServerDescription>,
        load_balanced: bool,
    ) {
        let Some(session) = self.session.as_ref().filter(|_| self.part == Part::First) else {
            return;
        };
        let connection = match description.map(|server| server.server_type) {
            _ if home.is_some() => return,
            _ if load_balanced => Pinned::of_transaction(),
            Some(ServerType::Mongos) => Pinned::default(),
            _ => return,
        };
        let bound = Home { server: Arc::clone(server), connection };
        session.set_pin(bound.clone());
        *home = Some(bound);
    }

    /// The command is about to be sent.
    pub(super) fn sending(&self) {
        if let Some(session) = &self.session {
            session.transaction(|transaction| transaction.sending(self.part));
        }
    }

    /// An attempt failed: which label its error gets.
    pub(super) fn fail(&self, failure: &Failure<'_>, made_retryable: bool) -> Option<&'static str> {
        let session = self.session.as_ref()?;
        let label = self.part.label(failure, made_retryable || failure.labels.retryable_write);
        if self.part == Part::Commit {
            session.transaction(|transaction| transaction.commit_attempt_failed(failure.labels));
        }
        if unpins(self.part, failure.labels, label) {
            drop(session.unpin());
        }
        label
    }

    /// No server could be selected: the error with its label.
    pub(super) fn without_server(&self, mut error: Error) -> Error {
        if let (Some(label), Some(session)) = (self.part.label_without_server(), &self.session) {
            error.add_label(label);
            drop(session.unpin());
        }
        error
    }

    /// The command has ended.
    pub(super) fn end(&self, retry: &Retry, succeeded: bool) {
        let Some(session) = self.session.as_ref().filter(|_| self.part == Part::Commit) else {
            return;
        };
        let mut commits = retry.ledger().clone();
        if succeeded {
            commits.succeed();
        }
        session.transaction(|transaction| transaction.commit_ended(commits));
    }
}
