//! The transaction: an update, an insert and a delete.

use std::time::Duration;

use steadfast::{ClientSession, bson::doc, error::Result};

use super::{
    events,
    plain::{Flaw, of_update, unless},
    target::{Target, UNTOUCHED, number},
};
use crate::account::Kind;

impl Target {
    /// Runs a transaction. With retryable writes, `and_run` retries it until it is committed. With the other
    /// strategies, it has one attempt, and the strategy decides about retries.
    pub(super) async fn transact(&self, operation: u64, limit: Duration) -> Result<Flaw> {
        let mut session = self.client().start_session().await?;
        let start = session.start_transaction().timeout(limit);
        if self.repeats_transactions() {
            let run = start.and_run((self, operation), |session, (target, operation)| {
                Box::pin(target.try_writes(session, *operation))
            });
            return run.await;
        }
        start.await?;
        let flaw = self.try_writes(&mut session, operation).await?;
        session.commit_transaction().await?;
        Ok(flaw)
    }

    async fn try_writes(&self, session: &mut ClientSession, operation: u64) -> Result<Flaw> {
        events::transaction_started();
        self.write_in(session, operation).await.inspect_err(events::transaction_failed)
    }

    async fn write_in(&self, session: &mut ClientSession, operation: u64) -> Result<Flaw> {
        let mark = operation * Kind::MARKS;
        let own = |mark| match self.is_idempotent() {
            true => doc! { "_id": number(mark) },
            false => doc! { "mark": number(mark), "state": UNTOUCHED },
        };
        let updated = doc! { "$set": { "state": "updated" } };
        let updated = self.documents.update_one(own(mark), updated).session(&mut *session).await?;
        let entry = doc! { "mark": number(mark + 1) };
        if self.is_idempotent() {
            let replacing = self.entries.replace_one(own(mark + 1), entry).upsert(true);
            replacing.session(&mut *session).await?;
        } else {
            self.entries.insert_one(entry).session(&mut *session).await?;
        }
        let deleted = self.documents.delete_one(own(mark + 2)).session(session).await?;
        let deleted = deleted.deleted_count;
        Ok(of_update(&updated).or_else(|| unless(deleted == 1, || format!("{deleted} deleted"))))
    }
}
