//! Metrics of local writers.

use std::time::Instant;

/// State of a datacenter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DatacenterStatus {
    /// Name of the datacenter.
    pub name: String,
    /// `true` if it is up: writes go to the nearest datacenter that is.
    pub is_up: bool,
    /// Start of its state: when the writer was built, or it was marked up or down.
    pub since: Instant,
    /// Last error, if it is down.
    pub last_error: Option<String>,
}

/// Counts since the writer was built. Documents, unless stated otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalWriterMetrics {
    /// Counts of each datacenter, nearest first.
    pub datacenters: Vec<DatacenterMetrics>,
    /// Documents that another datacenter than the first one acknowledged.
    pub switched: u64,
    /// Documents that were rejected because of their content.
    pub rejected: u64,
    /// Documents that no datacenter acknowledged.
    pub all_down: u64,
}

/// Counts of a datacenter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatacenterMetrics {
    /// Name of the datacenter.
    pub name: String,
    /// Acknowledged documents.
    pub written: u64,
    /// Documents that it did not acknowledge in time, or rejected because of its state.
    pub failed: u64,
    /// Failed documents of which a copy may exist.
    pub in_doubt: u64,
    /// Number of times that it was marked down.
    pub marked_down: u64,
    /// Number of times that it was marked up again.
    pub marked_up: u64,
    /// Number of probes.
    pub probes: u64,
    /// Number of failed probes.
    pub probes_failed: u64,
}

impl LocalWriterMetrics {
    pub(super) fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let of = |name: &str| DatacenterMetrics { name: name.to_owned(), ..Default::default() };
        Self { datacenters: names.map(of).collect(), ..Self::default() }
    }

    /// Returns the counts of the datacenter with this name.
    pub fn datacenter(&self, name: &str) -> Option<&DatacenterMetrics> {
        self.datacenters.iter().find(|datacenter| datacenter.name == name)
    }
}
