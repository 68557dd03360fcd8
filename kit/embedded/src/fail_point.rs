//! Fail points (`configureFailPoint`), as on a server with `enableTestCommands`.

pub(crate) mod command;
mod mode;
pub(crate) mod transactional_write;

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

use self::mode::FailPointMode;
use blackpipe_base::{
    number::{number, whole},
    rng::Rng,
};

/// Fails, delays or disconnects any command.
pub(crate) const FAIL_COMMAND: &str = "failCommand";
/// Closes the connection of a retryable write after the write, or fails the write before it is
/// executed.
pub(crate) const ON_PRIMARY_TRANSACTIONAL_WRITE: &str = "onPrimaryTransactionalWrite";
/// Fails a `getMore` and closes its cursor.
pub(crate) const FAIL_GET_MORE: &str = "failGetMoreAfterCursorCheckout";
/// Lets every command with a time limit exceed it.
pub(crate) const ALWAYS_TIME_OUT: &str = "maxTimeAlwaysTimeOut";
/// Disables time limits.
pub(crate) const NEVER_TIME_OUT: &str = "maxTimeNeverTimeOut";

/// Stops replication on a secondary.
pub(crate) const STOP_REPL_PRODUCER: &str = "stopReplProducer";

const KNOWN: [&str; 6] = [
    FAIL_COMMAND,
    ON_PRIMARY_TRANSACTIONAL_WRITE,
    FAIL_GET_MORE,
    ALWAYS_TIME_OUT,
    NEVER_TIME_OUT,
    STOP_REPL_PRODUCER,
];

/// Fail points of one server.
#[derive(Debug)]
pub(crate) struct FailPoints {
    /// Number of enabled fail points, readable without a lock.
    enabled_count: AtomicUsize,
    points: Mutex<BTreeMap<&'static str, FailPoint>>,
    /// Notified when a fail point is entered.
    entered: watch::Sender<()>,
}

#[derive(Debug)]
struct FailPoint {
    mode: FailPointMode,
    data: Document,
    /// Number of times that it was entered since the server started.
    entered: i64,
    rng: Rng,
}

impl FailPoints {
    /// Fail points that are all off. `seed` is for `activationProbability`.
    pub(crate) fn new(seed: u64) -> Self {
        let points = KNOWN.iter().map(|name| {
            let rng = Rng::new(seed);
            (*name, FailPoint { mode: FailPointMode::Off, data: Document::new(), entered: 0, rng })
        });
        Self {
            enabled_count: AtomicUsize::new(0),
            points: Mutex::new(points.collect()),
            entered: watch::Sender::new(()),
        }
    }

    /// Returns `true` if any fail point is enabled.
    pub(crate) fn any_enabled(&self) -> bool {
        self.enabled_count.load(Ordering::Relaxed) > 0
    }

    /// Returns `true` if this fail point is enabled.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.points().get(name).is_some_and(|point| point.mode != FailPointMode::Off)
    }

    /// Runs `configureFailPoint`.
    pub(crate) fn configure(&self, command: &Document) -> Result<Document, Fault> {
        let mode = match command.get("mode") {
            Some(mode) => FailPointMode::read(mode)?,
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
        self.count_enabled(&points);
        Ok(doc! { "count": count, "ok": 1.0 })
    }

    /// Turns all fail points off, as a restart does.
    pub(crate) fn reset(&self) {
        let mut points = self.points();
        points.values_mut().for_each(|point| (point.mode, point.entered) = (FailPointMode::Off, 0));
        self.count_enabled(&points);
    }

    /// Enters a fail point. Returns its data if it is enabled, the data match (`concerns`), and its
    /// mode lets it act now.
    pub(crate) fn enter(
        &self,
        name: &str,
        concerns: impl FnOnce(&Document) -> bool,
    ) -> Option<Document> {
        if !self.any_enabled() {
            return None;
        }
        let mut points = self.points();
        let point = points.get_mut(name)?;
        if point.mode == FailPointMode::Off
            || !concerns(&point.data)
            || !point.mode.enter(&mut point.rng)
        {
            return None;
        }
        point.entered += 1;
        let data = point.data.clone();
        self.count_enabled(&points);
        drop(points);
        self.entered.send_replace(());
        Some(data)
    }

    /// Runs `waitForFailPoint`: waits until the fail point was entered `timesEntered` times.
    pub(crate) async fn wait(&self, command: &Document) -> Result<Document, Fault> {
        let name = command.get_str("waitForFailPoint").unwrap_or_default();
        let needed = |field: &str| {
            let missing =
                format!("BSON field 'waitForFailPoint.{field}' is missing but a required field");
            command.get(field).ok_or_else(|| Fault::location(40414, missing))
        };
        let times = number(needed("timesEntered")?).unwrap_or_default();
        let timeout = whole(needed("maxTimeMS")?).unwrap_or_default();
        named(&mut self.points(), name)?;
        let mut entered = self.entered.subscribe();
        let enough = |_: &()| self.points().get(name).is_some_and(|it| it.entered as f64 >= times);
        let waited = entered.wait_for(enough);
        match tokio::time::timeout(Duration::from_millis(timeout), waited).await {
            Ok(_) => Ok(doc! { "ok": 1.0 }),
            Err(_) => Err(Fault::new(Code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit")),
        }
    }

    /// Value of the parameter `failpoint.<name>` of `getParameter`.
    pub(crate) fn parameter_value(&self, name: &str) -> Option<Document> {
        let points = self.points();
        let FailPoint { mode, data, entered, .. } = points.get(name)?;
        Some(doc! { "mode": mode.number(), "data": data.clone(), "timesEntered": *entered })
    }

    fn count_enabled(&self, points: &BTreeMap<&'static str, FailPoint>) {
        let enabled_count =
            points.values().filter(|point| point.mode != FailPointMode::Off).count();
        self.enabled_count.store(enabled_count, Ordering::Relaxed);
    }

    fn points(&self) -> MutexGuard<'_, BTreeMap<&'static str, FailPoint>> {
        self.points.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn named<'a>(
    points: &'a mut BTreeMap<&'static str, FailPoint>,
    name: &str,
) -> Result<&'a mut FailPoint, Fault> {
    let unknown = Code::named(266, "FailPointSetFailed");
    points.get_mut(name).ok_or_else(|| Fault::new(unknown, format!("{name} not found")))
}

#[cfg(test)]
mod tests;
