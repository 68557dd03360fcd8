//! An experiment from beginning to end.

use steadfast_report::random::Rng;

use crate::{
    Nanos,
    client::{Clients, PendingOperation},
    event_queue::EventQueue,
    measure::{Report, Tally},
    scenario::Scenario,
    server::{Admission, Server},
};

/// State of an experiment: clients, server, and pending operations.
#[derive(Debug)]
pub struct World {
    scenario: Scenario,
    clients: Clients,
    server: Server,
    /// Retries, by the time at which they are sent.
    retries: EventQueue,
    pending: PendingOperations,
    arrivals: Rng,
    /// Beginning of the next operation, in fractions of nanoseconds so that rounding errors do not add up.
    next_begin: f64,
    tally: Tally,
}

/// Pending operations by slot.
#[derive(Debug, Default)]
struct PendingOperations {
    slots: Vec<Option<PendingOperation>>,
    empty: Vec<u32>,
}

impl PendingOperations {
    fn insert(&mut self, operation: PendingOperation) -> u32 {
        if let Some(slot) = self.empty.pop() {
            self.slots[slot as usize] = Some(operation);
            return slot;
        }
        self.slots.push(Some(operation));
        u32::try_from(self.slots.len() - 1).expect("memory ends before")
    }

    fn at(&mut self, slot: u32) -> &mut PendingOperation {
        self.slots[slot as usize].as_mut().expect("the operation is pending")
    }

    fn remove(&mut self, slot: u32) -> PendingOperation {
        self.empty.push(slot);
        self.slots[slot as usize].take().expect("the operation is pending")
    }

    fn len(&self) -> usize {
        self.slots.len() - self.empty.len()
    }
}

/// Result of an experiment.
#[derive(Debug)]
pub struct Completed {
    /// Figures of the experiment.
    pub report: Report,
    /// Sum of the tokens of all clients after pending operations were dropped.
    pub tokens_left: f64,
}

impl World {
    /// Returns the state before the first operation.
    pub fn new(scenario: Scenario) -> Self {
        let server =
            Server::new(scenario.serving(), scenario.shedding(), scenario.queue_capacity());
        Self {
            scenario,
            clients: Clients::new(scenario.clients, scenario.strategy, scenario.seed),
            server,
            retries: EventQueue::default(),
            pending: PendingOperations::default(),
            arrivals: Rng::stream(scenario.seed, 1),
            next_begin: 0.0,
            tally: Tally::new(scenario),
        }
    }

    /// Runs the experiment to its end.
    pub fn run(mut self) -> Completed {
        let [_, _, end] = self.scenario.phases();
        loop {
            let begins = whole(self.next_begin);
            let retry = self.retries.next_time().unwrap_or(Nanos::MAX);
            let now = begins.min(retry);
            if now >= end {
                break;
            }
            self.advance(now);
            let operation = if retry <= begins {
                self.retries.pop().expect("the queue has a next time").1
            } else {
                self.begin(now)
            };
            self.send(operation, now);
        }
        self.advance(end);
        self.complete()
    }

    fn begin(&mut self, now: Nanos) -> u32 {
        self.next_begin += self.arrivals.exponential() / self.scenario.offered_at(now) * 1e9;
        self.tally.begun(now);
        // Scaled instead of a remainder: the tables of the documentation depend on this sequence.
        let range = u128::from(self.arrivals.next_u64());
        let client = (range * u128::from(self.scenario.clients)) >> 64;
        let client = u32::try_from(client).unwrap_or_default();
        self.pending.insert(self.clients.begin(client, now))
    }

    /// Advances the server and processes its replies.
    fn advance(&mut self, to: Nanos) {
        let Self { server, pending, tally, scenario, .. } = self;
        server.advance(to, |operation, at| {
            let mut operation = pending.remove(operation);
            Clients::on_success(&mut operation);
            tally.succeeded(operation.began, at + scenario.round_trip, operation.attempts);
        });
    }

    fn send(&mut self, slot: u32, now: Nanos) {
        let Self { clients, server, pending, tally, scenario, .. } = self;
        let operation = pending.at(slot);
        clients.send(operation, now);
        tally.sent();
        let Admission::Rejected(replied) = server.accept(slot) else { return };
        tally.shed(operation.attempts);
        let received = replied + scenario.round_trip;
        if let Some(wait) = clients.on_rejection(operation, received) {
            let wait = Nanos::try_from(wait.as_nanos()).expect("waits are seconds");
            self.retries.push(received + wait, slot);
        } else {
            let operation = pending.remove(slot);
            tally.failed(operation.began, operation.attempts);
        }
    }

    fn complete(mut self) -> Completed {
        self.tally.counts.in_flight = self.pending.len() as u64;
        // Like dropped futures: their tokens return to the budgets.
        drop(self.pending);
        let report = self.tally.report(self.clients.denied_retries());
        Completed { report, tokens_left: self.clients.tokens_left() }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
fn whole(nanos: f64) -> Nanos {
    nanos as Nanos
}
