//! Indexes of a bucket, created before its first upload.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use steadfast_core::{concern::WriteConcern, read_preference::ReadPreference};
use tokio::sync::OnceCell;

use super::GridFsBucket;
use crate::{
    Collection, Cursor, IndexModel, error::Result, event::lock, options::IndexOptions,
    serde_helpers::number,
};

/// State of the indexes. The first upload checks them, and concurrent ones wait.
pub(super) type IndexState = Arc<OnceCell<()>>;

impl GridFsBucket {
    /// Creates the indexes at the first upload if the bucket is empty.
    pub(super) async fn ensure_indexes(&self) -> Result<()> {
        let known = Arc::clone(&lock(&self.inner.indexes));
        known.get_or_try_init(|| self.create_indexes()).await?;
        Ok(())
    }

    /// Resets the state after the collections are dropped with their indexes.
    pub(crate) fn reset_indexes(&self) {
        *lock(&self.inner.indexes) = IndexState::default();
    }

    async fn create_indexes(&self) -> Result<()> {
        let files = self.files_with_timeout()?.clone_with_type::<Document>();
        // The specification: read from the primary, with a query rather than a count.
        let any = files
            .find_one(doc! {})
            .projection(doc! { "_id": 1 })
            .selection_criteria(ReadPreference::Primary.into())
            .await?;
        if any.is_some() {
            return Ok(());
        }
        let files = || Ok(self.files_with_timeout()?.clone_with_type());
        self.create_index_if_missing(&files, doc! { "filename": 1, "uploadDate": 1 }, false)
            .await?;
        let chunks = || self.chunks_with_timeout();
        self.create_index_if_missing(&chunks, doc! { "files_id": 1, "n": 1 }, true).await
    }

    /// Creates an index unless it exists: the user may not have the privilege to create indexes.
    async fn create_index_if_missing(
        &self,
        collection: &(dyn Fn() -> Result<Collection<Document>> + Sync),
        keys: Document,
        unique: bool,
    ) -> Result<()> {
        match collection()?.list_indexes().await {
            Ok(listed) => {
                if contains(listed, &keys, unique).await? {
                    return Ok(());
                }
            }
            Err(error) if error.is_namespace_not_found() => {}
            Err(error) => return Err(error),
        }
        let options = unique.then(|| IndexOptions::builder().unique(true).build());
        let index = IndexModel::builder().keys(keys).options(options).build();
        let collection = collection()?;
        let mut action = collection.create_index(index);
        if !self.is_acknowledged() {
            // A failure must be reported.
            action = action.write_concern(WriteConcern::nodes(1));
        }
        action.await.map(drop)
    }
}

async fn contains(mut listed: Cursor<IndexModel>, keys: &Document, unique: bool) -> Result<bool> {
    while listed.advance().await? {
        if satisfies(&listed.deserialize_current()?, keys, unique) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns `true` if an index has these keys in this order, and is unique if required.
fn satisfies(index: &IndexModel, keys: &Document, unique: bool) -> bool {
    let is_unique = index.options.as_ref().and_then(|options| options.unique) == Some(true);
    let mut pairs = index.keys.iter().zip(keys);
    index.keys.len() == keys.len()
        && pairs.all(|((found, way), (key, wanted))| found == key && same_number(way, wanted))
        && (is_unique || !unique)
}

/// The specification: compare by value, because the numeric type differs between drivers.
fn same_number(a: &Bson, b: &Bson) -> bool {
    number::whole(a).is_some_and(|number| number::whole(b) == Some(number))
}

#[cfg(test)]
mod tests {
    use bson::bson;

    use super::*;

    fn index(keys: Document, unique: bool) -> IndexModel {
        let options = IndexOptions::builder().unique(unique).build();
        IndexModel::builder().keys(keys).options(options).build()
    }

    #[test]
    fn index_keys_compare_by_numeric_value() {
        let keys = doc! { "files_id": 1, "n": 1 };
        for one in [bson!(1), bson!(1_i64), bson!(1.0)] {
            for other in [bson!(1), bson!(1_i64), bson!(1.0)] {
                let found = index(doc! { "files_id": one.clone(), "n": other }, true);
                assert!(satisfies(&found, &keys, true), "{found:?}");
            }
        }
        for wrong in [
            doc! { "n": 1, "files_id": 1 },
            doc! { "files_id": 1 },
            doc! { "files_id": 1, "n": 1, "x": 1 },
            doc! { "files_id": 1, "n": -1 },
            doc! { "files_id": "hashed", "n": 1 },
        ] {
            assert!(!satisfies(&index(wrong.clone(), true), &keys, true), "{wrong}");
        }
        assert!(!satisfies(&index(keys.clone(), false), &keys, true));
        assert!(satisfies(&index(keys.clone(), true), &keys, false));
    }
}
