//! A command before it is sent, and a reply after it came.
//!
//! Untyped on purpose: an operation turns a call into a [`Command`] and reads the [`Reply`];
//! everything between is compiled once and knows neither.

mod sequence;

use std::{borrow::Cow, sync::Arc};

use bson::{RawDocument, RawDocumentBuf, raw::CStr};
use bytes::Bytes;
use serde::Serialize;
pub(crate) use steadfast_core::retry::Kind;
use steadfast_core::selection::SelectionCriteria;

pub(crate) use self::sequence::{Ahead, Beside, Documents, Sequence, Source};
use crate::{
    Client, ClientSession,
    cursor::Pinned,
    deadline::{Clock, Deadline, MaxTime, TimeLimit, TimeSpent},
    error::{Error, History, RETRYABLE_WRITE_ERROR, Result},
    session::{AbandonedTransaction, Session},
    topology::{Selected, Server},
};

/// What to say, to whom, and what is known of the saying.
#[derive(Debug)]
pub(crate) struct Command {
    /// The command's name, as the first key of its body.
    pub(crate) name: Cow<'static, str>,
    /// The database it runs on.
    pub(crate) database: Arc<str>,
    /// Its fields but for those that are added for each attempt (`$db`, `$readPreference`, …).
    pub(crate) body: RawDocumentBuf,
    /// The documents that travel beside the body, unless somebody lends them.
    pub(crate) sequence: Option<Sequence>,
    /// Which servers may run it.
    pub(crate) target: Target,
    /// What repeating it would mean.
    pub(crate) kind: Kind,
    /// False for a write with `w: 0`: the server sends no reply.
    pub(crate) acknowledged: bool,
    /// What was said for this very call, and not inherited.
    pub(crate) explicit: Explicit,
    /// The transaction that it was built in. It is never sent outside of it.
    pub(crate) scope: TransactionScope,
    /// The transaction that it aborts, if that is no longer the session's.
    pub(crate) abandoned: Option<Box<AbandonedTransaction>>,
    /// Whether it may say what it wants to see (`readConcern`), which a session may have a say in.
    pub(crate) takes_read_concern: bool,
    /// The session it runs in; without one it gets its own.
    pub(crate) session: Option<Arc<Session>>,
    /// The server for its first attempt, if one was selected already.
    pub(crate) selected: Option<Selected>,
    /// How long it may take.
    pub(crate) time_limit: Option<TimeLimit>,
    /// By when it must be done, once the clock runs; it may be one of several commands till then.
    pub(crate) deadline: Option<Deadline>,
    /// What earlier commands of the same call have spent of its time.
    pub(crate) spent: TimeSpent,
    /// What the server is told of its time.
    pub(crate) max_time: MaxTime,
}

/// What was said for this very call, which a transaction may not allow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Explicit {
    pub(crate) read_concern: bool,
    pub(crate) write_concern: bool,
    pub(crate) criteria: bool,
}

/// Relation of a command to the transaction of its session, decided when the command is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionScope {
    /// Built outside of a transaction. Resets the state of a transaction that has ended.
    Outside,
    /// Built in the transaction with this `txnNumber`. If that has ended, the command fails unsent.
    Inside(i64),
    /// Independent of transactions (`killCursors`).
    Independent,
}

impl From<Option<i64>> for TransactionScope {
    /// Scope of a cursor's commands: that of the command that opened the cursor.
    fn from(number: Option<i64>) -> Self {
        number.map_or(Self::Outside, Self::Inside)
    }
}

/// Which servers may run a command.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// One that takes writes.
    Write,
    /// One that the criteria allow.
    Read(SelectionCriteria),
    /// An aggregation that writes: secondaries only where all of them are new enough.
    WritingAggregate(SelectionCriteria),
    /// The server that has the cursor, through the very connection if that is pinned.
    Cursor(crate::cursor::Home),
}

impl Command {
    /// A command whose body begins `{ name: value }`.
    pub(crate) fn new(
        name: &'static CStr,
        value: impl bson::raw::BindRawBsonRef,
        database: &Arc<str>,
        target: Target,
        kind: Kind,
    ) -> Self {
        let mut body = empty_body();
        body.append(name, value);
        Self {
            name: Cow::Borrowed(name.as_str()),
            database: Arc::clone(database),
            body,
            sequence: None,
            target,
            kind,
            acknowledged: true,
            explicit: Explicit::default(),
            scope: TransactionScope::Outside,
            abandoned: None,
            takes_read_concern: false,
            session: None,
            selected: None,
            time_limit: None,
            deadline: None,
            spent: TimeSpent::default(),
            max_time: MaxTime::default(),
        }
    }

    /// The same command in the application's session, if it has one for it.
    pub(crate) fn in_session(
        self,
        session: Option<&mut ClientSession>,
        client: &Client,
    ) -> Result<Self> {
        let session = session.map(|session| session.share(client)).transpose()?;
        self.in_shared(session)
    }

    /// The same command in this session, if there is one, and as the transaction demands if that is
    /// in one.
    pub(crate) fn in_shared(mut self, session: Option<Arc<Session>>) -> Result<Self> {
        if let Some(session) = &session {
            session.adapt(&mut self)?;
        }
        self.session = session;
        Ok(self)
    }

    /// Copies documents that were only lent, for a command that outlives the loan.
    pub(crate) fn keep(&mut self, lent: Option<&Beside<'_>>) -> Result<()> {
        if let Some(Beside { identifier, documents, ahead }) = lent {
            let (documents, ahead) = (documents.to_vec()?, ahead.cloned());
            self.sequence = Some(Sequence { identifier, documents, ahead });
        }
        Ok(())
    }

    /// Adds a field.
    pub(crate) fn field(&mut self, key: &CStr, value: impl bson::raw::BindRawBsonRef) {
        self.body.append(key, value);
    }

    /// Adds the fields that a value (options, most often) serialises to.
    pub(crate) fn fields_of(&mut self, value: &impl Serialize) -> Result<()> {
        let fields = bson::serialize_to_raw_document_buf(value)?;
        for element in fields.iter() {
            let (key, value) = element?;
            self.body.append(key, value);
        }
        Ok(())
    }
}

/// An empty document with room for the usual fields, so that adding them need not make it grow.
fn empty_body() -> RawDocumentBuf {
    const USUAL_BYTES: usize = 256;
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    bytes.extend_from_slice(&[5, 0, 0, 0, 0]);
    RawDocumentBuf::from_bytes(bytes).expect("the empty document is one")
}

/// A server's reply to a command that succeeded as a whole.
#[derive(Debug)]
pub(crate) struct Reply {
    body: Bytes,
    /// Who sent it.
    pub(crate) server: Arc<Server>,
    /// In load-balanced mode, the connection a cursor must go on with.
    pub(crate) pinned: Pinned,
    /// The transaction it was part of, which a cursor goes on with.
    pub(crate) transaction: Option<i64>,
    /// The session it ran in, which a cursor, or the next command of a batch, goes on with.
    pub(crate) session: Option<Arc<Session>>,
    /// Whether the driver puts the label of a retryable write on what is wrong with it.
    pub(crate) labelled_retryable: bool,
    /// The label that the driver puts on it for the sake of its transaction.
    pub(crate) transaction_label: Option<&'static str>,
    /// How long the call had, and what of it was spent, if it had a time limit.
    pub(crate) clock: Option<Clock>,
    /// What went before, if the reply is an error after all.
    pub(crate) history: Option<Box<History>>,
}

impl Reply {
    /// `body` is a document whose structure was checked when it was read.
    pub(crate) fn new(body: Bytes, server: Arc<Server>) -> Self {
        Self {
            body,
            server,
            pinned: Pinned::default(),
            transaction: None,
            session: None,
            labelled_retryable: false,
            transaction_label: None,
            clock: None,
            history: None,
        }
    }

    /// The reply, as it came.
    pub(crate) fn body(&self) -> &RawDocument {
        RawDocument::from_bytes(&self.body).expect("checked when it was read")
    }

    /// An error that the reply turned out to be, with what is known of its origin.
    pub(crate) fn blame(&self, error: Error) -> Error {
        let mut error = error.with_server(&self.server.address);
        if self.labelled_retryable {
            error.add_label(RETRYABLE_WRITE_ERROR);
        }
        if let Some(label) = self.transaction_label {
            error.add_label(label);
        }
        if let Some(history) = &self.history {
            error = error.with_history(History::clone(history));
        }
        match self.clock {
            Some(clock) => clock.deadline.judge(error, clock.spent),
            None => error,
        }
    }

    /// The reply's bytes, to be kept without copying.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.body
    }
}
