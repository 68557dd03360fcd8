//! Writes on a primary outside of a transaction: each change is an oplog entry at once.

use bson::{Bson, Document};
use steadfast_query::Fault;
use tokio::time::Instant;

use super::state::State;
use crate::{
    change::{Change, ChangeWriter, Statement},
    fail_point::transactional_write::TransactionalWriteFailPoint,
    namespace::Namespace,
    oplog::{OpTime, SessionId, SessionUpdate, SessionUpdateKind},
    store::Store,
    transaction::write_conflict,
};

/// Writes the changes of a command to a primary.
pub(crate) struct PrimaryWriter<'a> {
    state: &'a mut State,
    index: usize,
    /// Session and `txnNumber` of a retryable write.
    retryable: Option<(&'a SessionId, i64)>,
    write_fail_point: Option<&'a TransactionalWriteFailPoint>,
    /// `true` hides its entries from change streams.
    hidden_from_change_streams: bool,
    now: Instant,
    /// Optime of its newest entry.
    written: Option<OpTime>,
}

impl<'a> PrimaryWriter<'a> {
    pub(crate) fn new(
        state: &'a mut State,
        index: usize,
        retryable: Option<(&'a SessionId, i64)>,
        now: Instant,
    ) -> Self {
        Self {
            state,
            index,
            retryable,
            write_fail_point: None,
            hidden_from_change_streams: false,
            now,
            written: None,
        }
    }

    /// Sets the fail point of its statements.
    pub(crate) fn with_fail_point(
        self,
        write_fail_point: Option<&'a TransactionalWriteFailPoint>,
    ) -> Self {
        Self { write_fail_point, ..self }
    }

    /// Hides its entries from change streams.
    pub(crate) fn hidden_from_change_streams(self, hidden_from_change_streams: bool) -> Self {
        Self { hidden_from_change_streams, ..self }
    }

    /// Optime of the newest entry that it wrote.
    pub(crate) fn written(&self) -> Option<OpTime> {
        self.written
    }
}

impl ChangeWriter for PrimaryWriter<'_> {
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

    fn apply_change(&mut self, change: Change, statement: Option<Statement>) -> Result<(), Fault> {
        if self.state.member(self.index).conflicts_with(&change) {
            return Err(write_conflict());
        }
        if let (Some(write_fail_point), Some(_)) = (self.write_fail_point, &statement) {
            write_fail_point.step()?;
        }
        let record =
            self.retryable.zip(statement).map(|((session, number), statement)| SessionUpdate {
                session: session.clone(),
                number,
                what: SessionUpdateKind::Statement(statement),
            });
        let changes = match change.database().filter(|_| self.hidden_from_change_streams) {
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
