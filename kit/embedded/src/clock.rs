//! The time as a deployment sees it. It stands on tokio's clock, so that a test that pauses that clock
//! has this one in its hand, too.

use std::time::{Duration, SystemTime};

use bson::DateTime;
use tokio::time::Instant;

/// As good as for ever, and still something that can be added to a time.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A time that somebody wants to wait, or to be ahead: not longer than anybody can.
pub(crate) fn at_most_a_century(time: Duration) -> Duration {
    time.min(CENTURY)
}

/// A clock that began at some time of day and goes on with tokio's.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    began: Instant,
    at: SystemTime,
}

impl Clock {
    /// One that shows the time of day.
    pub(crate) fn of_day() -> Self {
        Self { began: Instant::now(), at: SystemTime::now() }
    }

    /// Tokio's time, for waiting.
    pub(crate) fn now(&self) -> Instant {
        Instant::now()
    }

    /// The time of day, ahead by so much.
    pub(crate) fn time_of_day(&self, ahead: Duration) -> DateTime {
        self.time_at(Instant::now(), ahead)
    }

    /// The time of day that it was, or will be, at a moment of tokio's; ahead by so much.
    pub(crate) fn time_at(&self, moment: Instant, ahead: Duration) -> DateTime {
        DateTime::from_system_time(self.at + moment.saturating_duration_since(self.began) + ahead)
    }
}
