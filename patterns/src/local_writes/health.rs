//! State of the datacenters: which are up, the order of attempts, and the times of probes.
//!
//! Pure: `now` is a parameter. Datacenters are numbers, the nearest is 0.
//!
//! # Transitions
//!
//! Each change of a datacenter between up and down begins an *epoch*. A write or a probe has the epoch that it
//! began in ([`Ticket`]), and its result counts only in that epoch:
//!
//! | the datacenter is | a write or a probe that began in this epoch | then |
//! |-------------------|---------------------------------------------|------|
//! | up                | succeeded                                   | nothing |
//! | up                | failed                                      | it is down, and gets a time for its first probe |
//! | down              | succeeded: a probe, or a write of last resort | it is up |
//! | down              | failed: a probe                             | it gets a time for the next |
//! | down              | failed: a write of last resort              | nothing but the reason |
//! | either            | anything that began in an earlier epoch     | nothing |
//!
//! So a hundred writes that fail together are one event. Late failures of an outage do not mark a datacenter
//! down that has just come back, and late successes from before the outage do not mark it up.
//!
//! # Probes
//!
//! `every` after it went down, and then `every` after each failed probe. There is at most one probe at a time,
//! and without a server none is sent, so probing a dead datacenter costs it nothing.
//!
//! A datacenter that answers probes and fails writes is costly, because each time that it is marked up, the
//! next writes wait for it. So the first probe after a *relapse* (down again before it was up for [`LONGEST`]
//! times `every`) waits twice as long as the time before, up to that bound.

use std::time::{Duration, Instant};

/// Bound of the first probe's wait after relapses, in multiples of the default wait.
const LONGEST: u32 = 30;

/// State of each datacenter.
#[derive(Debug)]
pub(super) struct Health {
    sites: Vec<Site>,
    every: Duration,
}

#[derive(Debug)]
struct Site {
    epoch: u64,
    /// Start of the epoch.
    since: Instant,
    state: State,
    /// Wait before the first probe after it last went down; zero if it never did.
    wait: Duration,
}

#[derive(Debug)]
enum State {
    Up,
    Down { why: String, probe_at: Instant },
}

/// A write or a probe, with the epoch of its datacenter in which it began.
#[derive(Clone, Copy, Debug)]
#[must_use = "its result has to be recorded"]
pub(super) struct Ticket {
    pub(super) site: usize,
    epoch: u64,
}

/// Change of a datacenter's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
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
    /// `count` datacenters, all up.
    pub(super) fn new(count: usize, every: Duration, now: Instant) -> Self {
        let site = || Site { epoch: 0, since: now, state: State::Up, wait: Duration::ZERO };
        Self { sites: std::iter::repeat_with(site).take(count).collect(), every }
    }

    /// Returns the order of attempts: those that are up, then those that are down, the nearest first.
    pub(super) fn order(&self) -> Vec<usize> {
        let (up, down): (Vec<_>, Vec<_>) =
            (0..self.sites.len()).partition(|&site| self.is_up(site));
        up.into_iter().chain(down).collect()
    }

    /// Begins a write or a probe.
    pub(super) fn begin(&self, site: usize) -> Ticket {
        Ticket { site, epoch: self.sites[site].epoch }
    }

    /// Records a success within the time limit.
    pub(super) fn succeeded(&mut self, ticket: Ticket, now: Instant) -> Option<Change> {
        let site = &mut self.sites[ticket.site];
        if site.epoch != ticket.epoch || matches!(site.state, State::Up) {
            return None;
        }
        let after = now.saturating_duration_since(site.since);
        site.enter(State::Up, now);
        Some(Change::Up { after })
    }

    /// Records a write that failed because of the datacenter.
    pub(super) fn failed(
        &mut self,
        ticket: Ticket,
        reason: impl FnOnce() -> String,
        now: Instant,
    ) -> Option<Change> {
        let every = self.every;
        let site = &mut self.sites[ticket.site];
        if site.epoch != ticket.epoch {
            return None;
        }
        if let State::Down { why, .. } = &mut site.state {
            *why = reason();
            return None;
        }
        let was_up = now.saturating_duration_since(site.since);
        let longest = every.saturating_mul(LONGEST);
        let relapsed = !site.wait.is_zero() && was_up < longest;
        site.wait = if relapsed { site.wait.saturating_mul(2).min(longest) } else { every };
        let probe_in = site.wait;
        site.enter(State::Down { why: reason(), probe_at: later(now, probe_in) }, now);
        Some(Change::Down { probe_in })
    }

    /// Records a failed probe.
    pub(super) fn probe_failed(
        &mut self,
        ticket: Ticket,
        reason: impl FnOnce() -> String,
        now: Instant,
    ) {
        let every = self.every;
        let site = &mut self.sites[ticket.site];
        match &mut site.state {
            State::Down { why, probe_at } if site.epoch == ticket.epoch => {
                *why = reason();
                *probe_at = later(now, every);
            }
            State::Down { .. } | State::Up => {}
        }
    }

    /// Returns the time of the next probe; `None` if the datacenter is up.
    pub(super) fn probe_at(&self, site: usize) -> Option<Instant> {
        match self.sites[site].state {
            State::Up => None,
            State::Down { probe_at, .. } => Some(probe_at),
        }
    }

    pub(super) fn is_up(&self, site: usize) -> bool {
        matches!(self.sites[site].state, State::Up)
    }

    pub(super) fn all_up(&self) -> bool {
        (0..self.sites.len()).all(|site| self.is_up(site))
    }

    /// Returns the start of its state.
    pub(super) fn since(&self, site: usize) -> Instant {
        self.sites[site].since
    }

    /// Returns the last error of a datacenter that is down.
    pub(super) fn why(&self, site: usize) -> Option<&str> {
        match &self.sites[site].state {
            State::Up => None,
            State::Down { why, .. } => Some(why),
        }
    }
}

impl Site {
    fn enter(&mut self, state: State, now: Instant) {
        self.state = state;
        self.epoch += 1;
        self.since = now;
    }
}

/// Adds; an hour stands for a time that cannot be represented.
fn later(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or(now + Duration::from_secs(3600))
}

#[cfg(test)]
mod tests;
