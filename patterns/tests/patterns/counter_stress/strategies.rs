//! Strategies for counting: that of the crate, and two that are known to be wrong.

use std::{future::Future, time::Duration};

use steadfast::{
    Collection,
    bson::{Bson, Document, doc, oid::ObjectId},
    error::Result,
    options::WriteConcern,
};
use steadfast_patterns::counter::{Counters, Finished, Intent};

use super::journal;
use crate::rng::Rng;

/// Result of an increment.
#[derive(Debug)]
pub(super) enum IncrementResult {
    Counted,
    /// Not counted, and never will be.
    NotCounted,
    /// Failed; the result is unknown.
    Failed,
}

/// Effect of a sweep.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SweepCounts {
    pub(super) finished: usize,
    pub(super) tombstones_removed: usize,
}

/// Strategy for counting.
pub(super) trait CountingStrategy: Send + Sync + 'static {
    /// State that is recorded before an increment begins, so that it can be completed after a crash.
    type Ticket: Clone + Send + Sync + 'static;

    fn over(counters: Collection<Document>) -> Self;

    /// Returns the amount of the next increment.
    fn amount(rng: &mut Rng) -> i64;

    fn ticket(&self, day: &str, by: i64) -> Self::Ticket;

    /// Begins or completes an increment.
    fn count(&self, ticket: &Self::Ticket) -> impl Future<Output = IncrementResult> + Send;

    /// Counts an event without a recorded ticket. An error returns the ticket.
    fn increment(
        &self,
        day: &str,
        by: i64,
    ) -> impl Future<Output = std::result::Result<(), Self::Ticket>> + Send {
        let ticket = self.ticket(day, by);
        async move {
            match self.count(&ticket).await {
                IncrementResult::Counted => Ok(()),
                IncrementResult::NotCounted | IncrementResult::Failed => Err(ticket),
            }
        }
    }

    /// Removes the tombstone of a completed increment. Returns `true` if there was one to remove.
    fn remove_tombstone(&self, _ticket: &Self::Ticket) -> impl Future<Output = bool> + Send {
        async { true }
    }

    fn sweep(&self, keep: Duration) -> impl Future<Output = Option<SweepCounts>> + Send;
}

/// The counter of the crate.
pub(super) struct TwoStepCounter(Counters);

/// Time window of an increment. It is shorter than an election may take, so that the sweep finds tokens of
/// failed increments.
const WINDOW: Duration = Duration::from_secs(1);

/// All servers have the same clock.
const MARGIN: Duration = Duration::from_millis(100);

impl CountingStrategy for TwoStepCounter {
    type Ticket = Intent;

    fn over(counters: Collection<Document>) -> Self {
        Self(Counters::new(&counters).window(WINDOW).margin(MARGIN))
    }

    fn amount(rng: &mut Rng) -> i64 {
        journal::unique_amount(rng)
    }

    fn ticket(&self, day: &str, by: i64) -> Intent {
        self.0.intend(day, by)
    }

    async fn count(&self, ticket: &Intent) -> IncrementResult {
        match self.0.finish(ticket).await {
            Ok(Finished::Counted) => IncrementResult::Counted,
            Ok(Finished::NeverBegun) => IncrementResult::NotCounted,
            Ok(Finished::TooLate) => panic!("tombstones are kept for longer than a run"),
            Err(_) => IncrementResult::Failed,
        }
    }

    async fn increment(&self, day: &str, by: i64) -> std::result::Result<(), Intent> {
        self.0.increment_by(day, by).await.map_err(|error| error.intent().clone())
    }

    async fn remove_tombstone(&self, ticket: &Intent) -> bool {
        self.0.remove_tombstone(ticket).await.unwrap_or(false)
    }

    async fn sweep(&self, keep: Duration) -> Option<SweepCounts> {
        let report = self.0.sweep().keep(keep).await.ok()?;
        let number = |count: u64| usize::try_from(count).expect("a number of tokens");
        Some(SweepCounts {
            finished: number(report.finished),
            tombstones_removed: number(report.tombstones_removed),
        })
    }
}

/// A plain `$inc`, repeated until it succeeds. There is nothing to sweep.
pub(super) struct AlwaysRetry(Collection<Document>);

impl CountingStrategy for AlwaysRetry {
    type Ticket = (String, i64);

    fn over(counters: Collection<Document>) -> Self {
        Self(counters)
    }

    fn amount(_dice: &mut Rng) -> i64 {
        1
    }

    fn ticket(&self, day: &str, by: i64) -> Self::Ticket {
        (day.to_owned(), by)
    }

    async fn count(&self, (day, by): &Self::Ticket) -> IncrementResult {
        let update = doc! { "$inc": { "counter": by } };
        let counting = self.0.update_one(doc! { "_id": day }, update).upsert(true);
        match counting.write_concern(WriteConcern::majority()).await {
            Ok(_) => IncrementResult::Counted,
            Err(_) => IncrementResult::Failed,
        }
    }

    async fn sweep(&self, _keep: Duration) -> Option<SweepCounts> {
        Some(SweepCounts::default())
    }
}

/// The two steps and the cleanup of "How To Write Resilient MongoDB Applications". The test runs the cleanup
/// at any time; the article runs it after the end of the day.
pub(super) struct ArticleCounter(Collection<Document>);

impl ArticleCounter {
    pub(super) async fn step_one(&self, day: &str, token: ObjectId) -> Result<()> {
        let update = doc! { "$addToSet": { "pending": token } };
        let one = self.0.update_one(doc! { "_id": day }, update).upsert(true);
        one.write_concern(WriteConcern::majority()).await.map(drop)
    }

    pub(super) async fn step_two(&self, day: &str, token: ObjectId) -> Result<()> {
        let update = doc! { "$pull": { "pending": token }, "$inc": { "counter": 1 } };
        let two = self.0.update_one(doc! { "_id": day, "pending": token }, update);
        two.write_concern(WriteConcern::majority()).await.map(drop)
    }

    async fn both_steps(&self, day: &str, token: ObjectId) -> Result<()> {
        self.step_one(day, token).await?;
        self.step_two(day, token).await
    }

    pub(super) async fn clean_up(&self) -> Result<SweepCounts> {
        let counters = &self.0;
        let pending = doc! { "pending.0": { "$exists": true } };
        let size = doc! { "$size": "$pending" };
        let sum = doc! { "$add": [{ "$ifNull": ["$counter", 0] }, size] };
        let pipeline = [doc! { "$match": pending }, doc! { "$project": { "counter": sum } }];
        let mut found = counters.aggregate(pipeline).await?;
        let mut swept = SweepCounts::default();
        while found.advance().await? {
            let day = found.deserialize_current()?;
            let counter = day.get("counter").cloned().unwrap_or(Bson::Null);
            let update = doc! { "$set": { "counter": counter }, "$unset": { "pending": true } };
            let sweep = counters.update_one(doc! { "_id": day.get("_id") }, update);
            sweep.write_concern(WriteConcern::majority()).await?;
            swept.finished += 1;
        }
        Ok(swept)
    }
}

impl CountingStrategy for ArticleCounter {
    type Ticket = (String, ObjectId);

    fn over(counters: Collection<Document>) -> Self {
        Self(counters)
    }

    fn amount(_dice: &mut Rng) -> i64 {
        1
    }

    fn ticket(&self, day: &str, _by: i64) -> Self::Ticket {
        (day.to_owned(), ObjectId::new())
    }

    async fn count(&self, (day, token): &Self::Ticket) -> IncrementResult {
        match self.both_steps(day, *token).await {
            Ok(()) => IncrementResult::Counted,
            Err(_) => IncrementResult::Failed,
        }
    }

    async fn sweep(&self, _keep: Duration) -> Option<SweepCounts> {
        self.clean_up().await.ok()
    }
}
