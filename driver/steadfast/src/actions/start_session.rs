//! Start of a session.

use std::sync::Arc;

use bson::Document;

use crate::{
    Client, ClientSession,
    deadline::now,
    error::{Error, Result},
    options::SessionOptions,
    session::SessionKind,
};

impl Client {
    /// Starts an explicit session. See [`ClientSession`] and
    /// [sessions](https://github.com/mongodb/specifications/blob/master/source/sessions/driver-sessions.md).
    ///
    /// Nothing is sent. A deployment without support for sessions is reported by the first
    /// operation.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::bson::{Document, doc};
    ///
    /// let books = client.database("library").collection::<Document>("books");
    /// let mut session = client.start_session().await?;
    /// let book = books.find_one(doc! {}).session(&mut session).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) if a snapshot
    /// session is requested with causal consistency, or a snapshot time without a snapshot session.
    pub fn start_session(&self) -> StartSession<'_> {
        StartSession { client: self, options: None }
    }
}

/// Action that starts a session. See [`Client::start_session`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct StartSession<'a> {
    client: &'a Client,
    options: Option<SessionOptions>,
}

impl StartSession<'_> {
    async fn execute(self) -> Result<ClientSession> {
        let options = self.options.unwrap_or_default();
        let snapshot = options.snapshot == Some(true);
        if snapshot && options.causal_consistency == Some(true) {
            return Err(Error::invalid_argument(
                "snapshot and causal_consistency are mutually exclusive; set only one of them",
            ));
        }
        if !snapshot && options.snapshot_time.is_some() {
            return Err(Error::invalid_argument(
                "snapshot_time requires snapshot; set snapshot to true",
            ));
        }
        let kind = match snapshot {
            true => SessionKind::Snapshot,
            false => SessionKind::Explicit { causal: options.causal_consistency.unwrap_or(true) },
        };
        // Support for sessions is checked later, with the connection of each command.
        let lifetime = self.client.executor().session_lifetime();
        let session = Arc::new(self.client.executor().sessions().begin(lifetime, kind, now()));
        if let Some(time) = options.snapshot_time {
            session.set_snapshot_time(time);
        }
        let id = Document::try_from(&**session.id())?;
        Ok(ClientSession::new(self.client.clone(), session, id, options))
    }
}

awaitable!(['a] StartSession<'a> => ClientSession, sync crate::blocking::ClientSession);
setters!(SessionOptions for ['a] StartSession<'a>);
