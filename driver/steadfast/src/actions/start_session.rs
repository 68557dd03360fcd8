//! Starting a session.

use std::sync::Arc;

use bson::Document;

use super::ActionFuture;
use crate::{
    Client, ClientSession,
    deadline::now,
    error::{Error, Result},
    options::SessionOptions,
    session::Kind,
};

impl Client {
    /// Starts a session. See [`ClientSession`].
    ///
    /// Nothing is sent: whether the deployment has sessions shows when the session is used.
    pub fn start_session(&self) -> StartSession<'_> {
        StartSession { client: self, options: None }
    }
}

/// Starts a session. See [`Client::start_session`].
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
                "a session is either causally consistent or a snapshot, not both",
            ));
        }
        if !snapshot && options.snapshot_time.is_some() {
            return Err(Error::invalid_argument("only a snapshot session has a snapshot time"));
        }
        let kind = match snapshot {
            true => Kind::Snapshot,
            false => Kind::Explicit { causal: options.causal_consistency.unwrap_or(true) },
        };
        // Whether there are sessions is known, and said, when a command has a connection.
        let lifetime = self.client.executor().session_lifetime();
        let session = Arc::new(self.client.executor().sessions().begin(lifetime, kind, now()));
        if let Some(time) = options.snapshot_time {
            session.see_snapshot_time(time);
        }
        let id = Document::try_from(&*session.id())?;
        Ok(ClientSession::new(self.client.clone(), session, id, options))
    }
}

impl<'a> IntoFuture for StartSession<'a> {
    type Output = Result<ClientSession>;
    type IntoFuture = ActionFuture<'a, ClientSession>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.execute())
    }
}
setters!(SessionOptions for ['a] StartSession<'a>);
