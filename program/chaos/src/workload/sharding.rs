//! Shard keys and chunks of the collections on a sharded cluster.

use std::error::Error;

use steadfast::{
    Collection,
    bson::{Document, doc},
};

use super::target::Target;

/// Hashes at which chunks are split. With the split at zero between the shards, each shard has several chunks.
const SPLITS: [i64; 2] = [i64::MIN / 2, i64::MAX / 2];
/// Number of documents that go to all shards with near certainty.
const ENOUGH_FOR_ALL_SHARDS: u32 = 32;

impl Target {
    /// Returns the number of final majority writes before the count: on a sharded cluster, some for each shard.
    pub(super) fn last_writes(&self) -> u32 {
        if self.is_sharded { ENOUGH_FOR_ALL_SHARDS } else { 1 }
    }

    /// Shards all collections while they are empty.
    ///
    /// | collection | shard key | effect |
    /// |---|---|---|
    /// | `documents` | hashed `mark` | its writes are targeted |
    /// | the others | hashed `_id` | writes by `_id` are targeted; the deletes of bulk writes, by `mark`, are broadcast |
    ///
    /// With the idempotent strategy, all writes are by `_id`.
    pub(super) async fn shard(&self) -> Result<(), Box<dyn Error>> {
        let last = self.last();
        for collection in self.collections().into_iter().chain([&last]) {
            let by_mark = collection.name() == self.documents.name() && !self.is_idempotent();
            self.shard_by(collection, if by_mark { "mark" } else { "_id" }).await?;
        }
        Ok(())
    }

    async fn shard_by(
        &self,
        collection: &Collection<Document>,
        field: &str,
    ) -> Result<(), Box<dyn Error>> {
        let namespace = collection.namespace().to_string();
        let admin = self.client().database("admin");
        let shard = doc! { "shardCollection": &namespace, "key": { field: "hashed" } };
        admin.run_command(shard).await?;
        for split in SPLITS {
            admin.run_command(doc! { "split": &namespace, "middle": { field: split } }).await?;
        }
        Ok(())
    }
}
