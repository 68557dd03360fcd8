//! Inserts of many documents in batches: each goes to one datacenter after the other, until every document is
//! acknowledged or rejected.

use std::sync::Arc;

use bson::oid::ObjectId;

use self::outcome::DocumentOutcome;
use super::{
    FailedAttempt, LocalWriteError, Receipt, cause, document::UnroutedDocument,
    health::EpochTicket, log, shared::Shared,
};
use steadfast::{error::Error, results::InsertManyResult};

mod outcome;

/// Largest number of documents, and of their bytes, in a batch. Each batch has the whole time limit, so it is
/// small enough for a healthy datacenter to acknowledge well within it.
const MAX_DOCUMENTS: usize = 1000;
const MAX_BYTES: usize = 4 << 20;

/// Result of a document.
type DocumentResult = Result<Receipt, LocalWriteError>;

/// A document in progress, with its index in the input.
#[derive(Debug)]
struct BatchEntry {
    index: usize,
    document: UnroutedDocument,
    failed: Vec<FailedAttempt>,
}

/// Inserts documents. The results are in their order.
pub(super) async fn insert_many(
    writer: &Arc<Shared>,
    documents: Vec<Result<UnroutedDocument, Error>>,
) -> Vec<DocumentResult> {
    let mut results: Vec<Option<DocumentResult>> = Vec::new();
    results.resize_with(documents.len(), || None);
    let mut batch = Vec::new();
    let mut bytes = 0;
    for (index, document) in documents.into_iter().enumerate() {
        let document = match document {
            Ok(document) => document,
            Err(error) => {
                results[index] = Some(Err(LocalWriteError::Invalid(error)));
                continue;
            }
        };
        let is_full = batch.len() == MAX_DOCUMENTS || bytes + document.size() > MAX_BYTES;
        if is_full && !batch.is_empty() {
            write(writer, std::mem::take(&mut batch), &mut results).await;
            bytes = 0;
        }
        bytes += document.size();
        batch.push(BatchEntry { index, document, failed: Vec::new() });
    }
    write(writer, batch, &mut results).await;
    results.into_iter().flatten().collect()
}

/// Inserts one batch.
async fn write(
    writer: &Arc<Shared>,
    mut left: Vec<BatchEntry>,
    results: &mut [Option<DocumentResult>],
) {
    if left.is_empty() {
        return;
    }
    for datacenter in writer.order() {
        left = write_to(writer, datacenter, left, results).await;
        if left.is_empty() {
            return;
        }
    }
    let (rejected, mut left): (Vec<_>, Vec<_>) =
        left.into_iter().partition(|entry| cause::is_rejected_by_all(&entry.failed));
    writer.count_rejected(rejected.len());
    for BatchEntry { index, failed, .. } in rejected {
        results[index] = Some(Err(LocalWriteError::Rejected { attempts: failed }));
    }
    let count = left.len();
    writer.all_down(count);
    for (nth, entry) in left.iter_mut().enumerate() {
        let error = LocalWriteError::AllDown { attempts: std::mem::take(&mut entry.failed) };
        if nth == 0 {
            log::all_down(&error, count);
        }
        results[entry.index] = Some(Err(error));
    }
}

/// Inserts one batch into one datacenter. Returns the documents that go to the next one.
///
/// A server that cannot parse one of the documents rejects all of them without naming it. Then the batch is
/// divided in halves, until that document is alone.
async fn write_to(
    writer: &Arc<Shared>,
    datacenter: usize,
    batch: Vec<BatchEntry>,
    results: &mut [Option<DocumentResult>],
) -> Vec<BatchEntry> {
    let mut parts = vec![batch];
    let mut left = Vec::new();
    while let Some(mut part) = parts.pop() {
        let ticket = writer.begin(datacenter);
        let ids: Vec<ObjectId> = part.iter().map(|_| ObjectId::new()).collect();
        let reply = send(writer, datacenter, &part, &ids).await;
        if part.len() > 1 && reply.as_ref().is_err_and(outcome::is_parse_failure) {
            let rest = part.split_off(part.len() / 2);
            parts.extend([rest, part]);
            continue;
        }
        let sent = part.into_iter().zip(ids).collect();
        if record_outcomes(writer, ticket, sent, reply, results, &mut left) {
            // The rest goes to the next datacenter at once.
            left.extend(parts.into_iter().rev().flatten());
            break;
        }
    }
    left
}

async fn send(
    writer: &Shared,
    datacenter: usize,
    entries: &[BatchEntry],
    ids: &[ObjectId],
) -> Result<InsertManyResult, Error> {
    let collection = &writer.datacenters[datacenter].collection;
    let documents: Result<Vec<_>, Error> = entries
        .iter()
        .zip(ids)
        .map(|(entry, id)| {
            entry.document.for_datacenter(*id, &writer.field, &writer.datacenters[datacenter].name)
        })
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
fn record_outcomes(
    writer: &Arc<Shared>,
    ticket: EpochTicket,
    sent: Vec<(BatchEntry, ObjectId)>,
    reply: Result<InsertManyResult, Error>,
    results: &mut [Option<DocumentResult>],
    left: &mut Vec<BatchEntry>,
) -> bool {
    let name = &writer.datacenters[ticket.datacenter].name;
    let (mut failed, mut unknown, mut cause) = (Vec::new(), Vec::new(), None);
    let (mut written, mut switched, mut rejected) = (0, Vec::new(), 0);
    let outcomes = outcome::of_documents(sent.len(), reply);
    for ((mut entry, id), outcome) in sent.into_iter().zip(outcomes) {
        results[entry.index] = Some(match outcome {
            DocumentOutcome::Written => {
                written += 1;
                switched.extend(entry.failed.last().cloned());
                Ok(Receipt::new(name, id, entry.failed))
            }
            DocumentOutcome::DocumentRejected(error) => {
                rejected += 1;
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
                unknown.push(error.outcome());
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
    writer.count_rejected(rejected);
    writer.count_failed(ticket, unknown.into_iter());
    match &cause {
        Some(cause) => writer.failed(ticket, failed.into_iter(), cause),
        // Rejected documents do not show that the datacenter is up: a mongos may have rejected them.
        None if written > 0 => writer.succeeded(ticket),
        None => {}
    }
    cause.is_some()
}
