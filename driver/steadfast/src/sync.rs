//! Blocking API, with the names of the async one. Requires the feature `sync`.
//!
//! Methods of these handles take the arguments of the async methods and return the same [actions](crate::action). Call
//! `run()` on an action instead of `.await`: it blocks the thread until the result is there. A [`Cursor`] and a
//! [`ChangeStream`] are iterators; GridFS streams implement [`Read`](std::io::Read) and [`Write`](std::io::Write).
//!
//! ```no_run
//! use steadfast::{bson::{Document, doc}, error::Result, sync::Client};
//!
//! fn main() -> Result<()> {
//!     let client = Client::with_uri_str("mongodb://localhost:27017")?;
//!     let books = client.database("library").collection::<Document>("books");
//!     books.insert_one(doc! { "title": "1984", "year": 1949 }).run()?;
//!     for book in books.find(doc! { "year": { "$lt": 1950 } }).sort(doc! { "year": 1 }).run()? {
//!         println!("{}", book?.get_str("title")?);
//!     }
//!
//!     let mut session = client.start_session().run()?;
//!     session.start_transaction().and_run(|session| {
//!         books.delete_one(doc! { "title": "1984" }).session(&mut *session).run()?;
//!         books.insert_one(doc! { "title": "Animal Farm", "year": 1945 }).session(session).run()
//!     })?;
//!     client.shutdown().run();
//!     Ok(())
//! }
//! ```
//!
//! # Blocking
//!
//! One multi-thread tokio runtime with two threads named `steadfast-sync` serves all clients of a process. It starts with
//! the first call and never ends. Calls run in the threads of the application. A thread may block:
//!
//! - outside of any tokio runtime,
//! - in [`tokio::task::spawn_blocking`],
//! - in a task of a multi-thread runtime, or in its `block_on`. Other tasks of the worker move to another thread
//!   ([`tokio::task::block_in_place`]).
//!
//! In a task of a current-thread runtime, in its `block_on` and in a `LocalSet`, a call would stop all tasks of the
//! thread. It returns [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) there, and nothing is sent
//! (in a `LocalSet` of a multi-thread runtime, an open cursor or stream may have sent its next command). `shutdown`
//! continues in the background instead, and `warm_connection_pool` does nothing; both have no result and log a warning.
//! A task in [`tokio::task::unconstrained`] is not recognized, and blocks its runtime.
//!
//! Every handle, cursor, session and stream can be dropped anywhere: its cleanup runs in the background.
//!
//! # Both APIs
//!
//! `sync::Client::from(client)` converts an async client. The actions of both APIs are the same types, so the method
//! `session` of an action accepts sessions of both.

mod client;
mod collection;
mod database;
pub mod gridfs;

pub use self::{collection::Collection, database::Database};
pub use crate::blocking::{
    ChangeStream, Client, ClientSession, Cursor, SessionChangeStream, SessionCursor,
    SessionCursorIter,
};
