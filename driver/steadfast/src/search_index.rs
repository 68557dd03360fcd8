//! Search indexes of MongoDB Atlas.

use bson::Document;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Index for full-text or vector search. See
/// [search indexes](https://www.mongodb.com/docs/manual/reference/command/createSearchIndexes/).
///
/// ```
/// use steadfast::{SearchIndexModel, SearchIndexType, bson::doc};
///
/// let vectors = SearchIndexModel::builder()
///     .name("by_meaning".to_owned())
///     .index_type(SearchIndexType::VectorSearch)
///     .definition(doc! { "fields": [{ "type": "vector", "path": "v", "numDimensions": 3, "similarity": "cosine" }] })
///     .build();
/// assert_eq!(vectors.name.as_deref(), Some("by_meaning"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SearchIndexModel {
    /// Definition of the index (`definition`).
    pub definition: Document,
    /// Name of the index (`name`). Defaults to `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Type of the index (`type`). Defaults to [`Search`](SearchIndexType::Search).
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub index_type: Option<SearchIndexType>,
}

impl SearchIndexModel {
    /// Returns a builder for [`SearchIndexModel`].
    pub fn builder() -> SearchIndexModelBuilder {
        SearchIndexModelBuilder::default()
    }
}

/// Builder for [`SearchIndexModel`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SearchIndexModelBuilder(SearchIndexModel);

impl SearchIndexModelBuilder {
    /// Sets the definition of the index (`definition`). Required.
    pub fn definition(mut self, definition: impl Into<Document>) -> Self {
        self.0.definition = definition.into();
        self
    }

    /// Sets the name of the index (`name`).
    pub fn name(mut self, name: impl Into<Option<String>>) -> Self {
        self.0.name = name.into();
        self
    }

    /// Sets the type of the index (`type`).
    pub fn index_type(mut self, kind: impl Into<Option<SearchIndexType>>) -> Self {
        self.0.index_type = kind.into();
        self
    }

    /// Returns the model.
    pub fn build(self) -> SearchIndexModel {
        self.0
    }
}

/// Type of a search index (`type`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchIndexType {
    /// Full-text search (`search`).
    Search,
    /// Vector search (`vectorSearch`).
    VectorSearch,
    /// Type without a variant in this driver. Sent as is.
    Other(String),
}

impl Serialize for SearchIndexType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Search => "search",
            Self::VectorSearch => "vectorSearch",
            Self::Other(name) => name,
        })
    }
}

impl<'de> Deserialize<'de> for SearchIndexType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Ok(match name.as_str() {
            "search" => Self::Search,
            "vectorSearch" => Self::VectorSearch,
            _ => Self::Other(name),
        })
    }
}
