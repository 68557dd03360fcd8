//! The facts that retrying is decided by: the command, the server, the failure.

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

/// The wire version of MongoDB 3.6, the first with retryable writes.
const RETRYABLE_WRITES_WIRE_VERSION: i32 = 6;
/// The wire version of MongoDB 4.4, the first whose servers label their errors themselves.
const LABELLING_WIRE_VERSION: i32 = 9;
/// Default of `serverSelectionTimeoutMS`.
const SERVER_SELECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a command is tried again after overload errors, unless an application says otherwise.
const MAX_ADAPTIVE_RETRIES: u32 = 5;

/// The client's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySettings {
    /// The option `retryWrites`.
    pub retry_writes: bool,
    /// The option `retryReads`.
    pub retry_reads: bool,
    /// The option `maxAdaptiveRetries`: how many retries there are at most once a command met with
    /// an overload error. 5 if unset.
    pub max_adaptive_retries: Option<u32>,
    /// The option `enableOverloadRetargeting`: whether a server that sheds load is avoided. So it
    /// is, if unset. Routers are avoided after any failure.
    pub overload_retargeting: Option<bool>,
    /// The option `serverSelectionTimeoutMS`: bounds the retries of attempts that were not sent.
    pub server_selection_timeout: Duration,
}

/// Reads and writes are retried unless an application says otherwise.
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

    pub(super) fn avoids_overloaded_servers(self) -> bool {
        self.overload_retargeting.unwrap_or(true)
    }
}

/// What a command does, and so what sending it twice would mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It reads.
    Read,
    /// It writes, and the server can recognise it when it comes twice.
    RecognisableWrite,
    /// It writes, and twice sent may be twice done.
    Write,
    /// The user's own command, of which nothing is known.
    Generic,
    /// It moves a cursor on.
    GetMore,
    /// It commits or aborts a transaction, by whose number the server recognises it.
    EndTransaction,
}

impl Kind {
    /// Whether sending it again is safe only because the server keeps a record of the session.
    pub(super) fn needs_session_record(self) -> bool {
        match self {
            Self::RecognisableWrite | Self::EndTransaction => true,
            Self::Read | Self::Write | Self::Generic | Self::GetMore => false,
        }
    }

    /// Whether it may change something.
    pub(super) fn may_write(self) -> bool {
        match self {
            Self::RecognisableWrite | Self::Write | Self::Generic | Self::EndTransaction => true,
            Self::Read | Self::GetMore => false,
        }
    }
}

/// A command, as far as retrying is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub kind: Kind,
    /// Whether it is part of a transaction.
    pub in_transaction: bool,
    /// False for a write with `w: 0`.
    pub acknowledged: bool,
    /// Whether it has a single statement that can change one document at most, and so is done
    /// either wholly or not at all.
    pub one_document: bool,
    /// When the call has to end.
    pub deadline: Option<Instant>,
}

impl Operation {
    /// A command outside of transactions, acknowledged, without a deadline, that may change more
    /// than one document.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            in_transaction: false,
            acknowledged: true,
            one_document: false,
            deadline: None,
        }
    }

    /// Whether a refusal of it leaves nothing behind: the server aborts its transaction.
    pub(super) fn aborts_when_refused(&self) -> bool {
        self.in_transaction && self.kind != Kind::EndTransaction
    }

    /// Whether the specification of retryable writes speaks of it, whichever server it goes to.
    pub(super) fn is_retryable_write(&self, settings: RetrySettings) -> bool {
        match self.kind {
            // The transactions specification: even if `retryWrites` is off.
            Kind::EndTransaction => true,
            Kind::RecognisableWrite => {
                settings.retry_writes && !self.in_transaction && self.acknowledged
            }
            Kind::Read | Kind::Write | Kind::Generic | Kind::GetMore => false,
        }
    }

    /// Whether it may be tried again after an error labelled [`RETRYABLE_ERROR`], which says that
    /// nothing was done. Transactions are no obstacle, nor is what the server can recognise.
    pub(super) fn may_retry_adaptively(&self, settings: RetrySettings) -> bool {
        match self.kind {
            Kind::Read | Kind::GetMore => settings.retry_reads,
            Kind::RecognisableWrite | Kind::Write => settings.retry_writes && self.acknowledged,
            // It may be either.
            Kind::Generic => settings.retry_reads && settings.retry_writes && self.acknowledged,
            Kind::EndTransaction => true,
        }
    }
}

/// A server, as far as retrying is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFacts {
    /// Where it is. Shared, since every command that is sent has these facts.
    pub address: Arc<ServerAddress>,
    /// What it is.
    pub server_type: ServerType,
    /// The highest wire version it speaks.
    pub max_wire_version: i32,
    /// For how long it remembers an unused session.
    pub logical_session_timeout: Option<Duration>,
}

impl ServerFacts {
    /// What is known of the server at this address.
    pub fn new(address: &Arc<ServerAddress>, server: &ServerDescription) -> Self {
        Self {
            address: Arc::clone(address),
            server_type: server.server_type,
            max_wire_version: server.max_wire_version,
            logical_session_timeout: server.logical_session_timeout,
        }
    }

    /// Whether it recognises a write that comes twice.
    pub fn supports_retryable_writes(&self) -> bool {
        match self.server_type {
            // A balancer says nothing of itself; what can stand behind one has sessions.
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

    /// Whether it passes commands on to others.
    pub(super) fn is_router(&self) -> bool {
        matches!(self.server_type, ServerType::Mongos | ServerType::LoadBalancer)
    }

    /// Whether it puts the labels of retryable writes on its errors itself.
    pub(super) fn labels_its_errors(&self) -> bool {
        self.server_type == ServerType::LoadBalancer
            || self.max_wire_version >= LABELLING_WIRE_VERSION
    }
}

/// An attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure<'a> {
    /// How far it had come.
    pub phase: Phase,
    /// What failed.
    pub cause: Cause<'a>,
    /// The labels of the error: those at the top of the reply, and those of the driver.
    pub labels: Labels,
    /// The `baseBackoffMS` of the reply: what the server would have the wait begin with.
    pub base_backoff: Option<Duration>,
}

impl Failure<'_> {
    /// Whether its labels vouch for it that the command was not carried out, and so may be sent
    /// again whatever it is. The label is believed of a command that was refused as a whole, or
    /// was not sent; not of a reply that tells of writes.
    pub(super) fn is_retryable_by_label(&self) -> bool {
        let not_carried_out = match self.cause {
            Cause::Refused { .. } => true,
            Cause::Network { .. } | Cause::PoolCleared | Cause::UnreadableReply | Cause::Driver => {
                self.phase == Phase::BeforeSending
            }
            Cause::WriteErrors { .. } | Cause::WriteConcern { .. } => false,
        };
        self.labels.retryable && not_carried_out
    }
}

/// How far an attempt had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not a byte of the command was sent: a connection was being checked out, made or
    /// authenticated, or the message was being put together.
    BeforeSending,
    /// Some of it may have been sent.
    Sending,
}

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause<'a> {
    /// The connection: while it was made, or while the command was under way.
    Network {
        /// Whether it was us who stopped waiting: nothing came in time, or the pool interrupted
        /// its connections. The server may still be at it then.
        ended_by_us: bool,
    },
    /// The pool was cleared while the command waited for a connection.
    PoolCleared,
    /// The server refused the command, or a step of the handshake, as a whole.
    Refused {
        /// The code at the top of the reply; 0 if there was none.
        code: i32,
        /// What the server said.
        message: &'a str,
    },
    /// The reply lists statements that failed, perhaps beside a write concern error.
    WriteErrors {
        /// The code of each.
        codes: &'a [i32],
        /// Whether the reply tells of a statement that was carried out.
        any_applied: bool,
    },
    /// The reply's only error is that of the write concern.
    WriteConcern {
        /// Its code.
        code: i32,
    },
    /// The reply cannot be understood.
    UnreadableReply,
    /// Something on our side: no connection in time, a message too large, a client shut down.
    Driver,
}

/// The labels that decisions go by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Labels {
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

impl Labels {
    /// Whether a retry after such an error is bounded by `maxAdaptiveRetries` and paid for.
    pub(super) fn are_of_overload(self) -> bool {
        self.retryable || self.system_overloaded
    }
}

impl<S: AsRef<str>> FromIterator<S> for Labels {
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
