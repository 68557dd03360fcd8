//! Effects of a topology.

use std::sync::Arc;

use bson::oid::ObjectId;

use crate::{address::ServerAddress, description::TopologyDescription, event::sdam::SdamEvent};

/// An effect to perform now.
///
/// The effects of one input must be performed in their order: before those of the next input, and
/// before the failed connection of an input is checked in. The effects of one input have this
/// order:
///
/// 1. `ServerDescriptionChanged` events, ordered by address.
/// 2. For each new server, its `ServerOpening` event, followed by [`AddServer`](Self::AddServer).
/// 3. [`ReadyPool`](Self::ReadyPool), before [`Publish`](Self::Publish), so that no operation
///    selects a server whose pool is paused.
/// 4. [`Publish`](Self::Publish), at most once and before [`ClearPool`](Self::ClearPool), so that
///    no operation selects a server whose pool was just cleared.
/// 5. [`Preconnect`](Self::Preconnect), for a server whose pool is ready.
/// 6. For each removed server, its `ServerClosed` event, followed by
///    [`RemoveServer`](Self::RemoveServer); no effect of this server follows.
/// 7. The `TopologyDescriptionChanged` event, then [`CancelCheck`](Self::CancelCheck) and
///    [`CheckNow`](Self::CheckNow).
///
/// The generations of one server's [`ClearPool`](Self::ClearPool)s strictly increase between its
/// `AddServer` and its `RemoveServer`. The same holds for each service behind a load balancer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TopologyEffect {
    /// Create the server's pool, paused and with generation zero, and start its monitor. Behind a
    /// load balancer, only create the pool.
    AddServer(ServerAddress),
    /// Close the server's pool and stop its monitor.
    RemoveServer(ServerAddress),
    /// Mark the server's pool ready.
    ReadyPool(ServerAddress),
    /// Establish connections for waiting operations: the server was elected primary and will accept
    /// writes soon.
    Preconnect(ServerAddress),
    /// Clear the pool: make connections of earlier generations stale and pause the pool. With a
    /// service id, only clear the connections of that service.
    ClearPool {
        /// Address of the server.
        address: ServerAddress,
        /// Id of the service behind a load balancer (`serviceId`).
        service_id: Option<ObjectId>,
        /// Interrupts connections in use, too, because the server does not respond.
        interrupt_in_use: bool,
        /// Generation of the pool, or of the service, after the clearing.
        generation: u64,
    },
    /// Check the server as soon as `minHeartbeatFrequencyMS` allows.
    CheckNow(ServerAddress),
    /// Cancel the check in progress and close the monitor's connection. The next check follows
    /// after `heartbeatFrequencyMS`.
    CancelCheck(ServerAddress),
    /// Publish the topology description to the operations that wait for server selection.
    Publish(Arc<TopologyDescription>),
    /// Publish an event to the application.
    Emit(SdamEvent),
}
