//! How a command is carried out: the one path from a [`Command`] to its [`Reply`].
//!
//! This is the room where commands are retried; nothing else in the code base does that. Whether a
//! command is tried again, and which error a caller gets in the end, is for
//! [`steadfast_core::retry`] to say; [`execution`] is the loop that acts on it.

mod answer;
mod attempts;
mod conclusion;
mod context;
mod execution;
#[cfg(test)]
mod tests;
mod transaction;
mod turn;
mod watch;

use std::sync::atomic::{AtomicI64, Ordering};

use bson::RawDocument;
use steadfast_core::{
    description::{ServerDescription, TopologyDescription},
    read_preference::ReadPreference,
    selection::{self, SelectionCriteria},
};

use self::{execution::Execution, transaction::TransactionContext};
use crate::{
    Client,
    command::{Command, Reply, Target},
    error::Result,
    sequence::Beside,
};

/// The number of the next operation.
fn next_operation_id() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Client {
    /// Carries out a command.
    pub(crate) fn run(
        &self,
        command: impl Into<Box<Command>>,
    ) -> impl Future<Output = Result<Reply>> + Send {
        self.run_boxed(next_operation_id(), command.into(), None)
    }

    /// A number for an operation of several commands.
    pub(crate) fn begin_operation(&self) -> i64 {
        next_operation_id()
    }

    /// Carries out a command that is one of several of an operation, with documents that it need not
    /// own.
    pub(crate) fn run_as_part_of<'c>(
        &'c self,
        operation_id: i64,
        command: impl Into<Box<Command>>,
        lent: Option<&'c Beside<'c>>,
    ) -> impl Future<Output = Result<Reply>> + Send + 'c {
        self.run_boxed(operation_id, command.into(), lent)
    }

    async fn run_boxed(
        &self,
        operation_id: i64,
        mut command: Box<Command>,
        lent: Option<&Beside<'_>>,
    ) -> Result<Reply> {
        let _active = self.begin_activity()?;
        match turn::session_of(self, &command) {
            // Boxed, so that what most commands do without takes no room in their futures.
            Some(session) => {
                command.keep(lent)?;
                Box::pin(self.carry_out_in_turn(session, operation_id, command)).await
            }
            None => {
                let transaction = TransactionContext::of(&command)?;
                Execution::new(self, operation_id, command, lent, transaction).run().await
            }
        }
    }

    /// Executes a command even while the client is being shut down.
    pub(crate) async fn carry_out(
        &self,
        operation_id: i64,
        command: Box<Command>,
    ) -> Result<Reply> {
        let transaction = TransactionContext::of(&command)?;
        Execution::new(self, operation_id, command, None, transaction).run().await
    }
}

/// A reply's body, whose structure was checked when it was read.
fn raw(body: &[u8]) -> &RawDocument {
    RawDocument::from_bytes(body).expect("checked when it was read")
}

impl Target {
    /// The same in the words of server selection.
    fn for_selection(&self) -> selection::Target<'_> {
        match self {
            Self::Write => selection::Target::Write,
            Self::Read(criteria) => selection::Target::Read(criteria),
            Self::WritingAggregate(criteria) => selection::Target::WritingAggregate(criteria),
            Self::Cursor(home) => selection::Target::Server(&home.server.address),
        }
    }

    /// What the chosen server is to be told of the read preference.
    fn read_preference(
        &self,
        topology: &TopologyDescription,
        server: Option<&ServerDescription>,
    ) -> Option<&ReadPreference> {
        /// A member that a predicate chose is to answer, whatever it is.
        static ANY_MEMBER: ReadPreference = ReadPreference::PrimaryPreferred { options: None };

        let preference = match self.for_selection().resolve(topology) {
            selection::Target::Read(SelectionCriteria::ReadPreference(preference)) => preference,
            selection::Target::Read(_) => &ANY_MEMBER,
            _ => return None,
        };
        selection::read_preference_for(topology.topology_type, server?.server_type, preference)
    }
}
