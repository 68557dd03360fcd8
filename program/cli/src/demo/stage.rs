//! Three servers, a proxy before them, and five applications that count; and the trouble that is made.

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

use super::plan::{Event, Trouble};

const MEMBERS: usize = 3;
const DATABASE: &str = "demo";
/// The commands that count.
const WRITES: [&str; 2] = ["update", "findAndModify"];
/// `IngressRequestRateLimitExceeded`, with the labels that servers give it.
const TURNED_AWAY: i32 = 462;
const LABELS: [&str; 2] = ["SystemOverloadedError", "RetryableError"];
/// An overload is not over when a request is sent again at once.
const TURNED_AWAY_IN_A_ROW: u64 = 2;

/// What an application says of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// Why it is not known to be counted; and whether it may be.
    pub(super) error: Option<Outcome>,
    /// How many writes were sent for it.
    pub(super) sent: u64,
    pub(super) took: Duration,
}

/// The values of an application's counters, one for each trouble.
pub(super) type Values = [u64; Trouble::ALL.len()];

/// Everything that takes part.
pub(super) struct Stage {
    set: Deployment,
    proxy: Proxy,
    applications: Vec<Application>,
    /// The counters, read where no proxy stands before them.
    counters: Vec<Collection<Document>>,
    /// How long the set is without a primary when it has stepped down.
    vacancy: Duration,
}

impl Stage {
    pub(super) async fn set(seed: u64, vacancy: Duration) -> Result<Self, Box<dyn Error>> {
        let set = Deployment::replica_set(MEMBERS).seed(seed).manual_elections().try_start()?;
        let straight = Client::with_uri_str(set.uri()).await?;
        let proxy = Proxy::builder(set.uri()).start().await?;
        let (mut applications, mut counters) = (Vec::new(), Vec::new());
        for strategy in Strategy::ALL {
            let own = straight.database(DATABASE).collection::<Document>(strategy.name());
            let none = |trouble: Trouble| doc! { "_id": trouble.title(), "counter": 0_i64 };
            own.insert_many(Trouble::ALL.map(none)).await?;
            counters.push(own);
            applications.push(Application::start(strategy, &proxy).await?);
        }
        Ok(Self { set, proxy, applications, counters, vacancy })
    }

    /// All applications count an event, and are in the same trouble if it is hit.
    pub(super) async fn event(&self, event: &Event) -> Result<Vec<Counted>, Box<dyn Error>> {
        let rules: Vec<String> = if event.is_hit {
            self.applications.iter().map(|it| self.proxy.add(it.rule(event))).collect()
        } else {
            Vec::new()
        };
        let mut counting = JoinSet::new();
        for (index, application) in self.applications.iter().enumerate() {
            let (application, event) = (application.clone(), *event);
            counting.spawn(async move { (index, application.count(event.trouble).await) });
        }
        if event.is_hit && event.trouble == Trouble::StepDown {
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

    /// When the requests of all applications are held up on their way, the primary steps down. They then
    /// arrive at a server that is none.
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
        sleep(self.vacancy).await;
        self.set.faults().elect((primary + 1) % MEMBERS)?;
        Ok(())
    }

    /// What the counters of each application say.
    pub(super) async fn counters(&self) -> Result<Vec<Values>, Box<dyn Error>> {
        let mut all = Vec::new();
        for counters in &self.counters {
            let mut values = Values::default();
            let mut found = counters.find(doc! {}).await?;
            while found.advance().await? {
                let counter = found.deserialize_current()?;
                let id = counter.get_str("_id")?;
                let its = Trouble::ALL.into_iter().find(|trouble| trouble.title() == id);
                if let Some(trouble) = its {
                    values[trouble.index()] = u64::try_from(counter.get_i64("counter")?)?;
                }
            }
            all.push(values);
        }
        Ok(all)
    }
}

/// One that counts, by its strategy.
#[derive(Clone)]
struct Application {
    strategy: Strategy,
    counters: Collection<Document>,
    /// How many writes it has sent.
    sent: Arc<AtomicU64>,
}

impl Application {
    /// One that is connected, through the proxy.
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

    /// The trouble that an event has on its way from this application.
    fn rule(&self, event: &Event) -> Rule {
        let two_steps = matches!(self.strategy, Strategy::RetryIdempotent);
        let before = u64::from(two_steps && event.at_second_step);
        let (reaction, times) = match event.trouble {
            Trouble::LostReply => (Reaction::lose_reply(), 1),
            Trouble::LostRequest => (Reaction::cut_request(), 1),
            Trouble::StepDown => (Reaction::stall(Direction::Request), 1),
            Trouble::Overload => {
                let turned_away = ErrorReply::new(TURNED_AWAY).with_labels(LABELS);
                (Reaction::Error(turned_away), TURNED_AWAY_IN_A_ROW)
            }
        };
        let rule = Rule::new(reaction).app_name(self.strategy.name()).skip(before).times(times);
        WRITES.into_iter().fold(rule, Rule::command)
    }

    async fn count(&self, trouble: Trouble) -> Counted {
        let (sent, began) = (self.sent.load(Ordering::Relaxed), Instant::now());
        let tried = self.strategy.increment(&self.counters, trouble.title()).await;
        let error = match tried.result {
            Ok(()) => None,
            Err(IncrementError::Counter(error)) => self.finish(error.intent()).await,
            Err(error) => Some(error.outcome()),
        };
        let sent = self.sent.load(Ordering::Relaxed) - sent;
        Counted { error, sent, took: began.elapsed() }
    }

    /// What the counter of the patterns did not see through can be finished at any later time, and
    /// counts once. So that is what this application does, after a while.
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
