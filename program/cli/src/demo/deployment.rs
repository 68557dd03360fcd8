//! Deployment of the demo: three servers, a proxy in front of them, and five applications that count.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use blackpipe::proxy::{Direction, ErrorReply, Proxy, Reaction, Rule};
use steadfast::{
    Client, Collection,
    bson::{Document, doc},
    error::Outcome,
    event::{EventHandler, command::CommandEvent},
    options::ClientOptions,
};
use steadfast_chaos::strategy::{IncrementError, Strategy};
use steadfast_embedded::Deployment;
use steadfast_patterns::counter::{Counters, Finished, Intent};
use tokio::{task::JoinSet, time::sleep};

use super::plan::{DemoFault, Event};

const MEMBERS: usize = 3;
const DATABASE: &str = "demo";
/// Commands of the strategies.
const WRITES: [&str; 2] = ["update", "findAndModify"];
/// `IngressRequestRateLimitExceeded`, with the error labels of the server.
const REJECTED: i32 = 462;
const LABELS: [&str; 2] = ["SystemOverloadedError", "RetryableError"];
/// Rejects the first retry, too.
const REJECTIONS_IN_A_ROW: u64 = 2;

/// Result of an event in one application.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventResult {
    /// Outcome of a failed count. `None` after a success.
    pub(super) error: Option<Outcome>,
    /// Number of writes sent.
    pub(super) sent: u64,
    pub(super) took: Duration,
}

/// Values of an application's counters, one for each fault.
pub(super) type CounterValues = [u64; DemoFault::ALL.len()];

/// Servers, proxy and applications.
pub(super) struct DemoDeployment {
    set: Deployment,
    proxy: Proxy,
    applications: Vec<Application>,
    /// Counters, read without the proxy.
    counters: Vec<Collection<Document>>,
    /// Time without a primary after a step-down.
    without_primary: Duration,
}

impl DemoDeployment {
    pub(super) async fn start(
        seed: u64,
        without_primary: Duration,
    ) -> Result<Self, Box<dyn Error>> {
        let set = Deployment::replica_set(MEMBERS).seed(seed).manual_elections().try_start()?;
        let straight = Client::with_uri_str(set.uri()).await?;
        let proxy = Proxy::builder(set.uri()).start().await?;
        let (mut applications, mut counters) = (Vec::new(), Vec::new());
        for strategy in Strategy::ALL {
            let own = straight.database(DATABASE).collection::<Document>(strategy.name());
            let none = |fault: DemoFault| doc! { "_id": fault.title(), "counter": 0_i64 };
            own.insert_many(DemoFault::ALL.map(none)).await?;
            counters.push(own);
            applications.push(Application::start(strategy, &proxy).await?);
        }
        Ok(Self { set, proxy, applications, counters, without_primary })
    }

    /// Counts an event in all applications, with its fault if it is hit.
    pub(super) async fn event(&self, event: &Event) -> Result<Vec<EventResult>, Box<dyn Error>> {
        let rules: Vec<String> = if event.is_hit {
            self.applications.iter().map(|it| self.proxy.add(it.rule(event))).collect()
        } else {
            Vec::new()
        };
        let mut counting = JoinSet::new();
        for (index, application) in self.applications.iter().enumerate() {
            let (application, event) = (application.clone(), *event);
            counting.spawn(async move { (index, application.count(event.fault).await) });
        }
        if event.is_hit && event.fault == DemoFault::StepDown {
            self.step_down(&rules).await?;
        }
        let mut counted = Vec::new();
        while let Some(ended) = counting.join_next().await {
            counted.push(ended?);
        }
        counted.sort_by_key(|(index, _)| *index);
        for rule in rules {
            self.proxy.remove(&rule);
        }
        Ok(counted.into_iter().map(|(_, counted)| counted).collect())
    }

    /// Stalls the requests of all applications, makes the primary step down, and forwards them to it. Then elects
    /// another primary.
    async fn step_down(&self, rules: &[String]) -> Result<(), Box<dyn Error>> {
        let holds = |name: &str| rules.iter().any(|rule| rule == name);
        let held = || {
            let rules = self.proxy.rules();
            let ours = rules.iter().filter(|rule| rule.rule().as_name().is_some_and(holds));
            ours.filter(|rule| rule.applied() > 0).count()
        };
        while held() < rules.len() {
            sleep(Duration::from_millis(1)).await;
        }
        let primary = self.set.primary().unwrap_or_default();
        self.set.faults().step_down();
        for rule in rules {
            self.proxy.remove(rule);
        }
        sleep(self.without_primary).await;
        self.set.faults().elect((primary + 1) % MEMBERS)?;
        Ok(())
    }

    /// Reads the counters of all applications.
    pub(super) async fn counters(&self) -> Result<Vec<CounterValues>, Box<dyn Error>> {
        let mut all = Vec::new();
        for counters in &self.counters {
            let mut values = CounterValues::default();
            let mut found = counters.find(doc! {}).await?;
            while found.advance().await? {
                let counter = found.deserialize_current()?;
                let id = counter.get_str("_id")?;
                let its = DemoFault::ALL.into_iter().find(|fault| fault.title() == id);
                if let Some(fault) = its {
                    values[fault.index()] = u64::try_from(counter.get_i64("counter")?)?;
                }
            }
            all.push(values);
        }
        Ok(all)
    }
}

/// An application with its strategy.
#[derive(Clone)]
struct Application {
    strategy: Strategy,
    counters: Collection<Document>,
    /// Number of writes sent.
    sent: Arc<AtomicU64>,
}

impl Application {
    /// Connects an application through the proxy.
    async fn start(strategy: Strategy, proxy: &Proxy) -> Result<Self, Box<dyn Error>> {
        let sent = Arc::new(AtomicU64::new(0));
        let mut options = ClientOptions::parse(proxy.uri()).await?;
        options.app_name = Some(strategy.name().to_owned());
        options.retry_writes = Some(strategy.retry_writes());
        let counts = Arc::clone(&sent);
        options.command_event_handler = Some(EventHandler::callback(move |event| {
            if let CommandEvent::Started(started) = event {
                let is_write = WRITES.contains(&started.command_name.as_str());
                counts.fetch_add(u64::from(is_write), Ordering::Relaxed);
            }
        }));
        let database = Client::with_options(options)?.database(DATABASE);
        let counters = database.collection::<Document>(strategy.name());
        counters.find_one(doc! {}).await?;
        Ok(Self { strategy, counters, sent })
    }

    /// Returns the rule for the fault of an event of this application.
    fn rule(&self, event: &Event) -> Rule {
        let two_steps = matches!(self.strategy, Strategy::RetryIdempotent);
        let before = u64::from(two_steps && event.at_second_step);
        let (reaction, times) = match event.fault {
            DemoFault::LostReply => (Reaction::lose_reply(), 1),
            DemoFault::LostRequest => (Reaction::cut_request(), 1),
            DemoFault::StepDown => (Reaction::stall(Direction::Request), 1),
            DemoFault::Overload => {
                let rejected = ErrorReply::new(REJECTED).with_labels(LABELS);
                (Reaction::Error(rejected), REJECTIONS_IN_A_ROW)
            }
        };
        let rule = Rule::new(reaction).app_name(self.strategy.name()).skip(before).times(times);
        WRITES.into_iter().fold(rule, Rule::command)
    }

    async fn count(&self, fault: DemoFault) -> EventResult {
        let (sent, began) = (self.sent.load(Ordering::Relaxed), Instant::now());
        let tried = self.strategy.increment(&self.counters, fault.title()).await;
        let error = match tried.result {
            Ok(()) => None,
            Err(IncrementError::Counter(error)) => self.finish(error.intent()).await,
            Err(error) => Some(error.outcome()),
        };
        let sent = self.sent.load(Ordering::Relaxed) - sent;
        EventResult { error, sent, took: began.elapsed() }
    }

    /// Finishes an increment of the counter pattern after an error. A finished increment counts once.
    async fn finish(&self, intent: &Intent) -> Option<Outcome> {
        let counters = Counters::new(&self.counters);
        let mut outcome = None;
        for pause in [50, 100, 200, 400] {
            sleep(Duration::from_millis(pause)).await;
            match counters.finish(intent).await {
                Ok(Finished::Counted) => return None,
                Ok(Finished::NeverBegun) => return Some(Outcome::NotApplied),
                Ok(Finished::TooLate) => return Some(Outcome::MaybeApplied),
                Err(error) => outcome = Some(IncrementError::Counter(error).outcome()),
            }
        }
        outcome
    }
}
