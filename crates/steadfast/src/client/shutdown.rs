//! Ending a client in good order.

use std::pin::Pin;

use super::Client;

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
        let inner = &self.client.inner;
        inner.activity.close();
        if !self.immediate {
            inner.activity.idle().await;
        }
        inner.topology.close();
    }
}

impl IntoFuture for Shutdown {
    type Output = ();
    type IntoFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.execute())
    }
}
