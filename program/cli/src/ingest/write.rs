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

use super::look::Look;
use crate::{database, duration, notes::Notes};

/// Where documents go.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// Each once, by its `_id`.
    Collection(Collection<RawDocumentBuf>),
    /// To the nearest datacenter that takes it.
    Datacenters(LocalWriter),
    /// Nowhere.
    Nothing,
}

/// What became of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Added,
    /// It was there; or it was added, and only the answer to that was lost.
    AlreadyThere,
    /// It was added, and may be in another datacenter as well.
    MayBeTwice,
    Refused(String),
}

/// Tries a batch again and again, while that may help.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) target: Target,
    pub(super) look: Look,
    pub(super) patience: Duration,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) notes: Notes,
    pub(super) bar: ProgressBar,
    /// Whether people were told that the deployment is gone.
    pub(super) is_told: AtomicBool,
}

/// The pause after a failure; twice as long each time.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl Writer {
    /// Gives what became of each document; or why it could not be found out.
    pub(super) async fn write(&self, documents: &[RawDocumentBuf]) -> Result<Vec<Settled>, String> {
        let mut settled: Vec<Option<Settled>> = vec![None; documents.len()];
        let (mut since, mut before) = (Instant::now(), documents.len());
        let (mut failure, mut pause) = (None, PAUSE);
        loop {
            let open: Vec<usize> =
                (0..documents.len()).filter(|it| settled[*it].is_none()).collect();
            if open.is_empty() {
                if failure.is_some() && self.is_told.swap(false, Ordering::Relaxed) {
                    self.say("the deployment takes writes again");
                }
                return Ok(settled.into_iter().flatten().collect());
            }
            if open.len() < before {
                (since, before) = (Instant::now(), open.len());
            }
            let sent = self.send(documents, &open, &mut settled);
            match self.within_patience(since, sent).await {
                Some(Ok(())) => continue,
                Some(Err(sent)) => failure = Some(sent),
                // What happened before says more than that nothing came.
                None => {
                    failure.get_or_insert_with(Failure::silence);
                }
            }
            if let Some(failure) = &failure {
                self.judge(failure, since)?;
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

    /// What comes of an attempt, unless the patience ends before it. What is under way is then given up, and not
    /// known; another run finds it, or sends it again.
    async fn within_patience<T>(
        &self,
        since: Instant,
        attempt: impl Future<Output = T>,
    ) -> Option<T> {
        // Who has none at all wants one attempt, however long that takes.
        if self.patience.is_zero() {
            return Some(attempt.await);
        }
        let rest = self.patience.saturating_sub(since.elapsed());
        tokio::time::timeout(rest, attempt).await.ok()
    }

    fn say(&self, what: impl Display) {
        self.bar.suspend(|| self.notes.say(what));
    }

    /// Whether to try again.
    fn judge(&self, failure: &Failure, since: Instant) -> Result<(), String> {
        if !failure.is_transient || *self.stop.borrow() {
            return Err(failure.why.clone());
        }
        let patience = duration::show(self.patience);
        if since.elapsed() >= self.patience {
            return Err(format!("for {patience} nothing could be written\n  why: {}", failure.why));
        }
        if !self.is_told.swap(true, Ordering::Relaxed) {
            self.say(format_args!(
                "nothing can be written now; it is tried again for {patience}\n  why: {}",
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
        settled: &mut [Option<Settled>],
    ) -> Result<(), Failure> {
        match &self.target {
            Target::Collection(collection) => {
                let open = self.look(collection, documents, open, settled).await;
                self.insert(collection, documents, &open, settled).await
            }
            Target::Datacenters(writer) => {
                let sent = open.iter().map(|it| &documents[*it]);
                let mut failure = None;
                for (index, answer) in open.iter().zip(writer.insert_many(sent).await) {
                    settled[*index] = match answer {
                        Ok(receipt) if receipt.may_also_be_in().next().is_some() => {
                            Some(Settled::MayBeTwice)
                        }
                        Ok(_) => Some(Settled::Added),
                        Err(error @ LocalWriteError::AllDown { .. }) => {
                            failure = Some(Failure { is_transient: true, why: error.to_string() });
                            None
                        }
                        Err(error) => Some(Settled::Refused(error.to_string())),
                    };
                }
                failure.map_or(Ok(()), Err)
            }
            Target::Nothing => {
                open.iter().for_each(|it| settled[*it] = Some(Settled::Added));
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
        settled: &mut [Option<Settled>],
    ) -> Vec<usize> {
        let asked: Vec<_> = open.iter().map(|it| &documents[*it]).collect();
        let are_there = self.look.at(collection, &asked).await;
        for (index, is_there) in open.iter().zip(are_there) {
            settled[*index] = is_there.then_some(Settled::AlreadyThere);
        }
        open.iter().copied().filter(|it| settled[*it].is_none()).collect()
    }

    async fn insert(
        &self,
        collection: &Collection<RawDocumentBuf>,
        documents: &[RawDocumentBuf],
        open: &[usize],
        settled: &mut [Option<Settled>],
    ) -> Result<(), Failure> {
        if open.is_empty() {
            return Ok(());
        }
        let sent = open.iter().map(|it| &documents[*it]);
        let insert = idempotent::insert_many(collection, sent).ignore_existing();
        let (fates, error) = match insert.await {
            Ok(done) => (done.outcomes, None),
            Err(failure) => (failure.documents.outcomes, Some(failure.error)),
        };
        let is_slow = fates.iter().any(|fate| matches!(fate, InsertOutcome::NotDurable(_)));
        for (index, fate) in open.iter().zip(fates) {
            settled[*index] = of_fate(fate);
        }
        if open.iter().all(|it| settled[*it] == Some(Settled::AlreadyThere)) {
            self.look.all_were_there();
        }
        let is_open = open.iter().any(|it| settled[*it].is_none());
        let failure = error.filter(|_| is_open).map(|error| Failure::of(&error, is_slow));
        failure.map_or(Ok(()), Err)
    }
}

/// None if it is open.
fn of_fate(fate: InsertOutcome) -> Option<Settled> {
    match fate {
        InsertOutcome::Present(InsertEvidence::PreExisting) => Some(Settled::AlreadyThere),
        InsertOutcome::Present(_) => Some(Settled::Added),
        InsertOutcome::Rejected(refusal) => {
            Some(Settled::Refused(format!("the server refused it: {}", refusal.message)))
        }
        // What is not known may have happened: it is sent again, which does no harm.
        _ => None,
    }
}

/// Why something is open.
#[derive(Debug)]
struct Failure {
    is_transient: bool,
    why: String,
}

impl Failure {
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
