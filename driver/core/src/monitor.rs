//! When to check a server next, and how: the timetable of one monitor.
//!
//! The monitor itself owns the connection and the clock. It asks [`MonitorSchedule::next_check`]
//! when to wake, [`begin`](MonitorSchedule::begin)s a check and says how it ended:
//!
//! ```text
//!            begin              succeeded, failed, cancelled
//! Waiting ----------> Checking ------------------------------> Waiting
//!    ^  |
//!    +--+ check_requested: sooner, but never within 500 ms of the last check's end
//! ```

use std::time::{Duration, Instant};

use crate::{
    connection_string::ServerMonitoringMode, description::TopologyVersion, hello::HelloReply,
    sdam::CheckFailureKind,
};

/// A server is never checked sooner than this after the last check, however many ask for it
/// (except once, right after a server that was known stopped answering).
pub const MIN_HEARTBEAT_FREQUENCY: Duration = Duration::from_millis(500);

/// How often a server is checked unless the application says otherwise.
pub const DEFAULT_HEARTBEAT_FREQUENCY: Duration = Duration::from_secs(10);

/// No server is left alone longer than this, and no sum of times overflows.
const MAX_HEARTBEAT_FREQUENCY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How a server is monitored.
#[derive(Clone, Copy, Debug)]
pub struct MonitorSettings {
    /// The time between checks; 500 ms at least.
    pub heartbeat_frequency: Duration,
    /// For how long connecting, or a reply, is waited for; none is without end.
    pub connect_timeout: Option<Duration>,
    /// Whether the server tells of its changes by itself, or is asked from time to time.
    pub mode: ServerMonitoringMode,
    /// Whether this process runs as a function as a service, which may be frozen between
    /// requests: then [`ServerMonitoringMode::Auto`] is to poll.
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

/// How to perform a check.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Check {
    /// Open a connection; the reply to its handshake is the outcome.
    Connect,
    /// Send hello, which is answered at once.
    Poll,
    /// Send hello with these values and `exhaustAllowed`: it is answered when something changes,
    /// or after `max_await_time`.
    Await {
        /// What the server counted last.
        topology_version: TopologyVersion,
        /// For how long it may wait.
        max_await_time: Duration,
    },
    /// Send nothing: the server promised another reply.
    ReadNext,
}

impl Check {
    /// Whether the server may wait before it replies, so that the time it takes is no round trip.
    pub fn is_awaited(&self) -> bool {
        match self {
            Self::Connect | Self::Poll => false,
            Self::Await { .. } | Self::ReadNext => true,
        }
    }
}

/// The timetable of one monitor.
#[derive(Clone, Debug)]
pub struct MonitorSchedule {
    settings: MonitorSettings,
    state: State,
    /// What is known of the connection; none if there is none.
    connection: Option<Connection>,
    /// Whether the last check succeeded.
    server_is_known: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// No check runs. The next is due at `due`, or, if asked for, from `earliest` on.
    Waiting { due: Instant, earliest: Instant },
    /// A check runs.
    Checking,
}

#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    topology_version: Option<TopologyVersion>,
    more_to_come: bool,
}

impl MonitorSchedule {
    /// The timetable of a new monitor: the first check is due at once.
    pub fn new(settings: MonitorSettings, now: Instant) -> Self {
        Self {
            settings,
            state: State::Waiting { due: now, earliest: now },
            connection: None,
            server_is_known: false,
        }
    }

    /// When the next check is due; none while one runs.
    pub fn next_check(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { due, .. } => Some(due),
            State::Checking => None,
        }
    }

    /// Someone wants to know: the next check comes as soon as it may. A check that runs already
    /// serves as well.
    pub fn check_requested(&mut self, now: Instant) {
        if let State::Waiting { due, earliest } = self.state {
            self.state = State::Waiting { due: due.min(earliest.max(now)), earliest };
        }
    }

    /// A check begins: how.
    pub fn begin(&mut self) -> Check {
        self.state = State::Checking;
        match self.connection {
            None => Check::Connect,
            Some(Connection { more_to_come: true, .. }) => Check::ReadNext,
            Some(Connection { topology_version: Some(topology_version), .. })
                if self.settings.may_stream() =>
            {
                let max_await_time = self.settings.heartbeat_frequency();
                Check::Await { topology_version, max_await_time }
            }
            Some(_) => Check::Poll,
        }
    }

    /// For how long the outcome of a check is waited for; none is without end.
    pub fn timeout(&self, check: &Check) -> Option<Duration> {
        let timeout = self.settings.connect_timeout()?;
        Some(if check.is_awaited() {
            timeout.saturating_add(self.settings.heartbeat_frequency())
        } else {
            timeout
        })
    }

    /// The check succeeded: with what reply, and whether the server promised another one.
    pub fn succeeded(&mut self, reply: &HelloReply, more_to_come: bool, now: Instant) {
        let connection = Connection { topology_version: reply.topology_version, more_to_come };
        self.connection = Some(connection);
        self.server_is_known = true;
        let goes_on = more_to_come || connection.topology_version.is_some();
        self.wait(self.settings.may_stream() && goes_on, now);
    }

    /// The check failed. The connection is to be closed.
    pub fn failed(&mut self, kind: CheckFailureKind, now: Instant) {
        // A connection may break though the server is well: it is asked once more at once.
        let retry = kind.is_network() && self.server_is_known;
        self.connection = None;
        self.server_is_known = false;
        self.wait(retry, now);
    }

    /// The check was cancelled and the connection closed: an operation found the server
    /// unreachable. Also to be called when no check was running.
    pub fn cancelled(&mut self, now: Instant) {
        self.connection = None;
        if matches!(self.state, State::Checking) {
            self.wait(false, now);
        }
    }

    /// Whether the round trip must be measured on a connection of its own, every heartbeat:
    /// whenever the server is free to wait before it replies.
    pub fn needs_round_trip_pings(&self) -> bool {
        self.settings.may_stream()
            && self.connection.is_some_and(|connection| connection.topology_version.is_some())
    }

    fn wait(&mut self, next_at_once: bool, now: Instant) {
        let earliest = now + MIN_HEARTBEAT_FREQUENCY;
        let due = if next_at_once { now } else { now + self.settings.heartbeat_frequency() };
        self.state = State::Waiting { due, earliest };
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
    fn the_first_check_is_due_at_once_and_connects() {
        let (mut schedule, now) = schedule(ServerMonitoringMode::Auto, false);
        assert_eq!(schedule.next_check(), Some(now));
        assert_eq!(schedule.begin(), Check::Connect);
        assert_eq!(schedule.next_check(), None);
    }

    #[test]
    fn a_server_without_topology_version_is_polled() {
        let (mut schedule, now) = schedule(ServerMonitoringMode::Stream, false);
        schedule.begin();
        schedule.succeeded(&reply(None), false, now + SECOND);
        assert_eq!(schedule.next_check(), Some(now + 11 * SECOND));
        assert!(!schedule.needs_round_trip_pings());
        assert_eq!(schedule.begin(), Check::Poll);
        assert_eq!(schedule.timeout(&Check::Poll), Some(20 * SECOND));
    }

    #[test]
    fn a_server_that_can_stream_is_awaited_without_a_pause() {
        let (mut schedule, now) = schedule(ServerMonitoringMode::Auto, false);
        schedule.begin();
        schedule.succeeded(&reply(Some(version())), false, now);
        assert_eq!(schedule.next_check(), Some(now));
        assert!(schedule.needs_round_trip_pings());
        let check = schedule.begin();
        let max_await_time = 10 * SECOND;
        assert_eq!(check, Check::Await { topology_version: version(), max_await_time });
        assert_eq!(schedule.timeout(&check), Some(30 * SECOND));
        schedule.succeeded(&reply(Some(version())), true, now);
        assert_eq!(schedule.begin(), Check::ReadNext);
        assert_eq!(schedule.timeout(&Check::ReadNext), Some(30 * SECOND));
        schedule.succeeded(&reply(Some(version())), false, now);
        assert!(matches!(schedule.begin(), Check::Await { .. }));
    }

    #[test]
    fn streaming_is_off_where_it_is_unwanted() {
        for (mode, on_faas) in
            [(ServerMonitoringMode::Poll, false), (ServerMonitoringMode::Auto, true)]
        {
            let (mut schedule, now) = schedule(mode, on_faas);
            schedule.begin();
            schedule.succeeded(&reply(Some(version())), false, now);
            assert_eq!(schedule.next_check(), Some(now + 10 * SECOND));
            assert_eq!(schedule.begin(), Check::Poll);
            assert!(!schedule.needs_round_trip_pings());
        }
        let (mut schedule, now) = schedule(ServerMonitoringMode::Stream, true);
        schedule.begin();
        schedule.succeeded(&reply(Some(version())), false, now);
        assert!(matches!(schedule.begin(), Check::Await { .. }));
    }

    #[test]
    fn a_known_server_is_asked_once_more_at_once_after_a_network_error() {
        let (mut schedule, now) = schedule(ServerMonitoringMode::Poll, false);
        schedule.begin();
        schedule.succeeded(&reply(None), false, now);
        schedule.begin();
        schedule.failed(CheckFailureKind::NetworkTimeout, now);
        assert_eq!(schedule.next_check(), Some(now));
        assert_eq!(schedule.begin(), Check::Connect);
        schedule.failed(CheckFailureKind::Network, now);
        assert_eq!(schedule.next_check(), Some(now + 10 * SECOND));
    }

    #[test]
    fn a_command_error_waits_for_the_next_turn() {
        let (mut schedule, now) = schedule(ServerMonitoringMode::Stream, false);
        schedule.begin();
        schedule.succeeded(&reply(Some(version())), false, now);
        schedule.begin();
        schedule.failed(CheckFailureKind::Command, now);
        assert_eq!(schedule.next_check(), Some(now + 10 * SECOND));
        assert!(!schedule.needs_round_trip_pings());
    }

    #[test]
    fn a_requested_check_keeps_the_distance_of_half_a_second() {
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
    fn a_cancelled_check_waits_its_turn_and_connects_anew() {
        let (mut schedule, now) = schedule(ServerMonitoringMode::Stream, false);
        schedule.begin();
        schedule.succeeded(&reply(Some(version())), false, now);
        schedule.begin();
        schedule.cancelled(now);
        assert_eq!(schedule.next_check(), Some(now + 10 * SECOND));
        schedule.cancelled(now + SECOND);
        assert_eq!(schedule.next_check(), Some(now + 10 * SECOND));
        assert_eq!(schedule.begin(), Check::Connect);
    }

    #[test]
    fn without_a_connect_timeout_nothing_times_out() {
        let now = Instant::now();
        for connect_timeout in [None, Some(Duration::ZERO)] {
            let settings = MonitorSettings {
                heartbeat_frequency: Duration::from_millis(1),
                connect_timeout,
                mode: ServerMonitoringMode::Poll,
                on_faas: false,
            };
            let mut schedule = MonitorSchedule::new(settings, now);
            assert_eq!(schedule.timeout(&Check::ReadNext), None);
            schedule.begin();
            schedule.succeeded(&reply(None), false, now);
            assert_eq!(schedule.next_check(), Some(now + MIN_HEARTBEAT_FREQUENCY));
        }
    }
}
