//! State shared by all connections of a proxy.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use tokio::sync::watch;

use super::{
    dial::Dialer,
    event::ProxyEvent,
    ledger::Ledger,
    members::Members,
    rulebook::{MatchContext, RuleVerdict, Rulebook},
};

pub(crate) type Observer = Arc<dyn Fn(&ProxyEvent<'_>) + Send + Sync>;

/// State of the proxy. No lock is held across an `.await`.
pub(crate) struct ProxyState {
    pub(crate) members: Members,
    pub(crate) dialer: Dialer,
    observer: Option<Observer>,
    rules: Mutex<Rulebook>,
    /// Number of rules. Without rules, requests take no lock.
    rule_count: AtomicUsize,
    /// Notified when rules change, so that stalled messages can continue.
    rules_changed: watch::Sender<()>,
    ledger: Mutex<Ledger>,
    connections: AtomicU64,
}

impl ProxyState {
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

    /// Returns the number of the next connection, from 1.
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Runs a closure with exclusive access to the rules.
    pub(crate) fn with_rules<T>(&self, work: impl FnOnce(&mut Rulebook) -> T) -> T {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut rules);
        self.rule_count.store(rules.len(), Ordering::Release);
        drop(rules);
        self.rules_changed.send_replace(());
        result
    }

    /// Evaluates the rules. Takes no lock if there are none.
    pub(crate) fn apply_rules(&self, now: &MatchContext<'_>) -> RuleVerdict {
        if !self.has_rules() {
            return RuleVerdict::default();
        }
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).apply_rules(now)
    }

    /// Returns the name of the rule that rejects a connection.
    pub(crate) fn rejects_connection(&self, now: &MatchContext<'_>) -> Option<String> {
        if !self.has_rules() {
            return None;
        }
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).rejects_connection(now)
    }

    pub(crate) fn has_rules(&self) -> bool {
        self.rule_count.load(Ordering::Acquire) > 0
    }

    /// Waits until a rule is removed.
    pub(crate) async fn until_removed(&self, id: u64) {
        let mut changes = self.rules_changed.subscribe();
        loop {
            let there = self.rules.lock().unwrap_or_else(PoisonError::into_inner).contains(id);
            // The sender lives as long as `self`.
            if !there || changes.changed().await.is_err() {
                return;
            }
        }
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes all records from the ledger.
    pub(crate) fn clear_ledger(&self) {
        self.ledger().clear();
    }

    pub(crate) fn has_observer(&self) -> bool {
        self.observer.is_some()
    }

    pub(crate) fn emit(&self, event: &ProxyEvent<'_>) {
        if let Some(observer) = &self.observer {
            observer(event);
        }
    }
}
