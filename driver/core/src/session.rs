//! Server sessions and the server session pool.
//!
//! A server session has a random id (`lsid`) and a counter (`txnNumber`). Together they identify
//! one write, so that the server recognises a retry. The counter therefore only increases, and a
//! session whose last command has an unknown result is never reused.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bson::{Binary, RawDocumentBuf, Uuid, raw::cstr};

/// Safety margin before the server's expiry of a session.
const SAFETY_MARGIN: Duration = Duration::from_secs(60);

/// A server session.
#[derive(Debug)]
pub struct ServerSession {
    id: Arc<RawDocumentBuf>,
    txn_number: i64,
    last_use: Instant,
    dirty: bool,
}

impl ServerSession {
    /// Creates an unused session. `id` must be random.
    pub fn new(id: Uuid, now: Instant) -> Self {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("id"), Binary::from(id));
        Self { id: Arc::new(document), txn_number: 0, last_use: now, dirty: false }
    }

    /// Returns the `lsid` of commands.
    pub fn id(&self) -> &Arc<RawDocumentBuf> {
        &self.id
    }

    /// Increments and returns the `txnNumber`, which is higher than all numbers used before
    /// (pitfalls 4 to 6). Returns `None` after the last number: the session cannot run retryable
    /// writes or transactions any more.
    pub fn next_txn_number(&mut self) -> Option<i64> {
        self.txn_number = self.txn_number.checked_add(1)?;
        Some(self.txn_number)
    }

    /// Records the use of the session by a command.
    pub fn mark_used(&mut self, now: Instant) {
        self.last_use = now;
    }

    /// Marks the session dirty: the result of a command is unknown. It stays dirty (pitfall 17).
    pub fn mark_dirty(&mut self) {
        self.dirty = true;
    }

    /// Returns `true` if the result of a command is unknown.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Returns `true` if the server may expire the session within a minute. `lifetime` is the
    /// server's session lifetime; `None`, as behind a load balancer, means that sessions do not
    /// expire.
    fn is_expiring(&self, lifetime: Option<Duration>, now: Instant) -> bool {
        lifetime.is_some_and(|lifetime| {
            now.saturating_duration_since(self.last_use).saturating_add(SAFETY_MARGIN) > lifetime
        })
    }
}

/// Pool of unused server sessions. A stack: the others can expire.
#[derive(Debug, Default)]
pub struct SessionPool {
    /// The sessions in the order of their release; the latest is last.
    idle: Vec<ServerSession>,
}

impl SessionPool {
    /// Returns the most recently released session that does not expire soon, or a new one. Removes
    /// the expiring sessions above it.
    pub fn acquire(
        &mut self,
        lifetime: Option<Duration>,
        now: Instant,
        new_id: impl FnOnce() -> Uuid,
    ) -> ServerSession {
        while let Some(session) = self.idle.pop() {
            if !session.is_expiring(lifetime, now) {
                return session;
            }
        }
        ServerSession::new(new_id(), now)
    }

    /// Releases a session to the pool, unless it is dirty or expires soon. Every session is checked
    /// by its own last use (pitfall 27).
    pub fn release(&mut self, session: ServerSession, lifetime: Option<Duration>, now: Instant) {
        let alive = self.idle.iter().position(|idle| !idle.is_expiring(lifetime, now));
        self.idle.drain(..alive.unwrap_or(self.idle.len()));
        if !session.is_dirty() && !session.is_expiring(lifetime, now) {
            self.idle.push(session);
        }
    }

    /// Removes all sessions and returns their ids, for `endSessions`.
    pub fn drain(&mut self) -> Vec<Arc<RawDocumentBuf>> {
        self.idle.drain(..).map(|session| session.id).collect()
    }

    /// Returns the number of sessions in the pool.
    pub fn len(&self) -> usize {
        self.idle.len()
    }

    /// Returns `true` if the pool has no sessions.
    pub fn is_empty(&self) -> bool {
        self.idle.is_empty()
    }
}

#[cfg(test)]
mod tests;
