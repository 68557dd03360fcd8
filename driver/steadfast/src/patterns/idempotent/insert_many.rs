//! Inserting many documents, each once, however often they are sent.

use std::{borrow::Borrow, ops::Range};

use bson::RawDocumentBuf;
use serde::Serialize;
use steadfast_value::BinaryOrder;

use super::{
    Prepared, USUAL_RETRIES,
    fates::{Fates, InsertManyFailure, InsertedMany},
    insert_one::id_needed,
    refuse_unanswered, repeatable,
};
use crate::{
    Collection,
    error::{Error, ErrorKind, Result},
    options::{InsertManyOptions, InsertOneOptions},
    patterns::again::Sendings,
};

/// How many documents, and how many bytes of them, are sent at a time: less than any server takes in one
/// command, so that all that were sent together share their fate.
const DOCUMENTS_AT_A_TIME: usize = 1000;
const BYTES_AT_A_TIME: usize = 8 << 20;

/// Inserts `documents`, each once, however often they have to be sent.
///
/// What [`insert_one`](super::insert_one()) does for one, this does for each: a document whose sending was in
/// doubt is sent again with its `_id`, and recognised by it if it is there; so no two may have the same (1 and
/// 1.0 are the same to a server). A document that a server refuses does not keep the others from being
/// inserted. They are sent some at a time, each time with so many [`retries`](InsertMany::retries); if these
/// are used up, those that follow are not sent; nor are those that follow one that is larger than a server
/// takes.
///
/// The result says of each document how it is known to be there. If any is not, it is an
/// [`InsertManyFailure`], which says the same of each, and turns into an
/// [`Error`](crate::error::Error) by `?`.
///
/// ```no_run
/// # async fn run(lines: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::{bson::doc, patterns::idempotent};
///
/// // After a crash, the same again adds nothing twice: each line has its own `_id`, in every run.
/// let log = ["started", "ready"].iter().enumerate();
/// let documents = log.map(|(at, text)| doc! { "_id": format!("app.log:{at}"), "text": *text });
/// let done = idempotent::insert_many(&lines, documents).already_there_is_fine().await?;
/// println!("{} new, {} were there", done.inserted(), done.already_there());
/// # Ok(()) }
/// ```
pub fn insert_many<T: Serialize + Send + Sync>(
    collection: &Collection<T>,
    documents: impl IntoIterator<Item = impl Borrow<T>>,
) -> InsertMany {
    InsertMany {
        collection: collection.clone_with_type(),
        documents: documents.into_iter().map(|one| Prepared::new(one.borrow())).collect(),
        options: None,
        retries: USUAL_RETRIES,
        already_there_is_fine: false,
    }
}

/// Inserts many documents. See [`insert_many`](insert_many()).
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct InsertMany {
    collection: Collection<RawDocumentBuf>,
    documents: Result<Vec<Prepared>>,
    pub(crate) options: Option<InsertOneOptions>,
    retries: u32,
    already_there_is_fine: bool,
}

impl InsertMany {
    /// Documents with these very `_id`s are what was wanted, whoever has inserted them: a duplicate of
    /// its own `_id` is no error, not even at the first sending. So that a second run, after a crash,
    /// adds nothing twice.
    ///
    /// Each document must have its `_id`; one that is made here would be another each time.
    pub fn already_there_is_fine(mut self) -> Self {
        self.already_there_is_fine = true;
        self
    }

    async fn execute(self) -> std::result::Result<InsertedMany, InsertManyFailure> {
        let Self { collection, documents, options, retries, already_there_is_fine } = self;
        let options = options.unwrap_or_default();
        let checked = refuse_unanswered(&collection, options.write_concern.as_ref())
            .and(documents)
            .and_then(|documents| check_ids(documents, already_there_is_fine));
        let namespace = collection.namespace();
        let documents = match checked {
            Ok(documents) => documents,
            Err(error) => {
                return Fates::new(namespace, Vec::new(), false).conclude(Some(error));
            }
        };
        let ids = documents.iter().map(|document| document.id.clone()).collect();
        let mut fates = Fates::new(namespace, ids, already_there_is_fine);
        let mut sendings = Sendings::begin(retries, options.timeout, collection.timeout());
        for part in parts(&documents) {
            sendings.renew();
            let sending = send(&collection, &options, &documents, part, &mut sendings, &mut fates);
            if let Err(cause) = sending.await {
                return fates.conclude(Some(cause));
            }
        }
        fates.conclude(None)
    }
}

/// Sends a part of the documents until it is settled what becomes of each; or gives what ended it before.
async fn send(
    collection: &Collection<RawDocumentBuf>,
    options: &InsertOneOptions,
    documents: &[Prepared],
    part: Range<usize>,
    sendings: &mut Sendings,
    fates: &mut Fates,
) -> Result<()> {
    let mut open: Vec<usize> = part.collect();
    while !open.is_empty() {
        let bytes: Vec<_> = open.iter().map(|&index| &documents[index].bytes).collect();
        let options = InsertManyOptions {
            timeout: sendings.time_left(),
            bypass_document_validation: options.bypass_document_validation,
            ordered: Some(false),
            write_concern: options.write_concern.clone(),
            comment: options.comment.clone(),
        };
        match collection.insert_many(bytes).with_options(options).await {
            Ok(_) => fates.acknowledge(&open),
            Err(error) => {
                let cause = fates.note(&open, &error);
                let is_settled = !open.iter().any(|&index| fates.is_open(index));
                match cause {
                    Some(cause) => sendings.again(as_the_caller_counts(cause, &open))?,
                    None if is_settled => {}
                    None => sendings.again(error)?,
                }
            }
        }
        open.retain(|&index| fates.is_open(index));
    }
    Ok(())
}

/// A document that is too large is sent by itself, as the first and only one.
fn as_the_caller_counts(error: Error, sent: &[usize]) -> Error {
    match (&*error.kind, sent) {
        (ErrorKind::InvalidArgument { message }, [index]) => Error::invalid_argument(
            message.replacen("document 0 ", &format!("document {index} "), 1),
        ),
        _ => error,
    }
}

/// Refuses documents that could not be told by their `_id`s: without one, if what is there already is fine;
/// otherwise two with the same, of which after a lost reply the one would be taken for the other.
fn check_ids(documents: Vec<Prepared>, already_there_is_fine: bool) -> Result<Vec<Prepared>> {
    if already_there_is_fine {
        return match documents.iter().position(|document| !document.is_given) {
            Some(index) => Err(id_needed(&format!("document {index}"))),
            None => Ok(documents),
        };
    }
    // As the index on `_id` has it, in which 1 and 1.0 are the same.
    let compare = |one: &usize, another: &usize| {
        steadfast_value::compare(&documents[*one].id, &documents[*another].id, &BinaryOrder)
    };
    let mut given: Vec<_> = (0..documents.len()).filter(|at| documents[*at].is_given).collect();
    given.sort_by(compare);
    let same = given.windows(2).find(|pair| compare(&pair[0], &pair[1]).is_eq());
    if let Some([one, another]) = same {
        return Err(Error::invalid_argument(format!(
            "documents {one} and {another} have the same _id, {}: after a lost reply the one would be \
             taken for the other",
            documents[*another].id
        )));
    }
    Ok(documents)
}

/// The documents cut into what is sent at a time.
fn parts(documents: &[Prepared]) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, document) in documents.iter().enumerate() {
        let length = document.bytes.as_bytes().len();
        let is_full = index - start == DOCUMENTS_AT_A_TIME || bytes + length > BYTES_AT_A_TIME;
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

repeatable!([] InsertMany => InsertedMany, InsertManyFailure);

setters!(InsertOneOptions for [] InsertMany);
#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;

    fn prepared(documents: impl IntoIterator<Item = Document>) -> Vec<Prepared> {
        documents.into_iter().map(|document| Prepared::new(&document).unwrap()).collect()
    }

    #[test]
    fn parts_are_small_enough_and_leave_nothing_out() {
        let many = prepared((0..2500).map(|n| doc! { "_id": n }));
        assert_eq!(parts(&many), [0..1000, 1000..2000, 2000..2500]);
        assert!(parts(&[]).is_empty());
        let large = prepared((0..3).map(|n| doc! { "_id": n, "text": "x".repeat(5 << 20) }));
        assert_eq!(parts(&large), [0..1, 1..2, 2..3]);
        let huge = prepared([doc! { "text": "x".repeat(15 << 20) }, doc! {}]);
        assert_eq!(parts(&huge), [0..1, 1..2]);
    }
}
