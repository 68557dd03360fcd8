//! Polling of SRV records.
//!
//! [`crate::sdam`] determines the interval and applies the hosts to the topology.

use std::{collections::BTreeSet, time::Duration};

use super::{SrvName, SrvRecord, shuffle};
use crate::address::ServerAddress;

/// Result of polling the SRV records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SrvPoll {
    /// Hosts of the required domain, in random order.
    pub hosts: Vec<ServerAddress>,
    /// Lowest TTL of the records. `None` without a valid host.
    pub lowest_ttl: Option<Duration>,
    /// Warnings to log: rejected hosts.
    pub warnings: Vec<String>,
}

impl SrvName {
    /// Verifies the records of a poll. In contrast to the initial lookup, an invalid host is
    /// skipped. `random_below(n)` must return a random number from 0 to n-1.
    pub fn verify_poll(
        &self,
        records: &[SrvRecord],
        random_below: impl FnMut(usize) -> usize,
    ) -> SrvPoll {
        let mut hosts = BTreeSet::new();
        let mut warnings = Vec::new();
        for record in records {
            match self.verify(record) {
                Ok(host) => drop(hosts.insert(host)),
                Err(error) => warnings.push(error.to_string()),
            }
        }
        if hosts.is_empty() {
            warnings.push(format!("no valid SRV records for {self}: the hosts remain unchanged"));
            return SrvPoll { warnings, ..SrvPoll::default() };
        }
        let mut hosts: Vec<_> = hosts.into_iter().collect();
        let all = hosts.len();
        shuffle(&mut hosts, all, random_below);
        let lowest_ttl = records.iter().map(|record| record.ttl).min();
        SrvPoll { hosts, lowest_ttl, warnings }
    }
}
