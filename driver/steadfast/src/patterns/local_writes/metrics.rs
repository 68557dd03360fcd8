//! What a local writer tells of itself: the state of each datacenter, and what was counted.

use std::time::Instant;

/// The state of a datacenter as a writer sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DatacenterStatus {
    /// Its name.
    pub name: String,
    /// Whether writes go to it, as far as it is the nearest that is up.
    pub is_up: bool,
    /// Since when: since the writer was made, since it came home, or since it was marked down.
    pub since: Instant,
    /// Why it is down, by what was heard last; none if it is up.
    pub why: Option<String>,
}

/// What a writer has counted since it was made. All but the downs, homecomings and probes are documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalWriterMetrics {
    /// For each datacenter, nearest first.
    pub datacenters: Vec<DatacenterMetrics>,
    /// Documents that are not in the datacenter that was tried first.
    pub switched: u64,
    /// Documents that were refused for what they are.
    pub refused: u64,
    /// Documents that no datacenter acknowledged.
    pub all_down: u64,
}

/// What a writer has counted of a datacenter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatacenterMetrics {
    /// Its name.
    pub name: String,
    /// Documents that it acknowledged.
    pub written: u64,
    /// Documents that it did not acknowledge in time, or could not take.
    pub failed: u64,
    /// Those of the failed of which a copy may be there.
    pub in_doubt: u64,
    /// How often it was marked down.
    pub marked_down: u64,
    /// How often it came home.
    pub came_home: u64,
    /// How often it was asked whether it is back.
    pub probes: u64,
    /// How often that was in vain.
    pub probes_failed: u64,
}

impl LocalWriterMetrics {
    pub(super) fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let of = |name: &str| DatacenterMetrics { name: name.to_owned(), ..Default::default() };
        Self { datacenters: names.map(of).collect(), ..Self::default() }
    }

    /// The datacenter of this name.
    pub fn datacenter(&self, name: &str) -> Option<&DatacenterMetrics> {
        self.datacenters.iter().find(|datacenter| datacenter.name == name)
    }
}
