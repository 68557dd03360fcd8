//! Random updates.

use bson::{Bson, Document, doc};

use crate::{generator::Generator, pipelines::without_returns};

/// The `u` of a statement, with its array filters.
pub(crate) struct Update {
    pub(crate) update: Bson,
    pub(crate) array_filters: Vec<Document>,
}

impl Generator {
    pub(crate) fn update(&mut self) -> Update {
        let mut array_filters = Vec::new();
        let update = match self.below(12) {
            0 => self.document(2).into(),
            1 => self.update_pipeline().into(),
            2 => {
                let mut path = format!("{}.$[i]{}", self.field(), self.pick(&["", ".b", ".c"]));
                array_filters.push(self.array_filter("i"));
                if self.once_in(4) {
                    path.push_str(".$[j]");
                    array_filters.push(self.array_filter("j"));
                }
                self.operator_on(&path).into()
            }
            3 => {
                let path = format!(
                    "{}.{}{}",
                    self.field(),
                    self.pick(&["$", "$[]"]),
                    self.pick(&["", ".b"])
                );
                self.operator_on(&path).into()
            }
            _ => self.operators().into(),
        };
        Update { update, array_filters }
    }

    fn array_filter(&mut self, name: &str) -> Document {
        let field = format!("{name}.{}", self.pick(&["b", "c", "d"]));
        match self.below(7) {
            0 | 1 => doc! { name: self.predicate(0) },
            2 | 3 => doc! { field: self.predicate(1) },
            4 => doc! { name: self.value(1) },
            5 => {
                let either =
                    vec![doc! { name: self.predicate(0) }, doc! { field: self.predicate(0) }];
                doc! { *self.pick(&["$or", "$and", "$nor"]): either }
            }
            _ => doc! { name: self.predicate(0), field: self.predicate(0) },
        }
    }

    fn operators(&mut self) -> Document {
        let mut update = Document::new();
        for _ in 0..1 + self.below(2) {
            let path = self.path();
            for (operator, operand) in self.operator_on(path) {
                match update.get_document_mut(&operator) {
                    Ok(fields) => fields.extend(operand.as_document().expect("fields").clone()),
                    Err(_) => drop(update.insert(operator, operand)),
                }
            }
        }
        update
    }

    /// An operator on a path, such as `{$inc: {path: 1}}`.
    fn operator_on(&mut self, path: &str) -> Document {
        let (operator, operand): (&str, Bson) = match self.below(16) {
            0 | 1 => ("$set", self.value(2)),
            2 => ("$unset", "".into()),
            3 | 4 => ("$inc", self.number()),
            5 => ("$mul", self.number()),
            6 => ("$min", self.value(1)),
            7 => ("$max", self.value(1)),
            8 => ("$setOnInsert", self.value(1)),
            9 => ("$rename", self.path().into()),
            10 => ("$push", self.push()),
            11 => (
                "$addToSet",
                match self.once_in(2) {
                    true => self.value(1),
                    false => doc! { "$each": self.values(1) }.into(),
                },
            ),
            12 => ("$pop", self.direction().into()),
            13 => (
                "$pull",
                match self.below(3) {
                    0 => self.predicate(1).into(),
                    1 => self.value(1),
                    _ => self.number(),
                },
            ),
            14 => ("$pullAll", self.values(0).into()),
            _ => {
                let operation = *self.pick(&["and", "or", "xor"]);
                ("$bit", doc! { operation: self.small() }.into())
            }
        };
        doc! { operator: { path: operand } }
    }

    fn push(&mut self) -> Bson {
        if self.once_in(2) {
            return self.value(1);
        }
        let mut push = doc! { "$each": self.values(1) };
        if self.once_in(2) {
            push.insert("$position", self.small());
        }
        if self.once_in(2) {
            push.insert("$slice", self.small());
        }
        if self.once_in(3) {
            let sort: Bson = match self.once_in(2) {
                true => self.direction().into(),
                false => doc! { self.field(): self.direction() }.into(),
            };
            push.insert("$sort", sort);
        }
        push.into()
    }

    fn values(&mut self, depth: usize) -> Vec<Bson> {
        (0..self.below(4)).map(|_| self.value(depth)).collect()
    }

    fn update_pipeline(&mut self) -> Vec<Document> {
        let stages = (0..1 + self.below(2))
            .map(|_| match self.below(3) {
                0 => doc! { "$set": { self.path(): self.expression(2) } },
                1 => doc! { "$unset": self.field() },
                _ => doc! { "$replaceWith": { "$mergeObjects": ["$$ROOT", { self.field(): self.expression(1) }] } },
            })
            .collect();
        without_returns(stages)
    }
}
