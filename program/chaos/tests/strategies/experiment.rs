//! One cell of the table: events that are counted with one strategy in one situation.

use std::{
    fmt,
    time::{Duration, Instant},
};

use blackpipe::proxy::{Proxy, Reaction, RuleState};
use steadfast::{
    Client, Collection,
    bson::{Document, doc, oid::ObjectId},
    options::{ClientOptions, WriteConcern},
};
use steadfast_chaos::strategy::{IncrementError, Strategy, Tried};
use tokio::task::JoinSet;

use super::{
    situation::{Situation, WRITES},
    waits::FailedSelections,
};

/// Number of events. Each has its own client, so that faults affect only their event.
pub(super) const EVENTS: u64 = 20;
const DATABASE: &str = "strategies";
const TODAY: &str = "2016-06-28";

/// Figures of one strategy in one situation.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) strategy: Strategy,
    pub(super) situation: Situation,
    /// Requests that were hit by a fault.
    pub(super) hits: u64,
    /// Final value of the counter.
    pub(super) counted: u64,
    /// Writes that the clients sent.
    pub(super) sent: u64,
    /// Failed server selections.
    pub(super) waits: u64,
    /// Events with an error.
    pub(super) errors: u64,
    /// Errors whose outcome is `NotSent` or `NotApplied`.
    pub(super) not_applied: u64,
    /// Duration of the slowest event.
    pub(super) longest: Duration,
}

/// Verdict on a strategy in a situation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Correct,
    UnderCounts,
    OverCounts,
    WastesTime,
}

impl Cell {
    /// Checks the figures that do not depend on the strategy.
    pub(super) fn assert_plausible(&self) {
        assert!(self.hits >= EVENTS, "each event has a fault: {self:?}");
        let failed = self.situation.is_transient() || self.errors == EVENTS;
        assert!(failed, "an event that cannot be counted is an error: {self:?}");
        let selected = self.situation == Situation::Outage || self.waits == 0;
        assert!(selected, "a server is available: {self:?}");
        let waited =
            self.situation.server_selection_timeout() * u32::try_from(self.waits / EVENTS).unwrap();
        assert!(self.longest >= waited, "each failed selection takes its time-out: {self:?}");
        let rejected = match self.situation {
            Situation::CommandError => EVENTS,
            // `NotWritablePrimary` excludes that the command was executed.
            Situation::StepDown => self.errors,
            Situation::LostRequest | Situation::LostReply | Situation::Outage => 0,
        };
        assert_eq!(self.not_applied, rejected, "only a command error is certain: {self:?}");
    }

    /// Returns the verdict from the counts. An event in a transient situation must be counted once. Any other event
    /// must be an error, after at most one failed server selection, or one command error.
    pub(super) fn verdict(&self) -> Verdict {
        let expected = if self.situation.is_transient() { EVENTS } else { 0 };
        let wastes_time = match self.situation {
            Situation::LostRequest | Situation::LostReply | Situation::StepDown => false,
            Situation::Outage => self.waits > EVENTS,
            Situation::CommandError => self.sent > EVENTS,
        };
        match self.counted {
            counted if counted < expected => Verdict::UnderCounts,
            counted if counted > expected => Verdict::OverCounts,
            _ if wastes_time => Verdict::WastesTime,
            _ => Verdict::Correct,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Correct => "correct",
            Self::UnderCounts => "**under-counts**",
            Self::OverCounts => "**over-counts**",
            Self::WastesTime => "**wastes time**",
        })
    }
}

/// Counts the events through a proxy that injects the faults of the situation. Repeats the measurement after an
/// unexpected election.
pub(super) async fn measure(uri: &str, strategy: Strategy, situation: Situation) -> Cell {
    let direct = Client::with_uri_str(uri).await.unwrap();
    loop {
        let before = election_id(&direct).await;
        let cell = measure_once(uri, &direct, strategy, situation).await;
        let held_an_election = election_id(&direct).await != before;
        if held_an_election == (situation == Situation::StepDown) {
            return cell;
        }
    }
}

/// Returns the `electionId` of the primary.
async fn election_id(direct: &Client) -> ObjectId {
    let hello = direct.database("admin").run_command(doc! { "hello": 1 }).await.unwrap();
    hello.get_object_id("electionId").expect("the reply of a primary")
}

async fn measure_once(
    uri: &str,
    direct: &Client,
    strategy: Strategy,
    situation: Situation,
) -> Cell {
    let name = format!("{strategy}, {}", situation.title());
    let counters = direct.database(DATABASE).collection::<Document>(&name);
    prepare(&counters).await;
    let namespace = counters.namespace().to_string();
    let proxy = Proxy::builder(uri).start().await.unwrap();
    let mut applications = Vec::new();
    for event in 0..EVENTS {
        applications.push(application(&proxy, strategy, situation, event, &name).await);
    }
    let mut rules = Vec::new();
    for event in 0..EVENTS {
        let of_event = situation.rules(&namespace, &app_name(event), step_hit(strategy, event));
        rules.extend(of_event.into_iter().map(|rule| proxy.add(rule)));
    }

    let waits = FailedSelections::begin();
    let meanwhile = async {
        match situation {
            Situation::StepDown => step_down(direct, &proxy, &rules).await,
            _ => 0,
        }
    };
    let (ended, held) = tokio::join!(count_all(strategy, applications), meanwhile);
    let waits = waits.count();

    let ledger = proxy.ledger();
    let errors = || ended.iter().filter_map(|(tried, _)| tried.result.as_ref().err());
    let not_applied = errors().filter(|error| error.outcome().is_certainly_not_applied());
    Cell {
        strategy,
        situation,
        hits: held + hits(&proxy),
        counted: value(&counters).await,
        sent: WRITES.iter().map(|command| ledger.count(command, &namespace).attempts).sum(),
        waits,
        errors: errors().count() as u64,
        not_applied: not_applied.count() as u64,
        longest: ended.iter().map(|(_, elapsed)| *elapsed).max().expect("at least one event"),
    }
}

/// Waits until the proxy holds the requests of all events, steps the primary down, and releases them. Returns their
/// number.
async fn step_down(direct: &Client, proxy: &Proxy, rules: &[String]) -> u64 {
    while hits(proxy) < EVENTS {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let held = hits(proxy);
    let step_down = doc! { "replSetStepDown": 10, "secondaryCatchUpPeriodSecs": 5 };
    // Fails while secondaries lag behind on a busy machine.
    while direct.database("admin").run_command(step_down.clone()).await.is_err() {}
    for rule in rules {
        proxy.remove(rule);
    }
    held
}

/// Returns the number of requests that were hit by a fault.
fn hits(proxy: &Proxy) -> u64 {
    let rules = proxy.rules();
    let on_requests = rules.iter().filter(|rule| *rule.rule().reaction() != Reaction::Refuse);
    on_requests.map(RuleState::applied).sum()
}

/// Inserts the counter, so that all events take the same steps.
async fn prepare(counters: &Collection<Document>) {
    counters.drop().await.unwrap();
    let none = doc! { "_id": TODAY, "counter": 0_i64 };
    counters.insert_one(none).write_concern(WriteConcern::majority()).await.unwrap();
}

async fn value(counters: &Collection<Document>) -> u64 {
    let found = counters.find_one(doc! { "_id": TODAY }).await.unwrap().expect("the counter");
    u64::try_from(found.get_i64("counter").unwrap()).unwrap()
}

/// Returns the collection of the application of an event, with an established connection.
async fn application(
    proxy: &Proxy,
    strategy: Strategy,
    situation: Situation,
    event: u64,
    name: &str,
) -> Collection<Document> {
    let mut options = ClientOptions::parse(proxy.uri()).await.unwrap();
    options.app_name = Some(app_name(event));
    options.retry_writes = Some(strategy.retry_writes());
    options.server_selection_timeout = Some(situation.server_selection_timeout());
    // The write detects an outage, not a heartbeat.
    options.heartbeat_freq = Some(Duration::from_secs(600));
    let counters = Client::with_options(options).unwrap().database(DATABASE).collection(name);
    // The server selection time-out is short for a busy machine.
    while counters.find_one(doc! {}).await.is_err() {}
    counters
}

fn app_name(event: u64) -> String {
    format!("event {event}")
}

/// Returns the number of the write that the fault hits. The counter of the patterns has two writes per event: half of
/// the faults hit the first one.
fn step_hit(strategy: Strategy, event: u64) -> u64 {
    match strategy {
        Strategy::RetryIdempotent => 1 + event % 2,
        _ => 1,
    }
}

/// Counts all events concurrently. Returns results and durations.
async fn count_all(
    strategy: Strategy,
    applications: Vec<Collection<Document>>,
) -> Vec<(Tried<(), IncrementError>, Duration)> {
    let mut counting = JoinSet::new();
    for counters in applications {
        counting.spawn(async move {
            let began = Instant::now();
            let tried = strategy.increment(&counters, TODAY).await;
            (tried, began.elapsed())
        });
    }
    counting.join_all().await
}
