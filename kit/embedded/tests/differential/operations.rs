//! Random commands, and the required agreement of their replies.

use bson::{Bson, Document, doc};
use testbed::Version;

use crate::{generator::Generator, updates::Update};

/// A command, and whether the order of documents in its reply is defined.
pub(crate) struct Operation {
    pub(crate) command: Document,
    pub(crate) ordered: bool,
    /// `true` if it may change stored documents.
    pub(crate) writes: bool,
}

impl Operation {
    /// Returns `true` if a pipeline may sort documents of the same `_id`.
    pub(crate) fn has_ties(&self) -> bool {
        let command = self.command.to_string();
        self.command.contains_key("aggregate")
            && (command.contains("$unwind") || command.contains("$unionWith"))
            && command.contains("$sort")
    }

    /// Returns `true` if the optimizer decides whether a failing expression is evaluated: in a
    /// field that no later stage reads, or in one of several conditions.
    pub(crate) fn may_fail_unseen(&self, version: Version) -> bool {
        let command = self.command.to_string();
        version >= Version::V8_2
            && (command.contains("$expr")
                || command.contains("$project") && command.contains("$group"))
    }

    /// Returns `true` if a pipeline selects documents by their order.
    pub(crate) fn takes_some(&self) -> bool {
        let command = self.command.to_string();
        command.contains("$skip") || command.contains("$limit")
    }
}

/// Collection without secondary indexes: of several matching documents, the first in natural order
/// is used.
pub(crate) const PLAIN: &str = "plain";

/// Collection with indexes, which a server may scan in any order.
pub(crate) const INDEXED: &str = "indexed";

/// Target of pipelines that write.
pub(crate) const OUTPUT: &str = "made";

/// Indexes of the collection [`INDEXED`].
pub(crate) fn indexes() -> Vec<Document> {
    vec![
        // No index is sparse or partial by `$exists`: with such an index a server misses documents
        // for `{$lte: null}` and `{$gt: MinKey}`.
        doc! { "key": { "a": 1 }, "name": "a_1", "unique": true,
        "partialFilterExpression": { "a": { "$gt": 0 } } },
        doc! { "key": { "b": 1, "c": -1 }, "name": "b_1_c_-1", "unique": true,
        "partialFilterExpression": { "b": { "$gt": 0 } } },
        doc! { "key": { "d.e": 1 }, "name": "d.e_1" },
    ]
}

impl Generator {
    pub(crate) fn operation(&mut self) -> Operation {
        let collection = if self.once_in(4) { INDEXED } else { PLAIN };
        let kind = self.below(21);
        // An upsert accepts no expression in its filter, and an insert has no filter. Where one
        // document is the first of all, the access path decides which others are evaluated.
        self.variables = kind >= 10 && !matches!(kind, 11 | 12) && self.once_in(6);
        let mut operation = match kind {
            0..=4 => unordered(self.insert(collection)),
            5..=9 => unordered(self.update_command(collection)),
            10 => unordered(self.delete(collection)),
            11 | 12 => unordered(self.find_and_modify(collection)),
            13..=15 => self.find(collection),
            // The index has a different key for an empty array.
            16 if self.variables => self.find(PLAIN),
            16 => Operation { writes: false, ..unordered(self.count_or_distinct(PLAIN)) },
            17 if self.once_in(2) => unordered(doc! {
                "aggregate": PLAIN,
                "pipeline": self.writing_pipeline(),
                "cursor": {},
            }),
            _ => {
                let pipeline = self.pipeline();
                let ordered = pipeline.iter().any(|stage| stage.contains_key("$sort"));
                let batch = if self.once_in(4) { self.few(3) } else { 1000 };
                let cursor = doc! { "batchSize": batch };
                let command =
                    doc! { "aggregate": collection, "pipeline": pipeline, "cursor": cursor };
                Operation { command, ordered, writes: false }
            }
        };
        if self.variables {
            operation.command.insert("let", doc! { "v": self.constant() });
        }
        operation.command.insert("$db", "differential");
        operation
    }

    /// Value of a variable.
    fn constant(&mut self) -> Bson {
        match self.once_in(2) {
            true => self.number(),
            false => doc! { "$literal": self.value(1) }.into(),
        }
    }

    fn insert(&mut self, collection: &str) -> Document {
        let documents: Vec<_> = (0..1 + self.below(3)).map(|_| self.stored()).collect();
        doc! { "insert": collection, "documents": documents, "ordered": !self.once_in(3) }
    }

    fn update_command(&mut self, collection: &str) -> Document {
        let updates: Vec<_> = (0..1 + self.below(2))
            .map(|_| {
                let Update { update, array_filters } = self.update();
                let is_replacement = update.as_document().is_some_and(|update| {
                    update.keys().next().is_none_or(|key| !key.starts_with('$'))
                });
                let multi = !is_replacement && self.once_in(3);
                let mut q = self.one_of_many(collection, multi);
                if self.once_in(6) {
                    q.insert("_id", self.id());
                    q.insert(self.path(), self.value(1));
                    q.insert("$and", vec![doc! { self.path(): { "$eq": self.value(1) } }]);
                }
                // The generated `_id` of an upsert differs, unless the filter has one.
                let upsert = self.once_in(5) && self.may_upsert(&q);
                let mut statement = doc! { "q": q, "u": update, "multi": multi, "upsert": upsert };
                if !array_filters.is_empty() {
                    statement.insert("arrayFilters", array_filters);
                }
                statement
            })
            .collect();
        doc! { "update": collection, "updates": updates, "ordered": !self.once_in(3) }
    }

    /// A filter for a statement on one document, or any filter if `many`.
    fn one_of_many(&mut self, collection: &str, many: bool) -> Document {
        match many || collection == PLAIN {
            // If one update fails, the set of updated documents depends on the order.
            true if collection == INDEXED => doc! { "_id": { "$gte": self.id() } },
            true if many => self.filter(2),
            true => self.filter_in_order(),
            false => doc! { "_id": self.id() },
        }
    }

    /// A filter whose first match in natural order is defined. Alternatives of `_id`s are looked up
    /// one after the other.
    fn filter_in_order(&mut self) -> Document {
        let filter = self.filter(2);
        let (kind, shown) = (filter.keys().next(), filter.to_string());
        match kind.is_some_and(|it| it.starts_with('$')) && shown.contains("_id") {
            true => doc! { "_id": self.id() },
            false => filter,
        }
    }

    /// Returns `true` if the inserted document of an upsert is defined. 8.2 orders the fields of a
    /// filter in its own way.
    fn may_upsert(&self, filter: &Document) -> bool {
        has_id(filter) && (self.is_before_8_2() || filter.len() == 1)
    }

    fn delete(&mut self, collection: &str) -> Document {
        let many = self.once_in(4);
        let q = if many {
            doc! { "_id": self.id() }
        } else {
            self.one_of_many(collection, many)
        };
        doc! { "delete": collection, "deletes": [{ "q": q, "limit": i32::from(!many) }] }
    }

    fn find_and_modify(&mut self, collection: &str) -> Document {
        let mut command = doc! { "findAndModify": collection };
        if self.once_in(2) || collection == INDEXED {
            command.insert("query", self.filter(2));
            command.insert("sort", self.sort());
        } else {
            command.insert("query", self.filter_in_order());
        }
        if self.once_in(6) {
            command.insert("remove", true);
        } else {
            let Update { update, array_filters } = self.update();
            command.insert("update", update);
            if !array_filters.is_empty() {
                command.insert("arrayFilters", array_filters);
            }
            command.insert("new", self.once_in(2));
            let id = command.get_document("query").is_ok_and(|query| self.may_upsert(query));
            command.insert("upsert", id && self.once_in(3));
        }
        if self.once_in(3) {
            command.insert("fields", self.projection());
        }
        command
    }

    fn find(&mut self, collection: &str) -> Operation {
        let mut command = doc! { "find": collection, "filter": self.filter(2) };
        command.insert("batchSize", if self.once_in(4) { self.few(3) } else { 1000 });
        // Indexes without a collation cannot be used by a query with one.
        if self.once_in(6) {
            command.insert("collation", doc! { "locale": "en", "strength": 2 });
        }
        let ordered = self.once_in(2);
        if ordered {
            command.insert("sort", self.sort());
            if self.once_in(3) {
                command.insert("skip", self.few(4));
            }
            if !self.variables && self.once_in(3) {
                command.insert("limit", self.few(4));
            }
        }
        if self.once_in(3) {
            let mut projection = self.projection();
            // A server may sort projected documents, whose arrays may lack an index.
            let by_index = |path: &str| path.contains(|it: char| it.is_ascii_digit());
            let sorts_by_index = command
                .get_document("sort")
                .is_ok_and(|sort| sort.keys().any(|path| by_index(path)));
            if sorts_by_index && !self.is_before_8_2() {
                return Operation { command, ordered, writes: false };
            }
            if ordered {
                projection = projection.into_iter().filter(|(path, _)| !by_index(path)).collect();
            }
            command.insert("projection", projection);
        }
        Operation { command, ordered, writes: false }
    }

    fn count_or_distinct(&mut self, collection: &str) -> Document {
        let query: Bson = self.filter(2).into();
        match self.once_in(2) {
            true => doc! { "count": collection, "query": query },
            false => doc! { "distinct": collection, "key": self.path(), "query": query },
        }
    }
}

/// Returns `true` if a filter determines the `_id` of an upsert. A filter that never matches does
/// not.
fn has_id(filter: &Document) -> bool {
    let is_value = |id: &Bson| !id.as_document().is_some_and(|it| it.contains_key("$gte"));
    filter.get("_id").is_some_and(is_value) && !filter.to_string().contains("\"$all\": []")
}

fn unordered(command: Document) -> Operation {
    Operation { command, ordered: false, writes: true }
}
