//! Writes on a primary outside of a transaction: each change is an oplog entry at once.

use bson::{Bson, Document};
use steadfast_query::Fault;
use tokio::time::Instant;

use super::state::State;
use crate::{
    change::{Change, Changes, Statement},
    fail_point::trap::Trap,
    log::{OpTime, Record, Recorded, SessionId},
    namespace::Namespace,
    store::Store,
    transaction::write_conflict,
};

/// Writes the changes of a command to a primary.
pub(crate) struct Direct<'a> {
    state: &'a mut State,
    index: usize,
    /// Session and `txnNumber` of a retryable write.
    retryable: Option<(&'a SessionId, i64)>,
    trap: Option<&'a Trap>,
    /// `true` hides its entries from change streams.
    hidden: bool,
    now: Instant,
    /// Optime of its newest entry.
    written: Option<OpTime>,
}

impl<'a> Direct<'a> {
    pub(crate) fn new(
        state: &'a mut State,
        index: usize,
        retryable: Option<(&'a SessionId, i64)>,
        now: Instant,
    ) -> Self {
        Self { state, index, retryable, trap: None, hidden: false, now, written: None }
    }

    /// Sets the fail point of its statements.
    pub(crate) fn trapped(self, trap: Option<&'a Trap>) -> Self {
        Self { trap, ..self }
    }

    /// Hides its entries from change streams.
    pub(crate) fn hidden(self, hidden: bool) -> Self {
        Self { hidden, ..self }
    }

    /// Optime of the newest entry that it wrote.
    pub(crate) fn written(&self) -> Option<OpTime> {
        self.written
    }
}

impl Changes for Direct<'_> {
    fn store(&self) -> &Store {
        self.state.member(self.index).store()
    }

    fn reserve(&mut self, namespace: &Namespace, ids: &[&Bson]) -> Result<(), Fault> {
        let member = self.state.member(self.index);
        if ids.iter().any(|id| member.is_reserved(namespace, id)) {
            return Err(write_conflict());
        }
        Ok(())
    }

    fn make(&mut self, change: Change, statement: Option<Statement>) -> Result<(), Fault> {
        if self.state.member(self.index).stands_against(&change) {
            return Err(write_conflict());
        }
        if let (Some(trap), Some(_)) = (self.trap, &statement) {
            trap.step()?;
        }
        let record = self.retryable.zip(statement).map(|((session, number), statement)| Record {
            session: session.clone(),
            number,
            what: Recorded::Statement(statement),
        });
        let changes = match change.database().filter(|_| self.hidden) {
            Some(database) => vec![Change::migration(database), change],
            None => vec![change],
        };
        self.written = Some(self.state.append(self.index, changes, record, self.now)?);
        Ok(())
    }

    fn recorded(&self, statement: i32) -> Option<Document> {
        let (session, number) = self.retryable?;
        let record = self.store().session(session)?;
        if record.number() != number {
            return None;
        }
        record.statement(statement).cloned()
    }
}
