//! What a topology wants done.

use std::sync::Arc;

use bson::oid::ObjectId;

use crate::{address::ServerAddress, description::TopologyDescription, event::sdam::SdamEvent};

/// Something to be done outside, now.
///
/// The effects of one input are performed in the order given, before those of the next input, and
/// before the connection whose failure was the input goes back to its pool. Among the effects of
/// one input:
///
/// 1. `ServerDescriptionChanged` events come first, in order of address.
/// 2. Each new server's `ServerOpening` event is followed by its [`AddServer`](Self::AddServer).
/// 3. [`ReadyPool`](Self::ReadyPool) comes before [`Publish`](Self::Publish), so that nobody
///    selects a server whose pool is paused.
/// 4. [`Publish`](Self::Publish) comes at most once, and before [`ClearPool`](Self::ClearPool), so
///    that nobody selects a server whose pool was just cleared.
/// 5. [`ExpectOperations`](Self::ExpectOperations) comes after both, of a server whose pool is ready.
/// 6. Each lost server's `ServerClosed` event is followed by its
///    [`RemoveServer`](Self::RemoveServer); nothing of that server comes after it.
/// 7. The `TopologyDescriptionChanged` event follows, then [`CancelCheck`](Self::CancelCheck) and
///    [`CheckNow`](Self::CheckNow).
///
/// Generations of one server's [`ClearPool`](Self::ClearPool)s strictly increase from one
/// `AddServer` to its `RemoveServer`; the same holds for each service behind a load balancer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// Create the server's pool, paused and with generation zero, and begin to monitor the server
    /// (behind a load balancer: only create the pool).
    AddServer(ServerAddress),
    /// Close the server's pool and stop monitoring it.
    RemoveServer(ServerAddress),
    /// Let the server's pool hand out connections, if it does not already.
    ReadyPool(ServerAddress),
    /// The server was elected and will take writes in a moment: whoever waits for a primary will come
    /// to it, so that connections for them may be made now.
    ExpectOperations(ServerAddress),
    /// Declare the pool's connections of earlier generations unfit and pause it; with a service
    /// id, only that service's connections, without pausing.
    ClearPool {
        /// Whose pool.
        address: ServerAddress,
        /// Only the connections to this service behind the load balancer.
        service_id: Option<ObjectId>,
        /// Whether also to interrupt the connections in use: the server does not answer.
        interrupt_in_use: bool,
        /// The pool's, or the service's, generation from now on.
        generation: u64,
    },
    /// Check the server as soon as it may be.
    CheckNow(ServerAddress),
    /// Abort the check in progress and close the monitor's connection; then wait as after a check.
    CancelCheck(ServerAddress),
    /// This is what is known of the deployment now; wake whoever waits for a server.
    Publish(Arc<TopologyDescription>),
    /// Tell the application.
    Emit(SdamEvent),
}
