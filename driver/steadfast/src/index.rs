//! Index models: keys and options of an index.

use bson::{Bson, Document};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

use crate::options::IndexOptions;

/// Index: key pattern and options. See [indexes](https://www.mongodb.com/docs/manual/indexes/).
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
    /// Key pattern (`key`): the indexed fields, each with its direction or kind.
    pub keys: Document,
    /// Options of the index. Defaults to none.
    pub options: Option<IndexOptions>,
}

impl IndexModel {
    /// Returns a builder for [`IndexModel`].
    pub fn builder() -> IndexModelBuilder {
        IndexModelBuilder::default()
    }

    /// Returns the name: the one in the options, else one made of the keys, such as
    /// `title_1_year_-1`.
    pub(crate) fn name(&self) -> String {
        self.given_name().map_or_else(|| name_of(&self.keys), str::to_owned)
    }

    pub(crate) fn given_name(&self) -> Option<&str> {
        self.options.as_ref()?.name.as_deref()
    }
}

/// Returns the default name of an index, which is the same in all drivers.
fn name_of(keys: &Document) -> String {
    let parts: Vec<_> =
        keys.iter().map(|(field, kind)| format!("{field}_{}", kind_in_name(kind))).collect();
    parts.join("_")
}

fn kind_in_name(kind: &Bson) -> String {
    match kind {
        Bson::String(kind) => kind.clone(),
        // `1.0` and `1` have the same text.
        Bson::Double(direction) => direction.to_string(),
        other => other.to_string(),
    }
}

/// Builder for [`IndexModel`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct IndexModelBuilder(IndexModel);

impl IndexModelBuilder {
    /// Sets the key pattern (`key`). Required.
    pub fn keys(mut self, keys: impl Into<Document>) -> Self {
        self.0.keys = keys.into();
        self
    }

    /// Sets the options of the index.
    pub fn options(mut self, options: impl Into<Option<IndexOptions>>) -> Self {
        self.0.options = options.into();
        self
    }

    /// Returns the model.
    pub fn build(self) -> IndexModel {
        self.0
    }
}

impl Serialize for IndexModel {
    /// Serializes a flat document, as in `createIndexes`: `key` and the options.
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
            Some(_) => return Err(de::Error::custom("the key of the index is not a document")),
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
    fn default_index_name_is_made_of_the_keys() {
        let name = |keys| IndexModel::builder().keys(keys).build().name();
        assert_eq!(name(doc! { "name": 1, "age": -1 }), "name_1_age_-1");
        assert_eq!(name(doc! { "place": "2dsphere" }), "place_2dsphere");
        assert_eq!(name(doc! { "x": 1.0, "y": -1_i64 }), "x_1_y_-1");
        assert_eq!(name(doc! { "$**": 1 }), "$**_1");
    }

    #[test]
    fn explicit_index_name_is_kept() {
        let options = IndexOptions::builder().name("mine".to_owned()).build();
        let model = IndexModel::builder().keys(doc! { "x": 1 }).options(options).build();
        assert_eq!(model.name(), "mine");
    }

    #[test]
    fn index_model_round_trips_as_a_flat_document() {
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
    fn index_model_without_key_is_rejected() {
        assert!(deserialize_from_document::<IndexModel>(doc! { "name": "x" }).is_err());
        assert!(deserialize_from_document::<IndexModel>(doc! { "key": 1 }).is_err());
    }
}
