//! Facts that retries are decided by: command, server, failure.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    NO_WRITES_PERFORMED, RETRYABLE_ERROR, RETRYABLE_WRITE_ERROR, SYSTEM_OVERLOADED_ERROR,
    TRANSIENT_TRANSACTION_ERROR,
};
use crate::{
    address::ServerAddress,
    description::{ServerDescription, ServerType},
};

/// Wire version of MongoDB 3.6, the first with retryable writes.
const RETRYABLE_WRITES_WIRE_VERSION: i32 = 6;
/// Wire version of MongoDB 4.4, the first that adds `RetryableWriteError` itself.
const LABELLING_WIRE_VERSION: i32 = 9;
/// Default of `serverSelectionTimeoutMS`.
const SERVER_SELECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Default of `maxAdaptiveRetries`.
const MAX_ADAPTIVE_RETRIES: u32 = 5;

/// Retry options of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySettings {
    /// Retries of writes (`retryWrites`). Defaults to `true`.
    pub retry_writes: bool,
    /// Retries of reads (`retryReads`). Defaults to `true`.
    pub retry_reads: bool,
    /// Maximum number of retries of a command after an overload error (`maxAdaptiveRetries`).
    /// Defaults to 5.
    pub max_adaptive_retries: Option<u32>,
    /// Deprioritizes servers after overload errors (`enableOverloadRetargeting`). Defaults to
    /// `true`. Mongos are deprioritized after any failure.
    pub overload_retargeting: Option<bool>,
    /// Bound of the retries of attempts that were not sent (`serverSelectionTimeoutMS`). Defaults
    /// to 30 seconds.
    pub server_selection_timeout: Duration,
}

/// The defaults of the URI options.
impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            retry_writes: true,
            retry_reads: true,
            max_adaptive_retries: None,
            overload_retargeting: None,
            server_selection_timeout: SERVER_SELECTION_TIMEOUT,
        }
    }
}

impl RetrySettings {
    pub(super) fn max_adaptive_retries(self) -> usize {
        let retries = self.max_adaptive_retries.unwrap_or(MAX_ADAPTIVE_RETRIES);
        usize::try_from(retries).unwrap_or(usize::MAX)
    }

    pub(super) fn deprioritizes_overloaded_servers(self) -> bool {
        self.overload_retargeting.unwrap_or(true)
    }
}

/// Kind of a command, which determines whether repeating it is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// A read.
    Read,
    /// A retryable write: the server recognises a repeated `txnNumber`.
    RetryableWrite,
    /// A write that is not retryable: executed twice, it may apply twice.
    Write,
    /// A command of the user (`runCommand`), of unknown effect.
    Generic,
    /// `getMore`.
    GetMore,
    /// `commitTransaction` or `abortTransaction`, identified by the `txnNumber` of the transaction.
    EndTransaction,
}

impl CommandKind {
    /// Returns `true` if repeating the command is safe only with the transaction record of the
    /// session.
    pub(super) fn needs_session_record(self) -> bool {
        match self {
            Self::RetryableWrite | Self::EndTransaction => true,
            Self::Read | Self::Write | Self::Generic | Self::GetMore => false,
        }
    }

    /// Returns `true` if the command can write.
    pub(super) fn may_write(self) -> bool {
        match self {
            Self::RetryableWrite | Self::Write | Self::Generic | Self::EndTransaction => true,
            Self::Read | Self::GetMore => false,
        }
    }
}

/// Facts about a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandFacts {
    /// Kind of the command.
    pub kind: CommandKind,
    /// The command is part of a transaction.
    pub in_transaction: bool,
    /// `false` for a write with `w: 0`.
    pub acknowledged: bool,
    /// The command has a single statement that modifies at most one document. It is executed
    /// completely or not at all.
    pub single_document: bool,
    /// Deadline of the call.
    pub deadline: Option<Instant>,
}

impl CommandFacts {
    /// Creates the facts of a command outside of transactions: acknowledged, without a deadline,
    /// possibly of several documents.
    pub fn new(kind: CommandKind) -> Self {
        Self {
            kind,
            in_transaction: false,
            acknowledged: true,
            single_document: false,
            deadline: None,
        }
    }

    /// Returns `true` if a command error of this command makes the server abort its transaction.
    pub(super) fn error_aborts_transaction(&self) -> bool {
        self.in_transaction && self.kind != CommandKind::EndTransaction
    }

    /// Returns `true` if the retryable writes specification applies, apart from the server's
    /// support.
    pub(super) fn is_retryable_write(&self, settings: RetrySettings) -> bool {
        match self.kind {
            // Transactions specification: retried even if `retryWrites` is off.
            CommandKind::EndTransaction => true,
            CommandKind::RetryableWrite => {
                settings.retry_writes && !self.in_transaction && self.acknowledged
            }
            CommandKind::Read
            | CommandKind::Write
            | CommandKind::Generic
            | CommandKind::GetMore => false,
        }
    }

    /// Returns `true` if the command can be retried after an error labelled [`RETRYABLE_ERROR`],
    /// which was not executed. Commands in transactions and all kinds of writes can.
    pub(super) fn is_retryable_after_overload(&self, settings: RetrySettings) -> bool {
        match self.kind {
            CommandKind::Read | CommandKind::GetMore => settings.retry_reads,
            CommandKind::RetryableWrite | CommandKind::Write => {
                settings.retry_writes && self.acknowledged
            }
            // The command can be a read or a write, so both options apply.
            CommandKind::Generic => {
                settings.retry_reads && settings.retry_writes && self.acknowledged
            }
            CommandKind::EndTransaction => true,
        }
    }
}

/// Facts about a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFacts {
    /// Address of the server. Shared, because every command that is sent has these facts.
    pub address: Arc<ServerAddress>,
    /// Type of the server.
    pub server_type: ServerType,
    /// Maximum wire version (`maxWireVersion`).
    pub max_wire_version: i32,
    /// Lifetime of an unused session (`logicalSessionTimeoutMinutes`).
    pub logical_session_timeout: Option<Duration>,
}

impl ServerFacts {
    /// Creates the facts of a server from its description.
    pub fn new(address: &Arc<ServerAddress>, server: &ServerDescription) -> Self {
        Self {
            address: Arc::clone(address),
            server_type: server.server_type,
            max_wire_version: server.max_wire_version,
            logical_session_timeout: server.logical_session_timeout,
        }
    }

    /// Returns `true` if the server supports retryable writes.
    pub fn supports_retryable_writes(&self) -> bool {
        match self.server_type {
            // A load balancer reports nothing; the servers behind it support sessions.
            ServerType::LoadBalancer => true,
            ServerType::Standalone => false,
            ServerType::Mongos
            | ServerType::RsPrimary
            | ServerType::RsSecondary
            | ServerType::RsArbiter
            | ServerType::RsOther
            | ServerType::RsGhost
            | ServerType::Unknown => {
                self.max_wire_version >= RETRYABLE_WRITES_WIRE_VERSION
                    && self.logical_session_timeout.is_some()
            }
        }
    }

    /// Returns `true` for a mongos or a load balancer.
    pub(super) fn is_mongos_or_load_balancer(&self) -> bool {
        matches!(self.server_type, ServerType::Mongos | ServerType::LoadBalancer)
    }

    /// Returns `true` if the server adds the label `RetryableWriteError` itself.
    pub(super) fn adds_error_labels(&self) -> bool {
        self.server_type == ServerType::LoadBalancer
            || self.max_wire_version >= LABELLING_WIRE_VERSION
    }
}

/// A failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptFailure<'a> {
    /// Phase in which it failed.
    pub phase: AttemptPhase,
    /// Cause of the failure.
    pub cause: FailureCause<'a>,
    /// Error labels: those at the top level of the reply, and those of the driver.
    pub labels: ErrorLabels,
    /// `baseBackoffMS` of the reply.
    pub base_backoff: Option<Duration>,
}

impl AttemptFailure<'_> {
    /// Returns `true` if the label [`RETRYABLE_ERROR`] proves that the command was not executed.
    /// The label is trusted for a command error and for a command that was not sent, but not for a
    /// reply that reports writes.
    pub(super) fn is_retryable_by_label(&self) -> bool {
        let not_carried_out = match self.cause {
            FailureCause::CommandError { .. } => true,
            FailureCause::Network { .. }
            | FailureCause::PoolCleared
            | FailureCause::MalformedReply
            | FailureCause::Driver => self.phase == AttemptPhase::BeforeSend,
            FailureCause::WriteErrors { .. } | FailureCause::WriteConcern { .. } => false,
        };
        self.labels.retryable && not_carried_out
    }
}

/// Phase of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptPhase {
    /// No byte of the command was sent: the connection was checked out, established or
    /// authenticated, or the message was encoded.
    BeforeSend,
    /// Some bytes of the command may have been sent.
    Sent,
}

/// Cause of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause<'a> {
    /// Network error, while connecting or after the command was sent.
    Network {
        /// The client stopped waiting: a time-out passed, or the pool interrupted its connections.
        /// The server may still execute the command.
        aborted_by_client: bool,
    },
    /// The pool was cleared while the command waited for a connection (PoolCleared).
    PoolCleared,
    /// Command error (`ok: 0`) of the command or of a step of the handshake.
    CommandError {
        /// Error code of the reply; 0 if there is none.
        code: i32,
        /// Error message (`errmsg`).
        message: &'a str,
    },
    /// Statement errors (`writeErrors`), with or without a write concern error.
    WriteErrors {
        /// Code of each statement error.
        codes: &'a [i32],
        /// The reply reports at least one executed statement.
        any_applied: bool,
    },
    /// Write concern error (`writeConcernError`) as the only error of the reply.
    WriteConcern {
        /// Code of the write concern error.
        code: i32,
    },
    /// The reply is malformed.
    MalformedReply,
    /// Driver error: connection time-out, message too large, client shut down.
    Driver,
}

/// Error labels that decisions depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorLabels {
    /// [`RETRYABLE_WRITE_ERROR`].
    pub retryable_write: bool,
    /// [`NO_WRITES_PERFORMED`].
    pub no_writes_performed: bool,
    /// [`RETRYABLE_ERROR`].
    pub retryable: bool,
    /// [`SYSTEM_OVERLOADED_ERROR`].
    pub system_overloaded: bool,
    /// [`TRANSIENT_TRANSACTION_ERROR`].
    pub transient_transaction: bool,
}

impl ErrorLabels {
    /// Returns `true` for an overload error, whose retries are bounded by `maxAdaptiveRetries` and
    /// the budget.
    pub(super) fn is_overload(self) -> bool {
        self.retryable || self.system_overloaded
    }
}

impl<S: AsRef<str>> FromIterator<S> for ErrorLabels {
    fn from_iter<I: IntoIterator<Item = S>>(labels: I) -> Self {
        let mut known = Self::default();
        for label in labels {
            match label.as_ref() {
                RETRYABLE_WRITE_ERROR => known.retryable_write = true,
                NO_WRITES_PERFORMED => known.no_writes_performed = true,
                RETRYABLE_ERROR => known.retryable = true,
                SYSTEM_OVERLOADED_ERROR => known.system_overloaded = true,
                TRANSIENT_TRANSACTION_ERROR => known.transient_transaction = true,
                _ => {}
            }
        }
        known
    }
}
