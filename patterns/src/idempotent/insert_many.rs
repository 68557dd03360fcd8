//! Insertion of many documents, each once.

use std::{borrow::Borrow, ops::Range};

use bson::RawDocumentBuf;
use serde::Serialize;
use steadfast_value::BinaryOrder;

use super::{
    DEFAULT_RETRIES, PreparedDocument,
    insert_one::missing_id,
    outcomes::{InsertManyFailure, InsertOutcomes, InsertedMany},
    reject_unacknowledged, retried_action,
};
use crate::retry::RetryState;
use steadfast::{
    Collection,
    error::{Error, ErrorKind, Result},
    options::{InsertManyOptions, InsertOneOptions},
};

/// Largest number of documents, and of their bytes, in one attempt: less than any server accepts in one
/// command, so that one reply covers all of them.
const MAX_BATCH_DOCUMENTS: usize = 1000;
const MAX_BATCH_BYTES: usize = 8 << 20;

/// Inserts `documents`, each once, with retries.
///
/// Each document is inserted as by [`insert_one`](super::insert_one()): if an attempt may have been applied, the
/// document is sent again with its `_id`, and a duplicate of that `_id` means that it exists.
/// Therefore no two documents may have the same `_id` (1 and 1.0 are the same). A document that a server
/// rejects does not prevent the others. Documents are sent in parts, each with all
/// [`retries`](InsertMany::retries). If these are used up, the parts that follow are not sent; nor are those
/// that follow a document larger than the server's limit.
///
/// The result has the outcome of each document.
///
/// # Errors
///
/// An [`InsertManyFailure`] if any document is not known to exist. It has the same outcomes, and `?` converts
/// it to an [`Error`](steadfast::error::Error).
///
/// # Cancellation
///
/// After a dropped insert, any of the documents may exist. Give each its `_id` and repeat it with
/// [`ignore_existing`](InsertMany::ignore_existing).
///
/// ```no_run
/// # async fn run(lines: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::bson::doc;
/// use steadfast_patterns::idempotent;
///
/// // After a crash, run it again: each line has the same `_id` in every run.
/// let log = ["started", "ready"].iter().enumerate();
/// let documents = log.map(|(at, text)| doc! { "_id": format!("app.log:{at}"), "text": *text });
/// let done = idempotent::insert_many(&lines, documents).ignore_existing().await?;
/// println!("{} new, {} were there", done.inserted(), done.existing());
/// # Ok(()) }
/// ```
pub fn insert_many<T: Serialize + Send + Sync>(
    collection: &Collection<T>,
    documents: impl IntoIterator<Item = impl Borrow<T>>,
) -> InsertMany {
    InsertMany {
        collection: collection.clone_with_type(),
        documents: documents.into_iter().map(|one| PreparedDocument::new(one.borrow())).collect(),
        options: None,
        retries: DEFAULT_RETRIES,
        ignore_existing: false,
    }
}

/// Action of [`insert_many`](insert_many()).
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct InsertMany {
    collection: Collection<RawDocumentBuf>,
    documents: Result<Vec<PreparedDocument>>,
    pub(crate) options: Option<InsertOneOptions>,
    retries: u32,
    ignore_existing: bool,
}

impl InsertMany {
    /// Treats a duplicate of a document's own `_id` as success, also at the first attempt, so that a second run
    /// after a crash inserts nothing twice.
    ///
    /// Each document needs an `_id`, the same in every run.
    pub fn ignore_existing(mut self) -> Self {
        self.ignore_existing = true;
        self
    }

    async fn execute(self) -> std::result::Result<InsertedMany, InsertManyFailure> {
        let Self { collection, documents, options, retries, ignore_existing } = self;
        let options = options.unwrap_or_default();
        let checked = reject_unacknowledged(&collection, options.write_concern.as_ref())
            .and(documents)
            .and_then(|documents| check_ids(documents, ignore_existing));
        let namespace = collection.namespace();
        let documents = match checked {
            Ok(documents) => documents,
            Err(error) => {
                return InsertOutcomes::new(namespace, Vec::new(), false).conclude(Some(error));
            }
        };
        let ids = documents.iter().map(|document| document.id.clone()).collect();
        let mut outcomes = InsertOutcomes::new(namespace, ids, ignore_existing);
        let mut retry = RetryState::begin(retries, options.timeout, collection.timeout());
        for part in parts(&documents) {
            retry.renew();
            let sending = send(&collection, &options, &documents, part, &mut retry, &mut outcomes);
            if let Err(cause) = sending.await {
                return outcomes.conclude(Some(cause));
            }
        }
        outcomes.conclude(None)
    }
}

/// Sends a part of the documents until the outcome of each is settled. Returns the error that ended it before.
async fn send(
    collection: &Collection<RawDocumentBuf>,
    options: &InsertOneOptions,
    documents: &[PreparedDocument],
    part: Range<usize>,
    retry: &mut RetryState,
    outcomes: &mut InsertOutcomes,
) -> Result<()> {
    let mut open: Vec<usize> = part.collect();
    while !open.is_empty() {
        let bytes: Vec<_> = open.iter().map(|&index| &documents[index].bytes).collect();
        let many = InsertManyOptions::builder()
            .timeout(retry.time_left())
            .bypass_document_validation(options.bypass_document_validation)
            .ordered(false)
            .write_concern(options.write_concern.clone())
            .comment(options.comment.clone());
        match collection.insert_many(bytes).with_options(many.build()).await {
            Ok(_) => outcomes.acknowledge(&open),
            Err(error) => {
                let cause = outcomes.record_failure(&open, &error);
                let is_settled = !open.iter().any(|&index| outcomes.is_open(index));
                match cause {
                    Some(cause) => retry.retry_after(with_index_of_caller(cause, &open))?,
                    None if is_settled => {}
                    None => retry.retry_after(error)?,
                }
            }
        }
        open.retain(|&index| outcomes.is_open(index));
    }
    Ok(())
}

/// Replaces the index in the error of a document that is too large. Such a document is sent alone, as document 0.
fn with_index_of_caller(error: Error, sent: &[usize]) -> Error {
    match (&*error.kind, sent) {
        (ErrorKind::InvalidArgument { message, .. }, [index]) => Error::invalid_argument(
            message.replacen("document 0 ", &format!("document {index} "), 1),
        ),
        _ => error,
    }
}

/// Rejects documents that their `_id`s do not distinguish. With `ignore_existing`, each document needs one.
/// Otherwise no two may be the same: after a lost reply, one document would be mistaken for the other.
fn check_ids(
    documents: Vec<PreparedDocument>,
    ignore_existing: bool,
) -> Result<Vec<PreparedDocument>> {
    if ignore_existing {
        return match documents.iter().position(|document| !document.is_given) {
            Some(index) => Err(missing_id(&format!("document {index}"))),
            None => Ok(documents),
        };
    }
    // As the index on `_id` compares: 1 equals 1.0.
    let compare = |one: &usize, another: &usize| {
        steadfast_value::compare(&documents[*one].id, &documents[*another].id, &BinaryOrder)
    };
    let mut given: Vec<_> = (0..documents.len()).filter(|at| documents[*at].is_given).collect();
    given.sort_by(compare);
    let same = given.windows(2).find(|pair| compare(&pair[0], &pair[1]).is_eq());
    if let Some([one, another]) = same {
        return Err(Error::invalid_argument(format!(
            "documents {one} and {another} have the same _id, {}: after a lost reply, one would be mistaken \
             for the other",
            documents[*another].id
        )));
    }
    Ok(documents)
}

/// Divides the documents into parts.
fn parts(documents: &[PreparedDocument]) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, document) in documents.iter().enumerate() {
        let length = document.bytes.as_bytes().len();
        let is_full = index - start == MAX_BATCH_DOCUMENTS || bytes + length > MAX_BATCH_BYTES;
        if is_full && index > start {
            parts.push(start..index);
            (start, bytes) = (index, 0);
        }
        bytes += length;
    }
    if start < documents.len() {
        parts.push(start..documents.len());
    }
    parts
}

retried_action!([] InsertMany => InsertedMany, InsertManyFailure);

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;

    fn prepared(documents: impl IntoIterator<Item = Document>) -> Vec<PreparedDocument> {
        documents.into_iter().map(|document| PreparedDocument::new(&document).unwrap()).collect()
    }

    #[test]
    fn parts_are_within_the_limits_and_complete() {
        let many = prepared((0..2500).map(|n| doc! { "_id": n }));
        assert_eq!(parts(&many), [0..1000, 1000..2000, 2000..2500]);
        assert!(parts(&[]).is_empty());
        let large = prepared((0..3).map(|n| doc! { "_id": n, "text": "x".repeat(5 << 20) }));
        assert_eq!(parts(&large), [0..1, 1..2, 2..3]);
        let huge = prepared([doc! { "text": "x".repeat(15 << 20) }, doc! {}]);
        assert_eq!(parts(&huge), [0..1, 1..2]);
    }
}
