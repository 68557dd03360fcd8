//! The sweep: completes increments that were left behind, and removes tombstones.

use std::{fmt, future::IntoFuture, pin::Pin, time::Duration};

use bson::Bson;

use super::{
    Counters,
    candidate::{Candidate, Tokens},
    documents::{self, SweepAges},
    steps::with_explanation,
};
use crate::retry;
use steadfast::{
    error::{Error, ErrorKind, Result, WriteFailure},
    options::{ReadPreference, SelectionCriteria},
};

/// Largest number of failures in a report; all are counted.
const MAX_FAILURES_IN_REPORT: usize = 100;

/// Action that completes increments that were left behind. Returned by [`Counters::sweep`].
#[must_use = "a sweep does nothing until it is awaited"]
pub struct Sweep<'a> {
    sweeper: Sweeper<'a>,
    progress: Progress<'a>,
}

/// A sweep without its progress callback.
#[derive(Debug)]
struct Sweeper<'a> {
    counters: &'a Counters,
    ages: SweepAges,
    dry_run: bool,
    batch_size: u32,
}

type Progress<'a> = Option<Box<dyn FnMut(&SweepReport) + Send + 'a>>;

/// Report of a sweep. That of a dry run has the numbers that a sweep would have had.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SweepReport {
    /// Number of counters with pending tokens, or with tombstones that can be removed.
    pub documents: u64,
    /// Number of completed tokens.
    pub finished: u64,
    /// Sum that they added to their counters.
    pub by: i128,
    /// Number of tokens that were no longer pending: completed by another client, or by an earlier attempt of
    /// this sweep whose reply was lost.
    pub already_gone: u64,
    /// Number of removed tombstones.
    pub tombstones_removed: u64,
    /// Number of tokens that are not old enough, or of an unknown form.
    pub left_alone: u64,
    /// Number of counters of which the server rejected an update.
    pub failed: u64,
    /// Errors of the first hundred of these counters.
    pub failures: Vec<SweepFailure>,
}

/// A counter that could not be swept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SweepFailure {
    /// `_id` of the counter.
    pub id: Bson,
    /// Error of the server: the counter is not a number, or would overflow, or the document would be too large.
    pub error: Error,
}

impl<'a> Sweep<'a> {
    pub(super) fn new(counters: &'a Counters) -> Self {
        let plain = Duration::from_secs(24 * 60 * 60);
        let ages = SweepAges { margin: counters.margin, keep: counters.keep, plain };
        let sweeper = Sweeper { counters, ages, dry_run: false, batch_size: 100 };
        Self { sweeper, progress: None }
    }

    /// Sets the margin after `until`. Defaults to [that of the counters](Counters::margin).
    pub fn margin(mut self, margin: Duration) -> Self {
        self.sweeper.ages.margin = margin;
        self
    }

    /// Sets how long after the margin tombstones are kept. Defaults to [that of the counters](Counters::keep).
    /// Clients that finish intents of this collection need the same value, or a shorter one.
    pub fn keep(mut self, keep: Duration) -> Self {
        self.sweeper.ages.keep = keep;
        self
    }

    /// Sets the age of plain ObjectIds in `pending` that are completed. Defaults to one day.
    ///
    /// Applications that implement MongoDB's article literally write them. Each counts one. It is safe if no
    /// writer repeats step one that late.
    pub fn older_than(mut self, age: Duration) -> Self {
        self.sweeper.ages.plain = age;
        self
    }

    /// With `true`, only reports. Defaults to `false`, unlike that of a trim: a sweep only completes increments
    /// that writers have begun.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.sweeper.dry_run = dry_run;
        self
    }

    /// Sets the batch size of the cursor (`batchSize`). Defaults to 100.
    pub fn batch_size(mut self, batch_size: u32) -> Self {
        self.sweeper.batch_size = batch_size;
        self
    }

    /// Sets a callback that receives the report after each counter.
    pub fn progress(mut self, progress: impl FnMut(&SweepReport) + Send + 'a) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }
}

impl Sweeper<'_> {
    async fn sweep(self, mut progress: Progress<'_>) -> Result<SweepReport> {
        self.counters.fields.check()?;
        let mut report = SweepReport::default();
        let mut retries = self.counters.retries;
        loop {
            let finished = report.finished;
            let Err(error) = self.sweep_all(&mut report, &mut progress).await else {
                return Ok(report);
            };
            // Completed tokens are not found again, so a sweep that makes progress can restart.
            let has_progressed = !self.dry_run && report.finished > finished;
            if !retry::can_retry_at_once(&error) || (retries == 0 && !has_progressed) {
                return Err(with_explanation(error));
            }
            if !has_progressed {
                retries -= 1;
            }
            let SweepReport { finished, by, already_gone, tombstones_removed, .. } = report;
            report = match self.dry_run {
                true => SweepReport::default(),
                false => SweepReport {
                    finished,
                    by,
                    already_gone,
                    tombstones_removed,
                    ..Default::default()
                },
            };
        }
    }

    async fn sweep_all(&self, report: &mut SweepReport, progress: &mut Progress<'_>) -> Result<()> {
        let mut cursor = self
            .counters
            .collection
            .aggregate(documents::candidates(&self.counters.fields, &self.ages))
            .with_type::<Candidate>()
            .batch_size(self.batch_size)
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .await?;
        while cursor.advance().await? {
            let candidate = cursor.deserialize_current()?.without_repeated_tokens();
            let id = candidate.id.clone();
            let swept = match self.sweep_one(candidate, report).await {
                Err(error) if is_rejection_of_counter(&error) => {
                    report.record_failure(id, error);
                    Ok(())
                }
                other => other,
            };
            // Also after an error: a part of it may be completed.
            if let Some(progress) = progress {
                progress(report);
            }
            swept?;
        }
        Ok(())
    }

    async fn sweep_one(&self, candidate: Candidate, report: &mut SweepReport) -> Result<()> {
        report.documents += 1;
        report.left_alone += candidate.left_alone();
        for tokens in candidate.groups() {
            self.finish(&candidate, tokens, report).await?;
        }
        if candidate.old > 0 {
            self.remove_tombstones(&candidate, report).await?;
        }
        Ok(())
    }

    /// Completes tokens with one update; or one by one if some are gone or their sum overflows.
    async fn finish(
        &self,
        candidate: &Candidate,
        tokens: Tokens<'_>,
        report: &mut SweepReport,
    ) -> Result<()> {
        if self.finish_at_once(candidate, tokens, report).await? {
            return Ok(());
        }
        for token in tokens.one_by_one() {
            if tokens.len() == 1 || !self.finish_at_once(candidate, token, report).await? {
                report.already_gone += 1;
            }
        }
        Ok(())
    }

    async fn finish_at_once(
        &self,
        candidate: &Candidate,
        tokens: Tokens<'_>,
        report: &mut SweepReport,
    ) -> Result<bool> {
        let Some(by) = tokens.sum() else { return Ok(false) };
        if !self.dry_run {
            let id = &candidate.id;
            let statement =
                documents::step_two_of_all(&self.counters.fields, id, tokens, by, &self.ages);
            if self.counters.update(&statement).await?.matched_count == 0 {
                return Ok(false);
            }
        }
        report.finished += u64::try_from(tokens.len()).unwrap_or(u64::MAX);
        report.by += i128::from(by);
        Ok(true)
    }

    async fn remove_tombstones(
        &self,
        candidate: &Candidate,
        report: &mut SweepReport,
    ) -> Result<()> {
        if !self.dry_run {
            let last = self.ages.newest_removable_tombstone(candidate.now);
            let statement =
                documents::remove_tombstones(&self.counters.fields, &candidate.id, last);
            if self.counters.update(&statement).await?.modified_count == 0 {
                return Ok(());
            }
        }
        report.tombstones_removed += candidate.old;
        Ok(())
    }
}

impl SweepReport {
    fn record_failure(&mut self, id: Bson, error: Error) {
        self.failed += 1;
        if self.failures.len() < MAX_FAILURES_IN_REPORT {
            self.failures.push(SweepFailure { id, error });
        }
    }
}

/// Returns `true` if the server rejected this document only.
fn is_rejection_of_counter(error: &Error) -> bool {
    matches!(&*error.kind, ErrorKind::Write(WriteFailure::WriteError(_)))
        && !retry::can_retry_at_once(error)
}

impl fmt::Debug for Sweep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep").field("sweeper", &self.sweeper).finish_non_exhaustive()
    }
}

impl<'a> IntoFuture for Sweep<'a> {
    type Output = Result<SweepReport>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.sweeper.sweep(self.progress))
    }
}
