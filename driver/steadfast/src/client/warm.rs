//! Filling the pools before they are needed.

use std::pin::Pin;

use steadfast_core::{
    read_preference::ReadPreference,
    selection::{SelectionCriteria, SelectionTarget},
};

use super::Client;
use crate::trace;

impl Client {
    /// Waits until every server that is known has as many connections as
    /// [`min_pool_size`](crate::options::ClientOptions::min_pool_size) asks for, so that the first
    /// operations need not wait for them. Returns at once if none are asked for.
    ///
    /// Servers are looked for first, for as long as any operation would look. One that cannot be
    /// reached is not waited for.
    pub fn warm_connection_pool(&self) -> WarmConnectionPool<'_> {
        WarmConnectionPool { client: self }
    }
}

/// Fills the pools. See [`Client::warm_connection_pool`].
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
        // Without a server there is nothing to fill, and the first operation will say so.
        if topology.select(SelectionTarget::Read(&any), &[], operation, None).await.is_ok() {
            for server in topology.servers() {
                server.pool.filled(wanted).await;
            }
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
