//! Documents with an end: every minute a primary deletes those whose time has passed.

use std::time::Duration;

use tokio::time::Instant;

use super::state::State;
use crate::{change::Change, store::Store, ttl};

/// How often documents that have had their time are looked for.
const SWEEP: Duration = Duration::from_secs(60);

impl State {
    /// Looks for documents from now on, if a change means that some may have an end.
    pub(super) fn note_expiry(&mut self, changes: &[Change], now: Instant) {
        if self.sweep.is_none() && changes.iter().any(brings_an_end) {
            self.sweep = Some(now + SWEEP);
        }
    }

    /// Deletes what has had its time, if it is time to. What a transaction has reserved stays for now.
    pub(super) fn sweep(&mut self, now: Instant) {
        let Some(due) = self.sweep.filter(|due| *due <= now) else { return };
        self.sweep = Some((due + SWEEP).max(now));
        let Some(primary) = self.primary() else { return };
        let member = &self.members[primary];
        let today = self.time_of_day(primary, now);
        let changes = ttl::expire(member.store(), today).unwrap_or_default();
        let free: Vec<Change> = changes
            .into_iter()
            .filter(|change| match change {
                Change::Delete { namespace, id } => !member.is_reserved(namespace, id),
                _ => false,
            })
            .collect();
        let goes_on = has_ends(member.store());
        for change in free {
            // What cannot be deleted now is looked at again.
            let _ = self.append(primary, vec![change], None, now);
        }
        self.replicate(now);
        if !goes_on {
            self.sweep = None;
        }
    }
}

fn brings_an_end(change: &Change) -> bool {
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
        | Change::Note(_) => false,
    }
}

/// Whether an index gives documents an end.
fn has_ends(store: &Store) -> bool {
    store.databases().into_iter().any(|database| {
        store.collections(database).any(|(_, collection)| {
            let mut indexes = collection.indexes().iter();
            indexes.any(|index| index.specification().contains_key("expireAfterSeconds"))
        })
    })
}
