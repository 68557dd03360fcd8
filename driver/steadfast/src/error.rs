//! Errors: kinds, labels, failed attempts and the outcome of a write.
//!
//! [`Error`] is an opaque type with a public [`kind`](Error::kind) to match on, and methods `is_*`
//! for common questions. See
//! [error handling](https://www.mongodb.com/docs/manual/reference/error-codes/) for the codes of
//! servers.

pub(crate) mod command_error;
mod compose;
mod gridfs;
mod history;
mod kind;
mod network;
mod partial;
mod timeout;
mod write;

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
    sync::{Arc, LazyLock},
    time::Duration,
};

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

/// Error label: the write can be retried with the same transaction number.
pub const RETRYABLE_WRITE_ERROR: &str = steadfast_core::retry::RETRYABLE_WRITE_ERROR;
/// Error label: the whole transaction can be retried.
pub const TRANSIENT_TRANSACTION_ERROR: &str = steadfast_core::retry::TRANSIENT_TRANSACTION_ERROR;
/// Error label: the result of `commitTransaction` is unknown; the commit can be retried.
pub const UNKNOWN_TRANSACTION_COMMIT_RESULT: &str =
    steadfast_core::transaction::UNKNOWN_TRANSACTION_COMMIT_RESULT;
/// Error label: the server is overloaded.
pub const SYSTEM_OVERLOADED_ERROR: &str = steadfast_core::retry::SYSTEM_OVERLOADED_ERROR;
/// Error label: the command was not executed and can be retried, whatever it is.
pub const RETRYABLE_ERROR: &str = steadfast_core::retry::RETRYABLE_ERROR;
/// Error label: the attempt performed no writes.
pub const NO_WRITES_PERFORMED: &str = steadfast_core::retry::NO_WRITES_PERFORMED;
/// Error label: the change stream can be resumed.
pub const RESUMABLE_CHANGE_STREAM_ERROR: &str = "ResumableChangeStreamError";

/// Result of the fallible functions of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of an operation, with its labels, server, failed attempts and outcome.
///
/// ```
/// use steadfast::error::{Error, ErrorKind};
///
/// fn explain(error: &Error) -> String {
///     match &*error.kind {
///         ErrorKind::Command(command) => format!("server error: {}", command.message),
///         _ if error.is_network_error() => "network error".to_owned(),
///         other => other.to_string(),
///     }
/// }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Error {
    /// Kind of the error.
    pub kind: Box<ErrorKind>,
    /// Rarely used fields, boxed to keep `Result` small.
    details: Option<Box<ErrorDetails>>,
}

#[derive(Clone, Default)]
struct ErrorDetails {
    labels: HashSet<String>,
    server: Option<ServerAddress>,
    wire_version: Option<i32>,
    response: Option<RawDocumentBuf>,
    source: Option<Error>,
    /// Failure of the connection, for network errors.
    network_failure: Option<NetworkFailure>,
    history: Option<History>,
    /// Outcome of a call of several commands, if this is the error of one.
    outcome_of_call: Option<Outcome>,
    /// `true` if the call had a time-out.
    limited: bool,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self { kind: Box::new(kind), details: None }
    }

    pub(crate) fn authentication(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Authentication { message: message.into() })
    }

    /// Creates an error with another as its source, whose labels, server, attempts and outcome it
    /// has.
    pub(crate) fn wrapping(kind: ErrorKind, source: Self) -> Self {
        Self::new(kind).with_context_of(&source).with_source(source)
    }

    /// Creates an error that contains a value of the application, such as an error in a transaction
    /// callback.
    ///
    /// ```
    /// use steadfast::error::Error;
    ///
    /// let error = Error::custom("insufficient funds");
    /// assert_eq!(error.get_custom::<&str>(), Some(&"insufficient funds"));
    /// ```
    pub fn custom(value: impl std::any::Any + Send + Sync) -> Self {
        Self::new(ErrorKind::Custom(Arc::new(value)))
    }

    /// Returns the value passed to [`Error::custom`], if it has type `E`.
    pub fn get_custom<E: std::any::Any>(&self) -> Option<&E> {
        match &*self.kind {
            ErrorKind::Custom(value) => value.downcast_ref(),
            _ => None,
        }
    }

    fn details_mut(&mut self) -> &mut ErrorDetails {
        self.details.get_or_insert_default()
    }

    /// Returns the error labels added by the server or the driver.
    pub fn labels(&self) -> &HashSet<String> {
        static NONE: LazyLock<HashSet<String>> = LazyLock::new(HashSet::new);
        self.details.as_ref().map_or(&NONE, |details| &details.labels)
    }

    /// Returns the labels in alphabetical order, for output that must be repeatable.
    pub(crate) fn sorted_labels(&self) -> BTreeSet<&str> {
        self.labels().iter().map(String::as_str).collect()
    }

    /// Returns `true` if the error or its source has the label.
    ///
    /// ```
    /// use steadfast::error::{Error, TRANSIENT_TRANSACTION_ERROR};
    ///
    /// fn may_rerun_transaction(error: &Error) -> bool {
    ///     error.contains_label(TRANSIENT_TRANSACTION_ERROR)
    /// }
    /// ```
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

    /// Returns the address of the server.
    pub fn server_address(&self) -> Option<&ServerAddress> {
        self.details.as_ref()?.server.as_ref()
    }

    pub(crate) fn with_server(mut self, server: &ServerAddress) -> Self {
        self.details_mut().server.get_or_insert_with(|| server.clone());
        self
    }

    /// Returns the maximum wire version of the server, as of the handshake of the connection.
    pub(crate) fn wire_version(&self) -> Option<i32> {
        self.details.as_ref()?.wire_version
    }

    pub(crate) fn with_wire_version(mut self, version: i32) -> Self {
        self.details_mut().wire_version = Some(version);
        self
    }

    /// Returns the whole reply of the server, if the error is from one.
    ///
    /// ```
    /// use steadfast::error::Error;
    ///
    /// fn error_info(error: &Error) -> Option<&str> {
    ///     error.server_response()?.get_str("errmsg").ok()
    /// }
    /// ```
    pub fn server_response(&self) -> Option<&RawDocumentBuf> {
        self.details.as_ref()?.response.as_ref()
    }

    pub(crate) fn with_response(mut self, response: RawDocumentBuf) -> Self {
        self.details_mut().response = Some(response);
        self
    }

    /// Returns the server's error code: of the command, else of the first write error, else of the
    /// write concern error, else of the error that ended a bulk write.
    ///
    /// ```
    /// use steadfast::error::Error;
    ///
    /// /// `DocumentValidationFailure`.
    /// fn is_validation_failure(error: &Error) -> bool {
    ///     error.code() == Some(121)
    /// }
    /// ```
    pub fn code(&self) -> Option<i32> {
        match &*self.kind {
            ErrorKind::Command(error) => Some(error.code),
            ErrorKind::Write(failure) => Some(failure.code()),
            ErrorKind::InsertMany(error) => error.code().or_else(|| self.batch_end()?.code()),
            ErrorKind::BulkWrite(error) => error.code().or_else(|| self.batch_end()?.code()),
            _ => None,
        }
    }

    /// Returns the base of the backoff that an overloaded server requests before a retry
    /// (`baseBackoffMS`), if the error is a command error.
    ///
    /// The driver's own retries honour it; see
    /// [client backpressure](https://github.com/mongodb/specifications/blob/master/source/client-backpressure/client-backpressure.md).
    pub fn base_backoff(&self) -> Option<Duration> {
        match &*self.kind {
            ErrorKind::Command(error) => error.base_backoff,
            _ => None,
        }
    }

    /// Returns `true` if the connection failed or timed out. For a bulk write: if that ended it.
    pub fn is_network_error(&self) -> bool {
        matches!(&*self.kind, ErrorKind::Io(_) | ErrorKind::ConnectionPoolCleared { .. })
            || self.batch_end().is_some_and(Error::is_network_error)
    }

    /// Returns `true` if a reply did not arrive in time. For a bulk write: if that ended it.
    pub fn is_network_timeout(&self) -> bool {
        self.network_failure().is_some_and(NetworkFailure::is_timeout)
            || self.batch_end().is_some_and(Error::is_network_timeout)
    }

    /// Returns `true` if the deadline of the call (`timeoutMS`) passed. For a bulk write: if that
    /// ended it.
    ///
    /// The source is the last error; [`ErrorKind::Timeout`] contains the time spent in each phase.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use std::time::Duration;
    /// use steadfast::bson::doc;
    ///
    /// match books.find_one(doc! {}).timeout(Duration::from_millis(50)).await {
    ///     Err(error) if error.is_timeout() => println!("too slow: {error}"),
    ///     result => println!("{:?}", result?),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn is_timeout(&self) -> bool {
        let of_server = |code: Option<i32>| code == Some(MAX_TIME_EXPIRED);
        let ran_out = match &*self.kind {
            ErrorKind::Timeout(_) => true,
            // `MaxTimeMSExpired`: the server's time-out was derived from that of the call.
            ErrorKind::InsertMany(error) => self.is_limited() && of_server(error.code()),
            ErrorKind::BulkWrite(error) => self.is_limited() && of_server(error.code()),
            ErrorKind::GridFs(GridFsErrorKind::AbortError { delete_error, .. }) => {
                return delete_error.is_timeout();
            }
            _ => false,
        };
        ran_out || self.batch_end().is_some_and(Error::is_timeout)
    }

    /// Marks the error of a bulk write with a time-out.
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

    /// Returns the error that ended a bulk write early.
    pub(crate) fn batch_end(&self) -> Option<&Error> {
        match &*self.kind {
            ErrorKind::InsertMany(_) | ErrorKind::BulkWrite(_) => {
                self.details.as_ref()?.source.as_ref()
            }
            _ => None,
        }
    }

    /// Returns `true` if the same call may succeed later without a change in the application: after
    /// network errors, failed server selection and time-outs, and while a server starts, shuts
    /// down, steps down, is overloaded or waits for other members.
    ///
    /// It does not state that the call is safe to repeat; see [`outcome`](Self::outcome).
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

    /// Returns `true` for a retryable error of the specification of retryable writes: the network failed,
    /// the error has the label `RetryableWriteError`, or its code is that of a server that starts, shuts
    /// down or steps down.
    ///
    /// The driver retries reads and retryable writes once after such an error. It is narrower than
    /// [`is_transient`](Self::is_transient): a retry at once may succeed.
    pub fn is_retryable(&self) -> bool {
        self.is_network_error()
            || self.contains_label(RETRYABLE_WRITE_ERROR)
            || self.code().is_some_and(steadfast_core::retry::is_retryable_code)
    }

    /// Returns `true` if no suitable server was available.
    pub fn is_server_selection_error(&self) -> bool {
        matches!(&*self.kind, ErrorKind::ServerSelection { .. })
    }

    /// Returns `true` if authentication failed.
    pub fn is_auth_error(&self) -> bool {
        matches!(&*self.kind, ErrorKind::Authentication { .. })
    }

    /// Returns `true` if an argument or option was invalid. Nothing was sent.
    pub fn is_invalid_argument(&self) -> bool {
        matches!(&*self.kind, ErrorKind::InvalidArgument { .. })
    }

    /// Returns `true` if a write violated a unique index (codes 11000, 11001 and 12582).
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// match books.insert_one(doc! { "_id": 1 }).await {
    ///     Err(error) if error.is_duplicate_key_error() => println!("exists already"),
    ///     result => drop(result?),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn is_duplicate_key_error(&self) -> bool {
        self.code().is_some_and(is_duplicate_key)
    }

    /// Returns `true` if the database, collection or index does not exist (`NamespaceNotFound`).
    pub(crate) fn is_namespace_not_found(&self) -> bool {
        matches!(&*self.kind, ErrorKind::Command(error) if error.code == 26)
    }

    /// Removes text that may quote a sensitive command.
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

/// Codes of the retryable writes specification, and of servers that wait for other members.
fn is_transient_code(code: i32) -> bool {
    steadfast_core::retry::is_retryable_code(code)
        // WriteConcernTimeout, UnsatisfiableWriteConcern, ReadConcernMajorityNotAvailableYet and
        // LegacyNotPrimary
        || matches!(code, 64 | 100 | 134 | 10058)
}

/// Prints set fields only: a `main` that returns an error prints this.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Error");
        shown.field("kind", &self.kind);
        let Some(details) = &self.details else { return shown.finish() };
        if let Some(server) = &details.server {
            shown.field("server", &format_args!("{server}"));
        }
        if !details.labels.is_empty() {
            shown.field("labels", &self.sorted_labels());
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
            // The last error contains the server and the labels.
            return write!(f, "; last error: {last}");
        }
        let end = self.batch_end();
        if let Some(end) = end {
            write!(f, "; ended by: {end}")?;
        }
        let Some(details) = &self.details else { return Ok(()) };
        if let Some(server) = &details.server
            && end.and_then(Self::server_address) != Some(server)
        {
            write!(f, " (server {server})")?;
        }
        if !details.labels.is_empty() {
            let labels: Vec<_> = self.sorted_labels().into_iter().collect();
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
            ErrorKind::BsonDeserialization(error) => Some(error),
            ErrorKind::BsonSerialization(error) => Some(error),
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
