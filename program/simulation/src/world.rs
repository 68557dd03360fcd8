//! One experiment from beginning to end.

use steadfast_report::random::Rng;

use crate::{
    Nanos,
    agenda::Agenda,
    client::{Clients, Flight},
    measure::{Report, Tally},
    scenario::Scenario,
    server::{Accepted, Server},
};

/// Clients, a server, and what is under way between them.
#[derive(Debug)]
pub struct World {
    scenario: Scenario,
    clients: Clients,
    server: Server,
    /// When which operation is sent again.
    agenda: Agenda,
    flights: Flights,
    arrivals: Rng,
    /// When the next operation begins; finer than whole nanoseconds, lest rounding add up.
    next_begin: f64,
    tally: Tally,
}

/// The operations under way, each in its place.
#[derive(Debug, Default)]
struct Flights {
    places: Vec<Option<Flight>>,
    empty: Vec<u32>,
}

impl Flights {
    fn put(&mut self, flight: Flight) -> u32 {
        if let Some(place) = self.empty.pop() {
            self.places[place as usize] = Some(flight);
            return place;
        }
        self.places.push(Some(flight));
        u32::try_from(self.places.len() - 1).expect("memory ends before")
    }

    fn at(&mut self, place: u32) -> &mut Flight {
        self.places[place as usize].as_mut().expect("it is under way")
    }

    fn remove(&mut self, place: u32) -> Flight {
        self.empty.push(place);
        self.places[place as usize].take().expect("it is under way")
    }

    fn len(&self) -> usize {
        self.places.len() - self.empty.len()
    }
}

/// What is left when time is up.
#[derive(Debug)]
pub struct Ending {
    /// How it went.
    pub report: Report,
    /// The tokens of all clients together, after what was under way was dropped.
    pub tokens_left: f64,
}

impl World {
    /// Before the first operation.
    pub fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            clients: Clients::new(scenario.clients, scenario.strategy, scenario.seed),
            server: Server::new(scenario.serving(), scenario.shedding(), scenario.most_waiting()),
            agenda: Agenda::default(),
            flights: Flights::default(),
            arrivals: Rng::stream(scenario.seed, 1),
            next_begin: 0.0,
            tally: Tally::new(scenario),
        }
    }

    /// Lets all of it happen.
    pub fn run(mut self) -> Ending {
        let [_, _, end] = self.scenario.phases();
        loop {
            let begins = whole(self.next_begin);
            let again = self.agenda.next_time().unwrap_or(Nanos::MAX);
            let now = begins.min(again);
            if now >= end {
                break;
            }
            self.pass_time(now);
            let operation = if again <= begins {
                self.agenda.take().expect("it was just looked at").1
            } else {
                self.begin(now)
            };
            self.send(operation, now);
        }
        self.pass_time(end);
        self.end()
    }

    fn begin(&mut self, now: Nanos) -> u32 {
        self.next_begin += self.arrivals.exponential() / self.scenario.offered_at(now) * 1e9;
        self.tally.begun(now);
        // A part of the whole range: without a remainder, and the sequence that the documentation's tables have.
        let range = u128::from(self.arrivals.next_u64());
        let client = (range * u128::from(self.scenario.clients)) >> 64;
        let client = u32::try_from(client).unwrap_or_default();
        self.flights.put(self.clients.begin(client, now))
    }

    /// The server goes on; what it has served is answered.
    fn pass_time(&mut self, to: Nanos) {
        let Self { server, flights, tally, scenario, .. } = self;
        server.advance(to, |operation, at| {
            let mut flight = flights.remove(operation);
            Clients::served(&mut flight);
            tally.succeeded(flight.began, at + scenario.round_trip, flight.attempts);
        });
    }

    fn send(&mut self, operation: u32, now: Nanos) {
        let Self { clients, server, flights, tally, scenario, .. } = self;
        let flight = flights.at(operation);
        clients.send(flight, now);
        tally.sent();
        let Accepted::Shed(answered) = server.accept(operation) else { return };
        tally.shed(flight.attempts);
        let heard = answered + scenario.round_trip;
        if let Some(wait) = clients.turned_away(flight, heard) {
            let wait = Nanos::try_from(wait.as_nanos()).expect("waits are seconds");
            self.agenda.put(heard + wait, operation);
        } else {
            let flight = flights.remove(operation);
            tally.failed(flight.began, flight.attempts);
        }
    }

    fn end(mut self) -> Ending {
        self.tally.books.in_flight = self.flights.len() as u64;
        // As if all futures were dropped: the tokens they hold go back.
        drop(self.flights);
        let report = self.tally.report(self.clients.refused());
        Ending { report, tokens_left: self.clients.tokens_left() }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
fn whole(nanos: f64) -> Nanos {
    nanos as Nanos
}
