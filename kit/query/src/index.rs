//! Indexes: definitions, and the keys of documents.

mod conflict;
mod hash;
mod key;
mod key_pattern;
mod options;
mod partial;

use std::sync::Arc;

use bson::{Bson, Document, doc};

use crate::{Collation, Environment, Fault, Filter, path::Path, text};

use self::{key::KeyOrder, key_pattern::KeyDirection};

pub use hash::hashed;
pub use key::IndexKey;
pub use key_pattern::default_name;

/// A parsed index definition.
///
/// Ascending, descending and hashed indexes are supported. Text, geospatial and wildcard indexes
/// fail like unknown index types on a server.
#[derive(Clone, Debug)]
pub struct Index {
    name: String,
    pattern: Document,
    paths: Vec<Path>,
    hashed: Option<usize>,
    unique: bool,
    sparse: bool,
    hidden: bool,
    partial: Option<PartialFilter>,
    expire_after_seconds: Option<i32>,
    collation: Option<Document>,
    order: Arc<KeyOrder>,
    description: Document,
}

/// Filter of a partial index.
#[derive(Clone, Debug)]
struct PartialFilter {
    expression: Document,
    filter: Filter,
}

impl Index {
    /// Returns the index on `_id`.
    pub fn id_index() -> Self {
        let pattern = doc! { "_id": 1 };
        Self {
            name: "_id_".to_owned(),
            paths: vec![Path::new("_id")],
            hashed: None,
            // The index is unique, although its description does not have `unique`.
            unique: true,
            sparse: false,
            hidden: false,
            partial: None,
            expire_after_seconds: None,
            collation: None,
            order: Arc::new(KeyOrder::new(vec![KeyDirection::Ascending], Collation::simple())),
            description: doc! { "v": 2, "key": pattern.clone(), "name": "_id_" },
            pattern,
        }
    }

    /// Returns the index on `_id` of a collection with a collation.
    ///
    /// # Errors
    ///
    /// Fails if the collation is invalid.
    pub fn id_index_with_collation(collation: &Document) -> Result<Self, Fault> {
        let collation = Collation::parse(collation)?;
        let mut index = Self::id_index();
        if let Some(described) = collation.to_document() {
            index.description.insert("collation", described.clone());
            index.collation = Some(described);
            index.order = Arc::new(KeyOrder::new(vec![KeyDirection::Ascending], collation));
        }
        Ok(index)
    }

    /// Parses an element of `indexes` of `createIndexes`. A definition on `{_id: 1}` gives
    /// [`Index::id_index`], regardless of its name.
    ///
    /// # Errors
    ///
    /// Fails for unknown options and invalid values, with the error codes of servers.
    pub fn parse(specification: &Document, env: &Environment) -> Result<Self, Fault> {
        options::parse(specification, env)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the key pattern: `{a: 1, "b.c": -1}`.
    pub fn key_pattern(&self) -> &Document {
        &self.pattern
    }

    /// Returns `true` for a unique index.
    pub fn is_unique(&self) -> bool {
        self.unique
    }

    /// Returns `true` for a sparse index. It omits documents without the indexed fields.
    pub fn is_sparse(&self) -> bool {
        self.sparse
    }

    /// Returns `true` for a hidden index. Queries do not use it.
    pub fn is_hidden(&self) -> bool {
        self.hidden
    }

    /// Returns `true` for the index on `_id`.
    pub fn is_id_index(&self) -> bool {
        self.name == "_id_"
    }

    /// Returns the filter of a partial index.
    pub fn partial_filter(&self) -> Option<&Filter> {
        self.partial.as_ref().map(|it| &it.filter)
    }

    /// Returns `expireAfterSeconds` of a TTL index.
    pub fn expire_after_seconds(&self) -> Option<i32> {
        self.expire_after_seconds
    }

    /// Returns the collation.
    pub fn collation(&self) -> &Collation {
        &self.order.collation
    }

    /// Returns the description in `listIndexes`.
    pub fn description(&self) -> Document {
        self.description.clone()
    }

    /// Returns the keys of a document: several if a path contains an array, none if the index omits
    /// the document.
    ///
    /// # Errors
    ///
    /// Fails for parallel arrays and for arrays in hashed fields.
    pub fn keys(&self, document: &Document, env: &Environment) -> Result<Vec<IndexKey>, Fault> {
        if let Some(partial) = &self.partial
            && !partial.filter.matches(document, env)?
        {
            return Ok(Vec::new());
        }
        self.all_keys(document)
    }

    /// Returns the key for these values of the indexed fields, for a lookup by equality.
    pub fn key_of(&self, mut values: Vec<Bson>) -> IndexKey {
        if let Some(value) = self.hashed.and_then(|at| values.get_mut(at)) {
            *value = Bson::Int64(hashed(value));
        }
        IndexKey::new(values, Arc::clone(&self.order))
    }

    /// Returns `true` if an equivalent index exists, so that nothing needs to be created.
    ///
    /// # Errors
    ///
    /// Fails if another index has the same name or the same keys.
    pub fn exists_among<'i>(
        &self,
        existing: impl IntoIterator<Item = &'i Index>,
    ) -> Result<bool, Fault> {
        conflict::exists_among(self, existing.into_iter().collect())
    }

    /// Returns the duplicate key error (`E11000`).
    ///
    /// With a collation, servers show sort keys instead of strings; this error shows the strings.
    pub fn duplicate_key(&self, namespace: &str, key: &IndexKey) -> Fault {
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
