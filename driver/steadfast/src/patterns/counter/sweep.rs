//! The sweep: increments that were begun and left behind are finished, tombstones that nobody needs go.

use std::{fmt, future::IntoFuture, time::Duration};

use bson::Bson;

use super::{
    Counters,
    candidate::{Candidate, Tokens},
    documents::{self, Ages},
    steps::explained,
};
use crate::{
    actions::ActionFuture,
    error::{Error, ErrorKind, Result, WriteFailure},
    options::{ReadPreference, SelectionCriteria},
    patterns::again,
};

/// How many failures are kept for the report; all are counted.
const FAILURES_KEPT: usize = 100;

/// Finishes what was left behind. See [`Counters::sweep`].
#[must_use = "a sweep does nothing until it is awaited"]
pub struct Sweep<'a> {
    broom: Broom<'a>,
    progress: Progress<'a>,
}

/// All of a sweep but whom it tells.
#[derive(Debug)]
struct Broom<'a> {
    counters: &'a Counters,
    ages: Ages,
    dry_run: bool,
    batch_size: u32,
}

type Progress<'a> = Option<Box<dyn FnMut(&SweepReport) + Send + 'a>>;

/// What a sweep has done, or, on a dry run, would have.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SweepReport {
    /// How many counters were looked at: those with something pending, or with tombstones that may go.
    pub documents: u64,
    /// How many tokens were finished.
    pub finished: u64,
    /// How much they added to their counters.
    pub by: i128,
    /// How many tokens were gone when they were to be finished: somebody else was faster, or a sending of
    /// the sweep's own, whose reply was lost.
    pub already_gone: u64,
    /// How many tombstones were taken away.
    pub forgotten: u64,
    /// How many tokens are not yet old enough, or are no tokens that the sweep knows.
    pub left_alone: u64,
    /// How many counters could not be swept: their servers refused.
    pub failed: u64,
    /// The first of these.
    pub failures: Vec<SweepFailure>,
}

/// A counter that could not be swept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SweepFailure {
    /// Its `_id`.
    pub id: Bson,
    /// Why: the counter is no number, or would overflow, or the document would be too large.
    pub error: Error,
}

impl<'a> Sweep<'a> {
    pub(super) fn new(counters: &'a Counters) -> Self {
        let plain = Duration::from_secs(24 * 60 * 60);
        let ages = Ages { margin: counters.margin, keep: counters.keep, plain };
        let broom = Broom { counters, ages, dry_run: false, batch_size: 100 };
        Self { broom, progress: None }
    }

    /// How much older than its `until` a token must be; by default [the counters'](Counters::margin).
    pub fn margin(mut self, margin: Duration) -> Self {
        self.broom.ages.margin = margin;
        self
    }

    /// How long after that tombstones are kept; by default [as the counters say](Counters::keep). All
    /// who finish intents of this collection must go by the same, or a shorter one.
    pub fn keep(mut self, keep: Duration) -> Self {
        self.broom.ages.keep = keep;
        self
    }

    /// How old a plain ObjectId in `pending` must be; by default a day.
    ///
    /// That is what an application writes that follows the article to the letter. It counts one. It is
    /// safe to finish it if no writer repeats step one that late.
    pub fn older_than(mut self, age: Duration) -> Self {
        self.broom.ages.plain = age;
        self
    }

    /// Only tells what it would do, if this is set. Unlike a trim, a sweep that is not told otherwise acts: it
    /// only does what the writers set out to do.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.broom.dry_run = dry_run;
        self
    }

    /// How many counters a server sends at once; by default 100.
    pub fn batch_size(mut self, batch_size: u32) -> Self {
        self.broom.batch_size = batch_size;
        self
    }

    /// Is told after each counter how far the sweep is.
    pub fn progress(mut self, progress: impl FnMut(&SweepReport) + Send + 'a) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }
}

impl Broom<'_> {
    async fn sweep(self, mut progress: Progress<'_>) -> Result<SweepReport> {
        self.counters.fields.check()?;
        let mut report = SweepReport::default();
        let mut retries = self.counters.retries;
        loop {
            let finished = report.finished;
            let Err(error) = self.sweep_all(&mut report, &mut progress).await else {
                return Ok(report);
            };
            // What is finished is not found again, so a sweep can begin anew as often as it gets on.
            let got_on = !self.dry_run && report.finished > finished;
            if !again::can_retry_at_once(&error) || (retries == 0 && !got_on) {
                return Err(explained(error));
            }
            if !got_on {
                retries -= 1;
            }
            let SweepReport { finished, by, already_gone, forgotten, .. } = report;
            report = match self.dry_run {
                true => SweepReport::default(),
                false => {
                    SweepReport { finished, by, already_gone, forgotten, ..Default::default() }
                }
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
            let candidate = cursor.deserialize_current()?.each_once();
            let id = candidate.id.clone();
            let swept = match self.sweep_one(candidate, report).await {
                Err(error) if is_of_the_document(&error) => {
                    report.note(id, error);
                    Ok(())
                }
                other => other,
            };
            // Also if it was the last: a part of it may be finished.
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
            self.forget(&candidate, report).await?;
        }
        Ok(())
    }

    /// Finishes tokens all at once, or, if some of them are gone or their sum is too large, one by one.
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

    async fn forget(&self, candidate: &Candidate, report: &mut SweepReport) -> Result<()> {
        if !self.dry_run {
            let last = self.ages.last_forgotten(candidate.now);
            let statement = documents::forget_all(&self.counters.fields, &candidate.id, last);
            if self.counters.update(&statement).await?.modified_count == 0 {
                return Ok(());
            }
        }
        report.forgotten += candidate.old;
        Ok(())
    }
}

impl SweepReport {
    fn note(&mut self, id: Bson, error: Error) {
        self.failed += 1;
        if self.failures.len() < FAILURES_KEPT {
            self.failures.push(SweepFailure { id, error });
        }
    }
}

/// Whether a server refused to write this document, which says nothing of the next.
fn is_of_the_document(error: &Error) -> bool {
    matches!(&*error.kind, ErrorKind::Write(WriteFailure::WriteError(_)))
        && !again::can_retry_at_once(error)
}

impl fmt::Debug for Sweep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep").field("broom", &self.broom).finish_non_exhaustive()
    }
}

impl<'a> IntoFuture for Sweep<'a> {
    type Output = Result<SweepReport>;
    type IntoFuture = ActionFuture<'a, SweepReport>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.broom.sweep(self.progress))
    }
}
