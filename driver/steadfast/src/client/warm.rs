//! Warm-up of the connection pools.

use std::pin::Pin;

use steadfast_core::{
    read_preference::ReadPreference,
    selection::{SelectionCriteria, SelectionTarget},
};

use super::Client;
use crate::trace;

impl Client {
    /// Waits until the pool of each known server has
    /// [`min_pool_size`](crate::options::ClientOptions::min_pool_size) connections. Returns at once
    /// if that is 0.
    ///
    /// Server selection comes first, with its usual time-out. Servers that cannot be reached are
    /// skipped.
    ///
    /// ```no_run
    /// # async fn run() -> steadfast::error::Result<()> {
    /// use steadfast::Client;
    ///
    /// let client = Client::with_uri_str("mongodb://localhost:27017/?minPoolSize=5").await?;
    /// client.warm_connection_pool().await;
    /// # Ok(()) }
    /// ```
    pub fn warm_connection_pool(&self) -> WarmConnectionPool<'_> {
        WarmConnectionPool { client: self }
    }
}

/// Action that fills the connection pools. See [`Client::warm_connection_pool`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct WarmConnectionPool<'a> {
    client: &'a Client,
}

impl WarmConnectionPool<'_> {
    async fn execute(self) {
        let wanted = self.client.executor().options().min_pool_size.unwrap_or(0);
        let Some(wanted) = usize::try_from(wanted).ok().filter(|&wanted| wanted > 0) else {
            return;
        };
        let topology = self.client.executor().topology();
        let any = SelectionCriteria::ReadPreference(ReadPreference::Nearest { options: None });
        let operation = trace::Operation { name: "warmConnectionPool", id: 0 };
        // An error is ignored: without a server there is no pool, and the first operation reports
        // the error.
        if topology.select(SelectionTarget::Read(&any), &[], operation, None).await.is_ok() {
            for server in topology.servers() {
                server.pool.wait_until_filled(wanted).await;
            }
        }
    }
}

#[cfg(feature = "sync")]
impl WarmConnectionPool<'_> {
    /// Runs the action and blocks the thread until the pools are filled. See [`sync`](crate::sync#blocking).
    ///
    /// In a task of a current-thread runtime, it does nothing except log a warning.
    pub fn run(self) {
        if let Err(error) = crate::runtime::block_on(self.execute()) {
            tracing::warn!(
                target: "steadfast::client",
                "connection pools are not warmed up: {error}",
            );
        }
    }
}

impl<'a> IntoFuture for WarmConnectionPool<'a> {
    type Output = ();
    type IntoFuture = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.execute())
    }
}
