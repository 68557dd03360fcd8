//! What all connections of a proxy have in common.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use tokio::sync::watch;

use super::{
    dial::Dialer,
    event::Event,
    ledger::Ledger,
    members::Members,
    rulebook::{Circumstances, Rulebook, Verdict},
};

pub(crate) type Observer = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// The proxy's state. No lock is held across an await.
pub(crate) struct Shared {
    pub(crate) members: Members,
    pub(crate) dialer: Dialer,
    observer: Option<Observer>,
    rules: Mutex<Rulebook>,
    /// How many rules there are, so that none costs nothing.
    rule_count: AtomicUsize,
    /// Told each time that rules change: a connection that is held up may go on.
    rules_changed: watch::Sender<()>,
    ledger: Mutex<Ledger>,
    connections: AtomicU64,
}

impl Shared {
    pub(crate) fn new(members: Members, dialer: Dialer, observer: Option<Observer>) -> Self {
        Self {
            members,
            dialer,
            observer,
            rules: Mutex::default(),
            rule_count: AtomicUsize::new(0),
            rules_changed: watch::Sender::new(()),
            ledger: Mutex::default(),
            connections: AtomicU64::new(0),
        }
    }

    /// The number of the next connection, from 1.
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Works on the rules.
    pub(crate) fn with_rules<T>(&self, work: impl FnOnce(&mut Rulebook) -> T) -> T {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut rules);
        self.rule_count.store(rules.len(), Ordering::Release);
        drop(rules);
        self.rules_changed.send_replace(());
        result
    }

    /// What the rules say; quick if there are none.
    pub(crate) fn judge(&self, now: &Circumstances<'_>) -> Verdict {
        if !self.has_rules() {
            return Verdict::default();
        }
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).judge(now)
    }

    /// The rule that refuses a connection, if one does.
    pub(crate) fn refuses(&self, now: &Circumstances<'_>) -> Option<String> {
        if !self.has_rules() {
            return None;
        }
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).refuses(now)
    }

    pub(crate) fn has_rules(&self) -> bool {
        self.rule_count.load(Ordering::Acquire) > 0
    }

    /// Waits until a rule is gone.
    pub(crate) async fn until_removed(&self, id: u64) {
        let mut changes = self.rules_changed.subscribe();
        loop {
            let there = self.rules.lock().unwrap_or_else(PoisonError::into_inner).contains(id);
            // The sender lives as long as this.
            if !there || changes.changed().await.is_err() {
                return;
            }
        }
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a new ledger.
    pub(crate) fn forget(&self) {
        self.ledger().forget();
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.observer.is_some()
    }

    pub(crate) fn tell(&self, event: &Event<'_>) {
        if let Some(observer) = &self.observer {
            observer(event);
        }
    }
}
