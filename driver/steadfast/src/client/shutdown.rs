//! Ending a client in good order.

use std::{pin::Pin, sync::Arc, time::Duration};

use bson::{RawArrayBuf, RawDocumentBuf, raw::cstr};
use steadfast_core::read_preference::ReadPreference;

use super::Client;
use crate::command::{Command, CommandKind, Target};

/// How long the servers may take to hear that sessions are not needed any more.
const END_SESSIONS_LIMIT: Duration = Duration::from_secs(1);
/// How many sessions one command may end.
const SESSIONS_IN_A_COMMAND: usize = 10_000;

impl Client {
    /// Ends the client: lets no new operation begin, waits for those under way, then closes all
    /// connections. Operations of clones and of cursors that are begun afterwards fail with
    /// [`ErrorKind::Shutdown`](crate::error::ErrorKind::Shutdown).
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) {
    /// client.shutdown().await;
    /// # }
    /// ```
    pub fn shutdown(self) -> Shutdown {
        Shutdown { client: self, immediate: false }
    }
}

/// Ends a client. See [`Client::shutdown`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct Shutdown {
    client: Client,
    immediate: bool,
}

impl Shutdown {
    /// Whether not to wait for the operations under way.
    pub fn immediate(mut self, value: bool) -> Self {
        self.immediate = value;
        self
    }

    async fn execute(self) {
        let executor = self.client.executor();
        executor.activity().close();
        if !self.immediate {
            executor.activity().idle().await;
            // Those who cannot be told forget their sessions by themselves.
            drop(tokio::time::timeout(END_SESSIONS_LIMIT, end_sessions(&self.client)).await);
        }
        executor.topology().close();
    }
}

/// Tells the servers that the sessions at rest will not be used again. Errors are of no interest.
async fn end_sessions(client: &Client) {
    let ids = client.executor().sessions().drain();
    for ids in ids.chunks(SESSIONS_IN_A_COMMAND) {
        let mut array = RawArrayBuf::new();
        for id in ids {
            array.push(RawDocumentBuf::clone(id));
        }
        let target = Target::Read(ReadPreference::primary_preferred(None).into());
        let admin = Arc::from("admin");
        let command =
            Command::new(cstr!("endSessions"), array, &admin, target, CommandKind::Generic);
        if client
            .executor()
            .carry_out(client.executor().begin_operation(), Box::new(command))
            .await
            .is_err()
        {
            return;
        }
    }
}

impl IntoFuture for Shutdown {
    type Output = ();
    type IntoFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.execute())
    }
}
