//! Orderly shutdown of a client.

use std::{pin::Pin, sync::Arc, time::Duration};

use bson::{RawArrayBuf, RawDocumentBuf, raw::cstr};
use steadfast_core::read_preference::ReadPreference;

use super::Client;
use crate::command::{Command, CommandKind, Target};

/// Time-out of `endSessions`.
const END_SESSIONS_LIMIT: Duration = Duration::from_secs(1);
/// Maximum number of sessions in one `endSessions` command.
const SESSIONS_IN_A_COMMAND: usize = 10_000;

impl Client {
    /// Shuts down the client: rejects new operations, waits for those in progress, ends the server
    /// sessions and closes all connections.
    ///
    /// Later operations of clones and cursors fail with
    /// [`ErrorKind::Shutdown`](crate::error::ErrorKind::Shutdown).
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) {
    /// client.shutdown().await;
    /// # }
    /// ```
    ///
    /// # Cancellation
    ///
    /// New operations are rejected from the first poll on. If the future is dropped later,
    /// connections stay open until the last clone of the client is dropped.
    pub fn shutdown(self) -> Shutdown {
        Shutdown { client: self, immediate: false }
    }
}

/// Action that shuts down a client. See [`Client::shutdown`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct Shutdown {
    client: Client,
    immediate: bool,
}

impl Shutdown {
    /// Closes connections without waiting for operations in progress if `true`. Defaults to
    /// `false`.
    pub fn immediate(mut self, value: bool) -> Self {
        self.immediate = value;
        self
    }

    async fn execute(self) {
        let executor = self.client.executor();
        executor.activity().close();
        if !self.immediate {
            executor.activity().wait_until_idle().await;
            // Servers expire the sessions themselves if the command does not arrive.
            drop(tokio::time::timeout(END_SESSIONS_LIMIT, end_sessions(&self.client)).await);
        }
        executor.topology().close();
    }
}

/// Sends `endSessions` for the pooled server sessions. The sessions specification: errors are
/// ignored.
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
            .execute(client.executor().begin_operation(), Box::new(command))
            .await
            .is_err()
        {
            return;
        }
    }
}

#[cfg(feature = "sync")]
impl Shutdown {
    /// Runs the action and blocks the thread until the client is shut down. See [`sync`](crate::sync#blocking).
    ///
    /// In a task of a current-thread runtime, it does not wait: the shutdown continues in the background, and a warning
    /// is logged.
    pub fn run(self) {
        let client = self.client.clone();
        let immediate = self.immediate;
        if let Err(error) = crate::runtime::block_on(self.execute()) {
            tracing::warn!(
                target: "steadfast::client",
                "shutdown continues in the background: {error}",
            );
            let shutdown = Self { client: client.clone(), immediate };
            client.executor().spawn(shutdown.execute());
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
