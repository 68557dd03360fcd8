//! Counting so that each event counts once, whatever breaks: the network, a server, or the program
//! that counts.
//!
//! # The problem
//!
//! `update_one({_id}, {$inc: {counter: 1}})` counts an event. If the connection breaks before the reply
//! comes, was it counted? To send it again may count twice, not to may count never. A driver with
//! retryable writes tells the server that it is the same write; but where there are none (a standalone
//! server, `retryWrites=false`), or where the program itself ends in between, nobody remembers.
//!
//! # The way
//!
//! Two steps, each of which can be repeated. Step one puts a token into the array `pending` of the
//! counter's document. Step two takes it out and increments the counter, in one atomic update, if the
//! token is there. Whoever comes second finds no token and changes nothing. A token that is left behind
//! is found by the [sweep](Counters::sweep), which does step two for it.
//!
//! ```no_run
//! # async fn run(events: steadfast::Collection<steadfast::bson::Document>) -> Result<(), Box<dyn std::error::Error>> {
//! use steadfast::patterns::counter::Counters;
//!
//! let counters = Counters::new(&events);
//! counters.increment("2016-06-28").await?;
//! assert_eq!(counters.value("2016-06-28").await?, Some(1));
//!
//! // Every now and then, anywhere:
//! let report = counters.sweep().await?;
//! println!("finished {} increments that others had left behind", report.finished);
//! # Ok(()) }
//! ```
//!
//! An event that must be counted though the program itself may end at any moment is stored as an
//! [`Intent`] first, wherever the event itself is. After a restart, [`finish`](Counters::finish) takes
//! it up:
//!
//! ```no_run
//! # fn store(_: &steadfast::patterns::counter::Intent) {}
//! # async fn run(events: steadfast::Collection<steadfast::bson::Document>) -> Result<(), Box<dyn std::error::Error>> {
//! use steadfast::patterns::counter::{Counters, Finished};
//!
//! let counters = Counters::new(&events);
//! let intent = counters.intend("2016-06-28", 1);
//! store(&intent);
//! match counters.finish(&intent).await? {
//!     Finished::Counted => {}
//!     Finished::NeverBegun => println!("not counted, and never will be: ask for it anew"),
//!     Finished::TooLate => println!("so old that nobody can tell"),
//! }
//! # Ok(()) }
//! ```
//!
//! # Why it holds
//!
//! The document of a counter: `{_id, counter, pending: [{token, by, until}], done: [{token, until}]}`.
//!
//! 1. *A token is counted as often as it leaves `pending`*, for one update does both, and no other
//!    changes the counter.
//! 2. *A token enters `pending` by step one only*, and step one is refused if the token is in `done`, or
//!    if it is `until` or later by the server's own clock (`$$NOW`), however late it arrives.
//! 3. *A token that has left `pending` does not enter again.* Either step one was sent once, and
//!    answered; then there is no other. (What the driver repeats by itself has a transaction number,
//!    by which the server knows it.) Or there may be another: it was sent more than once, or the intent
//!    may be taken up by others; then step two leaves a tombstone in `done`. Likewise the sweep, which
//!    does not know how often step one was sent.
//! 4. *A tombstone goes only when no step one can come*: later than `until` by a margin that is longer
//!    than the clocks of servers and routers differ.
//! 5. *The sweep goes by the same `until`*: it leaves alone what is not older by the margin, so it never
//!    meets a step one that may still come, and live writers may go on.
//! 6. *What is said to be never counted has a tombstone first*, which a step one that is still on its way
//!    finds; unless each step one was refused, so that none is. (One that found nothing to do was not: of
//!    that a server keeps no record, and a sending before it, by the driver itself, may still come.)
//! 7. *What was acknowledged stays*: each update waits for a majority and its journals, whatever the
//!    collection's write concern is. So a token that became pending is counted, at the latest by a sweep.
//!    Where a token is found to be is read so that a deposed primary cannot answer.
//!
//! A clock that is wrong can get an increment refused, and the error says so with both times; it cannot
//! get it counted twice. Only one thing must hold: no step one is held up, between the moment at which
//! a server or router reads its clock for it and its execution, until its tombstone is gone (a
//! day, unless [`keep`](Counters::keep) says otherwise), and clocks of servers differ by less than the
//! margin.
//!
//! These rules are checked: a test goes through every order of events (duplicates, crashes, sweeps, clocks;
//! a few of each) with these very filters and updates.
//!
//! # What it costs
//!
//! Two round trips for each increment, two more for the first of a counter, which makes the document. The
//! tombstones of intents are part of the document, which can have 16 MB: count at most some ten thousand
//! intents at one counter while they are kept. In a sharded collection the shard key is `_id`.

mod candidate;
mod course;
mod documents;
mod error;
mod fields;
mod intent;
#[cfg(test)]
mod model;
mod steps;
mod sweep;
mod value;

use std::time::Duration;

use bson::{Bson, DateTime, Document, oid::ObjectId};

use self::{
    course::{Course, Settled},
    intent::Stage,
};
pub use self::{
    error::{Cause, CounterError, Known, Step},
    fields::Fields,
    intent::Intent,
    sweep::{Sweep, SweepFailure, SweepReport},
    value::Value,
};
use crate::{Collection, error::Result};

/// The counters of a collection, one for each document.
#[derive(Clone, Debug)]
#[must_use = "it counts nothing by itself"]
pub struct Counters {
    collection: Collection<Document>,
    fields: Fields,
    window: Duration,
    margin: Duration,
    keep: Duration,
    retries: u32,
}

/// What has become of an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// It is counted, now or before.
    Counted,
    /// It is not counted, and never will be: it was too late to begin, or it was given up.
    NeverBegun,
    /// It is so old that its tombstone may be gone. It is not pending; whether it was counted, nobody
    /// can tell.
    TooLate,
}

impl From<Settled> for Finished {
    fn from(settled: Settled) -> Self {
        match settled {
            Settled::Counted => Self::Counted,
            Settled::NeverBegun(_) => Self::NeverBegun,
            Settled::CannotBeTold(_) => Self::TooLate,
        }
    }
}

impl Counters {
    /// The counters of this collection.
    pub fn new<T: Send + Sync>(collection: &Collection<T>) -> Self {
        Self {
            collection: collection.clone_with_type(),
            fields: Fields::default(),
            window: Duration::from_secs(60),
            margin: Duration::from_secs(60),
            keep: Duration::from_secs(24 * 60 * 60),
            retries: 1,
        }
    }

    /// For how long an increment may begin after it was intended; by default a minute.
    ///
    /// A client whose clock differs more than this from the server's cannot count. Shorter: what is left
    /// behind can be swept sooner.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// How much the clocks of the servers, and of the routers of a sharded cluster, may differ; by default
    /// a minute.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }

    /// How long it can be told of an intent that it was counted, and how long a server may hold up a
    /// request; by default a day. The same for all clients and sweeps of a collection.
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// How often a step is repeated after a failure that may pass; by default once.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// The names of the fields.
    pub fn fields(mut self, fields: Fields) -> Self {
        self.fields = fields;
        self
    }

    /// Counts one event.
    ///
    /// If it fails, the error says what is known, and has the intent to finish it with.
    pub async fn increment(&self, id: impl Into<Bson>) -> std::result::Result<(), CounterError> {
        self.increment_by(id, 1).await
    }

    /// Counts so many; fewer than none counts down.
    pub async fn increment_by(
        &self,
        id: impl Into<Bson>,
        by: i64,
    ) -> std::result::Result<(), CounterError> {
        let intent = self.intend(id, by);
        self.increment_as(intent).await
    }

    async fn increment_as(&self, intent: Intent) -> std::result::Result<(), CounterError> {
        let until = intent.until;
        let course = Course::of_our_own(&intent, self.keep, self.retries);
        let (server, known) = match self.follow(&intent, course).await? {
            Settled::Counted => return Ok(()),
            Settled::NeverBegun(server) => (server, Known::NeverBegun),
            Settled::CannotBeTold(server) => (server, Known::MaybePending),
        };
        let cause = Cause::TooLate { until, server, client: DateTime::now() };
        let (intent, cause) = (Box::new(intent), Box::new(cause));
        Err(CounterError { intent, step: Step::One, known, cause })
    }

    /// An increment that is to be: store it, then [`finish`](Self::finish) it. Nothing is sent yet.
    ///
    /// It can begin within the window. Its end leaves a tombstone in the counter's document, so that it is
    /// counted once, however often it is finished.
    pub fn intend(&self, id: impl Into<Bson>, by: i64) -> Intent {
        let now = DateTime::now();
        Intent {
            id: id.into(),
            token: ObjectId::new(),
            by,
            since: documents::earlier(now, self.window),
            until: documents::later(now, self.window),
            stage: Stage::Open,
        }
    }

    /// Counts what was intended, unless it is counted already.
    ///
    /// Whoever has the intent may call this, any number of times, at any time, several at once.
    pub async fn finish(&self, intent: &Intent) -> std::result::Result<Finished, CounterError> {
        let course = Course::of_anybody(intent, self.keep, self.retries);
        self.follow(intent, course).await.map(Finished::from)
    }

    /// Makes sure that what was intended is never counted, if it has not begun. If it has, it is finished.
    pub async fn give_up(&self, intent: &Intent) -> std::result::Result<Finished, CounterError> {
        let course = Course::of_anybody(intent, self.keep, self.retries).given_up();
        self.follow(intent, course).await.map(Finished::from)
    }

    /// Takes the tombstone of an intent away; whether that could be done.
    ///
    /// For a caller who has recorded how it ended, and will never finish it again. It cannot be done while
    /// a step one may still come, that is, until the margin after [`Intent::until`]; then, or if this is
    /// never called, the sweep does it in its time. It trusts that no server or router holds a request up
    /// for longer than the margin.
    pub async fn forget(&self, intent: &Intent) -> Result<bool> {
        intent.check()?;
        self.fields.check()?;
        let statement = documents::forget(&self.fields, intent, self.margin);
        Ok(self.update(&statement).await?.matched_count > 0)
    }

    /// Finishes the increments that others have left behind, of all counters of the collection.
    ///
    /// Safe at any time, beside writers and other sweeps, and when it is cut short.
    pub fn sweep(&self) -> Sweep<'_> {
        Sweep::new(self)
    }
}
