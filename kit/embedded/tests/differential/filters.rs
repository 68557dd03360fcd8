//! Random filters, sorts and projections.

use bson::{Bson, Document, doc};

use crate::generator::Generator;

impl Generator {
    /// A filter. Simple filters are frequent, so that they match documents.
    pub(crate) fn filter(&mut self, depth: usize) -> Document {
        match self.below(12) {
            0 if self.variables => doc! { "$expr": self.expression(2) },
            0 => doc! {},
            1..=3 => doc! { "_id": self.id() },
            4 if depth > 0 => {
                let parts = self.filters(depth - 1);
                doc! { *self.pick(&["$and", "$or", "$nor"]): parts }
            }
            5 => {
                let mut filter = self.condition(depth);
                filter.extend(self.condition(depth));
                filter
            }
            _ => self.condition(depth),
        }
    }

    fn filters(&mut self, depth: usize) -> Vec<Document> {
        (0..1 + self.below(2)).map(|_| self.filter(depth)).collect()
    }

    fn condition(&mut self, depth: usize) -> Document {
        let path = self.path();
        match self.below(6) {
            0 => doc! { path: self.value(1) },
            1 => doc! { path: self.number() },
            _ => doc! { path: self.predicate(depth) },
        }
    }

    /// A condition on a field, such as `{$gt: 5}`.
    pub(crate) fn predicate(&mut self, depth: usize) -> Document {
        match self.below(18) {
            0..=6 => {
                let operator = *self.pick(&["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]);
                let value = if self.once_in(3) { self.value(1) } else { self.number() };
                doc! { operator: value }
            }
            7 | 8 => {
                let values: Vec<_> = (0..self.below(4)).map(|_| self.scalar()).collect();
                doc! { *self.pick(&["$in", "$nin"]): values }
            }
            9 => doc! { "$exists": self.once_in(2) },
            10 => doc! { "$size": self.few(4) },
            11 => {
                let types =
                    ["number", "string", "array", "object", "null", "double", "int", "date"];
                doc! { "$type": *self.pick(&types) }
            }
            12 => doc! { "$mod": [1 + self.few(3), self.few(2)] },
            13 => {
                doc! { "$regex": *self.pick(&["^x", "b", "C$", "."]), "$options": *self.pick(&["", "i"]) }
            }
            14 => {
                let values: Vec<_> = (0..self.below(3)).map(|_| self.scalar()).collect();
                doc! { "$all": values }
            }
            15 if depth > 0 => {
                let inner =
                    if self.once_in(2) { self.predicate(0) } else { self.condition(depth - 1) };
                doc! { "$elemMatch": inner }
            }
            16 if depth > 0 => doc! { "$not": self.predicate(depth - 1) },
            _ => {
                let operator =
                    *self.pick(&["$bitsAllSet", "$bitsAnySet", "$bitsAllClear", "$bitsAnyClear"]);
                doc! { operator: self.few(6) }
            }
        }
    }

    /// A sort without ties.
    pub(crate) fn sort(&mut self) -> Document {
        let mut sort = Document::new();
        for _ in 0..self.below(3) {
            sort.insert(self.path(), self.direction());
        }
        sort.insert("_id", self.direction());
        sort
    }

    pub(crate) fn direction(&mut self) -> i32 {
        if self.once_in(2) { 1 } else { -1 }
    }

    pub(crate) fn projection(&mut self) -> Document {
        let mut projection = Document::new();
        match self.below(6) {
            0 => {
                let path = self.path();
                let slice: Bson = match self.once_in(2) {
                    true => self.small().into(),
                    false => vec![Bson::from(self.small()), Bson::from(1 + self.few(3))].into(),
                };
                projection.insert(path, doc! { "$slice": slice });
            }
            1 => {
                projection.insert(self.field(), doc! { "$elemMatch": self.predicate(0) });
            }
            kind => {
                let shown = i32::from(kind % 2 == 0);
                for _ in 0..1 + self.below(3) {
                    projection.insert(self.path(), shown);
                }
                if self.once_in(4) {
                    projection.insert("_id", 0);
                }
            }
        }
        projection
    }
}
