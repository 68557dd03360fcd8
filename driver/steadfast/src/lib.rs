//! A MongoDB driver for applications whose writes must happen exactly once.
//!
//! A [`Client`] finds the servers of a deployment and keeps watch over them; a [`Database`] and a
//! [`Collection`] are names with defaults, free to make. What talks to a server is an
//! [`action`]: call its setters, then `.await` it. Names and shapes are those of the `mongodb`
//! crate 3.x.
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
//! # Dropping futures
//!
//! Every future of this crate may be dropped at any `.await`. Nothing is leaked and no connection
//! goes back to its pool with half a message in it: a reply that nobody waits for any more is read
//! in the background, and if that takes too long the connection is closed. Whether a write whose
//! future was dropped was applied is not known, of course.
//!
//! # Seeing inside
//!
//! Handlers for events of commands, connections and servers are set in
//! [`ClientOptions`](options::ClientOptions); see [`event`]. The same go to `tracing` under the
//! targets `steadfast::command`, `steadfast::connection`, `steadfast::server_selection` and
//! `steadfast::topology`, and retries under `steadfast::retry`. Secrets are shown in neither.
//!
//! # When things go wrong
//!
//! Writes and reads that failed for a passing reason are tried once more, or with a time limit
//! (`timeoutMS`) until it is over, and a write that is sent twice is applied once, for as long as the
//! server keeps the record of it: at least `TransactionRecordMinimumLifetimeMinutes`, a server parameter that
//! is 30 by default and not shown to drivers. No retry is sent later than `logicalSessionTimeoutMinutes`, less
//! one minute, after the first attempt. (`movePrimary` of an unsharded collection loses the record.) All
//! operations are
//! tried again when a server is overloaded, up to five times, after a wait. An [`Error`](error::Error) says what became of the write
//! ([`outcome`](error::Error::outcome)) and what was tried
//! ([`attempts`](error::Error::attempts)). A [change stream](change_stream::ChangeStream) goes on where
//! it was.

// So that tests of the inside can use what tests of the outside use.
#[cfg(test)]
extern crate self as steadfast;

// Before the modules that use its macros.
#[macro_use]
pub mod options;

#[macro_use]
mod actions;
/// Actions: what the methods of a [`Client`], a [`Database`] and a [`Collection`] return. Call setters on
/// one, then `.await` it.
pub mod action {
    pub use crate::actions::*;

    /// Actions of a [`GridFsBucket`](crate::gridfs::GridFsBucket).
    pub mod gridfs {
        pub use crate::gridfs::action::*;
    }
}
mod auth;
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
pub mod patterns;
mod pin;
mod pool;
mod random;
pub mod results;
mod resume_token;
mod search_index;
mod sequence;
mod serde_helpers;
mod session;
mod tls;
mod topology;
mod trace;
mod write_results;

pub use bson;
pub use steadfast_core::{
    cluster_time::ClusterTime,
    description::{
        ServerDescription, ServerType, TopologyDescription, TopologyType, TopologyVersion,
    },
    selection::ServerInfo,
    transaction::TransactionState,
};

/// The programs of the README and of the guides, checked.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

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

    #[doc = include_str!("../../../docs/resilience.md")]
    struct Resilience;

    #[doc = include_str!("../../../docs/local-writes.md")]
    struct LocalWrites;
}

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
