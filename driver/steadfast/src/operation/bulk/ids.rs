//! `_id`s of the documents of an `insert_many`, collected while the server executes it.

use std::{collections::HashMap, ops::Range};

use bson::Bson;

use super::Statements;

/// Number of ids collected at a time, small enough not to block other tasks.
const AT_A_TIME: usize = 500;

/// `_id`s of the documents of an `insert_many`.
///
/// Usually all documents are inserted. Therefore the ids are collected while the reply is awaited,
/// which takes no time afterwards.
#[derive(Debug)]
pub(crate) struct InsertedIds<'s> {
    statements: &'s Statements<'s>,
    ids: HashMap<usize, Bson>,
}

impl<'s> InsertedIds<'s> {
    pub(crate) fn new(statements: &'s Statements<'s>) -> Self {
        Self { statements, ids: HashMap::new() }
    }

    /// Collects some more ids. Returns `false` if all are collected.
    pub(crate) fn collect_some(&mut self) -> bool {
        let (from, all) = (self.ids.len(), self.statements.inserts());
        if from == 0 {
            // Reserved at once: a growing map would exist twice.
            self.ids.reserve(all);
        }
        self.ids.extend(self.statements.inserted_ids(from..all.min(from + AT_A_TIME)));
        self.ids.len() < all
    }

    /// Returns the ids of the inserted documents, by index.
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
