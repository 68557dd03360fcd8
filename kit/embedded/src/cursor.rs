//! Open cursors of a server (cursor manager).

pub(crate) mod batch;
pub(crate) mod source;

use std::{collections::BTreeMap, time::Duration};

use bson::{Bson, DateTime, Document, doc};
use steadfast_query::{Code, Environment, Fault};

use super::{
    call::Call,
    namespace::Namespace,
    oplog::{SessionId, StreamHistory},
};

pub(crate) use source::{AwaitDataSource, CursorSource, FoundDocuments};

/// Default size of a first batch.
pub(crate) const FIRST_BATCH: usize = 101;

/// Idle cursor timeout (`cursorTimeoutMillis`).
const CURSOR_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of open cursors. Beyond it, the cursor with the longest idle time is closed.
const MAX_OPEN_CURSORS: usize = 10_000;

/// Session and transaction that opened a cursor. Only they can fetch from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CursorOwner {
    pub(crate) session: Option<SessionId>,
    /// `txnNumber` of a multi-document transaction.
    pub(crate) transaction: Option<i64>,
}

impl CursorOwner {
    /// Owner of cursors that this command opens.
    pub(crate) fn of(call: &Call) -> Self {
        let transaction = call.transaction.filter(|it| it.multi_document).map(|it| it.number);
        Self { session: call.session.clone(), transaction }
    }
}

/// An open cursor.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(crate) namespace: Namespace,
    pub(crate) owner: CursorOwner,
    pub(crate) source: CursorSource,
    /// Disables the idle cursor timeout (`noCursorTimeout`).
    pub(crate) no_cursor_timeout: bool,
    used: DateTime,
}

impl Cursor {
    pub(crate) fn new(namespace: Namespace, owner: CursorOwner, source: CursorSource) -> Self {
        Self { namespace, owner, source, no_cursor_timeout: false, used: DateTime::MIN }
    }

    /// Reply with the first batch. The cursor stays open unless it is known to be exhausted.
    /// Without a batch size, all documents are returned, up to the maximum size of a reply.
    pub(crate) fn open(
        mut self,
        batch_size: Option<usize>,
        cursors: &mut Cursors,
        env: &Environment,
    ) -> Result<Document, Fault> {
        let batch = self.source.take(batch_size.unwrap_or(usize::MAX))?;
        let namespace = self.namespace.to_string();
        let id = if batch.finished { 0 } else { cursors.register(self, env) };
        Ok(batch.into_reply("firstBatch", id, &namespace))
    }

    /// Reply with one batch only. Remaining documents are dropped (`singleBatch`).
    pub(crate) fn open_single_batch(mut self, batch_size: usize) -> Result<Document, Fault> {
        let batch = self.source.take(batch_size)?;
        Ok(batch.into_reply("firstBatch", 0, &self.namespace.to_string()))
    }
}

/// Open cursors by id.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    open: BTreeMap<i64, Cursor>,
}

impl Cursors {
    /// Registers a cursor with an unpredictable id.
    fn register(&mut self, mut cursor: Cursor, env: &Environment) -> i64 {
        if self.open.len() >= MAX_OPEN_CURSORS {
            let idle = self.open.iter().min_by_key(|(_, it)| it.used).map(|(id, _)| *id);
            self.open.remove(&idle.unwrap_or_default());
        }
        cursor.used = env.now;
        loop {
            let id = (env.next_random() >> 1).cast_signed();
            if id != 0 && !self.open.contains_key(&id) {
                self.open.insert(id, cursor);
                return id;
            }
        }
    }

    /// Gives a change stream the newest oplog entries.
    pub(crate) fn set_history(&mut self, id: i64, seen: &StreamHistory) {
        if let Some(Cursor { source: CursorSource::AwaitDataSource(live), .. }) =
            self.open.get_mut(&id)
        {
            live.set_history(seen);
        }
    }

    /// Runs `getMore`. An exhausted or failed cursor is closed.
    pub(crate) fn get_more(
        &mut self,
        id: i64,
        namespace: &Namespace,
        owner: &CursorOwner,
        batch_size: Option<usize>,
        now: DateTime,
    ) -> Result<Document, Fault> {
        self.expire(now);
        let Some(cursor) = self.open.get_mut(&id) else { return Err(not_found(id)) };
        cursor.check(id, namespace, owner)?;
        cursor.used = now;
        let batch = match cursor.source.take(batch_size.unwrap_or(usize::MAX)) {
            Ok(batch) => batch,
            Err(fault) => {
                self.open.remove(&id);
                return Err(fault);
            }
        };
        if batch.finished {
            self.open.remove(&id);
        }
        let rest = if batch.finished { 0 } else { id };
        Ok(batch.into_reply("nextBatch", rest, &namespace.to_string()))
    }

    /// Returns `true` if `getMore` must wait when the batch of this cursor is empty.
    pub(crate) fn awaits_data(&self, id: i64) -> bool {
        self.open.get(&id).is_some_and(|it| matches!(it.source, CursorSource::AwaitDataSource(_)))
    }

    /// Returns `true` if the cursor is open and its documents are materialized.
    pub(crate) fn is_materialized(&self, id: i64) -> bool {
        self.open.get(&id).is_some_and(|it| matches!(it.source, CursorSource::FoundDocuments(_)))
    }

    /// Runs `killCursors`.
    pub(crate) fn kill(&mut self, ids: &[i64]) -> Document {
        let (killed, missing): (Vec<i64>, Vec<i64>) =
            ids.iter().partition(|id| self.open.remove(id).is_some());
        let list = |ids: Vec<i64>| -> Vec<Bson> { ids.into_iter().map(Bson::Int64).collect() };
        doc! {
            "cursorsKilled": list(killed),
            "cursorsNotFound": list(missing),
            "cursorsAlive": [],
            "cursorsUnknown": [],
        }
    }

    /// Closes the cursors of a session when it ends.
    pub(crate) fn kill_session(&mut self, session: &SessionId) {
        self.open.retain(|_, it| it.owner.session.as_ref() != Some(session));
    }

    /// Closes the cursors of a transaction when it ends.
    pub(crate) fn kill_transaction(&mut self, session: &SessionId, number: i64) {
        self.open.retain(|_, it| {
            it.owner.session.as_ref() != Some(session) || it.owner.transaction != Some(number)
        });
    }

    /// Closes all cursors.
    pub(crate) fn kill_all(&mut self) {
        self.open.clear();
    }

    /// Closes the cursors that exceed the idle timeout.
    pub(crate) fn expire(&mut self, now: DateTime) {
        self.open.retain(|_, it| {
            it.no_cursor_timeout || now.saturating_duration_since(it.used) < CURSOR_TIMEOUT
        });
    }

    /// Number of open cursors.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }
}

impl Cursor {
    /// Checks that a command may fetch from this cursor.
    fn check(&self, id: i64, namespace: &Namespace, owner: &CursorOwner) -> Result<(), Fault> {
        if self.namespace != *namespace {
            return Err(Fault::new(
                Code::UNAUTHORIZED,
                format!(
                    "Requested getMore on namespace '{namespace}', but cursor belongs to a \
                     different namespace {}",
                    self.namespace
                ),
            ));
        }
        self.owner.check(id, owner)
    }
}

impl CursorOwner {
    /// Returns an error if a command of another session or transaction fetches from the cursor.
    pub(crate) fn check(&self, id: i64, asks: &CursorOwner) -> Result<(), Fault> {
        let rejected = |code, how: String| {
            Err(Fault::location(code, format!("Cannot run getMore on cursor {id}, which {how}")))
        };
        match (&self.session, &asks.session) {
            (None, Some(by)) => {
                return rejected(
                    50736,
                    format!("was not created in a session, in session {}", name(by)),
                );
            }
            (Some(opened), None) => {
                return rejected(
                    50737,
                    format!("was created in session {}, without an lsid", name(opened)),
                );
            }
            (Some(opened), Some(by)) if opened != by => {
                return rejected(
                    50738,
                    format!("was created in session {}, in session {}", name(opened), name(by)),
                );
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
        match (self.transaction, asks.transaction) {
            (None, Some(by)) => {
                rejected(50739, format!("was not created in a transaction, in transaction {by}"))
            }
            (Some(opened), None) => {
                rejected(50740, format!("was created in transaction {opened}, without a txnNumber"))
            }
            (Some(opened), Some(by)) if opened != by => {
                rejected(50741, format!("was created in transaction {opened}, in transaction {by}"))
            }
            (None, None) | (Some(_), Some(_)) => Ok(()),
        }
    }
}

fn not_found(id: i64) -> Fault {
    Fault::new(Code::CURSOR_NOT_FOUND, format!("cursor id {id} not found"))
}

/// A session as error messages show it.
fn name(session: &SessionId) -> String {
    match <[u8; 16]>::try_from(session.id.as_slice()) {
        Ok(bytes) => bson::Uuid::from_bytes(bytes).to_string(),
        Err(_) => String::from("(no UUID)"),
    }
}

#[cfg(test)]
mod tests;
