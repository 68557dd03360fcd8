//! Failed attempts of a command, and the error that is raised.

use std::time::{Duration, Instant};

use bson::{RawBsonRef, RawDocument, ToStr};
use steadfast_core::{
    address::ServerAddress,
    retry::{AttemptFailure, AttemptPhase, ErrorLabels, FailureCause, GiveUp, RaisedError},
};

use crate::{
    command::Reply,
    deadline::now,
    error::{
        Attempt, AttemptLog, Error, ErrorKind, History, NetworkFailure, Result,
        command_error::{self, write_concern_error},
    },
    pin::PinnedServer,
    pool::PooledConnection,
    topology::Server,
};

/// Failed attempts of one command: their records, and the errors that may be raised.
///
/// A command with a deadline can fail thousands of times, so the number of kept attempts is
/// bounded.
#[derive(Default)]
pub(super) struct Attempts {
    records: AttemptLog,
    /// Attempt that the retry machine would raise, with its index.
    raised: Option<(usize, FailedAttempt)>,
    /// Latest attempt, unless it is `raised`.
    latest: Option<FailedAttempt>,
}

/// Error or reply of a failed attempt.
enum FailedAttempt {
    /// The attempt failed with an error.
    Error(Error),
    /// The reply reports failed writes or a write concern error. The operation reads it.
    Reply(Box<Reply>),
}

/// Attempt in progress.
pub(super) struct CurrentAttempt<'a> {
    pub(super) began: Instant,
    /// Backoff before the attempt.
    pub(super) backoff: Duration,
    pub(super) server: &'a Server,
    /// Pin of the attempt to its server.
    pub(super) pin: Option<PinnedServer>,
    pub(super) connection: Option<u32>,
    pub(super) request_id: Option<i32>,
}

impl<'a> CurrentAttempt<'a> {
    pub(super) fn new(
        began: Instant,
        backoff: Duration,
        server: &'a Server,
        pin: Option<PinnedServer>,
    ) -> Self {
        Self { began, backoff, server, pin, connection: None, request_id: None }
    }

    /// Returns a connection in valid state to its pin, or else checks it in.
    pub(super) fn put_back(&self, connection: PooledConnection) {
        if let Some(pin) = &self.pin {
            pin.connection.put_back(connection);
        }
    }
}

impl Attempts {
    /// Adds an attempt that failed with an error. `raised` is the index of the attempt whose error
    /// would be raised now.
    pub(super) fn add_error(
        &mut self,
        current: CurrentAttempt<'_>,
        error: Error,
        raised: Option<usize>,
    ) {
        let labels = error.sorted_labels().into_iter().map(str::to_owned).collect();
        self.add(record(current, labels), FailedAttempt::Error(error), raised);
    }

    /// Adds an attempt whose reply reports failed writes.
    pub(super) fn add_reply(
        &mut self,
        current: CurrentAttempt<'_>,
        reply: Reply,
        raised: Option<usize>,
    ) {
        let labels = command_error::labels(reply.body());
        self.add(record(current, labels), FailedAttempt::Reply(Box::new(reply)), raised);
    }

    fn add(&mut self, record: Attempt, failed: FailedAttempt, raised: Option<usize>) {
        let index = self.records.count();
        self.records.push(record);
        self.latest = None;
        match raised == Some(index) {
            true => self.raised = Some((index, failed)),
            false => self.latest = Some(failed),
        }
    }

    /// Returns the text of the latest attempt's error.
    pub(super) fn latest(&self) -> String {
        match self.latest.as_ref().or(self.raised.as_ref().map(|(_, failed)| failed)) {
            Some(FailedAttempt::Error(error)) => error.to_string(),
            Some(FailedAttempt::Reply(reply)) => match write_concern_error(reply.body()) {
                Ok(Some(error)) => error.to_string(),
                _ => "the reply contains write errors".to_owned(),
            },
            None => String::new(),
        }
    }

    /// Returns the server of the latest attempt.
    pub(super) fn latest_server(&self) -> Option<&ServerAddress> {
        self.records.recorded().last().map(|attempt| &attempt.server)
    }

    /// Returns the error or reply that the retry machine raises. `selection` is the error of a
    /// failed server selection.
    pub(super) fn raise(self, give_up: GiveUp, selection: Option<Error>) -> Result<Reply> {
        let history = History { outcome: give_up.outcome, attempts: self.records };
        let failed = match (give_up.raise, self.raised) {
            (RaisedError::Attempt(index), Some((raised, failed))) if index == raised => {
                Some(failed)
            }
            _ => None,
        };
        match failed {
            Some(FailedAttempt::Reply(mut reply)) => {
                reply.history = Some(Box::new(history));
                Ok(*reply)
            }
            Some(FailedAttempt::Error(error)) => {
                Err(reworded(error, give_up.message).with_history(history))
            }
            None => Err(selection
                .unwrap_or_else(|| {
                    let message = "an attempt failed without an error".to_owned();
                    Error::new(ErrorKind::Internal { message })
                })
                .with_history(history)),
        }
    }
}

fn record(current: CurrentAttempt<'_>, labels: Vec<String>) -> Attempt {
    Attempt {
        server: ServerAddress::clone(&current.server.address),
        connection: current.connection,
        request_id: current.request_id,
        labels,
        backoff: current.backoff,
        duration: now().saturating_duration_since(current.began),
    }
}

/// Replaces the server's message by a more helpful one.
fn reworded(mut error: Error, message: Option<&'static str>) -> Error {
    if let (Some(message), ErrorKind::Command(command_error)) = (message, &mut *error.kind) {
        command_error.message = message.to_owned();
    }
    error
}

/// Converts an error into the facts that decide on a retry.
pub(super) fn failure(error: &Error, phase: AttemptPhase) -> AttemptFailure<'_> {
    let cause = match &*error.kind {
        ErrorKind::Io(_) => network_cause(error.network_failure(), phase),
        ErrorKind::ConnectionPoolCleared { .. } => FailureCause::PoolCleared,
        ErrorKind::Command(command_error) => {
            FailureCause::CommandError { code: command_error.code, message: &command_error.message }
        }
        ErrorKind::InvalidResponse { .. } => FailureCause::MalformedReply,
        _ => FailureCause::Driver,
    };
    let base_backoff = error.base_backoff();
    AttemptFailure { phase, cause, labels: error.labels().iter().collect(), base_backoff }
}

fn network_cause(failure: Option<NetworkFailure>, phase: AttemptPhase) -> FailureCause<'static> {
    match failure {
        Some(failure) if failure.is_local_timeout() && phase == AttemptPhase::BeforeSend => {
            FailureCause::Driver
        }
        Some(failure) => FailureCause::Network { aborted_by_client: failure.may_execute_later() },
        // Not an error of a connection. This assumes the less certain case.
        None => FailureCause::Network { aborted_by_client: true },
    }
}

/// Write errors and write concern error of a reply with `ok: 1`: the codes of the statements, and
/// the code of the write concern.
pub(super) struct WriteFailureSummary {
    codes: Vec<i32>,
    /// Number of failed statements. The codes of some may not be known yet.
    errors: usize,
    any_applied: bool,
    write_concern: Option<i32>,
    labels: ErrorLabels,
}

impl WriteFailureSummary {
    /// Returns the summary, or `None` if the reply reports no failure.
    pub(super) fn of(reply: &RawDocument) -> Option<Self> {
        let mut codes = Vec::new();
        let (mut any_applied, mut write_concern, mut errors) = (false, None, 0);
        for (key, value) in reply.iter().flatten() {
            match (key.to_str(), value) {
                ("writeErrors", RawBsonRef::Array(errors)) => {
                    let errors = errors.into_iter().flatten();
                    let code = |error: RawBsonRef<'_>| error.as_document()?.get_i32("code").ok();
                    codes.extend(errors.map(|error| code(error).unwrap_or_default()));
                }
                ("writeConcernError", RawBsonRef::Document(error)) => {
                    write_concern = Some(error.get_i32("code").unwrap_or_default());
                }
                ("n", RawBsonRef::Int32(count)) => any_applied = count > 0,
                ("nErrors", RawBsonRef::Int32(count)) => errors = usize::try_from(count).ok()?,
                ("nInserted" | "nMatched" | "nUpserted" | "nDeleted", RawBsonRef::Int32(count)) => {
                    any_applied |= count > 0;
                }
                _ => {}
            }
        }
        if errors > 0 {
            codes = codes_in_cursor(reply);
            // Errors in later batches of the cursor may be of writes after applied ones.
            any_applied |= codes.len() < errors;
        }
        if codes.is_empty() && write_concern.is_none() && errors == 0 {
            return None;
        }
        let labels = command_error::labels(reply).iter().collect();
        let errors = errors.max(codes.len());
        Some(Self { codes, errors, any_applied, write_concern, labels })
    }

    /// Converts the summary into the facts that decide on a retry.
    pub(super) fn failure(&self) -> AttemptFailure<'_> {
        let cause = match self.write_concern {
            Some(code) if self.errors == 0 => FailureCause::WriteConcern { code },
            _ => FailureCause::WriteErrors { codes: &self.codes, any_applied: self.any_applied },
        };
        AttemptFailure { phase: AttemptPhase::Sent, cause, labels: self.labels, base_backoff: None }
    }
}

/// Returns the error codes in the first batch of a `bulkWrite` reply.
fn codes_in_cursor(reply: &RawDocument) -> Vec<i32> {
    let cursor = reply.get_document("cursor").ok();
    let batch = cursor.and_then(|cursor| cursor.get_array("firstBatch").ok());
    let items = batch.into_iter().flatten().flatten();
    items.filter_map(|item| item.as_document()?.get_i32("code").ok()).collect()
}
