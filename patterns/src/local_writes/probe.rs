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

use super::{fault, shared::Shared};
use steadfast::error::Error;

/// Starts the task, if there is a runtime.
pub(super) fn spawn(writer: Weak<Shared>, site: usize) -> Option<AbortHandle> {
    let runtime = Handle::try_current().ok()?;
    Some(runtime.spawn(ask_until_it_is_up(writer, site)).abort_handle())
}

async fn ask_until_it_is_up(writer: Weak<Shared>, site: usize) {
    while let Some(at) = writer.upgrade().and_then(|writer| writer.next_probe(site)) {
        sleep_until(Instant::from_std(at)).await;
        let Some(begun) = writer.upgrade().map(|writer| {
            let ticket = writer.begin_probe(site)?;
            Some((ticket, probe(&writer, site)))
        }) else {
            return;
        };
        // It was marked up in the meantime, or down again, with another time.
        let Some((ticket, probe)) = begun else { continue };
        let answer = probe.await;
        let Some(writer) = writer.upgrade() else { return };
        writer.probed(ticket, answer);
    }
}

/// A write that changes nothing: it deletes a document that does not exist. It is routed like the documents of
/// the datacenter, needs a primary, and waits until a majority has all earlier writes; so it is acknowledged if
/// an insert would be. If there are no such writes, a primary without a majority acknowledges it, until it
/// steps down; the next insert detects that.
fn probe(writer: &Shared, site: usize) -> impl Future<Output = Result<(), Error>> + use<> {
    let site = &writer.sites[site];
    let nobody = doc! { writer.field.as_str(): &*site.name, "_id": ObjectId::new() };
    let collection = site.collection.clone();
    let (concern, limit) = (writer.write_concern.clone(), writer.limit);
    async move {
        match collection.delete_many(nobody).write_concern(concern).timeout(limit).await {
            Ok(_) => Ok(()),
            Err(error) if fault::is_answer(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
