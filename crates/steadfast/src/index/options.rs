//! What kind of index an index is.

use std::time::Duration;

use bson::Document;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::options::{Collation, options};

options! {
    /// What kind of index an [`IndexModel`](crate::IndexModel) is.
    pub struct IndexOptions, IndexOptionsBuilder {
        /// Whether older servers build it beside other work.
        background: bool,
        /// How old documents grow; the key must be a date.
        #[serde(rename = "expireAfterSeconds", with = "crate::options::seconds")]
        expire_after: Duration,
        /// Its name; by default one made of its keys.
        name: String,
        /// Whether documents without the field are left out.
        sparse: bool,
        /// Settings for the storage engine.
        storage_engine: Document,
        /// Whether no two documents may have the same key.
        unique: bool,
        /// The version of its format.
        #[serde(rename = "v")]
        version: IndexVersion,
        /// For text: the language of the documents.
        #[serde(rename = "default_language")]
        default_language: String,
        /// For text: the field in which a document names its own language.
        #[serde(rename = "language_override")]
        language_override: String,
        /// For text: the version of its format.
        text_index_version: TextIndexVersion,
        /// For text: how much each field counts.
        weights: Document,
        /// For places on a sphere: the version of its format.
        #[serde(rename = "2dsphereIndexVersion")]
        sphere_2d_index_version: Sphere2DIndexVersion,
        /// For places on a plane: how precise they are kept.
        #[serde(serialize_with = "small_count")]
        bits: u32,
        /// For places on a plane: the upper bound of both coordinates.
        max: f64,
        /// For places on a plane: the lower bound of both coordinates.
        min: f64,
        /// For haystacks, which no current server has: within how many units places are kept
        /// together.
        #[serde(serialize_with = "small_count")]
        bucket_size: u32,
        /// Which documents it holds.
        partial_filter_expression: Document,
        /// How strings are compared.
        collation: Collation,
        /// For wildcards: which fields it holds.
        wildcard_projection: Document,
        /// Whether queries pass it over.
        hidden: bool,
        /// Whether a server said that its collection is kept in its order; never sent.
        #[serde(skip_serializing)]
        clustered: bool,
    }
}

impl IndexOptions {
    /// Whether the collection is kept in the order of this index.
    pub fn clustered(&self) -> Option<bool> {
        self.clustered
    }
}

/// Servers want these as 32-bit integers.
#[allow(clippy::ref_option)]
fn small_count<S: Serializer>(value: &Option<u32>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => version_number(*value, serializer),
        None => serializer.serialize_none(),
    }
}

fn version_number<S: Serializer>(number: u32, serializer: S) -> Result<S::Ok, S::Error> {
    match i32::try_from(number) {
        Ok(number) => serializer.serialize_i32(number),
        Err(_) => serializer.serialize_u32(number),
    }
}

/// Declares the versions of a format, which servers know by number.
macro_rules! versions {
    ($(#[$doc:meta])+ $kind:ident { $($(#[$variant_doc:meta])+ $variant:ident = $number:literal),+ $(,)? }) => {
        $(#[$doc])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $kind {
            $($(#[$variant_doc])+ $variant,)+
            /// One that this driver has no name for; sent as it is.
            Custom(u32),
        }

        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                version_number(
                    match self {
                        $(Self::$variant => $number,)+
                        Self::Custom(number) => *number,
                    },
                    serializer,
                )
            }
        }

        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(match u32::deserialize(deserializer)? {
                    $($number => Self::$variant,)+
                    number => Self::Custom(number),
                })
            }
        }
    };
}

versions! {
    /// The version of an index's format.
    IndexVersion {
        /// Of servers before 2.0, and long gone.
        V0 = 0,
        /// Of servers before 3.4.
        V1 = 1,
        /// The current one.
        V2 = 2,
    }
}

versions! {
    /// The version of a text index's format.
    TextIndexVersion {
        /// Of servers before 2.6.
        V1 = 1,
        /// Of servers before 3.2.
        V2 = 2,
        /// The current one.
        V3 = 3,
    }
}

versions! {
    /// The version of the format of an index of places on a sphere.
    Sphere2DIndexVersion {
        /// Of servers before 3.2.
        V2 = 2,
        /// The current one.
        V3 = 3,
    }
}
