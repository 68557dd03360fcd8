//! A MongoDB driver for applications whose writes must happen exactly once.
//!
//! A [`Client`] discovers and monitors the servers of a deployment. A [`Database`] and a
//! [`Collection`] are handles: names with default options, cheap to create. Methods that send
//! commands return an [`action`]: call its setters, then `.await` it. Names and signatures are
//! those of the `mongodb` crate 3.x.
//!
//! ```no_run
//! # async fn run() -> steadfast::error::Result<()> {
//! use steadfast::{Client, bson::{Document, doc}};
//!
//! let client = Client::with_uri_str("mongodb://localhost:27017").await?;
//! let books = client.database("library").collection::<Document>("books");
//! books.insert_one(doc! { "title": "1984", "year": 1949 }).await?;
//! let mut old = books.find(doc! { "year": { "$lt": 1950 } }).limit(10).await?;
//! while old.advance().await? {
//!     println!("{}", old.current().get_str("title")?);
//! }
//! # Ok(()) }
//! ```
//!
//! The feature `sync` adds a blocking API, the module `sync`.
//!
//! # Retries and errors
//!
//! Retryable reads and writes are retried once after a retryable error, or until the deadline if a
//! time-out (`timeoutMS`) is set. Retryable writes carry a transaction number (`txnNumber`), so that servers
//! apply them at most once. This holds as long as the server keeps the transaction record: at least
//! `TransactionRecordMinimumLifetimeMinutes`, a server parameter with a default of 30 that drivers
//! cannot read. No retry is sent later than `logicalSessionTimeoutMinutes`, less one minute, after
//! the first attempt. `movePrimary` of an unsharded collection loses the record.
//!
//! Commands that an overloaded server rejects are retried up to five times with backoff. A
//! [change stream](change_stream::ChangeStream) resumes after the last event.
//!
//! An [`Error`](error::Error) reports whether the write was applied
//! ([`outcome`](error::Error::outcome)) and the failed attempts
//! ([`attempts`](error::Error::attempts)).
//!
//! # Cancellation
//!
//! Every future of this crate can be dropped at any `.await`. No connection returns to its pool
//! with a partial message: a background task reads the reply, or closes the connection after three
//! seconds. A write whose future was dropped may have been applied. See
//! [`action`](action#cancellation).
//!
//! # Events and logs
//!
//! [`ClientOptions`](options::ClientOptions) accepts handlers for events of commands, connections,
//! servers and retries; see [`event`]. The same events are emitted as `tracing` events with the
//! targets `steadfast::command`, `steadfast::connection`, `steadfast::server_selection`,
//! `steadfast::topology` and `steadfast::retry`. Neither contains secrets.
//!
//! # Version of `bson`
//!
//! [`bson`] is the crate `bson` in version 3 (feature `bson-3`, on by default) or 2 (feature `bson-2`, if `bson-3` is off).
//! The feature `compat-3-0-0` of the `mongodb` crate implies `bson-2`. Libraries leave the choice to the application: they
//! depend on this crate with `default-features = false`.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

// Doctests and unit tests share helpers that name the crate `steadfast`.
#[cfg(test)]
extern crate self as steadfast;

// Declared first: the modules below use its macros.
#[macro_use]
pub mod options;

#[macro_use]
mod actions;
/// Actions: the return types of methods of [`Client`], [`Database`], [`Collection`] and
/// [`ClientSession`]. Call setters on an action, then `.await` it.
///
/// ```no_run
/// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use std::time::Duration;
/// use steadfast::bson::doc;
///
/// let find = books.find(doc! { "year": 1949 }); // Nothing is sent yet.
/// let cursor = find.sort(doc! { "title": 1 }).timeout(Duration::from_secs(2)).await?;
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// Every action can fail with these [kinds](crate::error::ErrorKind), besides those listed at its
/// method:
///
/// - `InvalidArgument`: options contradict each other, a name is invalid, or the session belongs to
///   another client. Nothing was sent.
/// - `ServerSelection`: no suitable server within `serverSelectionTimeoutMS`.
/// - `Io`, `ConnectionPoolCleared`, `DnsResolve`: the network failed, after retries if the command
///   is retryable.
/// - `Authentication`: the server rejected the credential.
/// - `Timeout`: the deadline (`timeoutMS`) passed.
/// - `InvalidResponse`, `Bson`: the reply is malformed, or a value does not convert to or from
///   BSON.
/// - `IncompatibleServer`, `SessionsNotSupported`: the server does not support the operation.
/// - `Transaction`: the operation is not allowed in the state of the session's transaction.
/// - `Shutdown`: the client was shut down.
///
/// # Cancellation
///
/// The future of an action can be dropped at any `.await`:
///
/// - Before a connection is checked out, nothing was sent.
/// - While the command is being sent, the connection is closed.
/// - While the reply is awaited, a background task reads it within three seconds and returns the
///   connection to its pool, or closes it. The server may still execute the command. An explicit
///   session is marked dirty; it can be used further.
/// - In a transaction, the operation continues in the background for up to three seconds, and the
///   next command of the transaction waits for it.
/// - A cursor that the command opens on the server stays open until the idle cursor timeout there.
pub mod action {
    pub use crate::{actions::*, options::ParseClientOptions as ParseConnectionString};

    /// Actions of a [`GridFsBucket`](crate::gridfs::GridFsBucket).
    pub mod gridfs {
        pub use crate::gridfs::action::*;
    }
}
mod auth;
#[cfg(feature = "sync")]
mod blocking;
pub mod change_stream;
mod client;
mod client_session;
mod collection;
mod command;
mod connection;
mod cursor;
mod database;
mod deadline;
mod decode;
#[cfg(feature = "dns")]
mod dns;
pub mod error;
pub mod event;
mod exec;
pub mod gridfs;
mod index;
mod namespace;
mod operation;
mod pin;
mod pool;
mod random;
pub mod raw_batch_cursor;
pub mod results;
mod resume_token;
#[cfg(feature = "sync")]
mod runtime;
mod search_index;
mod sequence;
mod serde_helpers;
mod session;
#[cfg(feature = "sync")]
pub mod sync;
mod tls;
mod topology;
mod trace;
mod write_results;

/// The crate `bson`, version 2 or 3.
pub use ::bson::original as bson;
pub use steadfast_core::{
    cluster_time::ClusterTime,
    description::{
        ServerDescription, ServerType, TopologyDescription, TopologyType, TopologyVersion,
    },
    selection::ServerInfo,
    transaction::TransactionState,
};

/// Examples of the guides, as doctests. Those with patterns are compiled in `steadfast-patterns`.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../docs/retrying.md")]
    struct Retrying;

    #[doc = include_str!("../../../docs/deadlines.md")]
    struct Deadlines;

    #[doc = include_str!("../../../docs/transactions.md")]
    struct Transactions;

    #[doc = include_str!("../../../docs/backpressure.md")]
    struct Backpressure;

    #[doc = include_str!("../../../docs/black-pipe.md")]
    struct BlackPipe;

    #[doc = include_str!("../../../docs/embedded.md")]
    struct Embedded;
}

/// Boxed future, such as that of an asynchronous event handler.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub use self::{
    client::{Client, ClientMetrics},
    client_session::ClientSession,
    collection::Collection,
    cursor::{Cursor, SessionCursor, SessionCursorStream},
    database::Database,
    index::{IndexModel, IndexModelBuilder},
    namespace::Namespace,
    search_index::{SearchIndexModel, SearchIndexModelBuilder, SearchIndexType},
};
