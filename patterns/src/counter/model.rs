//! Model check: every order of events that a token can meet, within small bounds. Late duplicates, lost
//! replies, crashes, other clients that finish or give up, sweeps, and clock skew of servers. Course, filters
//! and updates are the real ones; `steadfast-query` applies them to documents.

mod server;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use bson::{DateTime, doc, oid::ObjectId};

use self::server::{Moment, Request, Server};
use super::{
    IncrementState, Intent,
    course::{CounterReply, Course, CourseEnd, Settled},
    intent::Stage,
};

/// Rule that is left out, to check that the model detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    Nothing,
    /// Step two leaves no tombstone.
    Tombstones,
    /// Step one does not compare the clock.
    Fence,
    /// The sweep does not wait for the margin.
    Margin,
    /// Giving up leaves no tombstone.
    GivingUpFirmly,
}

/// Parameters of a search.
#[derive(Clone, Copy, Debug)]
struct Setting {
    /// The first intent was stored, so that other clients can finish it.
    is_stored: bool,
    /// A later client gives up.
    gives_up: bool,
    has_document: bool,
    /// The token of another increment is pending.
    has_bystander: bool,
    /// Servers and mongos may delay a request after they read their clock, for as long as tombstones are kept.
    /// Otherwise tombstones are not kept beyond the margin.
    holds_up: bool,
    without: Without,
}

const UNTIL: i64 = 2_000_000_000_000;
const WINDOW: i64 = 60_000;
const MARGIN: i64 = 60_000;
const KEEP: i64 = 3_600_000;
/// Amount of another increment, whose token is pending from the start.
const BYSTANDER: i64 = 10;

/// State of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// Its number among the documents seen.
    document: usize,
    moment: Moment,
    /// The courses that are being followed.
    courses: Vec<Course>,
    /// Requests without a waiting client that may still be executed; sorted.
    late: Vec<Request>,
    /// The stages of the intents that can be taken up again.
    stored: Vec<Stage>,
    begun: bool,
    counted: bool,
    never: bool,
    courses_left: u8,
    losses_left: u8,
    sweeps_left: u8,
    is_forgotten: bool,
}

struct Search {
    setting: Setting,
    intent: Intent,
    server: Server,
    seen: HashSet<State>,
    queue: VecDeque<State>,
    ends: HashMap<&'static str, u64>,
}

#[derive(Debug)]
struct Explored {
    states: usize,
    /// Number of courses by their end.
    ends: HashMap<&'static str, u64>,
    /// First state that breaks a promise, and the promise.
    broken: Option<(String, State)>,
}

fn explore(setting: Setting) -> Explored {
    let intent = Intent {
        id: "day".into(),
        token: ObjectId::from_bytes([7; 12]),
        by: 1,
        since: DateTime::from_millis(UNTIL - 2 * WINDOW),
        until: DateTime::from_millis(UNTIL),
        stage: Stage::Open,
    };
    let other = ObjectId::from_bytes([9; 12]);
    let mut document = doc! { "_id": "day", "counter": 0_i64 };
    if setting.has_bystander {
        let entry = doc! { "token": other, "by": BYSTANDER, "until": intent.until };
        document.insert("pending", [entry]);
    }
    let mut server = Server::new(setting, &intent);
    let first = State {
        document: server.number(setting.has_document.then_some(document)),
        moment: Moment::InTime,
        courses: Vec::new(),
        late: Vec::new(),
        stored: if setting.is_stored { vec![Stage::Open] } else { Vec::new() },
        begun: false,
        counted: false,
        never: false,
        courses_left: 2,
        losses_left: losses() + u8::from(!setting.is_stored),
        sweeps_left: 1,
        is_forgotten: false,
    };
    let mut search = Search {
        setting,
        intent,
        server,
        seen: HashSet::new(),
        queue: VecDeque::new(),
        ends: HashMap::new(),
    };
    search.run(first)
}

impl Search {
    fn run(&mut self, first: State) -> Explored {
        let mut broken = None;
        let start = self.started(&first, Stage::Open, self.setting.is_stored, false);
        self.queue.push_back(start);
        while let Some(state) = self.queue.pop_front() {
            if let Some(promise) = self.broken(&state) {
                broken = Some((promise, state));
                break;
            }
            self.expand(&state);
        }
        Explored { states: self.seen.len(), ends: std::mem::take(&mut self.ends), broken }
    }

    /// Returns the promise that is broken in this state.
    fn broken(&mut self, state: &State) -> Option<String> {
        let at = self.server.tally(state.document);
        let ours = at.counter % BYSTANDER;
        if ours > 1 || at.counter / BYSTANDER > 1 {
            return Some(format!("counted twice: {}", at.counter));
        }
        if ours == 1 && at.is_pending {
            return Some("counted twice, as soon as it is swept".to_owned());
        }
        if state.counted && ours != 1 {
            return Some("said to be counted, and is not".to_owned());
        }
        if state.never && ours != 0 {
            return Some("said to be never counted, and is".to_owned());
        }
        if state.begun && ours == 0 && !at.is_pending {
            return Some("begun, and lost".to_owned());
        }
        if state.moment >= Moment::Due {
            let swept = self.server.swept(state.document, state.moment);
            let after = self.server.tally(swept);
            if after.is_pending || (state.begun && after.counter % BYSTANDER != 1) {
                return Some("not counted by a sweep".to_owned());
            }
        }
        None
    }

    fn expand(&mut self, state: &State) {
        self.pass_time(state);
        self.sweep(state);
        self.execute_late(state);
        self.take_up(state);
        self.forget(state);
        for course in 0..state.courses.len() {
            self.answer(state, course);
            self.lose(state, course);
            self.crash(state, course);
        }
    }

    fn visit(&mut self, mut state: State) {
        state.late.sort_unstable();
        if self.seen.insert(state.clone()) {
            self.queue.push_back(state);
        }
    }

    fn pass_time(&mut self, state: &State) {
        if let Some(moment) = state.moment.next() {
            self.visit(State { moment, ..state.clone() });
        }
    }

    /// A sweep reads; what it then sends may come at any time.
    fn sweep(&mut self, state: &State) {
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

    /// Executes a request without a waiting client. That it is never executed needs no event.
    fn execute_late(&mut self, state: &State) {
        for (index, request) in state.late.iter().enumerate() {
            let mut clocks = state.moment.clocks().to_vec();
            if self.setting.holds_up && state.moment < Moment::Forgotten {
                clocks.extend(Moment::InTime.clocks());
            }
            for clock in clocks {
                let document = self.server.execute(*request, state.document, clock).document;
                if document != state.document {
                    let mut next = State { document, ..state.clone() };
                    next.late.remove(index);
                    self.visit(next);
                }
            }
        }
    }

    /// Another client that has the intent finishes it, later or at the same time.
    fn take_up(&mut self, state: &State) {
        if state.courses_left == 0 || state.is_forgotten {
            return;
        }
        for stage in &state.stored {
            let next = self.started(state, *stage, true, self.setting.gives_up);
            self.visit(next);
        }
    }

    fn started(&self, state: &State, stage: Stage, is_shared: bool, gives_up: bool) -> State {
        let intent = Intent { stage, ..self.intent.clone() };
        let (keep, retries) = (self.setting.keep(), 1);
        let course = match is_shared {
            true => Course::of_anybody(&intent, keep, retries),
            false => Course::of_our_own(&intent, keep, retries),
        };
        let mut next = state.clone();
        next.courses.push(if gives_up { course.given_up() } else { course });
        next.courses_left -= 1;
        next
    }

    /// A client that has recorded the result removes the tombstone.
    fn forget(&mut self, state: &State) {
        let is_known = state.counted || state.never;
        if is_known && state.courses.is_empty() && !state.is_forgotten && !self.setting.holds_up {
            let mut next = State { is_forgotten: true, ..state.clone() };
            next.late.push(Request::Forget);
            self.visit(next);
        }
    }

    /// Executes the request of a course and delivers the reply.
    fn answer(&mut self, state: &State, course: usize) {
        let request = Request::of(state.courses[course].ask());
        for clock in state.moment.clocks() {
            let executed = self.server.execute(request, state.document, clock);
            let next = State { document: executed.document, ..state.clone() };
            self.replied(next.clone(), course, Some(executed.answer));
            // Or the driver's retry was answered, and its first attempt is still in progress. A server
            // recognises a write that it executed, but not one that matched nothing.
            if executed.answer == CounterReply::StepOne(false) && state.losses_left > 0 {
                let mut next = State { losses_left: state.losses_left - 1, ..next };
                next.late.push(request);
                self.replied(next, course, Some(executed.answer));
            }
        }
    }

    /// Loses or delays the request or its reply: it is executed at any later time, or never.
    fn lose(&mut self, state: &State, course: usize) {
        if state.losses_left == 0 {
            return;
        }
        let mut next = State { losses_left: state.losses_left - 1, ..state.clone() };
        next.late.extend(Request::of(state.courses[course].ask()).if_it_writes());
        self.replied(next, course, None);
        self.refuse(state, course);
    }

    /// The server returns an error, and nothing was written.
    fn refuse(&mut self, state: &State, course: usize) {
        let next = State { losses_left: state.losses_left - 1, ..state.clone() };
        let refusal = CounterReply::Failed { in_doubt: false, can_retry: true };
        self.replied(next, course, Some(refusal));
    }

    /// The client crashes with its request in progress. (That it was not sent equals never executed.)
    fn crash(&mut self, state: &State, course: usize) {
        let mut next = state.clone();
        let course = next.courses.remove(course);
        next.late.extend(Request::of(course.ask()).if_it_writes());
        self.visit(next);
    }

    fn replied(&mut self, mut state: State, index: usize, answer: Option<CounterReply>) {
        let lost = CounterReply::Failed { in_doubt: true, can_retry: true };
        let end = state.courses[index].apply(answer.unwrap_or(lost));
        let stage = state.courses[index].stage;
        state.begun |= stage != Stage::Open;
        let Some(end) = end else { return self.visit(state) };
        state.courses.remove(index);
        let known = match end {
            CourseEnd::Settled(Settled::Counted) => {
                state.counted = true;
                return self.ended("counted", state);
            }
            CourseEnd::Settled(Settled::NeverBegun(_)) => {
                state.never = true;
                return self.ended("never begun", state);
            }
            CourseEnd::Settled(Settled::CannotBeTold(_)) => return self.ended("too late", state),
            CourseEnd::Failed { state: known, .. }
            | CourseEnd::TooEarly { state: known, .. }
            | CourseEnd::Unsettled { state: known } => known,
        };
        if known == IncrementState::NeverBegun {
            // A client that counts again does not finish this intent.
            let stored = state.stored.iter().copied().filter(|_| self.setting.is_stored).collect();
            self.ended("failed", State { never: true, stored, ..state.clone() });
        }
        state.begun |= matches!(known, IncrementState::Pending | IncrementState::MaybeCounted);
        // The error has the intent, which any client may finish.
        if !state.stored.contains(&stage) {
            state.stored.push(stage);
        }
        self.ended("failed", state);
    }

    fn ended(&mut self, how: &'static str, state: State) {
        *self.ends.entry(how).or_default() += 1;
        self.visit(state);
    }
}

/// Number of failures besides crashes.
fn losses() -> u8 {
    std::env::var("STEADFAST_MODEL_LOSSES").map_or(1, |losses| losses.parse().expect("a number"))
}

impl Setting {
    fn keep(&self) -> Duration {
        Duration::from_millis(if self.holds_up { KEEP as u64 } else { 0 })
    }

    fn sound(is_stored: bool, gives_up: bool, has_document: bool, holds_up: bool) -> Self {
        let (has_bystander, without) = (false, Without::Nothing);
        Self { is_stored, gives_up, has_document, has_bystander, holds_up, without }
    }
}

fn assert_sound(setting: Setting) -> Explored {
    let explored = explore(setting);
    assert!(explored.broken.is_none(), "{setting:?}: {:?}", explored.broken);
    assert!(explored.states > 1_000, "too few to show anything: {}", explored.states);
    explored
}

#[test]
fn no_order_of_events_counts_a_plain_increment_twice_or_loses_it() {
    for has_document in [true, false] {
        for holds_up in [true, false] {
            let explored = assert_sound(Setting::sound(false, false, has_document, holds_up));
            for end in ["counted", "failed"] {
                assert!(explored.ends.contains_key(end), "no course ended with {end:?}");
            }
        }
    }
}

#[test]
fn no_order_of_events_counts_a_stored_intent_twice_or_loses_it() {
    for gives_up in [true, false] {
        for holds_up in [true, false] {
            let explored = assert_sound(Setting::sound(true, gives_up, true, holds_up));
            // Without tombstones that are kept, this is unknown after the window.
            let never = (gives_up || holds_up).then_some("never begun");
            for end in ["counted", "too late"].into_iter().chain(never) {
                assert!(explored.ends.contains_key(end), "no course ended with {end:?}");
            }
        }
    }
}

#[test]
fn no_order_of_events_mixes_up_two_tokens() {
    for holds_up in [true, false] {
        let setting = Setting::sound(false, false, true, holds_up);
        assert_sound(Setting { has_bystander: true, ..setting });
    }
}

#[test]
fn without_any_one_of_the_rules_some_order_of_events_breaks_a_promise() {
    let stored = Setting::sound(true, true, true, true);
    for (setting, promise) in [
        (Setting { without: Without::Tombstones, ..stored }, "counted twice"),
        (Setting { without: Without::Tombstones, is_stored: false, ..stored }, "counted twice"),
        (Setting { without: Without::Fence, holds_up: false, ..stored }, "counted twice"),
        (Setting { without: Without::Margin, holds_up: false, ..stored }, "counted twice"),
        (Setting { without: Without::GivingUpFirmly, ..stored }, "said to be never counted"),
    ] {
        let explored = explore(setting);
        let (broken, _) = explored.broken.expect("the model notices");
        assert!(broken.starts_with(promise), "{setting:?}: {broken}");
    }
}
