//! What can go wrong, and what a caller may conclude from it.
//!
//! [`Error`] is one opaque type with a public [`kind`](Error::kind) to match on, labels, the server
//! it came from, and questions (`is_*`) for what applications ask most.

pub(crate) mod command_error;
mod gridfs;
mod history;
mod kind;
mod network;
mod partial;
mod timeout;
mod write;

use std::{collections::BTreeSet, fmt, sync::Arc};

use bson::RawDocumentBuf;
use steadfast_core::{address::ServerAddress, retry::is_duplicate_key};

pub use self::gridfs::{GridFsErrorKind, GridFsFileIdentifier};
pub use self::history::Attempt;
pub(crate) use self::history::{AttemptLog, History};
pub use self::kind::{CommandError, ErrorKind};
pub(crate) use self::network::NetworkFailure;
pub use self::partial::PartialBulkWriteResult;
pub(crate) use self::timeout::MAX_TIME_EXPIRED;
pub use self::timeout::{TimeSpent, Timeout};
pub use self::write::{
    BulkWriteError, IndexedWriteError, InsertManyError, WriteConcernError, WriteError, WriteFailure,
};
pub use steadfast_core::retry::Outcome;

/// On errors after which a write may be sent again with the same transaction id.
pub const RETRYABLE_WRITE_ERROR: &str = "RetryableWriteError";
/// On errors after which a whole transaction may be tried again.
pub const TRANSIENT_TRANSACTION_ERROR: &str = "TransientTransactionError";
/// On errors that leave open whether a transaction was committed.
pub const UNKNOWN_TRANSACTION_COMMIT_RESULT: &str = "UnknownTransactionCommitResult";
/// On errors of a server that sheds load.
pub const SYSTEM_OVERLOADED_ERROR: &str = "SystemOverloadedError";
/// On errors after which any command may be sent again.
pub const RETRYABLE_ERROR: &str = "RetryableError";
/// On errors that came before anything was written.
pub const NO_WRITES_PERFORMED: &str = "NoWritesPerformed";
/// On errors after which a change stream may be resumed.
pub const RESUMABLE_CHANGE_STREAM_ERROR: &str = "ResumableChangeStreamError";

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure, with all that is known of it.
///
/// ```
/// use steadfast::error::{Error, ErrorKind};
///
/// fn explain(error: &Error) -> String {
///     match &*error.kind {
///         ErrorKind::Command(command) => format!("the server said no: {}", command.message),
///         _ if error.is_network_error() => "the connection broke".to_owned(),
///         other => other.to_string(),
///     }
/// }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Error {
    /// What kind of failure it is.
    pub kind: Box<ErrorKind>,
    /// All that is rarely there, so that a result stays small.
    details: Option<Box<Details>>,
}

#[derive(Clone, Default)]
struct Details {
    labels: BTreeSet<String>,
    server: Option<ServerAddress>,
    wire_version: Option<i32>,
    response: Option<RawDocumentBuf>,
    source: Option<Error>,
    /// What happened to the connection, if the error is about one.
    network_failure: Option<NetworkFailure>,
    history: Option<History>,
    /// Outcome of a call of several commands, of which this is the error of one.
    outcome_of_call: Option<Outcome>,
    /// Whether the call had a time limit.
    limited: bool,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self { kind: Box::new(kind), details: None }
    }

    pub(crate) fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument { message: message.into() })
    }

    pub(crate) fn invalid_response(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidResponse { message: message.into() })
    }

    pub(crate) fn authentication(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Authentication { message: message.into() })
    }

    /// An error of this kind about another, whose labels, server, attempts and outcome it takes over.
    pub(crate) fn wrapping(kind: ErrorKind, source: Self) -> Self {
        let mut error = Self::new(kind);
        error.details_mut().server = source.server_address().cloned();
        error.because_of(source)
    }

    /// An error that carries a value of the application's own.
    pub fn custom(value: impl std::any::Any + Send + Sync) -> Self {
        Self::new(ErrorKind::Custom(Arc::new(value)))
    }

    /// The value given to [`Error::custom`], if it is of type `E`.
    pub fn get_custom<E: std::any::Any>(&self) -> Option<&E> {
        match &*self.kind {
            ErrorKind::Custom(value) => value.downcast_ref(),
            _ => None,
        }
    }

    fn details_mut(&mut self) -> &mut Details {
        self.details.get_or_insert_default()
    }

    /// The labels that the server, or the driver, put on this error.
    pub fn labels(&self) -> &BTreeSet<String> {
        static NONE: BTreeSet<String> = BTreeSet::new();
        self.details.as_ref().map_or(&NONE, |details| &details.labels)
    }

    /// Whether the error, or the one it wraps, bears `label`.
    pub fn contains_label(&self, label: impl AsRef<str>) -> bool {
        let label = label.as_ref();
        self.details.as_ref().is_some_and(|details| {
            details.labels.contains(label)
                || details.source.as_ref().is_some_and(|source| source.contains_label(label))
        })
    }

    pub(crate) fn add_label(&mut self, label: impl Into<String>) {
        self.details_mut().labels.insert(label.into());
    }

    /// The server that the error came from.
    pub fn server_address(&self) -> Option<&ServerAddress> {
        self.details.as_ref()?.server.as_ref()
    }

    pub(crate) fn with_server(mut self, server: &ServerAddress) -> Self {
        self.details_mut().server.get_or_insert_with(|| server.clone());
        self
    }

    /// The highest wire version that the server had announced on the connection it refused the
    /// command on.
    pub(crate) fn wire_version(&self) -> Option<i32> {
        self.details.as_ref()?.wire_version
    }

    pub(crate) fn with_wire_version(mut self, version: i32) -> Self {
        self.details_mut().wire_version = Some(version);
        self
    }

    /// The whole reply of the server, for fields that have no place of their own here.
    pub fn server_response(&self) -> Option<&RawDocumentBuf> {
        self.details.as_ref()?.response.as_ref()
    }

    pub(crate) fn with_response(mut self, response: RawDocumentBuf) -> Self {
        self.details_mut().response = Some(response);
        self
    }

    pub(crate) fn with_source(mut self, source: Error) -> Self {
        self.details_mut().source = Some(source);
        self
    }

    /// The server's error code, if it sent one: of the command, else of the first failed write,
    /// else of the write concern, else of what ended a batch.
    pub fn code(&self) -> Option<i32> {
        match &*self.kind {
            ErrorKind::Command(error) => Some(error.code),
            ErrorKind::Write(failure) => Some(failure.code()),
            ErrorKind::InsertMany(error) => error.code().or_else(|| self.end_of_batch()?.code()),
            ErrorKind::BulkWrite(error) => error.code().or_else(|| self.end_of_batch()?.code()),
            _ => None,
        }
    }

    /// Whether the connection failed, or a reply did not come in time; in a batch, whether that was
    /// what ended it.
    pub fn is_network_error(&self) -> bool {
        matches!(&*self.kind, ErrorKind::Io(_) | ErrorKind::ConnectionPoolCleared { .. })
            || self.end_of_batch().is_some_and(Error::is_network_error)
    }

    /// Whether a reply did not come in time; in a batch, whether that was what ended it.
    pub fn is_network_timeout(&self) -> bool {
        self.network_failure().is_some_and(NetworkFailure::is_timeout)
            || self.end_of_batch().is_some_and(Error::is_network_timeout)
    }

    /// Whether the time of the call (`timeoutMS`) was over before it was done. The error's source is
    /// what it was at; where the time went is in its kind, [`ErrorKind::Timeout`]. Of a batch,
    /// whether that was what ended it.
    pub fn is_timeout(&self) -> bool {
        let of_server = |code: Option<i32>| code == Some(MAX_TIME_EXPIRED);
        let ran_out = match &*self.kind {
            ErrorKind::Timeout(_) => true,
            // The server ran out of the time that it was given.
            ErrorKind::InsertMany(error) => self.is_limited() && of_server(error.code()),
            ErrorKind::BulkWrite(error) => self.is_limited() && of_server(error.code()),
            ErrorKind::GridFs(GridFsErrorKind::AbortError { delete_error, .. }) => {
                return delete_error.is_timeout();
            }
            _ => false,
        };
        ran_out || self.end_of_batch().is_some_and(Error::is_timeout)
    }

    /// The error of a batch that had a time limit.
    pub(crate) fn limited(mut self) -> Self {
        self.details_mut().limited = true;
        self
    }

    fn is_limited(&self) -> bool {
        self.details.as_ref().is_some_and(|details| details.limited)
    }

    fn wrapped(&self) -> Option<&Error> {
        self.details.as_ref()?.source.as_ref()
    }

    /// The error that ended a batch of writes before its time.
    pub(crate) fn end_of_batch(&self) -> Option<&Error> {
        match &*self.kind {
            ErrorKind::InsertMany(_) | ErrorKind::BulkWrite(_) => {
                self.details.as_ref()?.source.as_ref()
            }
            _ => None,
        }
    }

    /// Returns `true` if the same call may succeed later, although the application changes nothing: the
    /// connection broke, no server was found, none replied in time, or a server starts, shuts down, steps
    /// down, is overloaded or waits for other members.
    ///
    /// It does not say that the call is safe to repeat: for that, ask [`outcome`](Self::outcome).
    ///
    /// ```
    /// use steadfast::error::Error;
    ///
    /// fn may_call_again_later(error: &Error) -> bool {
    ///     error.is_transient() && error.outcome().is_certainly_not_applied()
    /// }
    /// ```
    pub fn is_transient(&self) -> bool {
        if self.is_auth_error() || self.is_invalid_argument() {
            return false;
        }
        let labels = [RETRYABLE_WRITE_ERROR, RETRYABLE_ERROR, SYSTEM_OVERLOADED_ERROR];
        self.is_network_error()
            || self.is_server_selection_error()
            || self.is_timeout()
            || labels.iter().any(|label| self.contains_label(label))
            || self.code().is_some_and(is_transient_code)
    }

    /// Whether no suitable server was found in time.
    pub fn is_server_selection_error(&self) -> bool {
        matches!(&*self.kind, ErrorKind::ServerSelection { .. })
    }

    /// Whether logging in failed.
    pub fn is_auth_error(&self) -> bool {
        matches!(&*self.kind, ErrorKind::Authentication { .. })
    }

    /// Whether the call itself was at fault; nothing was sent.
    pub fn is_invalid_argument(&self) -> bool {
        matches!(&*self.kind, ErrorKind::InvalidArgument { .. })
    }

    /// Whether a unique index refused a write (codes 11000, 11001 and 12582).
    pub fn is_duplicate_key_error(&self) -> bool {
        self.code().is_some_and(is_duplicate_key)
    }

    /// Whether a database, collection or index that the call named does not exist.
    pub(crate) fn is_namespace_not_found(&self) -> bool {
        matches!(&*self.kind, ErrorKind::Command(error) if error.code == 26)
    }

    /// Takes out whatever a server may have quoted of a command that must not be shown.
    pub(crate) fn redacted(mut self) -> Self {
        if let Some(details) = &mut self.details {
            details.response = None;
            details.source = details.source.take().map(Error::redacted);
        }
        if let ErrorKind::Command(error) = &mut *self.kind {
            error.message = "REDACTED".to_owned();
        }
        self
    }
}

/// Codes of the retryable writes specification, and of servers that wait for others.
fn is_transient_code(code: i32) -> bool {
    steadfast_core::retry::is_of_passing_state(code)
        // WriteConcernTimeout, UnsatisfiableWriteConcern, ReadConcernMajorityNotAvailableYet and
        // LegacyNotPrimary
        || matches!(code, 64 | 100 | 134 | 10058)
}

/// What is known, without what is not: this is what a `main` that returns an error prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Error");
        shown.field("kind", &self.kind);
        let Some(details) = &self.details else { return shown.finish() };
        if let Some(server) = &details.server {
            shown.field("server", &format_args!("{server}"));
        }
        if !details.labels.is_empty() {
            shown.field("labels", &details.labels);
        }
        if let Some(response) = &details.response {
            shown.field("response", &bson::Document::try_from(&**response));
        }
        if let Some(source) = &details.source {
            shown.field("source", source);
        }
        shown.finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let (ErrorKind::Timeout(_), Some(last)) = (&*self.kind, self.wrapped()) {
            // It names the server and the labels itself.
            return write!(f, "; at last: {last}");
        }
        if let Some(end) = self.end_of_batch() {
            write!(f, "; ended by: {end}")?;
        }
        let Some(details) = &self.details else { return Ok(()) };
        if let Some(server) = &details.server {
            write!(f, " (server {server})")?;
        }
        if !details.labels.is_empty() {
            let labels: Vec<_> = details.labels.iter().map(String::as_str).collect();
            write!(f, " [{}]", labels.join(", "))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Some(source) = self.details.as_ref().and_then(|details| details.source.as_ref()) {
            return Some(source);
        }
        match &*self.kind {
            ErrorKind::Io(error) => Some(error.as_ref()),
            ErrorKind::Bson(error) => Some(error),
            ErrorKind::GridFs(GridFsErrorKind::Stream(error)) => Some(error.as_ref()),
            _ => None,
        }
    }
}

impl<E> From<E> for Error
where
    ErrorKind: From<E>,
{
    fn from(error: E) -> Self {
        Self::new(error.into()).unwrapped()
    }
}
