//! Commands before they are sent, and replies.
//!
//! Both are untyped: an operation builds a [`Command`] and reads the [`Reply`], and the code in
//! between is compiled once.

use std::{borrow::Cow, sync::Arc, time::Duration};

use bson::{
    RawDocument, RawDocumentBuf, ToStr,
    raw::{CStr, cstr},
};
use bytes::Bytes;
use serde::Serialize;
pub(crate) use steadfast_core::retry::CommandKind;
use steadfast_core::{read_preference::ReadPreference, selection::SelectionCriteria};

use crate::{
    deadline::{Clock, Deadline, MaxTime, TimeLimit},
    error::ErrorKind,
    error::{Error, History, RETRYABLE_WRITE_ERROR, Result, TimeSpent},
    pin::PinnedConnection,
    sequence::{DocumentSequence, DocumentSequenceRef},
    session::{AbandonedTransaction, Session},
    session::{TransactionScope, explicit_write_concern},
    topology::{SelectedServer, Server},
};

/// A command ready to execute: body, target, retry class, session and deadline.
#[derive(Debug)]
pub(crate) struct Command {
    /// Name of the command: the first key of the body.
    pub(crate) name: Cow<'static, str>,
    /// Database that the command runs on.
    pub(crate) database: Arc<str>,
    /// Fields, without those that are added for each attempt (`$db`, `$readPreference`, …).
    pub(crate) body: RawDocumentBuf,
    /// Documents of the sequence, unless they are borrowed.
    pub(crate) sequence: Option<DocumentSequence>,
    /// Servers that can run the command.
    pub(crate) target: Target,
    /// Retry class of the command.
    pub(crate) kind: CommandKind,
    /// `false` for an unacknowledged write (`w: 0`).
    pub(crate) acknowledged: bool,
    /// Options that were set for this call, not inherited.
    pub(crate) explicit: Explicit,
    /// Transaction that the command was built in. It is never sent outside of it.
    pub(crate) scope: TransactionScope,
    /// Transaction that the command aborts, if the session has started another one since.
    pub(crate) abandoned: Option<Box<AbandonedTransaction>>,
    /// `true` if the command accepts `readConcern`, to which a session can add fields.
    pub(crate) supports_read_concern: bool,
    /// Session of the command. `None`: an implicit session.
    pub(crate) session: Option<Arc<Session>>,
    /// Server of the first attempt, if it is selected already.
    pub(crate) selected: Option<SelectedServer>,
    /// Time-out (`timeoutMS`).
    pub(crate) time_limit: Option<TimeLimit>,
    /// Deadline of the call, once it was started. Several commands of a call share it.
    pub(crate) deadline: Option<Deadline>,
    /// Time that earlier commands of the same call spent.
    pub(crate) spent: TimeSpent,
    /// Source of `maxTimeMS`.
    pub(crate) max_time: MaxTime,
}

/// Options that were set for this call. A transaction rejects some of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Explicit {
    pub(crate) read_concern: bool,
    pub(crate) write_concern: bool,
    pub(crate) criteria: bool,
}

/// Servers that can run a command.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// Server that accepts writes.
    Write,
    /// Server that matches the criteria.
    Read(SelectionCriteria),
    /// Server for an aggregation with `$out` or `$merge`: a secondary only if all servers support
    /// that.
    WritingAggregate(SelectionCriteria),
    /// Server that has the cursor, and its pinned connection if there is one.
    Cursor(crate::pin::PinnedServer),
}

impl Command {
    /// Creates a command whose body begins with `{ name: value }`.
    pub(crate) fn new(
        name: &'static CStr,
        value: impl bson::raw::BindRawBsonRef,
        database: &Arc<str>,
        target: Target,
        kind: CommandKind,
    ) -> Self {
        let mut body = empty_body();
        body.append(name, value);
        Self {
            name: Cow::Borrowed(name.to_str()),
            database: Arc::clone(database),
            body,
            sequence: None,
            target,
            kind,
            acknowledged: true,
            explicit: Explicit::default(),
            scope: TransactionScope::Outside,
            abandoned: None,
            supports_read_concern: false,
            session: None,
            selected: None,
            time_limit: None,
            deadline: None,
            spent: TimeSpent::default(),
            max_time: MaxTime::default(),
        }
    }

    /// Sets the session. In a transaction, the command becomes part of it.
    pub(crate) fn in_shared(mut self, session: Option<Arc<Session>>) -> Result<Self> {
        if let Some(session) = &session {
            self.adapt(session)?;
        }
        self.session = session;
        Ok(self)
    }

    /// Makes the command part of the session's transaction, if one is active. The transaction's
    /// concerns replace inherited ones; explicit ones are an error.
    fn adapt(&mut self, session: &Session) -> Result<()> {
        let own = self.time_limit.is_some_and(|limit| limit.own);
        let ends = self.kind == CommandKind::EndTransaction;
        let deadline = match ends {
            true => session.transaction_deadline(),
            false => session.operation_deadline(own)?,
        };
        if let Some(deadline) = deadline {
            self.share_deadline(deadline);
        }
        let number = session.transaction(|it| it.is_active().then(|| it.number()));
        let Some(number) = number.filter(|_| !ends) else { return Ok(()) };
        self.scope = TransactionScope::Inside(number);
        let Explicit { read_concern, write_concern, criteria } = self.explicit;
        if read_concern {
            return Err(Error::invalid_argument(
                "Cannot set read concern after starting a transaction",
            ));
        }
        if write_concern {
            return Err(explicit_write_concern());
        }
        self.acknowledged = true;
        // Generic commands (`run_command`) are not changed.
        if self.kind != CommandKind::Generic {
            self.body = without_concerns(&self.body);
        }
        if let Target::Read(own) | Target::WritingAggregate(own) = &mut self.target {
            if !criteria {
                let of_transaction = session.transaction(|it| it.settings().criteria.clone());
                *own = of_transaction.unwrap_or_default();
            }
            if !matches!(own, SelectionCriteria::ReadPreference(ReadPreference::Primary)) {
                let message = "read preference in a transaction must be primary".to_owned();
                return Err(Error::new(ErrorKind::Transaction { message }));
            }
        }
        Ok(())
    }

    /// Copies the borrowed document sequence, for a command that outlives it.
    pub(crate) fn copy_sequence(
        &mut self,
        borrowed: Option<&DocumentSequenceRef<'_>>,
    ) -> Result<()> {
        if let Some(DocumentSequenceRef { identifier, documents, ns_info }) = borrowed {
            let (documents, ns_info) = (documents.to_vec()?, ns_info.cloned());
            self.sequence = Some(DocumentSequence { identifier, documents, ns_info });
        }
        Ok(())
    }

    /// Adds a field.
    pub(crate) fn field(&mut self, key: &CStr, value: impl bson::raw::BindRawBsonRef) {
        self.body.append(key, value);
    }

    /// Adds the fields of a serialized value, such as options.
    pub(crate) fn fields_of(&mut self, value: &impl Serialize) -> Result<()> {
        let fields = bson::serialize_to_raw_document_buf(value)?;
        for element in fields.iter() {
            let (key, value) = element?;
            bson::append_ref(&mut self.body, key, value);
        }
        Ok(())
    }
}

/// Returns an empty document with capacity for the usual fields.
fn empty_body() -> RawDocumentBuf {
    const USUAL_BYTES: usize = 256;
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    bytes.extend_from_slice(&[5, 0, 0, 0, 0]);
    RawDocumentBuf::from_bytes(bytes).expect("the empty document is one")
}

/// Reply to a command that succeeded as a whole.
#[derive(Debug)]
pub(crate) struct Reply {
    body: Bytes,
    /// Server that sent the reply.
    pub(crate) server: Arc<Server>,
    /// Pinned connection for the cursor, in load-balanced mode.
    pub(crate) pinned: PinnedConnection,
    /// `txnNumber` of the command's transaction, which is that of the cursor.
    pub(crate) transaction: Option<i64>,
    /// Session of the command, for its cursor or for the next command of a batch.
    pub(crate) session: Option<Arc<Session>>,
    /// `true` if the driver adds the label `RetryableWriteError` to errors in the reply.
    pub(crate) labelled_retryable: bool,
    /// Label that the driver adds to errors in a reply of a transaction.
    pub(crate) transaction_label: Option<&'static str>,
    /// Time-out of the call and the time spent, if it has a time-out.
    pub(crate) clock: Option<Clock>,
    /// Earlier attempts, for errors in the reply.
    pub(crate) history: Option<Box<History>>,
}

impl Reply {
    /// Creates a reply from a validated document.
    pub(crate) fn new(body: Bytes, server: Arc<Server>) -> Self {
        Self {
            body,
            server,
            pinned: PinnedConnection::default(),
            transaction: None,
            session: None,
            labelled_retryable: false,
            transaction_label: None,
            clock: None,
            history: None,
        }
    }

    /// Returns the reply document.
    pub(crate) fn body(&self) -> &RawDocument {
        RawDocument::from_bytes(&self.body).expect("checked when it was read")
    }

    /// Adds the server, the labels, the history and a passed deadline to an error in the reply.
    pub(crate) fn with_origin(&self, error: Error) -> Error {
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
            Some(clock) => clock.deadline.or_exceeded(error, clock.spent),
            None => error,
        }
    }

    /// Returns the bytes of the reply, to share them without a copy.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.body
    }
}

impl Command {
    /// Sets the time-out. `maxTimeMS` and `wtimeout` are removed then.
    pub(crate) fn limit(&mut self, own: Option<Duration>, inherited: Option<Duration>) {
        self.time_limit = TimeLimit::of(own, inherited);
        if self.time_limit.is_some() && has_other_limits(&self.body) {
            self.body = without_other_limits(&self.body);
        }
    }

    /// Sets a deadline that has begun already. `maxTimeMS` and `wtimeout` are removed then.
    pub(crate) fn share_deadline(&mut self, deadline: Deadline) {
        self.deadline = Some(deadline);
        if has_other_limits(&self.body) {
            self.body = without_other_limits(&self.body);
        }
    }

    /// Sets the time-out. See [`limit`](Self::limit).
    pub(crate) fn limited(mut self, own: Option<Duration>, inherited: Option<Duration>) -> Self {
        self.limit(own, inherited);
        self
    }

    /// Starts the deadline, unless it has begun already.
    pub(crate) fn start_clock(&mut self) -> Option<Deadline> {
        if self.deadline.is_none() {
            self.deadline = self.time_limit.map(|limit| Deadline::begin(limit.timeout));
        }
        self.deadline
    }
}

fn has_other_limits(body: &RawDocument) -> bool {
    body.iter().flatten().any(|(key, value)| match key.to_str() {
        "maxTimeMS" => true,
        "writeConcern" => value
            .as_document()
            .is_some_and(|concern| concern.get("wtimeout").is_ok_and(|w| w.is_some())),
        _ => false,
    })
}

fn without_other_limits(body: &RawDocument) -> RawDocumentBuf {
    let mut fields = RawDocumentBuf::new();
    for (key, value) in body.iter().flatten() {
        match (key.to_str(), value.as_document()) {
            ("maxTimeMS", _) => {}
            ("writeConcern", Some(concern)) => {
                let mut kept = RawDocumentBuf::new();
                for (key, value) in concern.iter().flatten() {
                    if key.to_str() != "wtimeout" {
                        bson::append_ref(&mut kept, key, value);
                    }
                }
                if !kept.is_empty() {
                    fields.append(key, kept);
                }
            }
            _ => bson::append_ref(&mut fields, key, value),
        }
    }
    fields
}

/// Read or write concern: that of the call and the inherited one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Concern<'a, T> {
    pub(crate) own: Option<&'a T>,
    pub(crate) inherited: Option<&'a T>,
}

impl<'a, T> Concern<'a, T> {
    /// Returns the concern of the call, else the inherited one.
    pub(crate) fn effective(self) -> Option<&'a T> {
        self.own.or(self.inherited)
    }
}

fn without_concerns(body: &bson::RawDocument) -> RawDocumentBuf {
    let concerns = [cstr!("readConcern"), cstr!("writeConcern")];
    let mut fields = RawDocumentBuf::new();
    for (key, value) in body.iter().flatten().filter(|(key, _)| !concerns.contains(key)) {
        bson::append_ref(&mut fields, key, value);
    }
    fields
}

#[cfg(test)]
mod tests {
    use bson::{doc, raw::cstr};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn command(body: bson::Document) -> Command {
        let database = Arc::from("library");
        let mut command =
            Command::new(cstr!("insert"), "books", &database, Target::Write, CommandKind::Write);
        for (key, value) in RawDocumentBuf::try_from(&body).unwrap().iter().flatten() {
            bson::append_ref(&mut command.body, key, value);
        }
        command
    }

    #[test]
    fn timeout_replaces_other_limits() {
        let other = doc! { "maxTimeMS": 5, "writeConcern": { "w": 1, "wtimeout": 5 }, "x": 1 };
        let mut limited = command(other.clone());
        limited.limit(None, Some(MS));
        let expected = doc! { "insert": "books", "writeConcern": { "w": 1 }, "x": 1 };
        assert_eq!(bson::Document::try_from(&*limited.body).unwrap(), expected);

        let mut only_timeout = command(doc! { "writeConcern": { "wtimeout": 5 } });
        only_timeout.limit(Some(MS), None);
        let sent = bson::Document::try_from(&*only_timeout.body).unwrap();
        assert_eq!(sent, doc! { "insert": "books" });

        let mut unlimited = command(other);
        unlimited.limit(None, None);
        assert!(unlimited.body.get("maxTimeMS").unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn error_before_the_deadline_is_unchanged() {
        let deadline = Deadline::begin(10 * MS);
        let error = Error::timed_out("socketTimeoutMS");
        let judged = deadline.or_exceeded(error.clone(), TimeSpent::default());
        assert!(!judged.is_timeout() && judged.is_network_timeout());
        tokio::time::advance(10 * MS).await;
        let judged = deadline.or_exceeded(error, TimeSpent::default());
        assert!(judged.is_timeout());
        let source = std::error::Error::source(&judged).expect("what it was when time ran out");
        assert!(judged.to_string().contains(&source.to_string()), "{judged}");
    }
}
