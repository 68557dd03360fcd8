//! `$merge`: writes the result of a pipeline into a collection, document by document.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use steadfast_query::{
    Code, Dialect, Environment, Fault, Filter,
    pipeline::{Merge, WhenMatched, WhenNotMatched},
    update,
};

use super::{
    super::{
        change::{Change, UpdateForm},
        namespace::Namespace,
        store::Collection,
    },
    WriteContext,
    aggregate::with_running_prefix,
    collections::create_if_missing,
    write::validation::Validator,
};

/// Merges documents into a collection, one after the other.
pub(super) fn merge(
    writing: &mut WriteContext<'_>,
    options: &Merge,
    documents: Vec<Document>,
    env: &Environment,
    bypass_validation: bool,
) -> Result<(), Fault> {
    let database = options.database.as_ref().unwrap_or(&writing.call.database);
    let into = Namespace::named(database, &options.collection)?;
    let on = options.on.clone().unwrap_or_else(|| vec![String::from("_id")]);
    let validator =
        Validator::of(writing.changes.store().collection(&into), bypass_validation, writing.env)?;
    let merging = MergeStage { options, into, on, env, validator };
    merging.check_unique(writing.changes.store().collection(&merging.into))?;
    if documents.is_empty() {
        return Ok(());
    }
    merging.run(writing, documents).map_err(with_running_prefix)
}

/// A running `$merge` stage.
struct MergeStage<'a> {
    options: &'a Merge,
    into: Namespace,
    /// Fields that match documents (`on`).
    on: Vec<String>,
    /// Environment of the pipeline in `whenMatched`.
    env: &'a Environment,
    validator: Option<Validator>,
}

impl MergeStage<'_> {
    fn run(&self, writing: &mut WriteContext<'_>, documents: Vec<Document>) -> Result<(), Fault> {
        let mut prepared = Vec::with_capacity(documents.len());
        for document in documents {
            prepared.push(self.prepare(document, writing.env)?);
        }
        self.reserve(writing, &prepared)?;
        // A failed document does not prevent the writes of the others.
        let mut first = None;
        for document in prepared {
            match self.merge(writing, document) {
                Err(fault) if fault.code == Code::WRITE_CONFLICT => return Err(fault),
                Err(fault) => drop(first.get_or_insert(fault)),
                Ok(()) => {}
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Checks that a document has all `on` fields and adds a missing `_id`.
    fn prepare(&self, mut document: Document, env: &Environment) -> Result<Document, Fault> {
        for field in &self.on {
            match value_at(&document, field) {
                None if field == "_id" => {
                    document.insert("_id", env.object_id());
                }
                None | Some(Bson::Null | Bson::Undefined) if env.dialect < Dialect::V8_2 => {
                    return Err(Fault::location(
                        51132,
                        format!(
                            "$merge write error: 'on' field '{field}' cannot be missing, null, \
                             undefined or an array"
                        ),
                    ));
                }
                Some(Bson::Array(_)) => {
                    return Err(Fault::location(
                        51185,
                        format!("$merge write error: 'on' field '{field}' is an array"),
                    ));
                }
                // Since 8.2, a missing `on` field matches null.
                Some(_) | None => {}
            }
        }
        Ok(document)
    }

    /// Reserves all documents before the first write.
    fn reserve(&self, writing: &mut WriteContext<'_>, documents: &[Document]) -> Result<(), Fault> {
        let mut ids: Vec<Bson> = Vec::new();
        for document in documents {
            match self.existing(writing, document)? {
                Some(found) => ids.extend(found.get("_id").cloned()),
                None => ids.extend(document.get("_id").cloned()),
            }
        }
        let ids: Vec<&Bson> = ids.iter().collect();
        writing.changes.reserve(&self.into, &ids)
    }

    /// The current document that matches.
    fn existing(
        &self,
        writing: &WriteContext<'_>,
        document: &Document,
    ) -> Result<Option<Arc<Document>>, Fault> {
        let Some(collection) = writing.changes.store().collection(&self.into) else {
            return Ok(None);
        };
        let mut expected = Document::new();
        for field in &self.on {
            let value = value_at(document, field).cloned().unwrap_or(Bson::Null);
            expected.insert(field, doc! { "$eq": value });
        }
        let filter = Filter::parse(&expected, writing.env)?;
        for candidate in collection.candidates(&filter, writing.env) {
            if filter.matches(candidate, writing.env)? {
                return Ok(Some(Arc::clone(candidate)));
            }
        }
        Ok(None)
    }

    fn merge(&self, writing: &mut WriteContext<'_>, document: Document) -> Result<(), Fault> {
        let Some(existing) = self.existing(writing, &document)? else {
            return match self.options.when_not_matched {
                WhenNotMatched::Insert => self.insert(writing, self.options.inserted(document)),
                WhenNotMatched::Discard => Ok(()),
                WhenNotMatched::Fail => Err(Fault::new(
                    Code::named(13113, "MergeStageNoMatchingDocument"),
                    "$merge could not find a matching document in the target collection for at \
                     least one document in the source collection",
                )),
                other => Err(Fault::new(
                    Code::NOT_IMPLEMENTED,
                    format!("$merge does not know 'whenNotMatched: {other:?}'"),
                )),
            };
        };
        if let WhenMatched::Fail = self.options.when_matched {
            // The unique index reports the duplicate key.
            return self.insert(writing, document).map_err(|mut fault| {
                fault.message = format!(
                    "$merge with whenMatched: fail found an existing document with the same values \
                     for the 'on' fields :: caused by :: {}",
                    fault.message
                );
                fault
            });
        }
        match self.options.merged(&existing, &document, self.env)? {
            Some(merged) => self.replace(writing, &existing, with_id(merged, &existing)),
            None => Ok(()),
        }
    }

    fn insert(&self, writing: &mut WriteContext<'_>, document: Document) -> Result<(), Fault> {
        create_if_missing(writing.changes, &self.into, writing.env)?;
        let document = Arc::new(update::stored(document, writing.env)?);
        if let Some(validator) = &self.validator {
            validator.check(&document, None)?;
        }
        // A generated `_id` conflicts with no other document.
        writing.changes.reserve(&self.into, &[document.get("_id").unwrap_or(&Bson::Null)])?;
        writing
            .changes
            .apply_change(Change::Insert { namespace: self.into.clone(), document }, None)
    }

    fn replace(
        &self,
        writing: &mut WriteContext<'_>,
        existing: &Document,
        merged: Document,
    ) -> Result<(), Fault> {
        if update::identical_documents(&merged, existing) {
            return Ok(());
        }
        let document = update::stored(merged, writing.env)?;
        if document.get("_id") != existing.get("_id") {
            return Err(Fault::new(
                Code::IMMUTABLE_FIELD,
                "$merge failed to update the matching document, did you attempt to modify the _id or \
                 the shard key? :: caused by :: Performing an update on the path '_id' would modify \
                 the immutable field '_id'",
            ));
        }
        if let Some(validator) = &self.validator {
            validator.check(&document, Some(existing))?;
        }
        let document = Arc::new(document);
        writing.changes.reserve(&self.into, &[document.get("_id").unwrap_or(&Bson::Null)])?;
        let by = match self.options.when_matched {
            WhenMatched::Replace => UpdateForm::Replacement,
            _ => UpdateForm::Pipeline,
        };
        writing
            .changes
            .apply_change(Change::Replace { namespace: self.into.clone(), document, by }, None)
    }

    /// Checks for a unique index on the `on` fields, so that a document matches at most one.
    fn check_unique(&self, collection: Option<&Collection>) -> Result<(), Fault> {
        let on = |pattern: &Document| {
            pattern.len() == self.on.len() && self.on.iter().all(|it| pattern.contains_key(it))
        };
        let is_unique = collection.is_some_and(|collection| {
            collection.indexes().iter().any(|index| {
                let options = index.specification();
                let partial = options.contains_key("partialFilterExpression");
                let sparse = options.get_bool("sparse").unwrap_or(false);
                index.unique() && !partial && !sparse && on(index.pattern())
            })
        });
        if is_unique || self.on == ["_id"] {
            return Ok(());
        }
        Err(Fault::location(51183, "Cannot find index to verify that join fields will be unique"))
    }
}

/// Adds the `_id` of the existing document to a replacement without one.
fn with_id(document: Document, existing: &Document) -> Document {
    match (document.get("_id"), existing.get("_id")) {
        (None, Some(id)) => {
            let mut complete = doc! { "_id": id.clone() };
            complete.extend(document);
            complete
        }
        (_, _) => document,
    }
}

/// Value at a dotted path through documents, not through arrays.
fn value_at<'a>(document: &'a Document, path: &str) -> Option<&'a Bson> {
    match path.split_once('.') {
        None => document.get(path),
        Some((first, rest)) => value_at(document.get(first)?.as_document()?, rest),
    }
}
