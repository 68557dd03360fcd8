//! Configuration of one member of a replica set.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};

/// Priority and tags of a member of a replica set.
///
/// ```no_run
/// use testbed::{MemberConfig, Options, ReplicaSet};
///
/// let options = Options::new()
///     .member(0, MemberConfig::new().priority(2.0).tag("dc", "berlin"))
///     .member(1, MemberConfig::new().tag("dc", "berlin"))
///     .member(2, MemberConfig::new().priority(0.5).tag("dc", "paris"));
/// let set = ReplicaSet::start(3, options)?;
/// assert_eq!(set.wait_for_primary()?, 0);
/// # Ok::<(), testbed::TestbedError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct MemberConfig {
    priority: f64,
    tags: BTreeMap<String, String>,
}

impl Default for MemberConfig {
    fn default() -> Self {
        Self { priority: 1.0, tags: BTreeMap::new() }
    }
}

impl MemberConfig {
    /// Creates the default configuration: priority 1 and no tags.
    pub fn new() -> Self {
        Self::default()
    }

    /// Priority in elections (`priority`). The member with the highest one becomes primary when the set starts.
    /// Defaults to 1; a member with 0 cannot become primary.
    pub fn priority(mut self, priority: f64) -> Self {
        self.priority = priority;
        self
    }

    /// Adds a tag (`tags`), for read preferences and write concerns.
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(name.into(), value.into());
        self
    }

    pub(crate) fn priority_value(&self) -> f64 {
        self.priority
    }

    /// Entry of `members` in the replica set configuration.
    pub(crate) fn document(&self, id: i32, host: &str) -> Document {
        let tag = |(name, value): (&String, &String)| (name.clone(), Bson::from(value));
        let tags: Document = self.tags.iter().map(tag).collect();
        doc! { "_id": id, "host": host, "priority": self.priority, "tags": tags }
    }
}
