//! One square of the table: so many events by one strategy in one situation, and what came of them.

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
    waits::Waits,
};

/// How many events there are. Each has a client of its own, so that none meets the faults of another.
pub(super) const EVENTS: u64 = 20;
const DATABASE: &str = "strategies";
const TODAY: &str = "2016-06-28";

/// What came of the events.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) strategy: Strategy,
    pub(super) situation: Situation,
    /// How many requests met with a fault.
    pub(super) hits: u64,
    /// What the counter says, which no proxy stands before.
    pub(super) counted: u64,
    /// How many writes the clients sent.
    pub(super) sent: u64,
    /// How often a client looked for a server in vain.
    pub(super) waits: u64,
    /// How many events the application got an error for.
    pub(super) errors: u64,
    /// Of how many of these it was promised that they are not counted.
    pub(super) promised: u64,
    /// The longest that an event took.
    pub(super) longest: Duration,
}

/// What is to be said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Correct,
    UnderCounts,
    OverCounts,
    WastesTime,
}

impl Cell {
    /// What holds whichever strategy it is.
    pub(super) fn assert_plausible(&self) {
        assert!(self.hits >= EVENTS, "no event goes unharmed: {self:?}");
        let raised = self.situation.passes() || self.errors == EVENTS;
        assert!(raised, "an event that is not counted is an error: {self:?}");
        let searched = self.situation == Situation::Outage || self.waits == 0;
        assert!(searched, "there was a server all the while: {self:?}");
        let waited =
            self.situation.server_selection_timeout() * u32::try_from(self.waits / EVENTS).unwrap();
        assert!(self.longest >= waited, "a wait is a whole one: {self:?}");
        let refused = match self.situation {
            Situation::Refusal => EVENTS,
            // A server that is not the primary says so before it writes.
            Situation::StepDown => self.errors,
            Situation::LostRequest | Situation::LostReply | Situation::Outage => 0,
        };
        assert_eq!(self.promised, refused, "only what was refused is known: {self:?}");
    }

    /// By counts alone. What can be counted is to be counted once. What cannot is to be an error, after
    /// at most one search for a server (the error may pass), and at most one try if it was refused.
    pub(super) fn verdict(&self) -> Verdict {
        let expected = if self.situation.passes() { EVENTS } else { 0 };
        let in_vain = match self.situation {
            Situation::LostRequest | Situation::LostReply | Situation::StepDown => false,
            Situation::Outage => self.waits > EVENTS,
            Situation::Refusal => self.sent > EVENTS,
        };
        match self.counted {
            counted if counted < expected => Verdict::UnderCounts,
            counted if counted > expected => Verdict::OverCounts,
            _ if in_vain => Verdict::WastesTime,
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

/// Counts the events at the servers of `uri`, through a proxy that makes the situation. If the servers
/// held an election meanwhile, which is another situation, all is done anew.
pub(super) async fn measure(uri: &str, strategy: Strategy, situation: Situation) -> Cell {
    let straight = Client::with_uri_str(uri).await.unwrap();
    loop {
        let before = election(&straight).await;
        let cell = measure_once(uri, &straight, strategy, situation).await;
        let held_an_election = election(&straight).await != before;
        if held_an_election == (situation == Situation::StepDown) {
            return cell;
        }
    }
}

/// By which election the primary is one.
async fn election(straight: &Client) -> ObjectId {
    let hello = straight.database("admin").run_command(doc! { "hello": 1 }).await.unwrap();
    hello.get_object_id("electionId").expect("a primary says so")
}

async fn measure_once(
    uri: &str,
    straight: &Client,
    strategy: Strategy,
    situation: Situation,
) -> Cell {
    let name = format!("{strategy}, {}", situation.title());
    let counters = straight.database(DATABASE).collection::<Document>(&name);
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

    let waits = Waits::begin();
    let meanwhile = async {
        match situation {
            Situation::StepDown => step_down(straight, &proxy, &rules).await,
            _ => 0,
        }
    };
    let (ended, held) = tokio::join!(count_all(strategy, applications), meanwhile);
    let waits = waits.count();

    let ledger = proxy.ledger();
    let errors = || ended.iter().filter_map(|(tried, _)| tried.result.as_ref().err());
    let promises = errors().filter(|error| error.outcome().is_certainly_not_applied());
    Cell {
        strategy,
        situation,
        hits: held + hits(&proxy),
        counted: value(&counters).await,
        sent: WRITES.iter().map(|command| ledger.count(command, &namespace).attempts).sum(),
        waits,
        errors: errors().count() as u64,
        promised: promises.count() as u64,
        longest: ended.iter().map(|(_, elapsed)| *elapsed).max().expect("there are some"),
    }
}

/// When the requests of all events are held up on their way, the primary steps down. Then they arrive at a server
/// that is none; so many.
async fn step_down(straight: &Client, proxy: &Proxy, rules: &[String]) -> u64 {
    while hits(proxy) < EVENTS {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let held = hits(proxy);
    let step_down = doc! { "replSetStepDown": 10, "secondaryCatchUpPeriodSecs": 5 };
    // On a busy machine, secondaries may be far behind.
    while straight.database("admin").run_command(step_down.clone()).await.is_err() {}
    for rule in rules {
        proxy.remove(rule);
    }
    held
}

/// How many requests a fault has hit.
fn hits(proxy: &Proxy) -> u64 {
    let rules = proxy.rules();
    let on_requests = rules.iter().filter(|rule| *rule.rule().reaction() != Reaction::Refuse);
    on_requests.map(RuleState::applied).sum()
}

/// The document is there already, so that all events take the same steps.
async fn prepare(counters: &Collection<Document>) {
    counters.drop().await.unwrap();
    let none = doc! { "_id": TODAY, "counter": 0_i64 };
    counters.insert_one(none).write_concern(WriteConcern::majority()).await.unwrap();
}

async fn value(counters: &Collection<Document>) -> u64 {
    let found = counters.find_one(doc! { "_id": TODAY }).await.unwrap().expect("it was made");
    u64::try_from(found.get_i64("counter").unwrap()).unwrap()
}

/// The application that has this event to count, connected and in good spirits.
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
    // An outage is met by the write, and not foreseen by a heartbeat.
    options.heartbeat_freq = Some(Duration::from_secs(600));
    let counters = Client::with_options(options).unwrap().database(DATABASE).collection(name);
    // On a busy machine, that may be a short time to find a server in.
    while counters.find_one(doc! {}).await.is_err() {}
    counters
}

fn app_name(event: u64) -> String {
    format!("event {event}")
}

/// Which of an event's writes the fault hits: of those that the counter makes in two steps, every other
/// event's first and every other's second.
fn step_hit(strategy: Strategy, event: u64) -> u64 {
    match strategy {
        Strategy::RetryIdempotent => 1 + event % 2,
        _ => 1,
    }
}

/// All at the same time, each with how long it took.
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
