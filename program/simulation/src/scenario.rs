//! Parameters of an experiment: clients, capacity of the server, and offered load.

use crate::{MILLISECOND, Nanos, SECOND};

/// Reaction of clients to a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strategy {
    /// Raises the error.
    Never,
    /// Retries five times without a wait.
    AtOnce,
    /// Retries five times with the waits of the specification, without a token bucket.
    Backoff,
    /// Retries like [`Backoff`](Self::Backoff), limited by a token bucket: the behaviour of this driver.
    Steadfast,
}

impl Strategy {
    /// All strategies, in the order of tables and charts.
    pub const ALL: [Self; 4] = [Self::Never, Self::AtOnce, Self::Backoff, Self::Steadfast];

    /// Returns the name in tables and charts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "no retries",
            Self::AtOnce => "at once, 5 times",
            Self::Backoff => "backoff, no bucket",
            Self::Steadfast => "steadfast",
        }
    }
}

/// Cost of rejecting an insert with the default write concern on MongoDB 8.2.0, as a part of serving it: 11 µs
/// of processor time against 106 to 124 µs, measured by `bench overload`.
pub const INSERT_SHED_COST: f64 = 0.1;

/// The same for a query that takes the server a millisecond of processor time, such as a find that scans some
/// 6,000 documents.
pub const QUERY_SHED_COST: f64 = 0.01;

/// Parameters of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Number of clients.
    pub clients: u32,
    /// Capacity of the server, in operations per second and client.
    pub share: f64,
    /// Offered load during the overload, as a multiple of the capacity.
    pub load: f64,
    /// Reaction of clients to a rejection.
    pub strategy: Strategy,
    /// Duration of the calm phase before the overload, with [`CALM_LOAD`](Self::CALM_LOAD).
    pub calm: Nanos,
    /// Duration of the overload.
    pub overload: Nanos,
    /// Duration of the calm phase after the overload.
    pub after: Nanos,
    /// Time that the server takes to serve a full queue.
    pub queue: Nanos,
    /// Work of rejecting an operation, as a part of that of serving one. Defaults to [`INSERT_SHED_COST`].
    pub shed_cost: f64,
    /// Duration of a round trip on the network.
    pub round_trip: Nanos,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            clients: 10_000,
            share: 4.0,
            load: 2.0,
            strategy: Strategy::Steadfast,
            calm: 5 * SECOND,
            overload: 40 * SECOND,
            after: 15 * SECOND,
            queue: 50 * MILLISECOND,
            shed_cost: INSERT_SHED_COST,
            round_trip: MILLISECOND,
            seed: 1,
        }
    }
}

impl Scenario {
    /// Offered load of the calm phases, as a multiple of the capacity.
    pub const CALM_LOAD: f64 = 0.5;

    /// Scales the phases to a total duration: a twelfth calm, two thirds overload, a quarter after it.
    #[must_use]
    pub fn lasting(self, seconds: f64) -> Self {
        let part = |twelfths: f64| nanos(seconds * 1e9 * twelfths / 12.0);
        Self { calm: part(1.0), overload: part(8.0), after: part(3.0), ..self }
    }

    /// Returns the operations that the server can serve per second.
    pub fn capacity(&self) -> f64 {
        f64::from(self.clients) * self.share
    }

    /// Returns the work of serving an operation.
    pub fn serving(&self) -> Nanos {
        nanos(1e9 / self.capacity()).max(1)
    }

    /// Returns the work of rejecting an operation.
    pub fn shedding(&self) -> Nanos {
        nanos(1e9 / self.capacity() * self.shed_cost)
    }

    /// Returns the number of operations that fit into the queue of the server.
    pub fn queue_capacity(&self) -> usize {
        usize::try_from(self.queue / self.serving()).unwrap_or(usize::MAX).max(1)
    }

    /// Returns the beginning of the overload, its end, and the end of the experiment.
    pub fn phases(&self) -> [Nanos; 3] {
        let begins = self.calm;
        let ends = begins + self.overload;
        [begins, ends, ends + self.after]
    }

    /// Returns the offered load at a time, in operations per second.
    pub fn offered_at(&self, now: Nanos) -> f64 {
        let [begins, ends, _] = self.phases();
        let load = if (begins..ends).contains(&now) { self.load } else { Self::CALM_LOAD };
        self.capacity() * load
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
fn nanos(nanos: f64) -> Nanos {
    nanos.round() as Nanos
}
