//! The `_id`s of an `insert_many`, collected while the server is at work.

use std::{collections::HashMap, ops::Range};

use bson::Bson;

use super::Statements;

/// Number of ids to collect at a time, few enough not to block other tasks.
const AT_A_TIME: usize = 500;

/// The `_id`s of documents that are being inserted.
///
/// Nearly always all are. So they are collected while the commands are under way, and nobody has to
/// wait for that afterwards.
#[derive(Debug)]
pub(crate) struct InsertedIds<'s> {
    statements: &'s Statements<'s>,
    ids: HashMap<usize, Bson>,
}

impl<'s> InsertedIds<'s> {
    pub(crate) fn new(statements: &'s Statements<'s>) -> Self {
        Self { statements, ids: HashMap::new() }
    }

    /// Collects some more. False if there are no more.
    pub(crate) fn collect_some(&mut self) -> bool {
        let (from, all) = (self.ids.len(), self.statements.inserts());
        if from == 0 {
            // Room for all at once: growing, the map would be there twice.
            self.ids.reserve(all);
        }
        self.ids.extend(self.statements.inserted_ids(from..all.min(from + AT_A_TIME)));
        self.ids.len() < all
    }

    /// Those of the documents that were inserted in the end, by their positions.
    pub(super) fn of(mut self, inserted: &[Range<usize>]) -> HashMap<usize, Bson> {
        let all = 0..self.statements.inserts();
        if matches!(inserted, [only] if *only == all) {
            while self.collect_some() {}
            return self.ids;
        }
        let inserted = inserted.iter().cloned();
        inserted.flat_map(|positions| self.statements.inserted_ids(positions)).collect()
    }
}
