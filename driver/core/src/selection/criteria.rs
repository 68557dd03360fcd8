//! Selection criteria of operations.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer};

use super::ServerInfo;
use crate::{
    address::ServerAddress,
    description::{TopologyDescription, TopologyType},
    read_preference::ReadPreference,
};

/// Predicate of the application: returns `true` for an acceptable server.
pub type Predicate = Arc<dyn Fn(&ServerInfo<'_>) -> bool + Send + Sync>;

/// Selection criteria of a read.
#[derive(Clone)]
#[non_exhaustive]
pub enum SelectionCriteria {
    /// Read preference. The default is primary.
    ReadPreference(ReadPreference),
    /// Predicate over the servers that hold data.
    Predicate(Predicate),
}

impl SelectionCriteria {
    /// Returns the read preference, unless the criteria are a predicate.
    pub fn read_preference(&self) -> Option<&ReadPreference> {
        match self {
            Self::ReadPreference(preference) => Some(preference),
            Self::Predicate(_) => None,
        }
    }
}

impl Default for SelectionCriteria {
    fn default() -> Self {
        Self::ReadPreference(ReadPreference::Primary)
    }
}

impl From<ReadPreference> for SelectionCriteria {
    fn from(preference: ReadPreference) -> Self {
        Self::ReadPreference(preference)
    }
}

/// Predicates are never equal, because they cannot be compared.
impl PartialEq for SelectionCriteria {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::ReadPreference(one), Self::ReadPreference(other)) => one == other,
            (Self::Predicate(_), _) | (_, Self::Predicate(_)) => false,
        }
    }
}

impl fmt::Display for SelectionCriteria {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadPreference(preference) => write!(f, "read preference {preference}"),
            Self::Predicate(_) => f.write_str("custom predicate"),
        }
    }
}

impl fmt::Debug for SelectionCriteria {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadPreference(preference) => {
                f.debug_tuple("ReadPreference").field(preference).finish()
            }
            Self::Predicate(_) => f.write_str("Predicate(..)"),
        }
    }
}

impl<'de> Deserialize<'de> for SelectionCriteria {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ReadPreference::deserialize(deserializer).map(Self::ReadPreference)
    }
}

/// Requirement of an operation on its server.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum SelectionTarget<'a> {
    /// A writable server.
    Write,
    /// A server that satisfies the criteria.
    Read(&'a SelectionCriteria),
    /// A server for an aggregation with `$out` or `$merge`: one that satisfies the criteria if all
    /// servers support the stage on secondaries, else a writable one.
    WritingAggregate(&'a SelectionCriteria),
    /// A specific server, to which a transaction or cursor is pinned.
    Server(&'a ServerAddress),
}

/// First wire version (MongoDB 5.0) with `$out` and `$merge` on secondaries.
const OUT_ON_SECONDARIES_WIRE_VERSION: i32 = 13;

static PRIMARY: SelectionCriteria = SelectionCriteria::ReadPreference(ReadPreference::Primary);

impl<'a> SelectionTarget<'a> {
    /// Resolves [`WritingAggregate`](Self::WritingAggregate) to its criteria or to the primary.
    ///
    /// The command's `$readPreference` is that of the resolved target.
    #[must_use]
    pub fn resolve(self, topology: &TopologyDescription) -> Self {
        let Self::WritingAggregate(criteria) = self else { return self };
        let too_old = topology
            .servers
            .values()
            .filter(|server| server.is_available())
            .any(|server| server.max_wire_version < OUT_ON_SECONDARIES_WIRE_VERSION);
        // Servers behind a load balancer are new enough, but do not report their version.
        if too_old && topology.topology_type != TopologyType::LoadBalanced {
            Self::Read(&PRIMARY)
        } else {
            Self::Read(criteria)
        }
    }

    /// Returns the read preference of the criteria.
    pub fn read_preference(self) -> Option<&'a ReadPreference> {
        match self {
            Self::Read(criteria) | Self::WritingAggregate(criteria) => criteria.read_preference(),
            Self::Write | Self::Server(_) => None,
        }
    }
}

impl fmt::Display for SelectionTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write => f.write_str("writable server"),
            Self::Read(criteria) | Self::WritingAggregate(criteria) => criteria.fmt(f),
            Self::Server(address) => write!(f, "server {address}"),
        }
    }
}
