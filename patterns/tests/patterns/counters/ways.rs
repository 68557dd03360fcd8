//! Ways to count: the crate's, and two that the same test finds wanting.

use std::{future::Future, time::Duration};

use steadfast::{
    Collection,
    bson::{Bson, Document, doc, oid::ObjectId},
    error::Result,
    options::WriteConcern,
};
use steadfast_patterns::counter::{Counters, Finished, Intent};

use super::journal;
use crate::dice::Dice;

/// What an application is told of an increment.
#[derive(Debug)]
pub(super) enum Told {
    Counted,
    /// And it never will be counted.
    NotCounted,
    /// It failed for now.
    Nothing,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Swept {
    pub(super) finished: usize,
    pub(super) forgotten: usize,
}

/// A way to count.
pub(super) trait Way: Send + Sync + 'static {
    /// What is written down before an increment is begun, so that it can be gone on with after a crash.
    type Ticket: Clone + Send + Sync + 'static;

    fn over(counters: Collection<Document>) -> Self;

    /// By how much an event is counted.
    fn amount(dice: &mut Dice) -> i64;

    fn ticket(&self, day: &str, by: i64) -> Self::Ticket;

    /// Begins or goes on with it.
    fn count(&self, ticket: &Self::Ticket) -> impl Future<Output = Told> + Send;

    /// All in one; a failure leaves a ticket to go on with.
    fn count_at_once(
        &self,
        day: &str,
        by: i64,
    ) -> impl Future<Output = std::result::Result<(), Self::Ticket>> + Send {
        let ticket = self.ticket(day, by);
        async move {
            match self.count(&ticket).await {
                Told::Counted => Ok(()),
                Told::NotCounted | Told::Nothing => Err(ticket),
            }
        }
    }

    /// The end of it is written down, so nobody will ask for it again. Whether that could be used.
    fn forget(&self, _ticket: &Self::Ticket) -> impl Future<Output = bool> + Send {
        async { true }
    }

    fn sweep(&self, keep: Duration) -> impl Future<Output = Option<Swept>> + Send;
}

/// The crate's own.
pub(super) struct ExactlyOnce(Counters);

/// How long an increment may take to begin. Short, so that the sweep meets many that were left behind; an
/// election can take longer.
const WINDOW: Duration = Duration::from_secs(1);

/// All servers read one clock.
const MARGIN: Duration = Duration::from_millis(100);

impl Way for ExactlyOnce {
    type Ticket = Intent;

    fn over(counters: Collection<Document>) -> Self {
        Self(Counters::new(&counters).window(WINDOW).margin(MARGIN))
    }

    fn amount(dice: &mut Dice) -> i64 {
        journal::marked(dice)
    }

    fn ticket(&self, day: &str, by: i64) -> Intent {
        self.0.intend(day, by)
    }

    async fn count(&self, ticket: &Intent) -> Told {
        match self.0.finish(ticket).await {
            Ok(Finished::Counted) => Told::Counted,
            Ok(Finished::NeverBegun) => Told::NotCounted,
            Ok(Finished::TooLate) => panic!("tombstones are kept for longer than this lasts"),
            Err(_) => Told::Nothing,
        }
    }

    async fn count_at_once(&self, day: &str, by: i64) -> std::result::Result<(), Intent> {
        self.0.increment_by(day, by).await.map_err(|error| error.intent().clone())
    }

    async fn forget(&self, ticket: &Intent) -> bool {
        self.0.remove_tombstone(ticket).await.unwrap_or(false)
    }

    async fn sweep(&self, keep: Duration) -> Option<Swept> {
        let report = self.0.sweep().keep(keep).await.ok()?;
        let number = |count: u64| usize::try_from(count).expect("it is a number of tokens");
        Some(Swept {
            finished: number(report.finished),
            forgotten: number(report.tombstones_removed),
        })
    }
}

/// A plain `$inc`, again and again until it succeeds. There is nothing to sweep.
pub(super) struct AlwaysAgain(Collection<Document>);

impl Way for AlwaysAgain {
    type Ticket = (String, i64);

    fn over(counters: Collection<Document>) -> Self {
        Self(counters)
    }

    fn amount(_dice: &mut Dice) -> i64 {
        1
    }

    fn ticket(&self, day: &str, by: i64) -> Self::Ticket {
        (day.to_owned(), by)
    }

    async fn count(&self, (day, by): &Self::Ticket) -> Told {
        let update = doc! { "$inc": { "counter": by } };
        let counting = self.0.update_one(doc! { "_id": day }, update).upsert(true);
        match counting.write_concern(WriteConcern::majority()).await {
            Ok(_) => Told::Counted,
            Err(_) => Told::Nothing,
        }
    }

    async fn sweep(&self, _keep: Duration) -> Option<Swept> {
        Some(Swept::default())
    }
}

/// The two steps and the cleanup of "How To Write Resilient MongoDB Applications", with the cleanup at any
/// time, which the article does not do: it waits for the end of the day.
pub(super) struct SweptByDay(Collection<Document>);

impl SweptByDay {
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

    pub(super) async fn clean_up(&self) -> Result<Swept> {
        let counters = &self.0;
        let pending = doc! { "pending.0": { "$exists": true } };
        let size = doc! { "$size": "$pending" };
        let sum = doc! { "$add": [{ "$ifNull": ["$counter", 0] }, size] };
        let pipeline = [doc! { "$match": pending }, doc! { "$project": { "counter": sum } }];
        let mut found = counters.aggregate(pipeline).await?;
        let mut swept = Swept::default();
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

impl Way for SweptByDay {
    type Ticket = (String, ObjectId);

    fn over(counters: Collection<Document>) -> Self {
        Self(counters)
    }

    fn amount(_dice: &mut Dice) -> i64 {
        1
    }

    fn ticket(&self, day: &str, _by: i64) -> Self::Ticket {
        (day.to_owned(), ObjectId::new())
    }

    async fn count(&self, (day, token): &Self::Ticket) -> Told {
        match self.both_steps(day, *token).await {
            Ok(()) => Told::Counted,
            Err(_) => Told::Nothing,
        }
    }

    async fn sweep(&self, _keep: Duration) -> Option<Swept> {
        self.clean_up().await.ok()
    }
}
