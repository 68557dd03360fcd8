//! An index: its keys, its options, its name.

use bson::{Bson, Document};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

use crate::options::IndexOptions;

/// An index: which keys it is on, and what kind of index it is.
///
/// ```
/// use steadfast::{IndexModel, bson::doc, options::IndexOptions};
///
/// let by_title = IndexModel::builder()
///     .keys(doc! { "title": 1 })
///     .options(IndexOptions::builder().unique(true).build())
///     .build();
/// assert_eq!(by_title.keys, doc! { "title": 1 });
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct IndexModel {
    /// The fields it is on, each with its direction or kind.
    pub keys: Document,
    /// What kind of index it is.
    pub options: Option<IndexOptions>,
}

impl IndexModel {
    /// Begins to build an [`IndexModel`].
    pub fn builder() -> IndexModelBuilder {
        IndexModelBuilder::default()
    }

    /// Its name: the one it was given, else one made of its keys, such as `title_1_year_-1`.
    pub(crate) fn name(&self) -> String {
        self.given_name().map_or_else(|| name_of(&self.keys), str::to_owned)
    }

    pub(crate) fn given_name(&self) -> Option<&str> {
        self.options.as_ref()?.name.as_deref()
    }
}

/// The name of an index that was given none, as every MongoDB driver makes it.
fn name_of(keys: &Document) -> String {
    let parts: Vec<_> =
        keys.iter().map(|(field, kind)| format!("{field}_{}", kind_in_name(kind))).collect();
    parts.join("_")
}

fn kind_in_name(kind: &Bson) -> String {
    match kind {
        Bson::String(kind) => kind.clone(),
        // `1.0` and `1` mean the same, and are written the same.
        Bson::Double(direction) => direction.to_string(),
        other => other.to_string(),
    }
}

/// Builds an [`IndexModel`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct IndexModelBuilder(IndexModel);

impl IndexModelBuilder {
    /// The fields it is on, each with its direction or kind.
    pub fn keys(mut self, keys: impl Into<Document>) -> Self {
        self.0.keys = keys.into();
        self
    }

    /// What kind of index it is.
    pub fn options(mut self, options: impl Into<Option<IndexOptions>>) -> Self {
        self.0.options = options.into();
        self
    }

    /// The index as it was set.
    pub fn build(self) -> IndexModel {
        self.0
    }
}

impl Serialize for IndexModel {
    /// One flat document, as commands have it: `key` beside the options.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut flat = bson::doc! { "key": self.keys.clone() };
        if let Some(options) = &self.options {
            flat.extend(bson::serialize_to_document(options).map_err(ser::Error::custom)?);
        }
        flat.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for IndexModel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut flat = Document::deserialize(deserializer)?;
        let keys = match flat.remove("key") {
            Some(Bson::Document(keys)) => keys,
            Some(_) => return Err(de::Error::custom("an index whose key is not a document")),
            None => return Err(de::Error::missing_field("key")),
        };
        let options = bson::deserialize_from_document(flat).map_err(de::Error::custom)?;
        Ok(Self { keys, options: Some(options) })
    }
}

#[cfg(test)]
mod tests {
    use bson::{deserialize_from_document, doc, serialize_to_document};

    use super::*;

    #[test]
    fn an_unnamed_index_is_named_after_its_keys() {
        let name = |keys| IndexModel::builder().keys(keys).build().name();
        assert_eq!(name(doc! { "name": 1, "age": -1 }), "name_1_age_-1");
        assert_eq!(name(doc! { "place": "2dsphere" }), "place_2dsphere");
        assert_eq!(name(doc! { "x": 1.0, "y": -1_i64 }), "x_1_y_-1");
        assert_eq!(name(doc! { "$**": 1 }), "$**_1");
    }

    #[test]
    fn a_given_name_is_kept() {
        let options = IndexOptions::builder().name("mine".to_owned()).build();
        let model = IndexModel::builder().keys(doc! { "x": 1 }).options(options).build();
        assert_eq!(model.name(), "mine");
    }

    #[test]
    fn a_model_is_one_flat_document() {
        let sent = doc! {
            "key": { "x": 1 }, "expireAfterSeconds": 60, "name": "x_1", "unique": true, "v": 2,
            "2dsphereIndexVersion": 3, "default_language": "none", "bits": 26, "hidden": false,
        };
        let model: IndexModel = deserialize_from_document(sent.clone()).unwrap();
        let back = serialize_to_document(&model).unwrap();
        for (key, value) in &sent {
            assert_eq!(back.get(key), Some(value), "{key}");
        }
        assert_eq!(back.len(), sent.len());
    }

    #[test]
    fn a_model_without_a_key_is_refused() {
        assert!(deserialize_from_document::<IndexModel>(doc! { "name": "x" }).is_err());
        assert!(deserialize_from_document::<IndexModel>(doc! { "key": 1 }).is_err());
    }
}
