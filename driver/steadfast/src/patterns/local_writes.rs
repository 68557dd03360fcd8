//! Distributed local writes: every document goes to the nearest datacenter, and to another one if that is
//! down.
//!
//! # The problem
//!
//! An application writes documents all the time and hardly ever changes one. It runs in several
//! datacenters, and each of its processes should write to its own: that is near. When that datacenter is
//! down, or merely slow to acknowledge, the write should go to another one, at once. Then it may end in
//! both: the first one had the document, and only its acknowledgement did not come. Which is no harm if
//! readers know it ([`duplicates`](crate::patterns::duplicates)).
//!
//! # What the writer does
//!
//! [`LocalWriter::insert`] sets the document's datacenter field to the name of the nearest datacenter that
//! is up, gives it a fresh `_id`, writes it, and waits for a majority there to have it, but not for longer
//! than [`acknowledged_within`](LocalWriterBuilder::acknowledged_within).
//!
//! | the datacenter                                             | then |
//! |------------------------------------------------------------|------|
//! | acknowledges it                                            | there is a [`Receipt`] |
//! | refuses the document: a duplicate key, a validator's no, too large | there is an error, [`Refused`](LocalWriteError::Refused); another would refuse it, too, and nothing is marked down |
//! | does not acknowledge it in time, or fails in any other way | it is marked down, and the document goes to the next, with a new `_id` |
//! | was the last one                                           | there is an error, [`AllDown`](LocalWriteError::AllDown), with what became of each attempt |
//!
//! Those that are up are tried first, the nearest first; then, as a last resort, those that are marked down.
//! A datacenter that is down is asked in the background whether it is back, by a write that changes
//! nothing; when it answers, the next document goes there again.
//!
//! The receipt says where the document is, and where else it may be: in those datacenters that were tried
//! before and of which it is not certain that they have no copy
//! ([`Error::outcome`](crate::error::Error::outcome)). Within one datacenter a document is written at most
//! once, however often the driver has to send it: it has the same `_id` each time.
//!
//! # One cluster, or one deployment for each datacenter
//!
//! In a sharded cluster whose zones tie the values of the datacenter field to shards
//! ([`zones`](crate::patterns::zones)), the field routes the document:
//!
//! ```no_run
//! # async fn run(client: steadfast::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use steadfast::{bson::{Document, doc}, patterns::local_writes::LocalWriter};
//!
//! let messages = client.database("app").collection::<Document>("messages");
//! let writer = LocalWriter::builder().cluster(messages, ["alfa", "bravo"]).build()?;
//!
//! let receipt = writer.insert(&doc! { "message_id": 329620, "userid": 123 }).await?;
//! println!("it is in {}", receipt.datacenter());
//! for copy in receipt.may_also_be_in() {
//!     println!("and may be in {} as {}: {}", copy.datacenter, copy.id, copy.error);
//! }
//! # Ok(()) }
//! ```
//!
//! With a deployment of its own in each datacenter, the client routes it:
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use steadfast::{Client, bson::Document, patterns::local_writes::LocalWriter};
//!
//! let alfa = Client::with_uri_str("mongodb://alfa-1,alfa-2,alfa-3/?replicaSet=alfa").await?;
//! let bravo = Client::with_uri_str("mongodb://bravo-1,bravo-2,bravo-3/?replicaSet=bravo").await?;
//! let messages = |client: Client| client.database("app").collection::<Document>("messages");
//! let writer = LocalWriter::builder()
//!     .datacenter("alfa", messages(alfa))
//!     .datacenter("bravo", messages(bravo))
//!     .build()?;
//! # Ok(()) }
//! ```
//!
//! # What it tells
//!
//! [`LocalWriter::datacenters`] says which are up, since when, and why not; [`LocalWriter::metrics`] counts.
//! With the target `steadfast::local_writes`, `tracing` hears of a datacenter that is marked down (warn) and
//! that is up again (info), of documents that no datacenter took (error), and of each write that was
//! switched and each probe in vain (debug).

mod batch;
mod builder;
mod document;
mod error;
mod fault;
mod health;
mod metrics;
mod probe;
mod receipt;
mod shared;
mod telling;

use std::sync::Arc;

use bson::oid::ObjectId;
use serde::Serialize;

pub use self::{
    builder::LocalWriterBuilder,
    error::LocalWriteError,
    metrics::{DatacenterMetrics, DatacenterStatus, LocalWriterMetrics},
    receipt::{Failed, Receipt},
};
use self::{document::Unaddressed, fault::Fault, shared::Shared};
use crate::error::Error;

/// Writes documents to the nearest datacenter that acknowledges them. The [module](self) explains it.
///
/// Cheap to clone: the clones share what they know of the datacenters. Dropping the last one ends what runs
/// in the background.
#[derive(Clone, Debug)]
pub struct LocalWriter(Arc<Shared>);

impl LocalWriter {
    /// Begins to make a writer: name its datacenters, nearest first.
    pub fn builder() -> LocalWriterBuilder {
        LocalWriterBuilder::default()
    }

    fn over(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }

    /// Writes a document, which must not have an `_id`.
    ///
    /// It ends within [`acknowledged_within`](LocalWriterBuilder::acknowledged_within) for each datacenter.
    /// Dropping the future leaves nothing behind but, maybe, a copy of the document, and tells the writer
    /// nothing of the datacenter that it waited for.
    pub fn insert<T: Serialize + ?Sized>(
        &self,
        document: &T,
    ) -> impl Future<Output = Result<Receipt, LocalWriteError>> + Send + use<'_, T> {
        let document = Unaddressed::new(document);
        async move { insert(&self.0, document.map_err(LocalWriteError::Invalid)?).await }
    }

    /// Writes documents, none of which may have an `_id`; the answers are in their order.
    ///
    /// They are sent up to a thousand at a time, and each such batch is treated as one document is. Those of
    /// its documents that are not acknowledged go on to the next datacenter, each with a new `_id`, and
    /// those that are refused are answered so; neither keeps the others back. If the future is dropped, what
    /// became of the documents is not known: keep a key in them by which readers can tell.
    ///
    /// ```no_run
    /// # async fn run(writer: steadfast::patterns::local_writes::LocalWriter) {
    /// use steadfast::bson::doc;
    ///
    /// let documents: Vec<_> = (0..100).map(|n| doc! { "message_id": n }).collect();
    /// for (document, answer) in documents.iter().zip(writer.insert_many(&documents).await) {
    ///     match answer {
    ///         Ok(receipt) => println!("{document} is in {}", receipt.datacenter()),
    ///         Err(error) => println!("{document} is not: {error}"),
    ///     }
    /// }
    /// # }
    /// ```
    pub fn insert_many<I>(
        &self,
        documents: I,
    ) -> impl Future<Output = Vec<Result<Receipt, LocalWriteError>>> + Send + use<'_, I>
    where
        I: IntoIterator<Item: Serialize>,
    {
        let documents: Vec<_> =
            documents.into_iter().map(|document| Unaddressed::new(&document)).collect();
        async move { batch::insert_many(&self.0, documents).await }
    }

    /// The datacenters, nearest first, and which of them are up.
    pub fn datacenters(&self) -> Vec<DatacenterStatus> {
        self.0.datacenters()
    }

    /// Waits until no datacenter is marked down.
    pub async fn until_all_up(&self) {
        self.0.until_all_up().await;
    }

    /// What was counted since the writer was made.
    pub fn metrics(&self) -> LocalWriterMetrics {
        self.0.metrics()
    }
}

/// Writes one document to one datacenter after the other until one acknowledges or refuses it.
async fn insert(writer: &Arc<Shared>, document: Unaddressed) -> Result<Receipt, LocalWriteError> {
    let mut failed: Vec<Failed> = Vec::new();
    for nth in writer.order() {
        let ticket = writer.begin(nth);
        let name = &writer.sites[nth].name;
        let id = ObjectId::new();
        let Err(error) = send(writer, nth, &document, id).await else {
            writer.written(ticket, 1, usize::from(!failed.is_empty()));
            writer.succeeded(ticket);
            if let Some(failed) = failed.last() {
                telling::switched(failed, name, 1);
            }
            return Ok(Receipt::new(name, id, failed));
        };
        match fault::of(&error) {
            Fault::Document => {
                writer.refused(1);
                failed.push(Failed::new(name, id, error));
                return Err(LocalWriteError::Refused { attempts: failed });
            }
            Fault::Datacenter => {
                writer.failed(ticket, std::iter::once(error.outcome()), &error);
                failed.push(Failed::new(name, id, error));
            }
            Fault::Unknown => {
                writer.rejected(ticket, std::iter::once(error.outcome()));
                failed.push(Failed::new(name, id, error));
            }
        }
    }
    if fault::is_rejected_by_all(&failed) {
        writer.refused(1);
        return Err(LocalWriteError::Refused { attempts: failed });
    }
    writer.all_down(1);
    let error = LocalWriteError::AllDown { attempts: failed };
    telling::all_down(&error, 1);
    Err(error)
}

async fn send(
    writer: &Shared,
    nth: usize,
    document: &Unaddressed,
    id: ObjectId,
) -> Result<(), Error> {
    let site = &writer.sites[nth];
    let document = document.addressed(id, &writer.field, &site.name)?;
    site.collection
        .insert_one(document)
        .write_concern(writer.write_concern.clone())
        .timeout(writer.limit)
        .await
        .map(drop)
}
