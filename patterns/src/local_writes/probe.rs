//! Probes of datacenters that are down.
//!
//! One task for each datacenter that is down. It holds the writer weakly. It ends when the datacenter is up,
//! when the writer is dropped, or with its runtime.

use std::sync::Weak;

use bson::{doc, oid::ObjectId};
use tokio::{
    runtime::Handle,
    task::AbortHandle,
    time::{Instant, sleep_until},
};

use super::{cause, shared::Shared};
use steadfast::error::Error;

/// Starts the task, if there is a runtime.
pub(super) fn spawn(writer: Weak<Shared>, datacenter: usize) -> Option<AbortHandle> {
    let runtime = Handle::try_current().ok()?;
    Some(runtime.spawn(probe_until_up(writer, datacenter)).abort_handle())
}

async fn probe_until_up(writer: Weak<Shared>, datacenter: usize) {
    while let Some(at) = writer.upgrade().and_then(|writer| writer.next_probe(datacenter)) {
        sleep_until(Instant::from_std(at)).await;
        let Some(started) = writer.upgrade().map(|writer| {
            let ticket = writer.begin_probe(datacenter)?;
            Some((ticket, probe(&writer, datacenter)))
        }) else {
            return;
        };
        // It was marked up in the meantime, or down again with another probe time.
        let Some((ticket, probe)) = started else { continue };
        let result = probe.await;
        let Some(writer) = writer.upgrade() else { return };
        writer.probed(ticket, result);
    }
}

/// A write that changes nothing: it deletes a document that does not exist. It is routed like the documents of
/// the datacenter, needs a primary, and waits until a majority has all earlier writes; so it is acknowledged if
/// an insert would be. If there are no such writes, a primary without a majority acknowledges it, until it
/// steps down; the next insert detects that.
fn probe(writer: &Shared, datacenter: usize) -> impl Future<Output = Result<(), Error>> + use<> {
    let datacenter = &writer.datacenters[datacenter];
    let no_match = doc! { writer.field.as_str(): &*datacenter.name, "_id": ObjectId::new() };
    let collection = datacenter.collection.clone();
    let (concern, limit) = (writer.write_concern.clone(), writer.limit);
    async move {
        match collection.delete_many(no_match).write_concern(concern).timeout(limit).await {
            Ok(_) => Ok(()),
            Err(error) if cause::shows_that_it_is_up(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
