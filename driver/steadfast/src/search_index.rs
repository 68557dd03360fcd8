//! An index for full-text or vector search, as Atlas has them.

use bson::Document;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An index for full-text or vector search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SearchIndexModel {
    /// What is indexed, and how.
    pub definition: Document,
    /// Its name; by default the server's: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is for; by default full-text search.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub index_type: Option<SearchIndexType>,
}

impl SearchIndexModel {
    /// Begins to build a [`SearchIndexModel`].
    pub fn builder() -> SearchIndexModelBuilder {
        SearchIndexModelBuilder::default()
    }
}

/// Builds a [`SearchIndexModel`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SearchIndexModelBuilder(SearchIndexModel);

impl SearchIndexModelBuilder {
    /// What is indexed, and how.
    pub fn definition(mut self, definition: impl Into<Document>) -> Self {
        self.0.definition = definition.into();
        self
    }

    /// Its name.
    pub fn name(mut self, name: impl Into<Option<String>>) -> Self {
        self.0.name = name.into();
        self
    }

    /// What it is for.
    pub fn index_type(mut self, kind: impl Into<Option<SearchIndexType>>) -> Self {
        self.0.index_type = kind.into();
        self
    }

    /// The index as it was set.
    pub fn build(self) -> SearchIndexModel {
        self.0
    }
}

/// What a search index is for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SearchIndexType {
    /// Full-text search.
    Search,
    /// Search by nearness of vectors.
    VectorSearch,
    /// Something this driver has no name for; sent as it is.
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
