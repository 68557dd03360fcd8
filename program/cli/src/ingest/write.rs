//! Writes documents until it is settled what becomes of each, however long the deployment is gone.

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

/// Where documents go.
#[derive(Clone, Debug)]
pub(super) enum WriteTarget {
    /// Each once, by its `_id`.
    Collection(Collection<RawDocumentBuf>),
    /// To the nearest datacenter that takes it.
    Datacenters(LocalWriter),
    /// Nowhere.
    Nothing,
}

/// What became of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DocumentOutcome {
    Added,
    /// It was there; or it was added, and only the answer to that was lost.
    Existing,
    /// It was added, and may be in another datacenter as well.
    MaybeTwice,
    Rejected(String),
}

/// Tries a batch again and again, while that may help.
#[derive(Debug)]
pub(super) struct BatchWriter {
    pub(super) target: WriteTarget,
    pub(super) look: ExistingIds,
    pub(super) retry_timeout: Duration,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) notes: Notes,
    pub(super) bar: ProgressBar,
    /// Whether people were told that the deployment is gone.
    pub(super) is_told: AtomicBool,
}

/// The pause after a failure; twice as long each time.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl BatchWriter {
    /// Gives what became of each document; or why it could not be found out.
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
                if failure.is_some() && self.is_told.swap(false, Ordering::Relaxed) {
                    self.info("the deployment takes writes again");
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
                // What happened before says more than that nothing came.
                None => {
                    failure.get_or_insert_with(WriteFailure::silence);
                }
            }
            if let Some(failure) = &failure {
                self.check_retry(failure, since)?;
            }
            let mut stop = self.stop.clone();
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // Its sender is gone only when the program is.
                _ = stop.wait_for(|stop| *stop) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// What comes of an attempt, unless the retry_timeout ends before it. What is under way is then given up, and not
    /// known; another run finds it, or sends it again.
    async fn within_timeout<T>(
        &self,
        since: Instant,
        attempt: impl Future<Output = T>,
    ) -> Option<T> {
        // Who has none at all wants one attempt, however long that takes.
        if self.retry_timeout.is_zero() {
            return Some(attempt.await);
        }
        let rest = self.retry_timeout.saturating_sub(since.elapsed());
        tokio::time::timeout(rest, attempt).await.ok()
    }

    fn info(&self, what: impl Display) {
        self.bar.suspend(|| self.notes.info(what));
    }

    /// Whether to try again.
    fn check_retry(&self, failure: &WriteFailure, since: Instant) -> Result<(), String> {
        if !failure.is_transient || *self.stop.borrow() {
            return Err(failure.why.clone());
        }
        let retry_timeout = duration::show(self.retry_timeout);
        if since.elapsed() >= self.retry_timeout {
            return Err(format!(
                "for {retry_timeout} nothing could be written\n  why: {}",
                failure.why
            ));
        }
        if !self.is_told.swap(true, Ordering::Relaxed) {
            self.info(format_args!(
                "nothing can be written now; it is tried again for {retry_timeout}\n  why: {}",
                failure.why
            ));
        }
        Ok(())
    }

    /// Sends those that are open, once or a few times, and notes what is settled.
    async fn send(
        &self,
        documents: &[RawDocumentBuf],
        open: &[usize],
        settled: &mut [Option<DocumentOutcome>],
    ) -> Result<(), WriteFailure> {
        match &self.target {
            WriteTarget::Collection(collection) => {
                let open = self.look(collection, documents, open, settled).await;
                self.insert(collection, documents, &open, settled).await
            }
            WriteTarget::Datacenters(writer) => {
                let sent = open.iter().map(|it| &documents[*it]);
                let mut failure = None;
                for (index, answer) in open.iter().zip(writer.insert_many(sent).await) {
                    settled[*index] = match answer {
                        Ok(receipt) if receipt.may_also_be_in().next().is_some() => {
                            Some(DocumentOutcome::MaybeTwice)
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

    /// Settles those that are there already, if it is likely that there are such; gives the others.
    async fn look(
        &self,
        collection: &Collection<RawDocumentBuf>,
        documents: &[RawDocumentBuf],
        open: &[usize],
        settled: &mut [Option<DocumentOutcome>],
    ) -> Vec<usize> {
        let asked: Vec<_> = open.iter().map(|it| &documents[*it]).collect();
        let are_there = self.look.at(collection, &asked).await;
        for (index, is_there) in open.iter().zip(are_there) {
            settled[*index] = is_there.then_some(DocumentOutcome::Existing);
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
            self.look.enable();
        }
        let is_open = open.iter().any(|it| settled[*it].is_none());
        let failure = error.filter(|_| is_open).map(|error| WriteFailure::of(&error, is_slow));
        failure.map_or(Ok(()), Err)
    }
}

/// None if it is open.
fn outcome_of(outcome: InsertOutcome) -> Option<DocumentOutcome> {
    match outcome {
        InsertOutcome::Present(InsertEvidence::PreExisting) => Some(DocumentOutcome::Existing),
        InsertOutcome::Present(_) => Some(DocumentOutcome::Added),
        InsertOutcome::Rejected(error) => {
            Some(DocumentOutcome::Rejected(format!("the server refused it: {}", error.message)))
        }
        // What is not known may have happened: it is sent again, which does no harm.
        _ => None,
    }
}

/// Why something is open.
#[derive(Debug)]
struct WriteFailure {
    is_transient: bool,
    why: String,
}

impl WriteFailure {
    /// No answer came in all the time that there was.
    fn silence() -> Self {
        Self { is_transient: true, why: "no answer came".to_owned() }
    }

    /// `is_slow` if other members do not have the write yet.
    fn of(error: &Error, is_slow: bool) -> Self {
        let cause = cause(error);
        // An insert can be repeated here whatever became of it, so that this is all that matters.
        let is_transient = is_slow || cause.is_transient();
        // A transient error is waited for: there is nothing to advise.
        let why = if is_transient { cause.to_string() } else { database::explain(cause) };
        Self { is_transient, why }
    }
}

/// What ended an insert that was done in part.
fn cause(error: &Error) -> &Error {
    let mut cause = error;
    while let Some(deeper) = cause.source().and_then(|it| it.downcast_ref::<Error>()) {
        cause = deeper;
    }
    cause
}
