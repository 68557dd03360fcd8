//! Random pipelines.

use bson::{Bson, Document, doc};

use crate::{generator::Generator, operations::OUTPUT};

impl Generator {
    /// A pipeline whose result does not depend on the order of its input.
    pub(crate) fn pipeline(&mut self) -> Vec<Document> {
        let mut stages = Vec::new();
        for _ in 0..self.below(3) {
            stages.push(self.stage());
        }
        let mut stages = without_returns(stages);
        match self.below(9) {
            0 => stages.push(self.group()),
            6 => stages.push(doc! { "$sortByCount": format!("${}", self.path()) }),
            7 => {
                let mut bucket =
                    doc! { "groupBy": self.expression(1), "boundaries": [-2, 1, 2, 2.5, 5] };
                if !self.once_in(4) {
                    bucket.insert("default", "other");
                }
                if self.once_in(2) {
                    bucket.insert("output", doc! { "n": { "$sum": self.expression(1) } });
                }
                stages.push(doc! { "$bucket": bucket });
            }
            1 => stages.push(doc! { "$count": "n" }),
            2 => {
                stages.push(doc! { "$sort": self.sort() });
                stages.push(doc! { *self.pick(&["$limit", "$skip"]): 1 + self.few(5) });
            }
            8 => stages.push(doc! { "$project": { self.path(): 1, "x": self.expression(2) } }),
            3 => stages.push(doc! { "$facet": {
                "some": [{ "$match": self.filter(1) }, { "$sort": { "_id": 1 } }],
                "number": [{ "$count": "n" }],
            } }),
            _ => {}
        }
        stages
    }

    fn stage(&mut self) -> Document {
        match self.below(11) {
            8 => match self.once_in(2) {
                true => doc! { "$unionWith": "other" },
                false => {
                    let pipeline = [doc! { "$match": self.filter(1) }, doc! { "$unset": "a" }];
                    doc! { "$unionWith": { "coll": "other", "pipeline": pipeline.to_vec() } }
                }
            },
            9 => {
                let condition = doc! { "$gte": [format!("${}", self.path()), "$$w"] };
                let pipeline = vec![
                    doc! { "$match": { "$expr": condition } },
                    doc! { "$project": { "a": 1 } },
                ];
                let mut lookup = doc! { "from": "other", "as": "found" };
                if self.once_in(3) {
                    lookup.insert("localField", self.field());
                    lookup.insert("foreignField", self.field());
                }
                lookup.insert("let", doc! { "w": self.expression(1) });
                lookup.insert("pipeline", pipeline);
                doc! { "$lookup": lookup }
            }
            10 => {
                doc! { "$replaceWith": { "$mergeObjects": [{ "_id": "$_id" }, self.expression(1)] } }
            }
            0 | 1 => doc! { "$match": self.filter(1) },
            2 => doc! { "$match": { "$expr": self.expression(2) } },
            3 => {
                doc! { "$addFields": { self.path(): self.expression(2), "f": self.expression(1) } }
            }
            4 => doc! { "$project": self.stage_projection() },
            5 => doc! { "$unset": self.path() },
            6 => {
                let path = format!("${}", self.field());
                doc! { "$unwind": { "path": path, "preserveNullAndEmptyArrays": self.once_in(2), "includeArrayIndex": "at" } }
            }
            _ => {
                doc! { "$lookup": { "from": "other", "localField": self.field(), "foreignField": self.path(), "as": "found" } }
            }
        }
    }

    /// A pipeline that writes and keeps `_id`s, because generated ones differ.
    pub(crate) fn writing_pipeline(&mut self) -> Vec<Document> {
        let mut stages = vec![doc! { "$match": self.filter(1) }];
        if self.once_in(2) {
            stages.push(doc! { "$set": { self.path(): self.expression(1) } });
        }
        // The document at which it fails depends on the order.
        stages.push(doc! { "$sort": { "_id": 1 } });
        stages.push(match self.once_in(4) {
            true => doc! { "$out": OUTPUT },
            false => {
                let matched: Bson = match self.below(5) {
                    0 => "replace".into(),
                    1 => "keepExisting".into(),
                    2 => "merge".into(),
                    3 => "fail".into(),
                    _ => {
                        let pipeline = [doc! { "$set": { "a": "$$new.b", "c": self.expression(1) } }];
                        pipeline.to_vec().into()
                    }
                };
                let not_matched = *self.pick(&["insert", "insert", "discard", "fail"]);
                doc! { "$merge": { "into": OUTPUT, "whenMatched": matched, "whenNotMatched": not_matched } }
            }
        });
        stages
    }

    fn stage_projection(&mut self) -> Document {
        match self.below(3) {
            // A path into an array leaves gaps, which the next stages of a server see, although no
            // client does.
            0 => doc! { self.field(): 1, "x": self.expression(2) },
            1 => doc! { self.path(): 0 },
            _ => doc! { self.field(): 1, "y": { "z": self.expression(1) } },
        }
    }

    fn group(&mut self) -> Document {
        let id: Bson = match self.below(3) {
            0 => Bson::Null,
            1 => format!("${}", self.path()).into(),
            _ => self.expression(1),
        };
        let accumulator = *self.pick(&["$sum", "$avg", "$min", "$max", "$stdDevPop"]);
        doc! { "$group": { "_id": id, "n": { "$sum": 1 }, "x": { accumulator: self.expression(1) } } }
    }
}

/// Omits stages that set a field which an earlier stage changed. If a field is removed and set
/// again, a server may restore its old position. The embedded deployment appends it.
pub(crate) fn without_returns(stages: Vec<Document>) -> Vec<Document> {
    let mut touched: Vec<String> = Vec::new();
    let mut kept = Vec::new();
    for stage in stages {
        let (name, argument) = stage.iter().next().expect("a stage");
        let fields: Vec<String> = match (name.as_str(), argument) {
            ("$set" | "$addFields" | "$project", Bson::Document(fields)) => {
                fields.keys().cloned().collect()
            }
            ("$unset", Bson::String(field)) => vec![field.clone()],
            ("$unwind", Bson::Document(unwind)) => {
                vec![unwind.get_str("path").expect("a path").trim_start_matches('$').to_owned()]
            }
            _ => Vec::new(),
        };
        let top = |path: &String| path.split('.').next().unwrap_or_default().to_owned();
        let fields: Vec<String> = fields.iter().map(top).collect();
        let sets = matches!(name.as_str(), "$set" | "$addFields");
        if sets && fields.iter().any(|it| touched.contains(it)) {
            continue;
        }
        touched.extend(fields);
        kept.push(stage);
    }
    kept
}
