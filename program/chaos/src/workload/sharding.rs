//! The collections on a sharded cluster: their shard keys, and their chunks on both shards.

use std::error::Error;

use steadfast::{
    Collection,
    bson::{Document, doc},
};

use super::target::Target;

/// Hashes at which chunks begin, beside zero, at which the second shard's begin: each shard has several that can move.
const SPLITS: [i64; 2] = [i64::MIN / 2, i64::MAX / 2];
/// By chance, writes to so many documents go to all shards.
const ENOUGH_FOR_ALL_SHARDS: u32 = 32;

impl Target {
    /// Number of the writes that all others are to be before: on a sharded cluster, some for each shard.
    pub(super) fn last_writes(&self) -> u32 {
        if self.is_sharded { ENOUGH_FOR_ALL_SHARDS } else { 1 }
    }

    /// Shards all collections, which are empty.
    ///
    /// | collection | shard key | so that |
    /// |---|---|---|
    /// | `documents` | hash of `mark` | its writes name the shard key |
    /// | the others | hash of `_id` | writes by `_id` name it, and the deletes of bulk writes, by `mark`, do not |
    ///
    /// With the idempotent strategy all writes are by `_id`.
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
