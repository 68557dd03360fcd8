//! Server sessions: what identifies a client's writes to the servers, and the pool they rest in.
//!
//! A server session is a random id and a counter. The pair names one write, so that a server that
//! gets it twice can tell; which is why a counter only ever grows, and why a session whose fate is
//! unclear is never used again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bson::{Binary, RawDocumentBuf, Uuid, raw::cstr};

/// A session is not used any more when the server may forget it within this time.
const SAFETY_MARGIN: Duration = Duration::from_secs(60);

/// What the servers know a client by, for a while.
#[derive(Debug)]
pub struct ServerSession {
    id: Arc<RawDocumentBuf>,
    txn_number: i64,
    last_use: Instant,
    dirty: bool,
}

impl ServerSession {
    /// A session that no server has seen. `id` is random.
    pub fn new(id: Uuid, now: Instant) -> Self {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("id"), Binary::from(id));
        Self { id: Arc::new(document), txn_number: 0, last_use: now, dirty: false }
    }

    /// The `lsid` of its commands.
    pub fn id(&self) -> &Arc<RawDocumentBuf> {
        &self.id
    }

    /// The number of the next write: larger than every number that this session has used (pitfalls
    /// 4 to 6). None if there are no more, which ends the session's use for such writes.
    pub fn next_txn_number(&mut self) -> Option<i64> {
        self.txn_number = self.txn_number.checked_add(1)?;
        Some(self.txn_number)
    }

    /// Notes that a command went out under this session.
    pub fn used(&mut self, now: Instant) {
        self.last_use = now;
    }

    /// Notes that a command's fate is unknown. Nothing undoes this (pitfall 17).
    pub fn mark_dirty(&mut self) {
        self.dirty = true;
    }

    /// Whether a command's fate is unknown.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Whether the servers may have forgotten it, or will within a minute. `lifetime` is how long
    /// they remember an unused session; behind a load balancer it is not known and nothing expires.
    fn is_expiring(&self, lifetime: Option<Duration>, now: Instant) -> bool {
        lifetime.is_some_and(|lifetime| {
            now.saturating_duration_since(self.last_use).saturating_add(SAFETY_MARGIN) > lifetime
        })
    }
}

/// Sessions that are not in use: the one used last is used next, so that the others may expire.
#[derive(Debug, Default)]
pub struct SessionPool {
    /// In the order in which they came back; the newest is last.
    resting: Vec<ServerSession>,
}

impl SessionPool {
    /// A session to use: the one that came back last if the servers still know it, else a new one.
    /// Those found expiring on the way are given up: none below can be younger.
    pub fn acquire(
        &mut self,
        lifetime: Option<Duration>,
        now: Instant,
        new_id: impl FnOnce() -> Uuid,
    ) -> ServerSession {
        while let Some(session) = self.resting.pop() {
            if !session.is_expiring(lifetime, now) {
                return session;
            }
        }
        ServerSession::new(new_id(), now)
    }

    /// Takes a session back, unless it is dirty or expiring. Each session is judged by its own age
    /// (pitfall 27).
    pub fn release(&mut self, session: ServerSession, lifetime: Option<Duration>, now: Instant) {
        let alive = self.resting.iter().position(|resting| !resting.is_expiring(lifetime, now));
        self.resting.drain(..alive.unwrap_or(self.resting.len()));
        if !session.is_dirty() && !session.is_expiring(lifetime, now) {
            self.resting.push(session);
        }
    }

    /// The ids of all sessions, which are the pool's no longer: to be ended.
    pub fn drain(&mut self) -> Vec<Arc<RawDocumentBuf>> {
        self.resting.drain(..).map(|session| session.id).collect()
    }

    /// How many rest here.
    pub fn len(&self) -> usize {
        self.resting.len()
    }

    /// Whether none rest here.
    pub fn is_empty(&self) -> bool {
        self.resting.is_empty()
    }
}

#[cfg(test)]
mod tests;
