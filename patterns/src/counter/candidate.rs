//! A counter with something to sweep, and its tokens in groups, each completed by one update.

use std::collections::BTreeSet;

use bson::{Bson, DateTime, oid::ObjectId};
use serde::Deserialize;

/// Largest number of tokens of one counter that one update completes.
const MAX_TOKENS_PER_UPDATE: usize = 100;

/// A counter with something to sweep, as [`documents::candidates`](super::documents::candidates) returns it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Candidate {
    #[serde(rename = "_id")]
    pub(super) id: Bson,
    /// Time of the server.
    pub(super) now: DateTime,
    /// Tokens of this crate that are due.
    dated: Vec<DatedToken>,
    /// Plain ObjectIds that are due, of applications without `until`. Each counts one.
    plain: Vec<ObjectId>,
    /// Number of pending tokens, due or not.
    pending: u64,
    /// Number of tombstones that can be removed.
    pub(super) old: u64,
}

/// A token of this crate.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct DatedToken {
    pub(super) token: ObjectId,
    pub(super) by: i64,
    pub(super) until: DateTime,
}

/// Tokens of one counter, of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tokens<'c> {
    Dated(&'c [DatedToken]),
    Plain(&'c [ObjectId]),
}

impl Candidate {
    /// Removes repeated tokens: step two removes all copies of a token and counts one.
    pub(super) fn without_repeated_tokens(mut self) -> Self {
        let (mut dated, mut plain) = (BTreeSet::new(), BTreeSet::new());
        let alone = self.left_alone();
        self.dated.retain(|token| dated.insert(token.token));
        self.plain.retain(|token| plain.insert(*token));
        let due = self.dated.len() + self.plain.len();
        self.pending = alone.saturating_add(u64::try_from(due).unwrap_or(u64::MAX));
        self
    }

    /// The tokens that are due, in groups.
    pub(super) fn groups(&self) -> impl Iterator<Item = Tokens<'_>> {
        let dated = self.dated.chunks(MAX_TOKENS_PER_UPDATE).map(Tokens::Dated);
        dated.chain(self.plain.chunks(MAX_TOKENS_PER_UPDATE).map(Tokens::Plain))
    }

    /// Number of tokens that are not due, or of an unknown form.
    pub(super) fn left_alone(&self) -> u64 {
        let due = self.dated.len() + self.plain.len();
        self.pending.saturating_sub(u64::try_from(due).unwrap_or(u64::MAX))
    }
}

impl<'c> Tokens<'c> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Dated(tokens) => tokens.len(),
            Self::Plain(tokens) => tokens.len(),
        }
    }

    /// Sum of the increments, if it fits.
    pub(super) fn sum(&self) -> Option<i64> {
        match self {
            Self::Dated(tokens) => {
                tokens.iter().try_fold(0_i64, |sum, token| sum.checked_add(token.by))
            }
            Self::Plain(tokens) => i64::try_from(tokens.len()).ok(),
        }
    }

    /// Groups of one token each.
    pub(super) fn one_by_one(self) -> impl Iterator<Item = Tokens<'c>> {
        let (dated, plain) = match self {
            Self::Dated(tokens) => (tokens, &[][..]),
            Self::Plain(tokens) => (&[][..], tokens),
        };
        dated.chunks(1).map(Tokens::Dated).chain(plain.chunks(1).map(Tokens::Plain))
    }
}
