//! Sessions and open transactions in the memory of a primary.

use std::time::Duration;

use tokio::time::Instant;

use super::state::{Member, State};
use crate::{
    log::SessionId,
    session::{Active, Phase},
    store::Store,
    transaction::Transaction,
};

/// Number of sessions above which expired ones are removed.
pub(super) const MANY_SESSIONS: usize = 10_000;

impl Member {
    pub(crate) fn active(&self, session: &SessionId) -> Option<Active> {
        self.sessions.get(session).copied()
    }

    pub(crate) fn set_active(&mut self, session: &SessionId, active: Active) {
        match self.sessions.get_mut(session) {
            Some(known) => *known = active,
            None => drop(self.sessions.insert(session.clone(), active)),
        }
    }

    pub(crate) fn open_transactions(&self) -> impl Iterator<Item = &Transaction> {
        self.transactions.values()
    }

    pub(crate) fn transaction(&self, session: &SessionId) -> Option<&Transaction> {
        self.transactions.get(session)
    }

    pub(crate) fn transaction_mut(&mut self, session: &SessionId) -> Option<&mut Transaction> {
        self.transactions.get_mut(session)
    }

    /// Starts a transaction. An older one of the session ends.
    pub(crate) fn begin_transaction(
        &mut self,
        session: &SessionId,
        number: i64,
        base: &Store,
        now: Instant,
    ) {
        let transaction = Transaction::new(number, base, now);
        self.transactions.insert(session.clone(), transaction);
        self.set_active(session, Active { number, phase: Phase::Open });
    }

    /// Takes a session's transaction out, so that its statement does not conflict with itself.
    pub(crate) fn take_transaction(&mut self, session: &SessionId) -> Option<Transaction> {
        self.transactions.remove(session)
    }

    pub(crate) fn put_transaction(&mut self, session: &SessionId, transaction: Transaction) {
        self.transactions.insert(session.clone(), transaction);
    }

    /// Ends a session's transaction as aborted. A prepared one continues.
    pub(crate) fn end_transaction(&mut self, session: &SessionId) -> Option<Transaction> {
        if self.transaction(session)?.is_prepared() {
            return None;
        }
        let transaction = self.transactions.remove(session)?;
        let aborted = Active { number: transaction.number(), phase: Phase::Aborted };
        self.set_active(session, aborted);
        Some(transaction)
    }
}

impl State {
    pub(crate) fn session_timeout(&self) -> Duration {
        self.session_timeout
    }

    pub(crate) fn last_use(&self, session: &SessionId) -> Option<Instant> {
        self.used.get(session).copied()
    }

    pub(crate) fn set_last_use(&mut self, session: &SessionId, now: Instant) {
        match self.used.get_mut(session) {
            Some(used) => *used = now,
            None => drop(self.used.insert(session.clone(), now)),
        }
    }

    /// Notifies waiters that a transaction may have ended.
    pub(crate) fn note_change(&mut self) {
        self.revision += 1;
    }

    /// Ends an older transaction of a session that has started something new.
    pub(crate) fn replace_transaction(&mut self, index: usize, session: &SessionId) {
        if self.members[index].end_transaction(session).is_some() {
            self.revision += 1;
        }
    }

    /// Removes expired sessions when there are many.
    pub(crate) fn forget_expired_sessions(&mut self, now: Instant) {
        if self.used.len() < self.many_sessions {
            return;
        }
        let timeout = self.session_timeout;
        let expired: Vec<SessionId> = self
            .used
            .iter()
            .filter(|(_, used)| now.saturating_duration_since(**used) > timeout)
            .map(|(session, _)| session.clone())
            .collect();
        for session in expired {
            self.forget_session(&session);
        }
        self.many_sessions = MANY_SESSIONS.max(2 * self.used.len());
    }

    /// Removes an expired session and its records.
    pub(crate) fn forget_session(&mut self, session: &SessionId) {
        self.revision += 1;
        self.used.remove(session);
        for member in &mut self.members {
            if member.transaction(session).is_some_and(Transaction::is_prepared) {
                continue;
            }
            member.transactions.remove(session);
            member.sessions.remove(session);
            member.store.forget(session);
        }
    }

    /// Runs `endSessions` for a session. Its record stays. An open transaction ends with
    /// `transactionLifetimeLimitSeconds`.
    pub(crate) fn end_session(&mut self, session: &SessionId) {
        self.used.remove(session);
    }

    /// Aborts the transaction of one session, or of all.
    pub(crate) fn kill_transactions(&mut self, index: usize, session: Option<&SessionId>) {
        let member = &mut self.members[index];
        let sessions: Vec<SessionId> = match session {
            Some(session) => vec![session.clone()],
            None => member.transactions.keys().cloned().collect(),
        };
        for session in sessions {
            member.end_transaction(&session);
        }
    }

    /// Aborts transactions that exceed `transactionLifetimeLimitSeconds`.
    pub(super) fn end_old_transactions(&mut self, now: Instant) {
        let lifetime = self.transaction_lifetime;
        for member in &mut self.members {
            let old: Vec<SessionId> = member
                .transactions
                .iter()
                .filter(|(_, open)| !open.is_prepared() && open.began() + lifetime <= now)
                .map(|(session, _)| session.clone())
                .collect();
            for session in old {
                member.end_transaction(&session);
            }
        }
    }
}
