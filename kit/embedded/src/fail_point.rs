//! Fail points: what a test tells a server to do wrong, with the command that drivers' tests use.

pub(crate) mod command;
mod mode;
pub(crate) mod trap;

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault};
use tokio::sync::watch;

use self::mode::Mode;
use blackpipe_base::{
    number::{number, whole},
    rng::Rng,
};

/// Any command fails, is delayed, or loses its connection.
pub(crate) const FAIL_COMMAND: &str = "failCommand";
/// The connection of a write with a transaction number is closed when the write is done, or the write
/// fails before it is.
pub(crate) const ON_PRIMARY_TRANSACTIONAL_WRITE: &str = "onPrimaryTransactionalWrite";
/// A `getMore` fails, and its cursor is gone.
pub(crate) const FAIL_GET_MORE: &str = "failGetMoreAfterCursorCheckout";
/// Whatever has a time limit exceeds it.
pub(crate) const ALWAYS_TIME_OUT: &str = "maxTimeAlwaysTimeOut";
/// Nothing exceeds its time limit.
pub(crate) const NEVER_TIME_OUT: &str = "maxTimeNeverTimeOut";

/// A secondary copies nothing while it is on.
pub(crate) const STOP_REPL_PRODUCER: &str = "stopReplProducer";

const KNOWN: [&str; 6] = [
    FAIL_COMMAND,
    ON_PRIMARY_TRANSACTIONAL_WRITE,
    FAIL_GET_MORE,
    ALWAYS_TIME_OUT,
    NEVER_TIME_OUT,
    STOP_REPL_PRODUCER,
];

/// The fail points of one server.
#[derive(Debug)]
pub(crate) struct FailPoints {
    /// How many are on, for a glance without a lock.
    armed: AtomicUsize,
    points: Mutex<BTreeMap<&'static str, Point>>,
    /// Told whenever one was entered.
    entered: watch::Sender<()>,
}

#[derive(Debug)]
struct Point {
    mode: Mode,
    data: Document,
    /// How often it did something, since the server was started.
    entered: i64,
    rng: Rng,
}

impl FailPoints {
    /// All off. Chances come from this seed.
    pub(crate) fn new(seed: u64) -> Self {
        let points = KNOWN.iter().map(|name| {
            let rng = Rng::new(seed);
            (*name, Point { mode: Mode::Off, data: Document::new(), entered: 0, rng })
        });
        Self {
            armed: AtomicUsize::new(0),
            points: Mutex::new(points.collect()),
            entered: watch::Sender::new(()),
        }
    }

    /// Whether any is on.
    pub(crate) fn are_armed(&self) -> bool {
        self.armed.load(Ordering::Relaxed) > 0
    }

    /// Whether this one is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.points().get(name).is_some_and(|point| point.mode != Mode::Off)
    }

    /// `configureFailPoint`.
    pub(crate) fn configure(&self, command: &Document) -> Result<Document, Fault> {
        let mode = match command.get("mode") {
            Some(mode) => Mode::read(mode)?,
            None => {
                let message = "When setting a failpoint, you must supply a 'mode'";
                return Err(Fault::new(Code::ILLEGAL_OPERATION, message));
            }
        };
        let data = match command.get("data") {
            Some(Bson::Document(data)) => data.clone(),
            Some(_) => return Err(Fault::type_mismatch("the 'data' option must be a sub-object")),
            None => Document::new(),
        };
        let mut points = self.points();
        let point = named(&mut points, command.get_str("configureFailPoint").unwrap_or_default())?;
        (point.mode, point.data) = (mode, data);
        let count = i32::try_from(point.entered).unwrap_or(i32::MAX);
        self.count_armed(&points);
        Ok(doc! { "count": count, "ok": 1.0 })
    }

    /// All off, as after a restart.
    pub(crate) fn reset(&self) {
        let mut points = self.points();
        points.values_mut().for_each(|point| (point.mode, point.entered) = (Mode::Off, 0));
        self.count_armed(&points);
    }

    /// Whether this one does something now, and with which data. It is asked only if it is on and
    /// these data concern the case at hand.
    pub(crate) fn enter(
        &self,
        name: &str,
        concerns: impl FnOnce(&Document) -> bool,
    ) -> Option<Document> {
        if !self.are_armed() {
            return None;
        }
        let mut points = self.points();
        let point = points.get_mut(name)?;
        if point.mode == Mode::Off || !concerns(&point.data) || !point.mode.enter(&mut point.rng) {
            return None;
        }
        point.entered += 1;
        let data = point.data.clone();
        self.count_armed(&points);
        drop(points);
        self.entered.send_replace(());
        Some(data)
    }

    /// `waitForFailPoint`: until it has been entered so often.
    pub(crate) async fn wait(&self, command: &Document) -> Result<Document, Fault> {
        let name = command.get_str("waitForFailPoint").unwrap_or_default();
        let needed = |field: &str| {
            let missing =
                format!("BSON field 'waitForFailPoint.{field}' is missing but a required field");
            command.get(field).ok_or_else(|| Fault::location(40414, missing))
        };
        let times = number(needed("timesEntered")?).unwrap_or_default();
        let patience = whole(needed("maxTimeMS")?).unwrap_or_default();
        named(&mut self.points(), name)?;
        let mut entered = self.entered.subscribe();
        let enough = |_: &()| self.points().get(name).is_some_and(|it| it.entered as f64 >= times);
        let waited = entered.wait_for(enough);
        match tokio::time::timeout(Duration::from_millis(patience), waited).await {
            Ok(_) => Ok(doc! { "ok": 1.0 }),
            Err(_) => Err(Fault::new(Code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit")),
        }
    }

    /// What `getParameter` shows of it: `failpoint.failCommand`.
    pub(crate) fn shown(&self, name: &str) -> Option<Document> {
        let points = self.points();
        let Point { mode, data, entered, .. } = points.get(name)?;
        Some(doc! { "mode": mode.number(), "data": data.clone(), "timesEntered": *entered })
    }

    fn count_armed(&self, points: &BTreeMap<&'static str, Point>) {
        let armed = points.values().filter(|point| point.mode != Mode::Off).count();
        self.armed.store(armed, Ordering::Relaxed);
    }

    fn points(&self) -> MutexGuard<'_, BTreeMap<&'static str, Point>> {
        self.points.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn named<'a>(
    points: &'a mut BTreeMap<&'static str, Point>,
    name: &str,
) -> Result<&'a mut Point, Fault> {
    let unknown = Code::named(266, "FailPointSetFailed");
    points.get_mut(name).ok_or_else(|| Fault::new(unknown, format!("{name} not found")))
}

#[cfg(test)]
mod tests;
