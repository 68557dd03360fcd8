//! Model check: every order of events of a token, within small bounds. Late duplicates, lost
//! replies, crashes, other clients that finish or give up, sweeps, and clock skew of servers. The state
//! machine, the filters and the updates are the real ones; `steadfast-query` applies them to documents.

mod server;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use bson::{DateTime, doc, oid::ObjectId};

use self::server::{ModelRequest, ModelServer, Moment};
use super::{
    IncrementState, Intent,
    increment::{CounterReply, Increment, IncrementEnd, Resolution},
    intent::IntentStage,
};

/// Rule that the model omits, to check that this violates a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OmittedRule {
    None,
    /// Step two leaves no tombstone.
    Tombstones,
    /// Step one does not compare the clock.
    Fence,
    /// The sweep does not wait for the margin.
    Margin,
    /// Giving up leaves no tombstone.
    TombstoneOfGiveUp,
}

/// Parameters of a search.
#[derive(Clone, Copy, Debug)]
struct ModelSetting {
    /// The first intent was stored, so that other clients can finish it.
    is_stored: bool,
    /// A later client gives up.
    gives_up: bool,
    has_document: bool,
    /// The token of another increment is pending.
    has_other_token: bool,
    /// Servers and mongos may delay a request after they read their clock, for as long as tombstones are kept.
    /// Otherwise tombstones are not kept beyond the margin.
    delays_requests: bool,
    omitted: OmittedRule,
}

const UNTIL: i64 = 2_000_000_000_000;
const WINDOW: i64 = 60_000;
const MARGIN: i64 = 60_000;
const KEEP: i64 = 3_600_000;
/// Amount of another increment, whose token is pending from the start.
const OTHER_AMOUNT: i64 = 10;

/// State of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ModelState {
    /// Number of the document.
    document: usize,
    moment: Moment,
    /// Increments in progress.
    increments: Vec<Increment>,
    /// Requests without a waiting client that may still be executed; sorted.
    late: Vec<ModelRequest>,
    /// Stages of the intents that a client can resume.
    stored: Vec<IntentStage>,
    begun: bool,
    counted: bool,
    never: bool,
    increments_left: u8,
    losses_left: u8,
    sweeps_left: u8,
    tombstone_removed: bool,
}

struct ModelSearch {
    setting: ModelSetting,
    intent: Intent,
    server: ModelServer,
    seen: HashSet<ModelState>,
    queue: VecDeque<ModelState>,
    ends: HashMap<&'static str, u64>,
}

#[derive(Debug)]
struct Exploration {
    states: usize,
    /// Number of increments by their end.
    ends: HashMap<&'static str, u64>,
    /// First state that violates a promise, and the promise.
    violated: Option<(String, ModelState)>,
}

fn explore(setting: ModelSetting) -> Exploration {
    let intent = Intent {
        id: "day".into(),
        token: ObjectId::from_bytes([7; 12]),
        by: 1,
        since: DateTime::from_millis(UNTIL - 2 * WINDOW),
        until: DateTime::from_millis(UNTIL),
        stage: IntentStage::Open,
    };
    let other = ObjectId::from_bytes([9; 12]);
    let mut document = doc! { "_id": "day", "counter": 0_i64 };
    if setting.has_other_token {
        let entry = doc! { "token": other, "by": OTHER_AMOUNT, "until": intent.until };
        document.insert("pending", vec![entry]);
    }
    let mut server = ModelServer::new(setting, &intent);
    let first = ModelState {
        document: server.number(setting.has_document.then_some(document)),
        moment: Moment::InTime,
        increments: Vec::new(),
        late: Vec::new(),
        stored: if setting.is_stored { vec![IntentStage::Open] } else { Vec::new() },
        begun: false,
        counted: false,
        never: false,
        increments_left: 2,
        losses_left: max_failures() + u8::from(!setting.is_stored),
        sweeps_left: 1,
        tombstone_removed: false,
    };
    let mut search = ModelSearch {
        setting,
        intent,
        server,
        seen: HashSet::new(),
        queue: VecDeque::new(),
        ends: HashMap::new(),
    };
    search.run(first)
}

impl ModelSearch {
    fn run(&mut self, first: ModelState) -> Exploration {
        let mut violated = None;
        let start = self.started(&first, IntentStage::Open, self.setting.is_stored, false);
        self.queue.push_back(start);
        while let Some(state) = self.queue.pop_front() {
            if let Some(promise) = self.violated(&state) {
                violated = Some((promise, state));
                break;
            }
            self.expand(&state);
        }
        Exploration { states: self.seen.len(), ends: std::mem::take(&mut self.ends), violated }
    }

    /// Returns the promise that this state violates.
    fn violated(&mut self, state: &ModelState) -> Option<String> {
        let at = self.server.tally(state.document);
        let ours = at.counter % OTHER_AMOUNT;
        if ours > 1 || at.counter / OTHER_AMOUNT > 1 {
            return Some(format!("counted twice: {}", at.counter));
        }
        if ours == 1 && at.is_pending {
            return Some("counted twice after a sweep".to_owned());
        }
        if state.counted && ours != 1 {
            return Some("reported as counted, but not counted".to_owned());
        }
        if state.never && ours != 0 {
            return Some("reported as never counted, but counted".to_owned());
        }
        if state.begun && ours == 0 && !at.is_pending {
            return Some("begun, but lost".to_owned());
        }
        if state.moment >= Moment::Due {
            let swept = self.server.swept(state.document, state.moment);
            let after = self.server.tally(swept);
            if after.is_pending || (state.begun && after.counter % OTHER_AMOUNT != 1) {
                return Some("not counted by a sweep".to_owned());
            }
        }
        None
    }

    fn expand(&mut self, state: &ModelState) {
        self.pass_time(state);
        self.sweep(state);
        self.execute_late(state);
        self.resume(state);
        self.remove_tombstone(state);
        for increment in 0..state.increments.len() {
            self.deliver_reply(state, increment);
            self.lose(state, increment);
            self.crash(state, increment);
        }
    }

    fn visit(&mut self, mut state: ModelState) {
        state.late.sort_unstable();
        if self.seen.insert(state.clone()) {
            self.queue.push_back(state);
        }
    }

    fn pass_time(&mut self, state: &ModelState) {
        if let Some(moment) = state.moment.next() {
            self.visit(ModelState { moment, ..state.clone() });
        }
    }

    /// A sweep reads; its requests may arrive at any later time.
    fn sweep(&mut self, state: &ModelState) {
        if state.sweeps_left == 0 {
            return;
        }
        for clock in state.moment.clocks() {
            let requests = self.server.sweep(state.document, clock);
            if requests.is_empty() {
                continue;
            }
            let mut next = state.clone();
            next.sweeps_left -= 1;
            for request in requests {
                if !next.late.contains(&request) {
                    next.late.push(request);
                }
            }
            self.visit(next);
        }
    }

    /// Executes a request without a waiting client. (A request that is never executed needs no event.)
    fn execute_late(&mut self, state: &ModelState) {
        for (index, request) in state.late.iter().enumerate() {
            let mut clocks = state.moment.clocks().to_vec();
            if self.setting.delays_requests && state.moment < Moment::TombstonesRemoved {
                clocks.extend(Moment::InTime.clocks());
            }
            for clock in clocks {
                let document = self.server.execute(*request, state.document, clock).document;
                if document != state.document {
                    let mut next = ModelState { document, ..state.clone() };
                    next.late.remove(index);
                    self.visit(next);
                }
            }
        }
    }

    /// Another client finishes the intent, later or concurrently.
    fn resume(&mut self, state: &ModelState) {
        if state.increments_left == 0 || state.tombstone_removed {
            return;
        }
        for stage in &state.stored {
            let next = self.started(state, *stage, true, self.setting.gives_up);
            self.visit(next);
        }
    }

    fn started(
        &self,
        state: &ModelState,
        stage: IntentStage,
        is_shared: bool,
        gives_up: bool,
    ) -> ModelState {
        let intent = Intent { stage, ..self.intent.clone() };
        let (keep, retries) = (self.setting.keep(), 1);
        let increment = match is_shared {
            true => Increment::shared(&intent, keep, retries),
            false => Increment::unshared(&intent, keep, retries),
        };
        let mut next = state.clone();
        next.increments.push(if gives_up { increment.given_up() } else { increment });
        next.increments_left -= 1;
        next
    }

    /// A client that has recorded the result removes the tombstone.
    fn remove_tombstone(&mut self, state: &ModelState) {
        let is_known = state.counted || state.never;
        if is_known
            && state.increments.is_empty()
            && !state.tombstone_removed
            && !self.setting.delays_requests
        {
            let mut next = ModelState { tombstone_removed: true, ..state.clone() };
            next.late.push(ModelRequest::RemoveTombstone);
            self.visit(next);
        }
    }

    /// Executes the request of an increment and delivers the reply.
    fn deliver_reply(&mut self, state: &ModelState, increment: usize) {
        let request = ModelRequest::of(state.increments[increment].request());
        for clock in state.moment.clocks() {
            let executed = self.server.execute(request, state.document, clock);
            let next = ModelState { document: executed.document, ..state.clone() };
            self.apply_reply(next.clone(), increment, Some(executed.reply));
            // Or the driver's retry was answered, and its first attempt is still in progress. A server
            // recognises a write that it executed, but not one that matched nothing.
            if executed.reply == CounterReply::StepOne(false) && state.losses_left > 0 {
                let mut next = ModelState { losses_left: state.losses_left - 1, ..next };
                next.late.push(request);
                self.apply_reply(next, increment, Some(executed.reply));
            }
        }
    }

    /// Loses or delays the request or its reply: it is executed at any later time, or never.
    fn lose(&mut self, state: &ModelState, increment: usize) {
        if state.losses_left == 0 {
            return;
        }
        let mut next = ModelState { losses_left: state.losses_left - 1, ..state.clone() };
        next.late.extend(ModelRequest::of(state.increments[increment].request()).if_write());
        self.apply_reply(next, increment, None);
        self.reject(state, increment);
    }

    /// The server returns an error, and nothing was written.
    fn reject(&mut self, state: &ModelState, increment: usize) {
        let next = ModelState { losses_left: state.losses_left - 1, ..state.clone() };
        let rejection = CounterReply::Failed { in_doubt: false, can_retry: true };
        self.apply_reply(next, increment, Some(rejection));
    }

    /// The client crashes with its request in progress. (A request that was not sent equals one that is never
    /// executed.)
    fn crash(&mut self, state: &ModelState, increment: usize) {
        let mut next = state.clone();
        let increment = next.increments.remove(increment);
        next.late.extend(ModelRequest::of(increment.request()).if_write());
        self.visit(next);
    }

    fn apply_reply(&mut self, mut state: ModelState, index: usize, reply: Option<CounterReply>) {
        let lost = CounterReply::Failed { in_doubt: true, can_retry: true };
        let end = state.increments[index].apply(reply.unwrap_or(lost));
        let stage = state.increments[index].stage;
        state.begun |= stage != IntentStage::Open;
        let Some(end) = end else { return self.visit(state) };
        state.increments.remove(index);
        let known = match end {
            IncrementEnd::Resolved(Resolution::Counted) => {
                state.counted = true;
                return self.record_end("counted", state);
            }
            IncrementEnd::Resolved(Resolution::NeverBegun(_)) => {
                state.never = true;
                return self.record_end("never begun", state);
            }
            IncrementEnd::Resolved(Resolution::Unknown(_)) => {
                return self.record_end("too late", state);
            }
            IncrementEnd::Failed { state: known, .. }
            | IncrementEnd::TooEarly { state: known, .. }
            | IncrementEnd::Contended { state: known } => known,
        };
        if known == IncrementState::NeverBegun {
            // A client that counts again does not finish this intent.
            let stored = state.stored.iter().copied().filter(|_| self.setting.is_stored).collect();
            self.record_end("failed", ModelState { never: true, stored, ..state.clone() });
        }
        state.begun |= matches!(known, IncrementState::Pending | IncrementState::MaybeCounted);
        // The error has the intent, which any client may finish.
        if !state.stored.contains(&stage) {
            state.stored.push(stage);
        }
        self.record_end("failed", state);
    }

    fn record_end(&mut self, how: &'static str, state: ModelState) {
        *self.ends.entry(how).or_default() += 1;
        self.visit(state);
    }
}

/// Largest number of failures, without crashes.
fn max_failures() -> u8 {
    std::env::var("STEADFAST_MODEL_LOSSES").map_or(1, |losses| losses.parse().expect("a number"))
}

impl ModelSetting {
    fn keep(&self) -> Duration {
        Duration::from_millis(if self.delays_requests { KEEP as u64 } else { 0 })
    }

    fn sound(is_stored: bool, gives_up: bool, has_document: bool, delays_requests: bool) -> Self {
        let (has_other_token, omitted) = (false, OmittedRule::None);
        Self { is_stored, gives_up, has_document, has_other_token, delays_requests, omitted }
    }
}

fn assert_sound(setting: ModelSetting) -> Exploration {
    let explored = explore(setting);
    assert!(explored.violated.is_none(), "{setting:?}: {:?}", explored.violated);
    assert!(explored.states > 1_000, "too few states: {}", explored.states);
    explored
}

#[test]
fn no_order_of_events_counts_a_plain_increment_twice_or_loses_it() {
    for has_document in [true, false] {
        for delays_requests in [true, false] {
            let explored =
                assert_sound(ModelSetting::sound(false, false, has_document, delays_requests));
            for end in ["counted", "failed"] {
                assert!(explored.ends.contains_key(end), "no increment ended with {end:?}");
            }
        }
    }
}

#[test]
fn no_order_of_events_counts_a_stored_intent_twice_or_loses_it() {
    for gives_up in [true, false] {
        for delays_requests in [true, false] {
            let explored = assert_sound(ModelSetting::sound(true, gives_up, true, delays_requests));
            // Without tombstones, this is unknown after the window.
            let never = (gives_up || delays_requests).then_some("never begun");
            for end in ["counted", "too late"].into_iter().chain(never) {
                assert!(explored.ends.contains_key(end), "no increment ended with {end:?}");
            }
        }
    }
}

#[test]
fn no_order_of_events_mixes_up_two_tokens() {
    for delays_requests in [true, false] {
        let setting = ModelSetting::sound(false, false, true, delays_requests);
        assert_sound(ModelSetting { has_other_token: true, ..setting });
    }
}

#[test]
fn each_omitted_rule_violates_a_promise_in_some_order_of_events() {
    let stored = ModelSetting::sound(true, true, true, true);
    for (setting, promise) in [
        (ModelSetting { omitted: OmittedRule::Tombstones, ..stored }, "counted twice"),
        (
            ModelSetting { omitted: OmittedRule::Tombstones, is_stored: false, ..stored },
            "counted twice",
        ),
        (
            ModelSetting { omitted: OmittedRule::Fence, delays_requests: false, ..stored },
            "counted twice",
        ),
        (
            ModelSetting { omitted: OmittedRule::Margin, delays_requests: false, ..stored },
            "counted twice",
        ),
        (
            ModelSetting { omitted: OmittedRule::TombstoneOfGiveUp, ..stored },
            "reported as never counted",
        ),
    ] {
        let explored = explore(setting);
        let (violated, _) = explored.violated.expect("the model detects it");
        assert!(violated.starts_with(promise), "{setting:?}: {violated}");
    }
}
