//! Counters that count each event once, despite failures of the network, the servers and the application.
//!
//! # The problem
//!
//! `update_one({_id}, {$inc: {counter: 1}})` counts an event. If the connection breaks before the reply
//! arrives, the client cannot determine whether the event was counted. With a retry it may be counted twice;
//! without, not at all. Retryable writes solve this where the server supports them, unless the client crashes.
//! They do not help on a standalone server or with `retryWrites=false`.
//!
//! # The solution
//!
//! An increment has two steps, each of which is idempotent, as in [How To Write Resilient MongoDB
//! Applications](https://emptysqua.re/blog/how-to-write-resilient-mongodb-applications/). Step one adds a token to the array `pending` of the counter's
//! document. Step two removes the token and increments the counter, in one atomic update that matches only if
//! the token is pending. A second execution of step two matches nothing. The [sweep](Counters::sweep) performs
//! step two for tokens that were left behind.
//!
//! ```no_run
//! # async fn run(events: steadfast::Collection<steadfast::bson::Document>) -> Result<(), Box<dyn std::error::Error>> {
//! use steadfast_patterns::counter::Counters;
//!
//! let counters = Counters::new(&events);
//! counters.increment("2016-06-28").await?;
//! assert_eq!(counters.value("2016-06-28").await?, Some(1));
//!
//! // From time to time, from any client:
//! let report = counters.sweep().await?;
//! println!("completed {} increments of other clients", report.finished);
//! # Ok(()) }
//! ```
//!
//! If the client may crash at any moment, store an [`Intent`] first, together with the event. After a restart,
//! [`finish`](Counters::finish) completes it:
//!
//! ```no_run
//! # fn store(_: &steadfast_patterns::counter::Intent) {}
//! # async fn run(events: steadfast::Collection<steadfast::bson::Document>) -> Result<(), Box<dyn std::error::Error>> {
//! use steadfast_patterns::counter::{Counters, Finished};
//!
//! let counters = Counters::new(&events);
//! let intent = counters.intend("2016-06-28", 1);
//! store(&intent);
//! match counters.finish(&intent).await? {
//!     Finished::Counted => {}
//!     Finished::NeverBegun => println!("not counted, and never will be: create a new intent"),
//!     Finished::TooLate => println!("unknown: its tombstone may have been removed"),
//! }
//! # Ok(()) }
//! ```
//!
//! # Why each event counts once
//!
//! The document of a counter: `{_id, counter, pending: [{token, by, until}], done: [{token, until}]}`.
//!
//! 1. *A token is counted as often as it leaves `pending`*: one update does both, and no other update changes
//!    the counter.
//! 2. *A token enters `pending` by step one only*. The filter of step one does not match if the token is in
//!    `done`, or if the server's clock (`$$NOW`) has reached `until`, however late the request arrives.
//! 3. *A token that has left `pending` does not enter again.* If step one was sent once and acknowledged, there
//!    is no other request. (Retries of the driver have the same `txnNumber`, which the server recognises.) If
//!    there may be another request, because step one was sent more than once or the intent was stored, step two
//!    leaves a tombstone in `done`. The sweep always does, because it cannot know how often step one was sent.
//! 4. *A tombstone is removed only when no step one can arrive any more*: later than `until` by a margin that exceeds
//!    the clock skew of servers and mongos.
//! 5. *The sweep uses the same `until`*: it ignores tokens that are not older by the margin. It never meets a
//!    step one that may still arrive, so writers can continue.
//! 6. *A token that is reported as never counted has a tombstone*, which a late step one finds. The exception
//!    is an increment whose every step one failed with an error that excludes execution. (A step one that
//!    matched nothing does not: the server keeps no record of it, so an earlier attempt of the driver may still
//!    arrive.)
//! 7. *Acknowledged steps are durable*: each update waits for write concern `majority` with journaling,
//!    instead of the collection's write concern. A pending token is therefore counted, at the latest by a sweep.
//!    The state of a token is read with read concern
//!    [`linearizable`](https://www.mongodb.com/docs/manual/reference/read-concern-linearizable/), so that a primary that has stepped down
//!    cannot reply.
//!
//! A client with a wrong clock can get an error, which reports both times; its event is not counted twice. One
//! assumption remains: no step one is delayed, between the moment at which a server or mongos reads its clock
//! for it and its execution, until its tombstone is removed (a day by default, see [`keep`](Counters::keep)),
//! and the clocks of the servers differ by less than the margin.
//!
//! A test checks these rules on every order of events (duplicates, crashes, sweeps, clocks; a few of each) with
//! the real filters and updates.
//!
//! # What it costs
//!
//! Two round trips for each increment, and two more for the first one of a counter, which inserts the document.
//! The tombstones of intents are part of the document, which has at most 16 MB: count at most some ten thousand
//! intents in one counter within the time that they are kept. In a sharded collection the shard key is `_id`.

mod candidate;
mod documents;
mod error;
mod fields;
mod increment;
mod intent;
#[cfg(test)]
mod model;
mod steps;
mod sweep;
mod value;

use std::time::Duration;

use bson::{Bson, DateTime, Document, oid::ObjectId};

pub use self::{
    error::{CounterError, CounterErrorCause, IncrementState, IncrementStep},
    fields::Fields,
    intent::Intent,
    sweep::{Sweep, SweepFailure, SweepReport},
    value::Value,
};
use self::{
    increment::{Increment, Resolution},
    intent::IntentStage,
};
use steadfast::{Collection, error::Result};

/// Counters of a collection, one for each document.
#[derive(Clone, Debug)]
#[must_use = "it does nothing until a method is called"]
pub struct Counters {
    collection: Collection<Document>,
    fields: Fields,
    window: Duration,
    margin: Duration,
    keep: Duration,
    retries: u32,
}

/// Result of [`Counters::finish`] and [`Counters::give_up`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// The event is counted, now or before.
    Counted,
    /// The event is not counted and never will be: the intent began too late, or was given up.
    NeverBegun,
    /// The intent is so old that its tombstone may have been removed. It is not pending; whether it was counted
    /// is unknown.
    TooLate,
}

impl From<Resolution> for Finished {
    fn from(resolution: Resolution) -> Self {
        match resolution {
            Resolution::Counted => Self::Counted,
            Resolution::NeverBegun(_) => Self::NeverBegun,
            Resolution::Unknown(_) => Self::TooLate,
        }
    }
}

impl Counters {
    /// Creates the counters of this collection. Nothing is sent yet.
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

    /// Sets the time within which an increment must begin after it was intended. Defaults to one minute.
    ///
    /// A client whose clock differs from the server's by more than this cannot count. With a shorter window,
    /// the sweep can complete tokens sooner.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Sets the maximum clock skew of the servers, and of the mongos of a sharded cluster. Defaults to one
    /// minute.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }

    /// Sets how long tombstones are kept, which is also the longest time that a server may delay a request.
    /// Defaults to one day. All clients and sweeps of a collection need the same value.
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Sets the number of retries of each step. Defaults to one.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the names of the fields.
    pub fn fields(mut self, fields: Fields) -> Self {
        self.fields = fields;
        self
    }

    /// Counts one event.
    ///
    /// # Errors
    ///
    /// [`CounterError::state`] is what is known of the increment, and [`CounterError::intent`] completes it.
    ///
    /// # Cancellation
    ///
    /// A dropped increment may be pending or counted. The sweep completes it if it is pending.
    ///
    /// ```no_run
    /// # async fn run(events: steadfast::Collection<steadfast::bson::Document>) -> Result<(), Box<dyn std::error::Error>> {
    /// use steadfast_patterns::counter::Counters;
    ///
    /// let counters = Counters::new(&events);
    /// if let Err(error) = counters.increment("2016-06-28").await {
    ///     // Do not count the event again: complete this increment.
    ///     counters.finish(error.intent()).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn increment(&self, id: impl Into<Bson>) -> std::result::Result<(), CounterError> {
        self.increment_by(id, 1).await
    }

    /// Adds `by` to the counter; a negative number subtracts.
    ///
    /// # Errors
    ///
    /// Those of [`increment`](Self::increment).
    ///
    /// # Cancellation
    ///
    /// A dropped increment may be pending or counted. The sweep completes it if it is pending.
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
        let increment = Increment::unshared(&intent, self.keep, self.retries);
        let (server, state) = match self.run(&intent, increment).await? {
            Resolution::Counted => return Ok(()),
            Resolution::NeverBegun(server) => (server, IncrementState::NeverBegun),
            Resolution::Unknown(server) => (server, IncrementState::MaybePending),
        };
        let cause = CounterErrorCause::TooLate { until, server, client: DateTime::now() };
        let (intent, cause) = (Box::new(intent), Box::new(cause));
        Err(CounterError { intent, step: IncrementStep::One, state, cause })
    }

    /// Creates an intent: store it, then [`finish`](Self::finish) it. Nothing is sent yet.
    ///
    /// It must begin within the window. When it is finished, a tombstone stays in the counter's document, so that
    /// it is counted once even if it is finished several times. The [module](self) has an example.
    pub fn intend(&self, id: impl Into<Bson>, by: i64) -> Intent {
        let now = DateTime::now();
        Intent {
            id: id.into(),
            token: ObjectId::new(),
            by,
            since: documents::earlier(now, self.window),
            until: documents::later(now, self.window),
            stage: IntentStage::Open,
        }
    }

    /// Counts an intent, unless it is counted already.
    ///
    /// It can be called any number of times, at any time, by several processes at once.
    ///
    /// # Errors
    ///
    /// A [`CounterError`] if a step failed; call it again later.
    ///
    /// # Cancellation
    ///
    /// A dropped call leaves the intent pending or counted: call it again.
    ///
    /// ```no_run
    /// # async fn run(events: steadfast::Collection<steadfast::bson::Document>) -> Result<(), Box<dyn std::error::Error>> {
    /// use steadfast_patterns::counter::{Counters, Finished};
    ///
    /// let counters = Counters::new(&events);
    /// let intent = counters.intend("2016-06-28", 5);
    /// assert_eq!(counters.finish(&intent).await?, Finished::Counted);
    /// # Ok(()) }
    /// ```
    pub async fn finish(&self, intent: &Intent) -> std::result::Result<Finished, CounterError> {
        let increment = Increment::shared(intent, self.keep, self.retries);
        self.run(intent, increment).await.map(Finished::from)
    }

    /// Prevents an intent from being counted if it has not begun. If it has begun, it is finished.
    ///
    /// # Errors
    ///
    /// A [`CounterError`] if a step failed; call it again later.
    ///
    /// # Cancellation
    ///
    /// A dropped call may have given the intent up, or not: call it again.
    pub async fn give_up(&self, intent: &Intent) -> std::result::Result<Finished, CounterError> {
        let increment = Increment::shared(intent, self.keep, self.retries).given_up();
        self.run(intent, increment).await.map(Finished::from)
    }

    /// Removes the tombstone of an intent. Returns `false` if it cannot be removed yet.
    ///
    /// Call it after you have recorded the result; the intent must not be finished again. The tombstone is needed
    /// until the margin after [`Intent::until`], because a step one may still arrive. If this is never called,
    /// the sweep removes the tombstone. It assumes that no server or mongos delays a request for longer than
    /// the margin.
    ///
    /// # Errors
    ///
    /// The driver's error if the update failed.
    ///
    /// # Cancellation
    ///
    /// A dropped call may have removed the tombstone, or not: call it again.
    ///
    /// ```no_run
    /// # fn store_result() {}
    /// # async fn run(events: steadfast::Collection<steadfast::bson::Document>) -> Result<(), Box<dyn std::error::Error>> {
    /// use steadfast_patterns::counter::{Counters, Finished};
    ///
    /// let counters = Counters::new(&events);
    /// let intent = counters.intend("2016-06-28", 1);
    /// if counters.finish(&intent).await? == Finished::Counted {
    ///     store_result();
    ///     counters.remove_tombstone(&intent).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn remove_tombstone(&self, intent: &Intent) -> Result<bool> {
        intent.check()?;
        self.fields.check()?;
        let statement = documents::remove_tombstone(&self.fields, intent, self.margin);
        Ok(self.update(&statement).await?.matched_count > 0)
    }

    /// Completes the increments that other clients left behind, in all counters of the collection.
    ///
    /// It is safe at any time, concurrently with writers and other sweeps, and if it is interrupted.
    ///
    /// # Errors
    ///
    /// The driver's error if the counters cannot be read, or an update fails for another reason than its counter.
    /// Counters that a server rejects are listed in the [report](SweepReport::failures).
    ///
    /// # Cancellation
    ///
    /// Completed tokens stay completed. The next sweep continues.
    ///
    /// ```no_run
    /// # async fn run(events: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast_patterns::counter::Counters;
    ///
    /// let counters = Counters::new(&events);
    /// let report = counters.sweep().progress(|so_far| println!("{} tokens", so_far.finished)).await?;
    /// for failure in &report.failures {
    ///     println!("{}: {}", failure.id, failure.error);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn sweep(&self) -> Sweep<'_> {
        Sweep::new(self)
    }
}
