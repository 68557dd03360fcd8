//! Chunks of a sharded collection: ranges of the shard key that cover the key space, and their
//! owners.

use std::cmp::Ordering;

use bson::Bson;
use steadfast_query::Fault;

use super::key::{ShardKeyValue, compare_keys};

/// A range of shard keys. `min` is inclusive, `max` exclusive.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChunkRange {
    pub(crate) min: ShardKeyValue,
    pub(crate) max: ShardKeyValue,
}

impl ChunkRange {
    /// Returns `true` if the key is in the range. The greatest key belongs to the last range.
    pub(crate) fn contains(&self, key: &[Bson]) -> bool {
        compare_keys(&self.min, key).is_le()
            && (compare_keys(key, &self.max).is_lt()
                || self.max.iter().all(|bound| *bound == Bson::MaxKey))
    }

    /// Returns `true` if it contains the whole other range.
    pub(crate) fn covers(&self, other: &ChunkRange) -> bool {
        compare_keys(&self.min, &other.min).is_le() && compare_keys(&self.max, &other.max).is_ge()
    }

    /// Returns `true` if both ranges share a key.
    pub(crate) fn overlaps(&self, other: &ChunkRange) -> bool {
        compare_keys(&self.min, &other.max).is_lt() && compare_keys(&other.min, &self.max).is_lt()
    }
}

/// A range and the shard that owns it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnedChunk {
    pub(crate) range: ChunkRange,
    pub(crate) shard: String,
}

/// All chunks of a collection, in the order of their ranges. They cover the key space without gap
/// or overlap.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chunks {
    chunks: Vec<OwnedChunk>,
}

impl Chunks {
    /// A single chunk from the least to the greatest key.
    pub(crate) fn whole(min_key: ShardKeyValue, max_key: ShardKeyValue, shard: &str) -> Self {
        let range = ChunkRange { min: min_key, max: max_key };
        Self { chunks: vec![OwnedChunk { range, shard: shard.to_owned() }] }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &OwnedChunk> {
        self.chunks.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// The chunk that contains a key.
    pub(crate) fn of(&self, key: &[Bson]) -> &OwnedChunk {
        let after = self.chunks.partition_point(|it| compare_keys(&it.range.min, key).is_le());
        &self.chunks[after.saturating_sub(1)]
    }

    /// The chunks that contain keys from `low` to `high`, both inclusive.
    pub(crate) fn between(&self, low: &[Bson], high: &[Bson]) -> impl Iterator<Item = &OwnedChunk> {
        let first = self
            .chunks
            .partition_point(|it| compare_keys(&it.range.min, low).is_le())
            .saturating_sub(1);
        let after = self.chunks.partition_point(|it| compare_keys(&it.range.min, high).is_le());
        self.chunks[first..after.max(first)].iter()
    }

    /// Splits the chunk that contains this key, so that a chunk starts with it. Does nothing at an
    /// existing bound.
    pub(crate) fn split_at(&mut self, key: &[Bson]) {
        let after = self.chunks.partition_point(|it| compare_keys(&it.range.min, key).is_le());
        let Some(place) = after.checked_sub(1) else { return };
        let chunk = &mut self.chunks[place];
        let begins = compare_keys(&chunk.range.min, key) == Ordering::Equal;
        if begins || compare_keys(key, &chunk.range.max).is_ge() {
            return;
        }
        let upper = ChunkRange { min: key.to_vec(), max: chunk.range.max.clone() };
        chunk.range.max = key.to_vec();
        let shard = chunk.shard.clone();
        self.chunks.insert(place + 1, OwnedChunk { range: upper, shard });
    }

    /// Assigns a range to a shard. Splits chunks at its bounds.
    pub(crate) fn assign(&mut self, range: &ChunkRange, shard: &str) {
        self.split_at(&range.min);
        self.split_at(&range.max);
        for chunk in &mut self.chunks {
            if range.covers(&chunk.range) {
                shard.clone_into(&mut chunk.shard);
            }
        }
    }

    /// Merges adjacent chunks of one shard that fill this range.
    pub(crate) fn merge(&mut self, range: &ChunkRange) -> Result<(), Fault> {
        let inside: Vec<usize> = (0..self.chunks.len())
            .filter(|place| range.covers(&self.chunks[*place].range))
            .collect();
        let (Some(first), Some(last)) = (inside.first(), inside.last()) else {
            return Err(Fault::bad_value("no chunk lies in this range"));
        };
        let (first, last) = (*first, *last);
        let whole = compare_keys(&self.chunks[first].range.min, &range.min).is_eq()
            && compare_keys(&self.chunks[last].range.max, &range.max).is_eq();
        let one_shard =
            self.chunks[first..=last].iter().all(|it| it.shard == self.chunks[first].shard);
        if !whole || !one_shard {
            return Err(Fault::bad_value("the range is not made of whole chunks of one shard"));
        }
        self.chunks[first].range.max.clone_from(&range.max);
        self.chunks.drain(first + 1..=last);
        Ok(())
    }
}
