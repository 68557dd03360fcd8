//! Distributed local writes: every document goes to the nearest datacenter, and to another one if that is
//! down. See MongoDB's tutorial on [distributed local
//! writes](https://www.mongodb.com/docs/manual/tutorial/sharding-high-availability-writes/).
//!
//! # The problem
//!
//! An application inserts documents all the time and hardly ever changes one. It runs in several datacenters, and
//! each of its processes writes to its own, which is near. When that datacenter is down, or slow to acknowledge,
//! the write goes to another one at once. The document may then exist in both, because the first one may have
//! applied the write without acknowledging it in time. Readers handle that with
//! [`duplicates`](crate::duplicates).
//!
//! # Behaviour of the writer
//!
//! [`LocalWriter::insert`] sets the document's datacenter field to the name of the nearest datacenter that is up,
//! generates an `_id`, inserts it, and waits for write concern `majority` there, up to
//! [`acknowledged_within`](LocalWriterBuilder::acknowledged_within).
//!
//! | the datacenter | result |
//! |---|---|
//! | acknowledges the document | a [`Receipt`] |
//! | rejects the document: duplicate key, failed validation, too large | [`Rejected`](LocalWriteError::Rejected); another datacenter would reject it as well, and none is marked down |
//! | does not acknowledge it in time, or fails in another way | the datacenter is marked down, and the document goes to the next one, with a new `_id` |
//! | was the last one | [`AllDown`](LocalWriteError::AllDown), with the outcome of each attempt |
//!
//! Datacenters that are up are tried first, the nearest first; then, as a last resort, those that are marked down.
//! A background task probes each datacenter that is down, with a write that changes nothing. After an
//! acknowledged probe, the next document goes there again.
//!
//! The receipt has the datacenter of the document, and those that may have another copy: the ones tried before
//! whose [outcome](steadfast::error::Error::outcome) does not exclude it. Within one datacenter a document is
//! inserted at most once, because retries of the driver have the same `_id`.
//!
//! # One cluster, or one deployment for each datacenter
//!
//! In a sharded cluster whose zones tie the values of the datacenter field to shards ([`zones`](crate::zones)),
//! the field routes the document:
//!
//! ```no_run
//! # async fn run(client: steadfast::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use steadfast::bson::{Document, doc};
//! use steadfast_patterns::local_writes::LocalWriter;
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
//! With a deployment in each datacenter, the client routes it:
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use steadfast::{Client, bson::Document};
//! use steadfast_patterns::local_writes::LocalWriter;
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
//! # Observability
//!
//! [`LocalWriter::datacenters`] returns the state of each datacenter, [`LocalWriter::metrics`] counts.
//! `tracing` events have the target `steadfast::local_writes`: a datacenter is marked down (warn) or up again
//! (info), no datacenter acknowledged documents (error), a write went to another datacenter and a probe failed
//! (debug).

mod batch;
mod builder;
mod cause;
mod document;
mod error;
mod health;
mod log;
mod metrics;
mod probe;
mod receipt;
mod shared;

use std::sync::Arc;

use bson::oid::ObjectId;
use serde::Serialize;

pub use self::{
    builder::LocalWriterBuilder,
    error::LocalWriteError,
    metrics::{DatacenterMetrics, DatacenterStatus, LocalWriterMetrics},
    receipt::{FailedAttempt, Receipt},
};
use self::{cause::FailureCause, document::UnroutedDocument, shared::Shared};
use steadfast::error::Error;

/// Writer of documents to the nearest datacenter that acknowledges them. See the [module](self).
///
/// Cheap to clone: clones share the state of the datacenters. Dropping the last one ends the background tasks.
#[derive(Clone, Debug)]
pub struct LocalWriter(Arc<Shared>);

impl LocalWriter {
    /// Returns a builder: add the datacenters, nearest first.
    pub fn builder() -> LocalWriterBuilder {
        LocalWriterBuilder::default()
    }

    fn over(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }

    /// Inserts a document, which must not have an `_id`.
    ///
    /// It ends within [`acknowledged_within`](LocalWriterBuilder::acknowledged_within) for each datacenter.
    ///
    /// # Errors
    ///
    /// A [`LocalWriteError`] with the outcome of each attempt.
    ///
    /// # Cancellation
    ///
    /// A dropped insert may leave a copy of the document. It does not change the state of the datacenter.
    ///
    /// ```no_run
    /// # async fn run(writer: steadfast_patterns::local_writes::LocalWriter) -> Result<(), Box<dyn std::error::Error>> {
    /// use steadfast::bson::doc;
    ///
    /// let receipt = writer.insert(&doc! { "message_id": 329620, "userid": 123 }).await?;
    /// println!("{} acknowledged it", receipt.datacenter());
    /// # Ok(()) }
    /// ```
    pub fn insert<T: Serialize + ?Sized>(
        &self,
        document: &T,
    ) -> impl Future<Output = Result<Receipt, LocalWriteError>> + Send + use<'_, T> {
        let document = UnroutedDocument::new(document);
        async move { insert(&self.0, document.map_err(LocalWriteError::Invalid)?).await }
    }

    /// Inserts documents, none of which may have an `_id`. Returns the result of each document, in their order.
    ///
    /// Documents are sent in batches of up to a thousand. Those of a batch that are not acknowledged go to the
    /// next datacenter, each with a new `_id`; those that are rejected fail; neither delays the others.
    ///
    /// # Cancellation
    ///
    /// After a dropped insert, any of the documents may exist. Give each a key of the application, by which
    /// readers recognise copies.
    ///
    /// ```no_run
    /// # async fn run(writer: steadfast_patterns::local_writes::LocalWriter) {
    /// use steadfast::bson::doc;
    ///
    /// let documents: Vec<_> = (0..100).map(|n| doc! { "message_id": n }).collect();
    /// for (document, result) in documents.iter().zip(writer.insert_many(&documents).await) {
    ///     match result {
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
            documents.into_iter().map(|document| UnroutedDocument::new(&document)).collect();
        async move { batch::insert_many(&self.0, documents).await }
    }

    /// Returns the state of the datacenters, nearest first.
    pub fn datacenters(&self) -> Vec<DatacenterStatus> {
        self.0.statuses()
    }

    /// Waits until no datacenter is marked down.
    ///
    /// # Cancellation
    ///
    /// Dropping the future has no effect: a background task sends the probes.
    pub async fn until_all_up(&self) {
        self.0.until_all_up().await;
    }

    /// Returns the counts since the writer was built.
    pub fn metrics(&self) -> LocalWriterMetrics {
        self.0.metrics()
    }
}

/// Inserts one document into one datacenter after the other, until one acknowledges or rejects it.
async fn insert(
    writer: &Arc<Shared>,
    document: UnroutedDocument,
) -> Result<Receipt, LocalWriteError> {
    let mut failed: Vec<FailedAttempt> = Vec::new();
    for nth in writer.order() {
        let ticket = writer.begin(nth);
        let name = &writer.datacenters[nth].name;
        let id = ObjectId::new();
        let Err(error) = send(writer, nth, &document, id).await else {
            writer.written(ticket, 1, usize::from(!failed.is_empty()));
            writer.succeeded(ticket);
            if let Some(failed) = failed.last() {
                log::switched(failed, name, 1);
            }
            return Ok(Receipt::new(name, id, failed));
        };
        match cause::classify(&error) {
            FailureCause::Document => {
                writer.count_rejected(1);
                failed.push(FailedAttempt::new(name, id, error));
                return Err(LocalWriteError::Rejected { attempts: failed });
            }
            FailureCause::Datacenter => {
                writer.failed(ticket, std::iter::once(error.outcome()), &error);
                failed.push(FailedAttempt::new(name, id, error));
            }
            FailureCause::Unknown => {
                writer.count_failed(ticket, std::iter::once(error.outcome()));
                failed.push(FailedAttempt::new(name, id, error));
            }
        }
    }
    if cause::is_rejected_by_all(&failed) {
        writer.count_rejected(1);
        return Err(LocalWriteError::Rejected { attempts: failed });
    }
    writer.all_down(1);
    let error = LocalWriteError::AllDown { attempts: failed };
    log::all_down(&error, 1);
    Err(error)
}

async fn send(
    writer: &Shared,
    nth: usize,
    document: &UnroutedDocument,
    id: ObjectId,
) -> Result<(), Error> {
    let datacenter = &writer.datacenters[nth];
    let document = document.for_datacenter(id, &writer.field, &datacenter.name)?;
    datacenter
        .collection
        .insert_one(document)
        .write_concern(writer.write_concern.clone())
        .timeout(writer.limit)
        .await
        .map(drop)
}
