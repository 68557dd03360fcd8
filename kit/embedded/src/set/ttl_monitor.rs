//! TTL monitor: every minute a primary deletes expired documents.

use std::time::Duration;

use tokio::time::Instant;

use super::state::State;
use crate::{change::Change, store::Store, ttl};

/// Interval of TTL passes (`ttlMonitorSleepSecs`).
const TTL_INTERVAL: Duration = Duration::from_secs(60);

impl State {
    /// Schedules a TTL pass after changes that involve a TTL index.
    pub(super) fn schedule_ttl_pass(&mut self, changes: &[Change], now: Instant) {
        if self.next_ttl_pass.is_none() && changes.iter().any(needs_ttl_pass) {
            self.next_ttl_pass = Some(now + TTL_INTERVAL);
        }
    }

    /// Runs a due TTL pass. Documents that a transaction has reserved stay until the next one.
    pub(super) fn run_ttl_pass(&mut self, now: Instant) {
        let Some(due) = self.next_ttl_pass.filter(|due| *due <= now) else { return };
        self.next_ttl_pass = Some((due + TTL_INTERVAL).max(now));
        let Some(primary) = self.primary() else { return };
        let member = &self.members[primary];
        let today = self.wall_time(primary, now);
        let changes = ttl::expire(member.store(), today).unwrap_or_default();
        let free: Vec<Change> = changes
            .into_iter()
            .filter(|change| match change {
                Change::Delete { namespace, id } => !member.is_reserved(namespace, id),
                _ => false,
            })
            .collect();
        let goes_on = has_ttl_index(member.store());
        for change in free {
            // The next pass retries documents that cannot be deleted now.
            let _ = self.append(primary, vec![change], None, now);
        }
        self.replicate(now);
        if !goes_on {
            self.next_ttl_pass = None;
        }
    }
}

fn needs_ttl_pass(change: &Change) -> bool {
    match change {
        Change::CreateIndex { specification, .. } | Change::ModifyIndex { specification, .. } => {
            specification.contains_key("expireAfterSeconds")
        }
        Change::Insert { .. }
        | Change::Replace { .. }
        | Change::Delete { .. }
        | Change::CreateCollection { .. }
        | Change::ModifyCollection { .. }
        | Change::DropCollection { .. }
        | Change::RenameCollection { .. }
        | Change::DropIndex { .. }
        | Change::DropDatabase { .. }
        | Change::Noop(_) => false,
    }
}

/// Returns `true` if a collection has a TTL index.
fn has_ttl_index(store: &Store) -> bool {
    store.databases().into_iter().any(|database| {
        store.collections(database).any(|(_, collection)| {
            let mut indexes = collection.indexes().iter();
            indexes.any(|index| index.specification().contains_key("expireAfterSeconds"))
        })
    })
}
