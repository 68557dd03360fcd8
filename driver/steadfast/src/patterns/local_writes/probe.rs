//! Asking a datacenter that is down whether it is back.
//!
//! There is one task for each datacenter that is down. It holds the writer weakly, and ends when the
//! datacenter is up, when the writer is dropped, and with its runtime.

use std::sync::Weak;

use bson::{doc, oid::ObjectId};
use tokio::{
    runtime::Handle,
    task::AbortHandle,
    time::{Instant, sleep_until},
};

use super::{fault, shared::Shared};
use crate::error::Error;

/// Begins to ask a datacenter, if there is a runtime to do it on.
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
        // It came home in the meantime, or went down anew: then there is another time for it.
        let Some((ticket, probe)) = begun else { continue };
        let answer = probe.await;
        let Some(writer) = writer.upgrade() else { return };
        writer.probed(ticket, answer);
    }
}

/// A write that changes nothing: it deletes a document that nobody has. It goes where the documents of the
/// datacenter go, needs a primary there, and waits until a majority has all that came before it, so that it
/// is answered if a write would be. Where nothing came before it that a majority does not have, a primary
/// without a majority answers it, too, until it steps down; then the next write shows that.
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
