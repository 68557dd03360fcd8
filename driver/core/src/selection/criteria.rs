//! What an operation asks of a server.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer};

use super::ServerInfo;
use crate::{
    address::ServerAddress,
    description::{TopologyDescription, TopologyType},
    read_preference::ReadPreference,
};

/// Tells whether a server will do.
pub type Predicate = Arc<dyn Fn(&ServerInfo<'_>) -> bool + Send + Sync>;

/// Which servers a read may go to.
#[derive(Clone)]
#[non_exhaustive]
pub enum SelectionCriteria {
    /// Those that the read preference allows.
    ReadPreference(ReadPreference),
    /// Those that the predicate accepts, of the servers that hold data.
    Predicate(Predicate),
}

impl SelectionCriteria {
    /// The read preference, if that is what decides.
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

/// Two predicates are never equal: what they accept cannot be compared.
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

/// What an operation needs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Target<'a> {
    /// A server that takes writes.
    Write,
    /// A server that the criteria allow.
    Read(&'a SelectionCriteria),
    /// A server for an aggregation that ends in `$out` or `$merge`: one that the criteria allow if
    /// every server lets secondaries run it, and else one that takes writes.
    WritingAggregate(&'a SelectionCriteria),
    /// This very server, to which a transaction or a cursor is bound.
    Server(&'a ServerAddress),
}

/// The first wire version (MongoDB 5.0) whose secondaries run `$out` and `$merge`.
const SECONDARIES_WRITE_OUT: i32 = 13;

static PRIMARY: SelectionCriteria = SelectionCriteria::ReadPreference(ReadPreference::Primary);

impl<'a> Target<'a> {
    /// The same target with the aggregation's choice made: its criteria, or the primary.
    ///
    /// The read preference to send along is that of the resolved target.
    #[must_use]
    pub fn resolve(self, topology: &TopologyDescription) -> Self {
        let Self::WritingAggregate(criteria) = self else { return self };
        let too_old = topology
            .servers
            .values()
            .filter(|server| server.is_available())
            .any(|server| server.max_wire_version < SECONDARIES_WRITE_OUT);
        // What is behind a load balancer is new enough, though it does not say so.
        if too_old && topology.topology_type != TopologyType::LoadBalanced {
            Self::Read(&PRIMARY)
        } else {
            Self::Read(criteria)
        }
    }

    /// The read preference that decides, if one does.
    pub fn read_preference(self) -> Option<&'a ReadPreference> {
        match self {
            Self::Read(criteria) | Self::WritingAggregate(criteria) => criteria.read_preference(),
            Self::Write | Self::Server(_) => None,
        }
    }
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write => f.write_str("writable server"),
            Self::Read(criteria) | Self::WritingAggregate(criteria) => criteria.fmt(f),
            Self::Server(address) => write!(f, "server {address}"),
        }
    }
}
