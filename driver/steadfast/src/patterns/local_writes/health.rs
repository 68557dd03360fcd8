//! Which datacenters are up, in which order they are tried, and when those that are down are asked again.
//!
//! Pure: `now` is passed in, and what is to be done comes out. Datacenters are numbers here, the nearest
//! is 0.
//!
//! # What changes a datacenter's state
//!
//! Each time that a datacenter goes down or comes home, an *epoch* of it begins. A write or a probe bears
//! the epoch that it began in ([`Ticket`]), and what it tells counts only in that epoch:
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
//! So a hundred writes that fail together are one event, the late failures of an outage do not send home
//! again a datacenter that has just come back, and the late successes of what was under way when it went
//! down do not bring it back.
//!
//! # When it is asked again
//!
//! `every` after it went down, and then `every` after each probe that failed: there is never more than one
//! on its way to a datacenter, and as long as no server is to be found there, none is sent at all. So
//! asking a dead datacenter costs it nothing, and asking it less and less would only make the application
//! come home late.
//!
//! What does cost is a datacenter that answers probes and fails writes: each time that it comes home, the
//! next writes wait for it in vain. So the first probe after a *relapse* (down again before it was up for
//! [`LONGEST`] times `every`) comes after twice as long as the time before, up to that bound.

use std::time::{Duration, Instant};

/// How many times the usual wait the first probe comes after relapses, at most.
const LONGEST: u32 = 30;

/// The state of each datacenter.
#[derive(Debug)]
pub(super) struct Health {
    sites: Vec<Site>,
    every: Duration,
}

#[derive(Debug)]
struct Site {
    epoch: u64,
    /// When the epoch began.
    since: Instant,
    state: State,
    /// How long after it last went down it was first asked; zero before it ever did.
    wait: Duration,
}

#[derive(Debug)]
enum State {
    Up,
    Down { why: String, probe_at: Instant },
}

/// A write, or a probe, and the epoch of the datacenter that it began in.
#[derive(Clone, Copy, Debug)]
#[must_use = "what becomes of it is to be told"]
pub(super) struct Ticket {
    pub(super) site: usize,
    epoch: u64,
}

/// A datacenter went down or came home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Down {
        /// How long from now it is asked for the first time.
        probe_in: Duration,
    },
    Home {
        /// How long it was down.
        after: Duration,
    },
}

impl Health {
    /// So many datacenters, all up.
    pub(super) fn new(count: usize, every: Duration, now: Instant) -> Self {
        let site = || Site { epoch: 0, since: now, state: State::Up, wait: Duration::ZERO };
        Self { sites: std::iter::repeat_with(site).take(count).collect(), every }
    }

    /// The order in which to try: those that are up, then, as a last resort, those that are not; of both
    /// the nearest first.
    pub(super) fn order(&self) -> Vec<usize> {
        let (up, down): (Vec<_>, Vec<_>) =
            (0..self.sites.len()).partition(|&site| self.is_up(site));
        up.into_iter().chain(down).collect()
    }

    /// A write, or a probe, to a datacenter begins.
    pub(super) fn begin(&self, site: usize) -> Ticket {
        Ticket { site, epoch: self.sites[site].epoch }
    }

    /// What was begun was acknowledged in time.
    pub(super) fn succeeded(&mut self, ticket: Ticket, now: Instant) -> Option<Change> {
        let site = &mut self.sites[ticket.site];
        if site.epoch != ticket.epoch || matches!(site.state, State::Up) {
            return None;
        }
        let after = now.saturating_duration_since(site.since);
        site.enter(State::Up, now);
        Some(Change::Home { after })
    }

    /// A write failed by the datacenter's fault.
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

    /// A probe failed.
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

    /// When a datacenter is to be asked whether it is back; none if it is up.
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

    /// Since when a datacenter is in its state.
    pub(super) fn since(&self, site: usize) -> Instant {
        self.sites[site].since
    }

    /// Why a datacenter is down, by what was heard last.
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

/// So far ahead that it cannot be told, it is never: an hour stands for it.
fn later(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or(now + Duration::from_secs(3600))
}

#[cfg(test)]
mod tests;
