//! State of the datacenters: which are up, the order of attempts, and the times of probes.
//!
//! Pure: `now` is a parameter. Datacenters are numbers, the nearest is 0.
//!
//! # Transitions
//!
//! Each change of a datacenter between up and down begins an *epoch*. A write or a probe has the epoch that it
//! began in ([`EpochTicket`]), and its result counts only in that epoch:
//!
//! | the datacenter is | a write or a probe that began in this epoch | then |
//! |-------------------|---------------------------------------------|------|
//! | up                | succeeded                                   | nothing |
//! | up                | failed                                      | it is down, and gets a time for its first probe |
//! | down              | succeeded: a probe, or a write of last resort | it is up |
//! | down              | failed: a probe                             | it gets a time for the next |
//! | down              | failed: a write of last resort              | only its last error changes |
//! | either            | anything that began in an earlier epoch     | nothing |
//!
//! So a hundred writes that fail together are one event. Late failures of an outage do not mark a datacenter
//! down that has just come back, and late successes from before the outage do not mark it up.
//!
//! # Probes
//!
//! The first probe begins `every` after the datacenter went down, each further one `every` after a failed probe.
//! There is at most one probe at a time. If no server can be selected, none is sent.
//!
//! A datacenter that acknowledges probes and fails writes is costly: each time that it is marked up, the next
//! writes wait for it. So the first probe after a *relapse* (down again before it was up for [`MAX_WAIT_FACTOR`]
//! times `every`) waits twice as long as the time before, up to that bound.

use std::time::{Duration, Instant};

/// Bound of the first probe's wait after relapses, in multiples of the default wait.
const MAX_WAIT_FACTOR: u32 = 30;

/// State of each datacenter.
#[derive(Debug)]
pub(super) struct Health {
    datacenters: Vec<DatacenterHealth>,
    every: Duration,
}

#[derive(Debug)]
struct DatacenterHealth {
    epoch: u64,
    /// Start of the epoch.
    since: Instant,
    state: HealthState,
    /// Wait before the first probe after it last went down; zero if it never did.
    wait: Duration,
}

#[derive(Debug)]
enum HealthState {
    Up,
    Down { last_error: String, probe_at: Instant },
}

/// A write or a probe, with the epoch of its datacenter in which it began.
#[derive(Clone, Copy, Debug)]
#[must_use = "its result has to be recorded"]
pub(super) struct EpochTicket {
    pub(super) datacenter: usize,
    epoch: u64,
}

/// Change of a datacenter's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HealthChange {
    Down {
        /// Time until the first probe.
        probe_in: Duration,
    },
    Up {
        /// Time that it was down.
        after: Duration,
    },
}

impl Health {
    /// Creates the state of `count` datacenters, all up.
    pub(super) fn new(count: usize, every: Duration, now: Instant) -> Self {
        let datacenter = || DatacenterHealth {
            epoch: 0,
            since: now,
            state: HealthState::Up,
            wait: Duration::ZERO,
        };
        Self { datacenters: std::iter::repeat_with(datacenter).take(count).collect(), every }
    }

    /// Returns the order of attempts: those that are up, then those that are down, the nearest first.
    pub(super) fn order(&self) -> Vec<usize> {
        let (up, down): (Vec<_>, Vec<_>) =
            (0..self.datacenters.len()).partition(|&datacenter| self.is_up(datacenter));
        up.into_iter().chain(down).collect()
    }

    /// Begins a write or a probe.
    pub(super) fn begin(&self, datacenter: usize) -> EpochTicket {
        EpochTicket { datacenter, epoch: self.datacenters[datacenter].epoch }
    }

    /// Records a success within the time limit.
    pub(super) fn succeeded(&mut self, ticket: EpochTicket, now: Instant) -> Option<HealthChange> {
        let datacenter = &mut self.datacenters[ticket.datacenter];
        if datacenter.epoch != ticket.epoch || matches!(datacenter.state, HealthState::Up) {
            return None;
        }
        let after = now.saturating_duration_since(datacenter.since);
        datacenter.enter(HealthState::Up, now);
        Some(HealthChange::Up { after })
    }

    /// Records a write that failed because of the datacenter.
    pub(super) fn failed(
        &mut self,
        ticket: EpochTicket,
        reason: impl FnOnce() -> String,
        now: Instant,
    ) -> Option<HealthChange> {
        let every = self.every;
        let datacenter = &mut self.datacenters[ticket.datacenter];
        if datacenter.epoch != ticket.epoch {
            return None;
        }
        if let HealthState::Down { last_error, .. } = &mut datacenter.state {
            *last_error = reason();
            return None;
        }
        let was_up = now.saturating_duration_since(datacenter.since);
        let longest = every.saturating_mul(MAX_WAIT_FACTOR);
        let relapsed = !datacenter.wait.is_zero() && was_up < longest;
        datacenter.wait =
            if relapsed { datacenter.wait.saturating_mul(2).min(longest) } else { every };
        let probe_in = datacenter.wait;
        datacenter
            .enter(HealthState::Down { last_error: reason(), probe_at: later(now, probe_in) }, now);
        Some(HealthChange::Down { probe_in })
    }

    /// Records a failed probe.
    pub(super) fn probe_failed(
        &mut self,
        ticket: EpochTicket,
        reason: impl FnOnce() -> String,
        now: Instant,
    ) {
        let every = self.every;
        let datacenter = &mut self.datacenters[ticket.datacenter];
        match &mut datacenter.state {
            HealthState::Down { last_error, probe_at } if datacenter.epoch == ticket.epoch => {
                *last_error = reason();
                *probe_at = later(now, every);
            }
            HealthState::Down { .. } | HealthState::Up => {}
        }
    }

    /// Returns the time of the next probe; `None` if the datacenter is up.
    pub(super) fn probe_at(&self, datacenter: usize) -> Option<Instant> {
        match self.datacenters[datacenter].state {
            HealthState::Up => None,
            HealthState::Down { probe_at, .. } => Some(probe_at),
        }
    }

    pub(super) fn is_up(&self, datacenter: usize) -> bool {
        matches!(self.datacenters[datacenter].state, HealthState::Up)
    }

    pub(super) fn all_up(&self) -> bool {
        (0..self.datacenters.len()).all(|datacenter| self.is_up(datacenter))
    }

    /// Returns the start of its state.
    pub(super) fn since(&self, datacenter: usize) -> Instant {
        self.datacenters[datacenter].since
    }

    /// Returns the last error of a datacenter that is down.
    pub(super) fn last_error(&self, datacenter: usize) -> Option<&str> {
        match &self.datacenters[datacenter].state {
            HealthState::Up => None,
            HealthState::Down { last_error, .. } => Some(last_error),
        }
    }
}

impl DatacenterHealth {
    fn enter(&mut self, state: HealthState, now: Instant) {
        self.state = state;
        self.epoch += 1;
        self.since = now;
    }
}

/// Adds `wait`, or an hour if the sum cannot be represented.
fn later(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or(now + Duration::from_secs(3600))
}

#[cfg(test)]
mod tests;
