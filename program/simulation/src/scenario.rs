//! What is simulated: how many clients, how strong a server, how much is asked of it.

use crate::{MILLISECOND, Nanos, SECOND};

/// How clients behave towards a server that turns them away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strategy {
    /// They raise the error.
    Never,
    /// They try again at once, five times.
    AtOnce,
    /// They try again five times, with the specification's waits, whatever it costs.
    Backoff,
    /// The same, if their bucket has a token for it: what this driver does.
    Steadfast,
}

impl Strategy {
    /// All of them, the plainest first.
    pub const ALL: [Self; 4] = [Self::Never, Self::AtOnce, Self::Backoff, Self::Steadfast];

    /// What tables and charts call it.
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

/// One experiment.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// How many clients there are, each a process of its own.
    pub clients: u32,
    /// How many operations each client could have served in a second, were all served alike. With
    /// the number of clients it makes the server's capacity.
    pub share: f64,
    /// How much is asked for in the middle, as a multiple of the capacity.
    pub load: f64,
    /// How clients behave.
    pub strategy: Strategy,
    /// How long half of the capacity is asked for, before.
    pub calm: Nanos,
    /// How long `load` is asked for.
    pub overload: Nanos,
    /// How long half of the capacity is asked for, afterwards.
    pub after: Nanos,
    /// How long a full queue takes to be served.
    pub queue: Nanos,
    /// Work of rejecting an operation, as a part of that of serving one. Defaults to [`INSERT_SHED_COST`].
    pub shed_cost: f64,
    /// A round trip on the network.
    pub round_trip: Nanos,
    /// From what random numbers begin.
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
    /// What is asked for before and after, as a multiple of the capacity.
    pub const CALM_LOAD: f64 = 0.5;

    /// The same within so many seconds: a twelfth of them calm before, a quarter after.
    #[must_use]
    pub fn lasting(self, seconds: f64) -> Self {
        let part = |twelfths: f64| nanos(seconds * 1e9 * twelfths / 12.0);
        Self { calm: part(1.0), overload: part(8.0), after: part(3.0), ..self }
    }

    /// Operations that the server can serve in a second.
    pub fn capacity(&self) -> f64 {
        f64::from(self.clients) * self.share
    }

    /// The work of serving one.
    pub fn serving(&self) -> Nanos {
        nanos(1e9 / self.capacity()).max(1)
    }

    /// The work of turning one away.
    pub fn shedding(&self) -> Nanos {
        nanos(1e9 / self.capacity() * self.shed_cost)
    }

    /// How many may wait.
    pub fn most_waiting(&self) -> usize {
        usize::try_from(self.queue / self.serving()).unwrap_or(usize::MAX).max(1)
    }

    /// When the overload begins, when it ends, and when all does.
    pub fn phases(&self) -> [Nanos; 3] {
        let begins = self.calm;
        let ends = begins + self.overload;
        [begins, ends, ends + self.after]
    }

    /// How many operations are begun in a second, at a time.
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
