//! Clock of a deployment. It follows tokio's clock, so a test that pauses tokio's time pauses it,
//! too.

use std::time::{Duration, SystemTime};

use bson::DateTime;
use tokio::time::Instant;

/// Longest duration that tests can set. Adding it to an instant does not overflow.
const MAX_DURATION: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Limits a duration to a century.
pub(crate) fn clamp_duration(time: Duration) -> Duration {
    time.min(MAX_DURATION)
}

/// Wall clock that started at a system time and advances with tokio's clock.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    began: Instant,
    at: SystemTime,
}

impl Clock {
    /// A clock that starts at the current system time.
    pub(crate) fn system() -> Self {
        Self { began: Instant::now(), at: SystemTime::now() }
    }

    /// Current instant of tokio's clock, for time-outs.
    pub(crate) fn now(&self) -> Instant {
        Instant::now()
    }

    /// Wall time plus a clock skew.
    pub(crate) fn wall_time(&self, ahead: Duration) -> DateTime {
        self.wall_time_at(Instant::now(), ahead)
    }

    /// Wall time at an instant of tokio's clock, plus a clock skew.
    pub(crate) fn wall_time_at(&self, moment: Instant, ahead: Duration) -> DateTime {
        DateTime::from_system_time(self.at + moment.saturating_duration_since(self.began) + ahead)
    }
}
