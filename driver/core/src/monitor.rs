//! Schedule of a server monitor: when to check the server, and with which command.
//!
//! The monitor owns the connection and the clock. It waits until [`MonitorSchedule::next_check`],
//! [`begin`](MonitorSchedule::begin)s the check and reports its result:
//!
//! ```text
//!            begin              succeeded, failed, cancelled
//! Waiting ----------> Checking ------------------------------> Waiting
//!    ^  |
//!    +--+ check_requested: sooner, at least 500 ms after the latest check
//! ```

use std::time::{Duration, Instant};

use crate::{
    connection_string::ServerMonitoringMode, description::TopologyVersion, hello::HelloReply,
    sdam::CheckFailureKind,
};

/// Minimum time between two checks of a server (`minHeartbeatFrequencyMS`). The only exception is
/// the immediate retry after a network error of a known server.
pub const MIN_HEARTBEAT_FREQUENCY: Duration = Duration::from_millis(500);

/// Default of `heartbeatFrequencyMS`: 10 seconds.
pub const DEFAULT_HEARTBEAT_FREQUENCY: Duration = Duration::from_secs(10);

/// Maximum of `heartbeatFrequencyMS`, so that no sum of times overflows.
const MAX_HEARTBEAT_FREQUENCY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Settings of a server monitor.
#[derive(Clone, Copy, Debug)]
pub struct MonitorSettings {
    /// Time between checks (`heartbeatFrequencyMS`). Minimum 500 ms.
    pub heartbeat_frequency: Duration,
    /// Time-out for connecting and for replies (`connectTimeoutMS`). `None` or zero means no limit.
    pub connect_timeout: Option<Duration>,
    /// Streaming or polling protocol (`serverMonitoringMode`).
    pub mode: ServerMonitoringMode,
    /// `true` on a function-as-a-service platform, which can freeze the process between requests.
    /// [`ServerMonitoringMode::Auto`] polls there.
    pub on_faas: bool,
}

impl MonitorSettings {
    fn heartbeat_frequency(&self) -> Duration {
        self.heartbeat_frequency.clamp(MIN_HEARTBEAT_FREQUENCY, MAX_HEARTBEAT_FREQUENCY)
    }

    fn connect_timeout(&self) -> Option<Duration> {
        self.connect_timeout.filter(|timeout| !timeout.is_zero())
    }

    fn may_stream(&self) -> bool {
        match self.mode {
            ServerMonitoringMode::Stream => true,
            ServerMonitoringMode::Poll => false,
            ServerMonitoringMode::Auto => !self.on_faas,
        }
    }
}

/// The next check of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum MonitorCheck {
    /// Open a connection. The reply to its handshake is the result.
    Connect,
    /// Send `hello`. The server replies at once.
    Poll,
    /// Send `hello` with these fields and `exhaustAllowed`. The server replies after a state change
    /// or after `max_await_time`.
    Await {
        /// The latest version of the server's state (`topologyVersion`).
        topology_version: TopologyVersion,
        /// Maximum time until the reply (`maxAwaitTimeMS`).
        max_await_time: Duration,
    },
    /// Send nothing: read the next reply of the stream (`moreToCome`).
    ReadNext,
}

impl MonitorCheck {
    /// Returns `true` if the server may delay its reply, so that the duration is not a round trip
    /// time.
    pub fn is_awaited(&self) -> bool {
        match self {
            Self::Connect | Self::Poll => false,
            Self::Await { .. } | Self::ReadNext => true,
        }
    }
}

/// Schedule of one server monitor.
#[derive(Clone, Debug)]
pub struct MonitorSchedule {
    settings: MonitorSettings,
    state: ScheduleState,
    /// State of the connection; `None` without a connection.
    connection: Option<Connection>,
    /// `true` if the latest check succeeded.
    server_is_known: bool,
}

#[derive(Clone, Copy, Debug)]
enum ScheduleState {
    /// No check is running. The next one starts at `due`, or after a request at `earliest`.
    Waiting { due: Instant, earliest: Instant },
    /// A check is running.
    Checking,
}

#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    topology_version: Option<TopologyVersion>,
    more_to_come: bool,
}

impl MonitorSchedule {
    /// Creates the schedule of a new monitor. The first check is due at once.
    pub fn new(settings: MonitorSettings, now: Instant) -> Self {
        Self {
            settings,
            state: ScheduleState::Waiting { due: now, earliest: now },
            connection: None,
            server_is_known: false,
        }
    }

    /// Returns the time of the next check, or `None` while a check is running.
    pub fn next_check(&self) -> Option<Instant> {
        match self.state {
            ScheduleState::Waiting { due, .. } => Some(due),
            ScheduleState::Checking => None,
        }
    }

    /// Requests an immediate check. It starts as soon as `minHeartbeatFrequencyMS` allows. A
    /// running check satisfies the request.
    pub fn check_requested(&mut self, now: Instant) {
        if let ScheduleState::Waiting { due, earliest } = self.state {
            self.state = ScheduleState::Waiting { due: due.min(earliest.max(now)), earliest };
        }
    }

    /// Starts the next check and returns its kind.
    pub fn begin(&mut self) -> MonitorCheck {
        self.state = ScheduleState::Checking;
        match self.connection {
            None => MonitorCheck::Connect,
            Some(Connection { more_to_come: true, .. }) => MonitorCheck::ReadNext,
            Some(Connection { topology_version: Some(topology_version), .. })
                if self.settings.may_stream() =>
            {
                let max_await_time = self.settings.heartbeat_frequency();
                MonitorCheck::Await { topology_version, max_await_time }
            }
            Some(_) => MonitorCheck::Poll,
        }
    }

    /// Returns the time-out of a check. `None` means no limit.
    pub fn timeout(&self, check: &MonitorCheck) -> Option<Duration> {
        let timeout = self.settings.connect_timeout()?;
        Some(if check.is_awaited() {
            timeout.saturating_add(self.settings.heartbeat_frequency())
        } else {
            timeout
        })
    }

    /// Records a successful check. `more_to_come` is the flag `moreToCome` of the reply.
    pub fn succeeded(&mut self, reply: &HelloReply, more_to_come: bool, now: Instant) {
        let connection = Connection { topology_version: reply.topology_version, more_to_come };
        self.connection = Some(connection);
        self.server_is_known = true;
        let goes_on = more_to_come || connection.topology_version.is_some();
        self.wait(self.settings.may_stream() && goes_on, now);
    }

    /// Records a failed check. The monitor must close the connection.
    pub fn failed(&mut self, kind: CheckFailureKind, now: Instant) {
        // After a network error of a known server, the specification requires one immediate retry.
        let retry = kind.is_network() && self.server_is_known;
        self.connection = None;
        self.server_is_known = false;
        self.wait(retry, now);
    }

    /// Records a cancelled check after a network error of an operation. The monitor has closed the
    /// connection. May also be called when no check is running.
    pub fn cancelled(&mut self, now: Instant) {
        self.connection = None;
        if matches!(self.state, ScheduleState::Checking) {
            self.wait(false, now);
        }
    }

    /// Returns `true` if round trip times must be measured on a connection of their own, which is
    /// the case with the streaming protocol.
    pub fn needs_round_trip_pings(&self) -> bool {
        self.settings.may_stream()
            && self.connection.is_some_and(|connection| connection.topology_version.is_some())
    }

    fn wait(&mut self, next_at_once: bool, now: Instant) {
        let earliest = now + MIN_HEARTBEAT_FREQUENCY;
        let due = if next_at_once { now } else { now + self.settings.heartbeat_frequency() };
        self.state = ScheduleState::Waiting { due, earliest };
    }
}

#[cfg(test)]
mod tests {
    use bson::oid::ObjectId;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn schedule(mode: ServerMonitoringMode, on_faas: bool) -> (MonitorSchedule, Instant) {
        let settings = MonitorSettings {
            heartbeat_frequency: 10 * SECOND,
            connect_timeout: Some(20 * SECOND),
            mode,
            on_faas,
        };
        let now = Instant::now();
        (MonitorSchedule::new(settings, now), now)
    }

    fn version() -> TopologyVersion {
        TopologyVersion { process_id: ObjectId::from_bytes([1; 12]), counter: 1 }
    }

    fn reply(topology_version: Option<TopologyVersion>) -> HelloReply {
        HelloReply { ok: true, topology_version, ..HelloReply::default() }
    }

    #[test]
    fn first_check_is_due_immediately_and_connects() {
        let (mut schedule, now) = schedule(ServerMonitoringMode::Auto, false);
        assert_eq!(schedule.next_check(), Some(now));
        assert_eq!(schedule.begin(), MonitorCheck::Connect);
        assert_eq!(schedule.next_check(), None);
    }

    #[test]
    fn server_without_topology_version_is_polled() {
        let (mut schedule, now) = schedule(ServerMonitoringMode::Stream, false);
        schedule.begin();
        schedule.succeeded(&reply(None), false, now + SECOND);
        assert_eq!(schedule.next_check(), Some(now + 11 * SECOND));
        assert!(!schedule.needs_round_trip_pings());
        assert_eq!(schedule.begin(), MonitorCheck::Poll);
        assert_eq!(schedule.timeout(&MonitorCheck::Poll), Some(20 * SECOND));
    }

    #[test]
    fn streaming_checks_follow_without_a_pause() {
        let (mut schedule, now) = schedule(ServerMonitoringMode::Auto, false);
        schedule.begin();
        schedule.succeeded(&reply(Some(version())), false, now);
        assert_eq!(schedule.next_check(), Some(now));
        assert!(schedule.needs_round_trip_pings());
        let check = schedule.begin();
        let max_await_time = 10 * SECOND;
        assert_eq!(check, MonitorCheck::Await { topology_version: version(), max_await_time });
        assert_eq!(schedule.timeout(&check), Some(30 * SECOND));
        schedule.succeeded(&reply(Some(version())), true, now);
        assert_eq!(schedule.begin(), MonitorCheck::ReadNext);
        assert_eq!(schedule.timeout(&MonitorCheck::ReadNext), Some(30 * SECOND));
        schedule.succeeded(&reply(Some(version())), false, now);
        assert!(matches!(schedule.begin(), MonitorCheck::Await { .. }));
    }

    #[test]
    fn poll_mode_and_faas_disable_streaming() {
        for (mode, on_faas) in
            [(ServerMonitoringMode::Poll, false), (ServerMonitoringMode::Auto, true)]
        {
            let (mut schedule, now) = schedule(mode, on_faas);
            schedule.begin();
            schedule.succeeded(&reply(Some(version())), false, now);
            assert_eq!(schedule.next_check(), Some(now + 10 * SECOND));
            assert_eq!(schedule.begin(), MonitorCheck::Poll);
            assert!(!schedule.needs_round_trip_pings());
        }
        let (mut schedule, now) = schedule(ServerMonitoringMode::Stream, true);
        schedule.begin();
        schedule.succeeded(&reply(Some(version())), false, now);
        assert!(matches!(schedule.begin(), MonitorCheck::Await { .. }));
    }

    #[test]
    fn known_server_is_rechecked_immediately_after_a_network_error() {
        let (mut schedule, now) = schedule(ServerMonitoringMode::Poll, false);
        schedule.begin();
        schedule.succeeded(&reply(None), false, now);
        schedule.begin();
        schedule.failed(CheckFailureKind::NetworkTimeout, now);
        assert_eq!(schedule.next_check(), Some(now));
        assert_eq!(schedule.begin(), MonitorCheck::Connect);
        schedule.failed(CheckFailureKind::Network, now);
        assert_eq!(schedule.next_check(), Some(now + 10 * SECOND));
    }

    #[test]
    fn check_after_a_command_error_waits_for_heartbeat_frequency() {
        let (mut schedule, now) = schedule(ServerMonitoringMode::Stream, false);
        schedule.begin();
        schedule.succeeded(&reply(Some(version())), false, now);
        schedule.begin();
        schedule.failed(CheckFailureKind::Command, now);
        assert_eq!(schedule.next_check(), Some(now + 10 * SECOND));
        assert!(!schedule.needs_round_trip_pings());
    }

    #[test]
    fn requested_check_respects_min_heartbeat_frequency() {
        let (mut schedule, now) = schedule(ServerMonitoringMode::Poll, false);
        schedule.begin();
        schedule.check_requested(now); // ignored: a check is running
        schedule.succeeded(&reply(None), false, now);
        assert_eq!(schedule.next_check(), Some(now + 10 * SECOND));
        schedule.check_requested(now + SECOND / 10);
        assert_eq!(schedule.next_check(), Some(now + MIN_HEARTBEAT_FREQUENCY));
        schedule.check_requested(now + 5 * SECOND); // no later for being asked again
        assert_eq!(schedule.next_check(), Some(now + MIN_HEARTBEAT_FREQUENCY));

        schedule.begin();
        schedule.succeeded(&reply(None), false, now + SECOND);
        schedule.check_requested(now + 4 * SECOND);
        assert_eq!(schedule.next_check(), Some(now + 4 * SECOND));
    }

    #[test]
    fn cancelled_check_waits_for_heartbeat_frequency_and_reconnects() {
        let (mut schedule, now) = schedule(ServerMonitoringMode::Stream, false);
        schedule.begin();
        schedule.succeeded(&reply(Some(version())), false, now);
        schedule.begin();
        schedule.cancelled(now);
        assert_eq!(schedule.next_check(), Some(now + 10 * SECOND));
        schedule.cancelled(now + SECOND);
        assert_eq!(schedule.next_check(), Some(now + 10 * SECOND));
        assert_eq!(schedule.begin(), MonitorCheck::Connect);
    }

    #[test]
    fn without_connect_timeout_checks_never_time_out() {
        let now = Instant::now();
        for connect_timeout in [None, Some(Duration::ZERO)] {
            let settings = MonitorSettings {
                heartbeat_frequency: Duration::from_millis(1),
                connect_timeout,
                mode: ServerMonitoringMode::Poll,
                on_faas: false,
            };
            let mut schedule = MonitorSchedule::new(settings, now);
            assert_eq!(schedule.timeout(&MonitorCheck::ReadNext), None);
            schedule.begin();
            schedule.succeeded(&reply(None), false, now);
            assert_eq!(schedule.next_check(), Some(now + MIN_HEARTBEAT_FREQUENCY));
        }
    }
}
