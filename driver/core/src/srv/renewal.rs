//! Asking DNS again: which hosts of a new answer are to be believed.
//!
//! When to ask, and what the hosts mean to the deployment, is for [`crate::sdam`] to say.

use std::{collections::BTreeSet, time::Duration};

use super::{SrvName, SrvRecord, shuffle};
use crate::address::ServerAddress;

/// What a later answer of DNS comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Renewal {
    /// The hosts that are in the domain, in random order.
    pub hosts: Vec<ServerAddress>,
    /// For how long the answer is good; none if no host is to be believed.
    pub lowest_ttl: Option<Duration>,
    /// What is worth a line in the log: hosts that were not believed.
    pub warnings: Vec<String>,
}

impl SrvName {
    /// Reads a later answer. Unlike in the first, a host outside of the domain is left out and
    /// spoils nothing else. `random_below(n)` is a random number from 0 to n-1.
    pub fn renew(
        &self,
        records: &[SrvRecord],
        random_below: impl FnMut(usize) -> usize,
    ) -> Renewal {
        let mut hosts = BTreeSet::new();
        let mut warnings = Vec::new();
        for record in records {
            match self.verify(record) {
                Ok(host) => drop(hosts.insert(host)),
                Err(error) => warnings.push(error.to_string()),
            }
        }
        if hosts.is_empty() {
            warnings.push(format!("no usable SRV records of {self}: nothing changes"));
            return Renewal { warnings, ..Renewal::default() };
        }
        let mut hosts: Vec<_> = hosts.into_iter().collect();
        let all = hosts.len();
        shuffle(&mut hosts, all, random_below);
        let lowest_ttl = records.iter().map(|record| record.ttl).min();
        Renewal { hosts, lowest_ttl, warnings }
    }
}
