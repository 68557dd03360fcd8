//! Indexes: their definitions, and the keys that documents have in them.

mod conflict;
mod hash;
mod key;
mod options;
mod partial;
mod pattern;

use std::sync::Arc;

use bson::{Bson, Document, doc};

use crate::{Collation, Environment, Fault, Filter, path::Path, text};

use self::{key::Order, pattern::Direction};

pub use hash::hashed;
pub use key::Key;
pub use pattern::default_name;

/// The definition of an index, checked.
///
/// Indexes of numbers (`1`, `-1`) and hashed ones are known. Those for texts, places and wildcards are
/// refused as a server refuses a kind that it does not have.
#[derive(Clone, Debug)]
pub struct Index {
    name: String,
    pattern: Document,
    paths: Vec<Path>,
    hashed: Option<usize>,
    unique: bool,
    sparse: bool,
    hidden: bool,
    partial: Option<Partial>,
    expire_after_seconds: Option<i32>,
    collation: Option<Document>,
    order: Arc<Order>,
    description: Document,
}

/// The documents that a partial index has.
#[derive(Clone, Debug)]
struct Partial {
    expression: Document,
    filter: Filter,
}

impl Index {
    /// The index that every collection has on `_id`.
    pub fn of_id() -> Self {
        let pattern = doc! { "_id": 1 };
        Self {
            name: "_id_".to_owned(),
            paths: vec![Path::new("_id")],
            hashed: None,
            // It is, though its description does not say so.
            unique: true,
            sparse: false,
            hidden: false,
            partial: None,
            expire_after_seconds: None,
            collation: None,
            order: Arc::new(Order::new(vec![Direction::Ascending], Collation::simple())),
            description: doc! { "v": 2, "key": pattern.clone(), "name": "_id_" },
            pattern,
        }
    }

    /// The same in a collection whose strings compare in another way.
    pub fn of_id_with(collation: &Document) -> Result<Self, Fault> {
        let collation = Collation::parse(collation)?;
        let mut index = Self::of_id();
        if let Some(described) = collation.to_document() {
            index.description.insert("collation", described.clone());
            index.collation = Some(described);
            index.order = Arc::new(Order::new(vec![Direction::Ascending], collation));
        }
        Ok(index)
    }

    /// Reads one of the `indexes` of a `createIndexes`. Options that are not known are refused.
    ///
    /// One on `{_id: 1}` is [`Index::of_id`], however it is named.
    pub fn parse(specification: &Document, env: &Environment) -> Result<Self, Fault> {
        options::parse(specification, env)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is on: `{a: 1, "b.c": -1}`.
    pub fn key_pattern(&self) -> &Document {
        &self.pattern
    }

    /// Whether no two documents may have the same key.
    pub fn is_unique(&self) -> bool {
        self.unique
    }

    /// Whether documents that have none of the fields are not in it.
    pub fn is_sparse(&self) -> bool {
        self.sparse
    }

    /// Whether queries do not use it.
    pub fn is_hidden(&self) -> bool {
        self.hidden
    }

    /// Whether it is the one on `_id`.
    pub fn is_of_id(&self) -> bool {
        self.name == "_id_"
    }

    /// Which of the documents it has, if it is partial.
    pub fn partial_filter(&self) -> Option<&Filter> {
        self.partial.as_ref().map(|it| &it.filter)
    }

    /// After how many seconds documents expire.
    pub fn expire_after_seconds(&self) -> Option<i32> {
        self.expire_after_seconds
    }

    /// How its strings compare.
    pub fn collation(&self) -> &Collation {
        &self.order.collation
    }

    /// What `listIndexes` says of it.
    pub fn description(&self) -> Document {
        self.description.clone()
    }

    /// The keys that a document has in it: several if an array lies on a path, none if it is left out.
    pub fn keys(&self, document: &Document, env: &Environment) -> Result<Vec<Key>, Fault> {
        if let Some(partial) = &self.partial
            && !partial.filter.matches(document, env)?
        {
            return Ok(Vec::new());
        }
        self.keys_in_full(document)
    }

    /// The key of a document whose fields have these values: what a lookup by equality seeks.
    pub fn key_of(&self, mut values: Vec<Bson>) -> Key {
        if let Some(value) = self.hashed.and_then(|at| values.get_mut(at)) {
            *value = Bson::Int64(hashed(value));
        }
        Key::new(values, Arc::clone(&self.order))
    }

    /// Whether a request for this index needs nothing done, because it is there already; an error if
    /// another of its name or of its keys is there.
    pub fn exists_among<'i>(
        &self,
        existing: impl IntoIterator<Item = &'i Index>,
    ) -> Result<bool, Fault> {
        conflict::exists_among(self, existing.into_iter().collect())
    }

    /// The error for a second document with the same key.
    ///
    /// Of an index with a collation, a server shows the strings as bytes that sort; here they stand as
    /// they are.
    pub fn duplicate_key(&self, namespace: &str, key: &Key) -> Fault {
        let fields: Document =
            self.pattern.keys().cloned().zip(key.values().iter().cloned()).collect();
        let collation = match &self.collation {
            Some(collation) => format!(" collation: {}", text::document(collation)),
            None => String::new(),
        };
        let message = format!(
            "E11000 duplicate key error collection: {namespace} index: {}{collation} dup key: {}",
            self.name,
            text::document(&fields)
        );
        let mut details = doc! { "keyPattern": self.pattern.clone(), "keyValue": fields };
        if let Some(collation) = &self.collation {
            details.insert("collation", collation.clone());
        }
        Fault::new(crate::Code::DUPLICATE_KEY, message).with(details)
    }
}

#[cfg(test)]
mod tests;
