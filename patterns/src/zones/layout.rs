//! Layouts: the datacenters, their shards, and the collection.

use std::fmt;

use bson::{Bson, Document};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};

use steadfast::Namespace;

/// Shards of each datacenter, and the collection whose documents are placed by it.
///
/// Deserialized from any format of serde; this is TOML:
///
/// ```toml
/// collection = "app.messages"
/// shard_key = ["datacenter", "userid"]
///
/// [datacenters]
/// alfa = ["shard0000"]
/// bravo = ["shard0001"]
/// ```
///
/// An existing layout is valid: no name is empty, and no shard is in two datacenters. MongoDB would allow the
/// latter, but the primary of a shard is in the datacenter of most of its members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SerializedLayout", into = "SerializedLayout")]
pub struct Layout {
    collection: Namespace,
    shard_key: Vec<String>,
    datacenters: Vec<Datacenter>,
}

/// Datacenter with the shards that have most of their members there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Datacenter {
    /// Name: the value of the shard key's first field, and the name of its zone.
    pub name: String,
    /// Names of its shards.
    pub shards: Vec<String>,
}

impl Layout {
    /// Creates a layout for a collection, `database.collection`. The first field of the shard key is that of
    /// the datacenter.
    ///
    /// # Errors
    ///
    /// A [`LayoutError`] if a name, the shard key or the datacenters are invalid.
    ///
    /// ```
    /// use steadfast_patterns::zones::Layout;
    ///
    /// let layout = Layout::new(
    ///     "app.messages",
    ///     ["datacenter", "userid"],
    ///     [("alfa", ["shard0000"]), ("bravo", ["shard0001"])],
    /// )?;
    /// assert_eq!(layout.datacenter_field(), "datacenter");
    /// # Ok::<(), steadfast_patterns::zones::LayoutError>(())
    /// ```
    pub fn new<N, S>(
        collection: &str,
        shard_key: impl IntoIterator<Item = impl Into<String>>,
        datacenters: impl IntoIterator<Item = (N, S)>,
    ) -> Result<Self, LayoutError>
    where
        N: Into<String>,
        S: IntoIterator<Item: Into<String>>,
    {
        let layout = Self {
            collection: collection_named(collection)?,
            shard_key: shard_key.into_iter().map(Into::into).collect(),
            datacenters: datacenters
                .into_iter()
                .map(|(name, shards)| Datacenter {
                    name: name.into(),
                    shards: shards.into_iter().map(Into::into).collect(),
                })
                .collect(),
        };
        check_key(&layout.shard_key)?;
        check_datacenters(&layout.datacenters)?;
        Ok(layout)
    }

    /// Returns the collection.
    pub fn collection(&self) -> &Namespace {
        &self.collection
    }

    /// Returns the fields of the shard key. The first one is that of the datacenter.
    pub fn shard_key(&self) -> &[String] {
        &self.shard_key
    }

    /// Returns the field of the datacenter.
    pub fn datacenter_field(&self) -> &str {
        &self.shard_key[0]
    }

    /// Returns the datacenters.
    pub fn datacenters(&self) -> &[Datacenter] {
        &self.datacenters
    }

    /// Returns the shard key as commands have it: `{ datacenter: 1, userid: 1 }`.
    pub fn key_pattern(&self) -> Document {
        self.shard_key.iter().map(|field| (field.clone(), Bson::Int32(1))).collect()
    }

    /// Returns the lower bound of a datacenter's range: `{ datacenter: "alfa", userid: MinKey }`.
    pub fn min(&self, datacenter: &str) -> Document {
        self.bound(datacenter, &Bson::MinKey)
    }

    /// Returns the upper bound of a datacenter's range: `{ datacenter: "alfa", userid: MaxKey }`.
    pub fn max(&self, datacenter: &str) -> Document {
        self.bound(datacenter, &Bson::MaxKey)
    }

    fn bound(&self, datacenter: &str, rest: &Bson) -> Document {
        let values = std::iter::once(Bson::from(datacenter)).chain(std::iter::repeat(rest.clone()));
        self.shard_key.iter().cloned().zip(values).collect()
    }

    /// Returns the datacenter of a shard.
    pub(super) fn datacenter_of(&self, shard: &str) -> Option<&Datacenter> {
        self.datacenters.iter().find(|it| it.shards.iter().any(|name| name == shard))
    }
}

/// Error of an invalid layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The namespace is invalid, or in an internal database of the server.
    #[error("collection {name:?}: {reason}")]
    #[non_exhaustive]
    Collection {
        /// The namespace.
        name: String,
        /// Reason.
        reason: String,
    },
    /// The shard key is invalid.
    #[error("shard_key: {reason}")]
    #[non_exhaustive]
    ShardKey {
        /// Reason.
        reason: String,
    },
    /// There is no datacenter.
    #[error(
        "there are no datacenters: each has a name and its shards, such as alfa = [\"shard0000\"]"
    )]
    NoDatacenters,
    /// A datacenter is invalid.
    #[error("datacenter {name:?}: {reason}")]
    #[non_exhaustive]
    Datacenter {
        /// Name of the datacenter.
        name: String,
        /// Reason.
        reason: String,
    },
    /// A shard is in two datacenters.
    #[error(
        "shard {shard} is in two datacenters, {one} and {other}: list it in the datacenter of most of its \
         members only"
    )]
    #[non_exhaustive]
    ShardInTwo {
        /// Name of the shard.
        shard: String,
        /// First datacenter.
        one: String,
        /// Second datacenter.
        other: String,
    },
}

fn collection_named(name: &str) -> Result<Namespace, LayoutError> {
    let wrong =
        |reason: &str| LayoutError::Collection { name: name.to_owned(), reason: reason.to_owned() };
    let namespace = name
        .split_once('.')
        .filter(|(database, collection)| !database.is_empty() && !collection.is_empty())
        .map(|(database, collection)| Namespace::new(database, collection))
        .ok_or_else(|| wrong("it must be a database and a collection, with a dot between them"))?;
    namespace.validate().map_err(|error| wrong(&error.kind.to_string()))?;
    if matches!(namespace.db.as_str(), "admin" | "config" | "local") {
        return Err(wrong("collections of admin, config and local cannot be sharded"));
    }
    Ok(namespace)
}

fn check_key(fields: &[String]) -> Result<(), LayoutError> {
    let wrong = |reason: String| Err(LayoutError::ShardKey { reason });
    let Some((field, rest)) = fields.split_first() else {
        return wrong("it has no fields; the first must be the datacenter field".to_owned());
    };
    for (place, field) in fields.iter().enumerate() {
        let part_is_wrong = |part: &str| part.is_empty() || part.starts_with('$');
        if field.split('.').any(part_is_wrong) || field.contains('\0') {
            return wrong(format!("{field:?} is not a field name"));
        }
        if fields[..place].contains(field) {
            return wrong(format!("{field} is listed twice"));
        }
        let lies_in = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'))
        };
        let other = fields[..place].iter().find(|it| lies_in(field, it) || lies_in(it, field));
        if let Some(other) = other {
            return wrong(format!("{field} and {other} overlap"));
        }
    }
    if rest.is_empty() {
        return wrong(format!(
            "after {field}, it needs a field with many different values, such as a user id: otherwise all \
             documents of a datacenter have the same key"
        ));
    }
    Ok(())
}

fn check_datacenters(datacenters: &[Datacenter]) -> Result<(), LayoutError> {
    if datacenters.is_empty() {
        return Err(LayoutError::NoDatacenters);
    }
    for (place, datacenter) in datacenters.iter().enumerate() {
        let name = &datacenter.name;
        let wrong = |reason: &str| {
            Err(LayoutError::Datacenter { name: name.clone(), reason: reason.to_owned() })
        };
        if name.is_empty() {
            return wrong("the name is empty");
        }
        if datacenters[..place].iter().any(|it| it.name == *name) {
            return wrong("there are two datacenters of this name");
        }
        if datacenter.shards.is_empty() {
            return wrong("it has no shards to store its documents");
        }
        if datacenter.shards.iter().any(String::is_empty) {
            return wrong("the name of a shard is empty");
        }
        for (at, shard) in datacenter.shards.iter().enumerate() {
            if datacenter.shards[..at].contains(shard) {
                return wrong(&format!("shard {shard} is listed twice"));
            }
            if let Some(other) = datacenters[..place].iter().find(|it| it.shards.contains(shard)) {
                return Err(LayoutError::ShardInTwo {
                    shard: shard.clone(),
                    one: other.name.clone(),
                    other: name.clone(),
                });
            }
        }
    }
    Ok(())
}

/// Serialized form of a layout.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SerializedLayout {
    collection: String,
    shard_key: Vec<String>,
    datacenters: Datacenters,
}

impl TryFrom<SerializedLayout> for Layout {
    type Error = LayoutError;

    fn try_from(serialized: SerializedLayout) -> Result<Self, LayoutError> {
        Self::new(&serialized.collection, serialized.shard_key, serialized.datacenters.0)
    }
}

impl From<Layout> for SerializedLayout {
    fn from(layout: Layout) -> Self {
        let datacenters = layout.datacenters.into_iter().map(|it| (it.name, it.shards));
        Self {
            collection: layout.collection.to_string(),
            shard_key: layout.shard_key,
            datacenters: Datacenters(datacenters.collect()),
        }
    }
}

/// Datacenters as a map that keeps the order, so that a repeated name is detected.
struct Datacenters(Vec<(String, Vec<String>)>);

impl Serialize for Datacenters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, shards)| (name, shards)))
    }
}

impl<'de> Deserialize<'de> for Datacenters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Datacenters;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("datacenters, each with a list of its shards")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Datacenters, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Datacenters(entries))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn rejection(collection: &str, key: &[&str], datacenters: &[(&str, &[&str])]) -> String {
        let datacenters = datacenters.iter().map(|(name, shards)| (*name, shards.iter().copied()));
        Layout::new(collection, key.iter().copied(), datacenters).unwrap_err().to_string()
    }

    const KEY: &[&str] = &["datacenter", "userid"];
    const ONE: &[(&str, &[&str])] = &[("alfa", &["s0"])];

    #[test]
    fn layout_is_deserialized_from_a_document() {
        let document = doc! {
            "collection": "app.messages.new", "shard_key": ["datacenter", "userid", "_id"],
            "datacenters": { "bravo": ["s1", "s2"], "alfa": ["s0"] },
        };
        let layout: Layout = bson::deserialize_from_document(document.clone()).unwrap();
        assert_eq!(layout.collection().coll, "messages.new");
        assert_eq!(layout.datacenters()[0].name, "bravo", "the order is kept");
        assert_eq!(layout.datacenters()[0].shards, ["s1", "s2"]);
        let min = doc! { "datacenter": "alfa", "userid": Bson::MinKey, "_id": Bson::MinKey };
        let max = doc! { "datacenter": "alfa", "userid": Bson::MaxKey, "_id": Bson::MaxKey };
        assert_eq!((layout.min("alfa"), layout.max("alfa")), (min, max));
        assert_eq!(layout.key_pattern(), doc! { "datacenter": 1, "userid": 1, "_id": 1 });
        assert_eq!(bson::serialize_to_document(&layout).unwrap(), document);
    }

    #[test]
    fn unknown_fields_of_a_layout_are_rejected() {
        let document = doc! {
            "collection": "app.messages", "shard_key": ["datacenter", "userid"],
            "datacentres": { "alfa": ["s0"] },
        };
        let error = bson::deserialize_from_document::<Layout>(document).unwrap_err().to_string();
        assert!(error.contains("datacentres"), "{error}");
    }

    #[test]
    fn invalid_names_are_rejected() {
        assert!(rejection("messages", KEY, ONE).contains("a dot between them"));
        assert!(rejection("app.", KEY, ONE).contains("a dot between them"));
        assert!(rejection("a b.messages", KEY, ONE).contains("a space"));
        assert!(rejection("config.messages", KEY, ONE).contains("cannot be sharded"));
        assert!(rejection("app.m", KEY, &[]).contains("no datacenters"));
        assert!(rejection("app.m", KEY, &[("", &["s0"])]).contains("name is empty"));
        assert!(rejection("app.m", KEY, &[("alfa", &[])]).contains("no shards"));
        assert!(rejection("app.m", KEY, &[("alfa", &[""])]).contains("name of a shard is empty"));
    }

    #[test]
    fn shard_key_needs_the_datacenter_field_and_another_one() {
        assert!(rejection("app.m", &[], ONE).contains("has no fields"));
        assert!(rejection("app.m", &["datacenter"], ONE).contains("many different values"));
        assert!(rejection("app.m", &["datacenter", ""], ONE).contains("is not a field name"));
        assert!(rejection("app.m", &["datacenter", "$a"], ONE).contains("is not a field name"));
        assert!(rejection("app.m", &["datacenter", "a", "a"], ONE).contains("a is listed twice"));
        assert!(rejection("app.m", &["dc", "dc.of"], ONE).contains("overlap"));
        assert!(rejection("app.m", &["dc.of", "a", "dc"], ONE).contains("overlap"));
    }

    #[test]
    fn shard_is_in_one_datacenter() {
        let two: &[(&str, &[&str])] = &[("alfa", &["s0"]), ("bravo", &["s1", "s0"])];
        assert!(rejection("app.m", KEY, two).contains("s0 is in two datacenters, alfa and bravo"));
        assert!(rejection("app.m", KEY, &[("alfa", &["s0", "s0"])]).contains("s0 is listed twice"));
        let two: &[(&str, &[&str])] = &[("alfa", &["s0"]), ("alfa", &["s1"])];
        assert!(rejection("app.m", KEY, two).contains("two datacenters of this name"));
    }
}
