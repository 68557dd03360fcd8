//! Writing of batches, with retries until each document has an outcome.

use std::{
    error::Error as _,
    fmt::Display,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use indicatif::ProgressBar;
use steadfast::{Collection, bson::RawDocumentBuf, error::Error};
use steadfast_patterns::{
    idempotent::{self, InsertEvidence, InsertOutcome},
    local_writes::{LocalWriteError, LocalWriter},
};
use tokio::sync::watch;

use super::existing::ExistingIds;
use crate::{database, duration, notes::Notes};

/// Destination of documents.
#[derive(Clone, Debug)]
pub(super) enum WriteTarget {
    /// A collection: each document is inserted once, by its `_id`.
    Collection(Collection<RawDocumentBuf>),
    /// The nearest datacenter that acknowledges.
    Datacenters(LocalWriter),
    /// No destination (`--dry-run`).
    Nothing,
}

/// Outcome of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DocumentOutcome {
    Added,
    /// The `_id` existed: from an earlier run, or from an attempt whose reply was lost.
    Existing,
    /// Added, and possibly stored in another datacenter as well.
    MaybeDuplicated,
    Rejected(String),
}

/// Writes batches, and retries them after transient errors.
#[derive(Debug)]
pub(super) struct BatchWriter {
    pub(super) target: WriteTarget,
    pub(super) existing: ExistingIds,
    pub(super) retry_timeout: Duration,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) notes: Notes,
    pub(super) bar: ProgressBar,
    /// `true` after a note that no document can be written.
    pub(super) is_outage_reported: AtomicBool,
}

/// Pause before the first retry. It doubles each time.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl BatchWriter {
    /// Returns the outcome of each document, or the error that ended the retries.
    pub(super) async fn write(
        &self,
        documents: &[RawDocumentBuf],
    ) -> Result<Vec<DocumentOutcome>, String> {
        let mut settled: Vec<Option<DocumentOutcome>> = vec![None; documents.len()];
        let (mut since, mut before) = (Instant::now(), documents.len());
        let (mut failure, mut pause) = (None, PAUSE);
        loop {
            let open: Vec<usize> =
                (0..documents.len()).filter(|it| settled[*it].is_none()).collect();
            if open.is_empty() {
                if failure.is_some() && self.is_outage_reported.swap(false, Ordering::Relaxed) {
                    self.info("the deployment accepts writes again");
                }
                return Ok(settled.into_iter().flatten().collect());
            }
            if open.len() < before {
                (since, before) = (Instant::now(), open.len());
            }
            let sent = self.send(documents, &open, &mut settled);
            match self.within_timeout(since, sent).await {
                Some(Ok(())) => continue,
                Some(Err(sent)) => failure = Some(sent),
                // An earlier error says more than a missing reply.
                None => {
                    failure.get_or_insert_with(WriteFailure::no_reply);
                }
            }
            if let Some(failure) = &failure {
                self.check_retry(failure, since)?;
            }
            let mut stop = self.stop.clone();
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // The sender lives as long as the program.
                _ = stop.wait_for(|stop| *stop) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Returns the result of an attempt, or `None` if the retry time-out ends first. The outcome of its documents is
    /// then unknown; another run finds or inserts them.
    async fn within_timeout<T>(
        &self,
        since: Instant,
        attempt: impl Future<Output = T>,
    ) -> Option<T> {
        // A time-out of zero allows one attempt of any duration.
        if self.retry_timeout.is_zero() {
            return Some(attempt.await);
        }
        let rest = self.retry_timeout.saturating_sub(since.elapsed());
        tokio::time::timeout(rest, attempt).await.ok()
    }

    fn info(&self, what: impl Display) {
        self.bar.suspend(|| self.notes.info(what));
    }

    /// Returns an error if the batch must not be retried.
    fn check_retry(&self, failure: &WriteFailure, since: Instant) -> Result<(), String> {
        if !failure.is_transient || *self.stop.borrow() {
            return Err(failure.why.clone());
        }
        let retry_timeout = duration::show(self.retry_timeout);
        if since.elapsed() >= self.retry_timeout {
            return Err(format!(
                "no document could be written for {retry_timeout}\n  why: {}",
                failure.why
            ));
        }
        if !self.is_outage_reported.swap(true, Ordering::Relaxed) {
            self.info(format_args!(
                "no document can be written now; retrying for {retry_timeout}\n  why: {}",
                failure.why
            ));
        }
        Ok(())
    }

    /// Sends the open documents, and stores their outcomes.
    async fn send(
        &self,
        documents: &[RawDocumentBuf],
        open: &[usize],
        settled: &mut [Option<DocumentOutcome>],
    ) -> Result<(), WriteFailure> {
        match &self.target {
            WriteTarget::Collection(collection) => {
                let open = self.settle_existing(collection, documents, open, settled).await;
                self.insert(collection, documents, &open, settled).await
            }
            WriteTarget::Datacenters(writer) => {
                let sent = open.iter().map(|it| &documents[*it]);
                let mut failure = None;
                for (index, answer) in open.iter().zip(writer.insert_many(sent).await) {
                    settled[*index] = match answer {
                        Ok(receipt) if receipt.may_also_be_in().next().is_some() => {
                            Some(DocumentOutcome::MaybeDuplicated)
                        }
                        Ok(_) => Some(DocumentOutcome::Added),
                        Err(error @ LocalWriteError::AllDown { .. }) => {
                            failure =
                                Some(WriteFailure { is_transient: true, why: error.to_string() });
                            None
                        }
                        Err(error) => Some(DocumentOutcome::Rejected(error.to_string())),
                    };
                }
                failure.map_or(Ok(()), Err)
            }
            WriteTarget::Nothing => {
                open.iter().for_each(|it| settled[*it] = Some(DocumentOutcome::Added));
                Ok(())
            }
        }
    }

    /// Settles the documents that are known to exist. Returns the others.
    async fn settle_existing(
        &self,
        collection: &Collection<RawDocumentBuf>,
        documents: &[RawDocumentBuf],
        open: &[usize],
        settled: &mut [Option<DocumentOutcome>],
    ) -> Vec<usize> {
        let candidates: Vec<_> = open.iter().map(|it| &documents[*it]).collect();
        let exist = self.existing.lookup(collection, &candidates).await;
        for (index, exists) in open.iter().zip(exist) {
            settled[*index] = exists.then_some(DocumentOutcome::Existing);
        }
        open.iter().copied().filter(|it| settled[*it].is_none()).collect()
    }

    async fn insert(
        &self,
        collection: &Collection<RawDocumentBuf>,
        documents: &[RawDocumentBuf],
        open: &[usize],
        settled: &mut [Option<DocumentOutcome>],
    ) -> Result<(), WriteFailure> {
        if open.is_empty() {
            return Ok(());
        }
        let sent = open.iter().map(|it| &documents[*it]);
        let insert = idempotent::insert_many(collection, sent).ignore_existing();
        let (outcomes, error) = match insert.await {
            Ok(done) => (done.outcomes, None),
            Err(failure) => (failure.documents.outcomes, Some(failure.error)),
        };
        let is_slow =
            outcomes.iter().any(|outcome| matches!(outcome, InsertOutcome::NotDurable(_)));
        for (index, outcome) in open.iter().zip(outcomes) {
            settled[*index] = outcome_of(outcome);
        }
        if open.iter().all(|it| settled[*it] == Some(DocumentOutcome::Existing)) {
            self.existing.enable();
        }
        let is_open = open.iter().any(|it| settled[*it].is_none());
        let failure = error.filter(|_| is_open).map(|error| WriteFailure::of(&error, is_slow));
        failure.map_or(Ok(()), Err)
    }
}

/// Converts an outcome. Returns `None` if it is unknown.
fn outcome_of(outcome: InsertOutcome) -> Option<DocumentOutcome> {
    match outcome {
        InsertOutcome::Present(InsertEvidence::PreExisting) => Some(DocumentOutcome::Existing),
        InsertOutcome::Present(_) => Some(DocumentOutcome::Added),
        InsertOutcome::Rejected(error) => {
            Some(DocumentOutcome::Rejected(format!("the server rejected it: {}", error.message)))
        }
        // An insert with an unknown outcome may have been applied; a retry with the same `_id` is safe.
        _ => None,
    }
}

/// Error of an attempt that left documents open.
#[derive(Debug)]
struct WriteFailure {
    is_transient: bool,
    why: String,
}

impl WriteFailure {
    /// Returns the failure of an attempt without a reply.
    fn no_reply() -> Self {
        Self { is_transient: true, why: "no reply was received".to_owned() }
    }

    /// Converts an error. `is_slow` is `true` if a majority of the members does not have the writes yet.
    fn of(error: &Error, is_slow: bool) -> Self {
        let cause = cause(error);
        // Every insert here can be retried, so this alone decides.
        let is_transient = is_slow || cause.is_transient();
        // A transient error is retried, so there is no advice.
        let why = if is_transient { cause.to_string() } else { database::explain(cause) };
        Self { is_transient, why }
    }
}

/// Returns the innermost error, which ended a partial insert.
fn cause(error: &Error) -> &Error {
    let mut cause = error;
    while let Some(deeper) = cause.source().and_then(|it| it.downcast_ref::<Error>()) {
        cause = deeper;
    }
    cause
}
