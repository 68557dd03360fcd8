//! Inserts of many documents in batches: each goes to one datacenter after the other, until every document is
//! acknowledged or rejected.

use std::sync::Arc;

use bson::oid::ObjectId;

use self::outcome::DocumentOutcome;
use super::{
    FailedAttempt, LocalWriteError, Receipt, document::Unaddressed, fault, health::Ticket, log,
    shared::Shared,
};
use steadfast::{error::Error, results::InsertManyResult};

mod outcome;

/// Largest number of documents, and of their bytes, in a batch. Each batch has the whole time limit, so it is
/// small enough for a healthy datacenter to acknowledge well within it.
const MOST_DOCUMENTS: usize = 1000;
const MOST_BYTES: usize = 4 << 20;

/// Result of a document.
type DocumentResult = Result<Receipt, LocalWriteError>;

/// A document in progress, with its position among those that were given.
#[derive(Debug)]
struct Entry {
    place: usize,
    document: Unaddressed,
    failed: Vec<FailedAttempt>,
}

/// Inserts documents. The results are in their order.
pub(super) async fn insert_many(
    writer: &Arc<Shared>,
    documents: Vec<Result<Unaddressed, Error>>,
) -> Vec<DocumentResult> {
    let mut answers: Vec<Option<DocumentResult>> = Vec::new();
    answers.resize_with(documents.len(), || None);
    let mut batch = Vec::new();
    let mut bytes = 0;
    for (place, document) in documents.into_iter().enumerate() {
        let document = match document {
            Ok(document) => document,
            Err(error) => {
                answers[place] = Some(Err(LocalWriteError::Invalid(error)));
                continue;
            }
        };
        let is_full = batch.len() == MOST_DOCUMENTS || bytes + document.size() > MOST_BYTES;
        if is_full && !batch.is_empty() {
            write(writer, std::mem::take(&mut batch), &mut answers).await;
            bytes = 0;
        }
        bytes += document.size();
        batch.push(Entry { place, document, failed: Vec::new() });
    }
    write(writer, batch, &mut answers).await;
    answers.into_iter().flatten().collect()
}

/// Inserts one batch.
async fn write(writer: &Arc<Shared>, mut left: Vec<Entry>, answers: &mut [Option<DocumentResult>]) {
    if left.is_empty() {
        return;
    }
    for site in writer.order() {
        left = write_to(writer, site, left, answers).await;
        if left.is_empty() {
            return;
        }
    }
    let (rejected, mut left): (Vec<_>, Vec<_>) =
        left.into_iter().partition(|entry| fault::is_rejected_by_all(&entry.failed));
    writer.count_rejected(rejected.len());
    for Entry { place, failed, .. } in rejected {
        answers[place] = Some(Err(LocalWriteError::Rejected { attempts: failed }));
    }
    let count = left.len();
    writer.all_down(count);
    for (nth, entry) in left.iter_mut().enumerate() {
        let error = LocalWriteError::AllDown { attempts: std::mem::take(&mut entry.failed) };
        if nth == 0 {
            log::all_down(&error, count);
        }
        answers[entry.place] = Some(Err(error));
    }
}

/// Inserts one batch into one datacenter. Returns the documents that go to the next one.
///
/// A server that cannot parse one of the documents rejects all of them without naming it. Then the batch is
/// divided in halves, until that document is alone.
async fn write_to(
    writer: &Arc<Shared>,
    site: usize,
    batch: Vec<Entry>,
    answers: &mut [Option<DocumentResult>],
) -> Vec<Entry> {
    let mut parts = vec![batch];
    let mut left = Vec::new();
    while let Some(mut part) = parts.pop() {
        let ticket = writer.begin(site);
        let ids: Vec<ObjectId> = part.iter().map(|_| ObjectId::new()).collect();
        let answer = send(writer, site, &part, &ids).await;
        if part.len() > 1 && answer.as_ref().is_err_and(outcome::is_of_one_unread) {
            let rest = part.split_off(part.len() / 2);
            parts.extend([rest, part]);
            continue;
        }
        let sent = part.into_iter().zip(ids).collect();
        if sort_out(writer, ticket, sent, answer, answers, &mut left) {
            // The rest goes to the next datacenter at once.
            left.extend(parts.into_iter().rev().flatten());
            break;
        }
    }
    left
}

async fn send(
    writer: &Shared,
    site: usize,
    entries: &[Entry],
    ids: &[ObjectId],
) -> Result<InsertManyResult, Error> {
    let collection = &writer.sites[site].collection;
    let documents: Result<Vec<_>, Error> = entries
        .iter()
        .zip(ids)
        .map(|(entry, id)| entry.document.addressed(*id, &writer.field, &writer.sites[site].name))
        .collect();
    let documents = documents?;
    collection
        .insert_many(&documents)
        .ordered(false)
        .write_concern(writer.write_concern.clone())
        .timeout(writer.limit)
        .await
}

/// Sets the results of documents whose outcome is known; adds those to `left` that go to the next datacenter.
/// Returns `true` if the datacenter failed.
fn sort_out(
    writer: &Arc<Shared>,
    ticket: Ticket,
    sent: Vec<(Entry, ObjectId)>,
    answer: Result<InsertManyResult, Error>,
    answers: &mut [Option<DocumentResult>],
    left: &mut Vec<Entry>,
) -> bool {
    let name = &writer.sites[ticket.site].name;
    let (mut failed, mut rejected, mut cause) = (Vec::new(), Vec::new(), None);
    let (mut written, mut switched, mut refused) = (0, Vec::new(), 0);
    let fates = outcome::of_each(sent.len(), answer);
    for ((mut entry, id), fate) in sent.into_iter().zip(fates) {
        answers[entry.place] = Some(match fate {
            DocumentOutcome::Written => {
                written += 1;
                switched.extend(entry.failed.last().cloned());
                Ok(Receipt::new(name, id, entry.failed))
            }
            DocumentOutcome::DocumentRejected(error) => {
                refused += 1;
                entry.failed.push(FailedAttempt::new(name, id, error));
                Err(LocalWriteError::Rejected { attempts: entry.failed })
            }
            DocumentOutcome::DatacenterFailed(error) => {
                failed.push(error.outcome());
                cause.get_or_insert_with(|| error.clone());
                entry.failed.push(FailedAttempt::new(name, id, error));
                left.push(entry);
                continue;
            }
            DocumentOutcome::UnknownCause(error) => {
                rejected.push(error.outcome());
                entry.failed.push(FailedAttempt::new(name, id, error));
                left.push(entry);
                continue;
            }
        });
    }
    writer.written(ticket, written, switched.len());
    if let Some(failed) = switched.first() {
        log::switched(failed, name, switched.len());
    }
    writer.count_rejected(refused);
    writer.count_failed(ticket, rejected.into_iter());
    match &cause {
        Some(cause) => writer.failed(ticket, failed.into_iter(), cause),
        // Rejected documents do not show that the datacenter is up: a mongos may have rejected them.
        None if written > 0 => writer.succeeded(ticket),
        None => {}
    }
    cause.is_some()
}
