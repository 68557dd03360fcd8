//! Server of the model: numbered documents, and the effects of the real requests on them at a time. Results are
//! cached.

use std::{collections::HashMap, sync::Arc};

use bson::{Bson, DateTime, Document, Timestamp};
use steadfast_query::{Collections, Environment, Filter, Pipeline, Update};

use super::{KEEP, MARGIN, ModelSetting, OTHER_AMOUNT, OmittedRule, UNTIL};
use crate::counter::{
    Fields, Intent,
    candidate::Candidate,
    documents::{self, Statement, SweepAges},
    increment::{CounterReply, CounterRequest, TokenState},
};

/// Real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Moment {
    InTime,
    /// At `until`.
    Over,
    /// After the margin.
    Due,
    /// After the time that tombstones are kept.
    TombstonesRemoved,
}

/// Time of a server's clock.
pub(super) type Clock = i64;

impl Moment {
    pub(super) fn next(self) -> Option<Self> {
        match self {
            Self::InTime => Some(Self::Over),
            Self::Over => Some(Self::Due),
            Self::Due => Some(Self::TombstonesRemoved),
            Self::TombstonesRemoved => None,
        }
    }

    /// The clocks of one primary and of the next, which differ by nearly the margin.
    pub(super) fn clocks(self) -> [Clock; 2] {
        let exact = match self {
            Self::InTime => UNTIL - 1,
            Self::Over => UNTIL,
            Self::Due => UNTIL + MARGIN,
            Self::TombstonesRemoved => UNTIL + MARGIN + KEEP,
        };
        [exact, exact - MARGIN + 1]
    }
}

/// Request to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ModelRequest {
    StepOne,
    Create,
    ReadToken,
    GiveUp,
    StepTwo {
        leaves_tombstone: bool,
    },
    RemoveTombstone,
    /// Request of a sweep, by its number.
    Sweep(usize),
}

impl ModelRequest {
    pub(super) fn of(request: CounterRequest) -> Self {
        match request {
            CounterRequest::StepOne => Self::StepOne,
            CounterRequest::CreateCounter => Self::Create,
            CounterRequest::ReadToken => Self::ReadToken,
            CounterRequest::GiveUp => Self::GiveUp,
            CounterRequest::StepTwo { leaves_tombstone } => Self::StepTwo { leaves_tombstone },
        }
    }

    pub(super) fn if_write(self) -> Option<Self> {
        (self != Self::ReadToken).then_some(self)
    }
}

/// Effect of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Executed {
    pub(super) document: usize,
    pub(super) reply: CounterReply,
}

/// Contents of a document.
#[derive(Clone, Copy, Debug)]
pub(super) struct CounterTally {
    pub(super) counter: i64,
    pub(super) is_pending: bool,
}

pub(super) struct ModelServer {
    fields: Fields,
    intent: Intent,
    ages: SweepAges,
    omitted: OmittedRule,
    documents: Vec<Option<Document>>,
    sweeps: Vec<Statement>,
    executed: HashMap<(ModelRequest, usize, Clock), Executed>,
    swept: HashMap<(usize, Clock), Vec<ModelRequest>>,
}

impl ModelServer {
    pub(super) fn new(setting: ModelSetting, intent: &Intent) -> Self {
        let margin = std::time::Duration::from_millis(MARGIN as u64);
        Self {
            fields: Fields::default(),
            intent: intent.clone(),
            ages: SweepAges { margin, keep: setting.keep(), plain: margin },
            omitted: setting.omitted,
            documents: Vec::new(),
            sweeps: Vec::new(),
            executed: HashMap::new(),
            swept: HashMap::new(),
        }
    }

    /// Returns the number of a document, or of a missing one.
    pub(super) fn number(&mut self, document: Option<Document>) -> usize {
        number(&mut self.documents, document)
    }

    pub(super) fn tally(&self, document: usize) -> CounterTally {
        let Some(document) = &self.documents[document] else {
            return CounterTally { counter: 0, is_pending: false };
        };
        let is_ours = |entry: &Bson| {
            entry.as_document().is_some_and(|entry| entry.get("token") == Some(&self.token()))
        };
        CounterTally {
            counter: document.get_i64("counter").unwrap(),
            is_pending: document.get_array("pending").is_ok_and(|all| all.iter().any(is_ours)),
        }
    }

    fn token(&self) -> Bson {
        self.intent.token.into()
    }

    pub(super) fn execute(
        &mut self,
        request: ModelRequest,
        document: usize,
        now: Clock,
    ) -> Executed {
        if let Some(executed) = self.executed.get(&(request, document, now)) {
            return *executed;
        }
        let executed = self.compute(request, document, now);
        self.executed.insert((request, document, now), executed);
        executed
    }

    fn compute(&mut self, request: ModelRequest, document: usize, now: Clock) -> Executed {
        let (fields, intent) = (&self.fields, &self.intent);
        let mut statement = match request {
            ModelRequest::StepOne => documents::step_one(fields, intent),
            ModelRequest::Create => documents::create(fields, &intent.id),
            ModelRequest::ReadToken => {
                let found = self.run(&documents::read_token(fields, intent), document, now);
                let state = TokenState::read(found.first()).unwrap();
                return Executed { document, reply: CounterReply::Token(state) };
            }
            ModelRequest::GiveUp => documents::give_up(fields, intent, self.ages.keep),
            ModelRequest::StepTwo { leaves_tombstone } => {
                documents::step_two(fields, intent, leaves_tombstone)
            }
            ModelRequest::RemoveTombstone => {
                documents::remove_tombstone(fields, intent, self.ages.margin)
            }
            ModelRequest::Sweep(number) => self.sweeps[number].clone(),
        };
        self.omit_rule(request, &mut statement);
        let (after, matched) =
            self.update(&statement, document, request == ModelRequest::Create, now);
        let reply = match request {
            ModelRequest::StepOne => CounterReply::StepOne(matched),
            ModelRequest::Create => CounterReply::Created(!matched),
            ModelRequest::GiveUp => CounterReply::GaveUp(matched),
            ModelRequest::StepTwo { .. } => CounterReply::StepTwo,
            ModelRequest::ReadToken | ModelRequest::RemoveTombstone | ModelRequest::Sweep(_) => {
                CounterReply::StepTwo
            }
        };
        Executed { document: after, reply }
    }

    /// Removes the omitted rule from a statement.
    fn omit_rule(&self, request: ModelRequest, statement: &mut Statement) {
        match (self.omitted, request) {
            (OmittedRule::Tombstones, ModelRequest::StepTwo { .. } | ModelRequest::Sweep(_))
            | (OmittedRule::TombstoneOfGiveUp, ModelRequest::GiveUp) => {
                statement.update.remove("$push");
                if statement.update.is_empty() {
                    statement.update.insert("$unset", bson::doc! { "nothing": 1 });
                }
            }
            (OmittedRule::Fence, ModelRequest::StepOne)
            | (OmittedRule::Margin, ModelRequest::Sweep(_)) => {
                statement.filter.remove("$expr");
            }
            _ => {}
        }
    }

    fn update(
        &mut self,
        statement: &Statement,
        document: usize,
        upsert: bool,
        now: Clock,
    ) -> (usize, bool) {
        let env = environment(now);
        let filter = Filter::parse(&statement.filter, &env).unwrap();
        let update = Update::parse(&statement.update.clone().into(), &[], &env).unwrap();
        match &self.documents[document] {
            Some(found) if filter.matches(found, &env).unwrap() => {
                let changed = update.apply(found, &filter, &env).unwrap();
                (changed.map_or(document, |changed| self.number(Some(changed))), true)
            }
            None if upsert => {
                let inserted = update.upserted(&filter, &env).unwrap();
                (self.number(Some(inserted)), false)
            }
            Some(_) | None => (document, false),
        }
    }

    fn run(&self, stages: &[Document], document: usize, now: Clock) -> Vec<Document> {
        let env = environment(now);
        let pipeline = Pipeline::parse(stages, "model", &env).unwrap();
        let documents = self.documents[document].iter().cloned().map(Arc::new).collect();
        pipeline.run(documents, &NoOtherCollections, &env).unwrap()
    }

    /// Requests of a sweep that reads the document now: for all tokens at once, and one by one.
    pub(super) fn sweep(&mut self, document: usize, now: Clock) -> Vec<ModelRequest> {
        if let Some(requests) = self.swept.get(&(document, now)) {
            return requests.clone();
        }
        let mut ages = self.ages;
        if self.omitted == OmittedRule::Margin {
            ages.margin = std::time::Duration::ZERO;
        }
        let found = self.run(&documents::candidates(&self.fields, &ages), document, now);
        let mut requests = Vec::new();
        for candidate in found {
            let candidate: Candidate = bson::deserialize_from_document(candidate).unwrap();
            for statement in statements(&candidate, &self.fields, &ages) {
                requests.push(ModelRequest::Sweep(number(&mut self.sweeps, statement)));
            }
        }
        self.swept.insert((document, now), requests.clone());
        requests
    }

    /// Document after an undisturbed sweep.
    pub(super) fn swept(&mut self, document: usize, moment: Moment) -> usize {
        let [now, _] = moment.clocks();
        let requests = self.sweep(document, now);
        requests
            .into_iter()
            .fold(document, |document, request| self.execute(request, document, now).document)
    }
}

fn statements(candidate: &Candidate, fields: &Fields, ages: &SweepAges) -> Vec<Statement> {
    let groups = candidate.groups().flat_map(|all| [all].into_iter().chain(all.one_by_one()));
    let mut statements: Vec<_> = groups
        .map(|tokens| {
            let by = tokens.sum().unwrap();
            documents::step_two_of_all(fields, &candidate.id, tokens, by, ages)
        })
        .collect();
    if candidate.old > 0 {
        let last = ages.newest_removable_tombstone(candidate.now);
        statements.push(documents::remove_tombstones(fields, &candidate.id, last));
    }
    statements
}

fn number<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|known| *known == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}

fn environment(now: Clock) -> Environment {
    Environment::new(DateTime::from_millis(now), Timestamp { time: 1, increment: 1 }, 1)
}

struct NoOtherCollections;

impl Collections for NoOtherCollections {
    fn documents(&self, _database: &str, _collection: &str) -> Vec<Arc<Document>> {
        Vec::new()
    }
}

const _: () = assert!(OTHER_AMOUNT > 2, "a token counted twice must be visible");
