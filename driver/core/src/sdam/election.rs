//! Which of two primaries is the stale one: the comparison of elections and configurations.

use std::fmt;

use bson::oid::ObjectId;

use crate::description::{ServerDescription, ServerType, TopologyDescription, TopologyType};

/// From MongoDB 6.0 on, the election counts before the configuration.
const ELECTION_FIRST_WIRE_VERSION: i32 = 17;

/// The newest election and configuration that a primary has shown.
type Newest = (Option<ObjectId>, Option<i32>);

/// A primary that shows an older election or configuration than another one did.
#[derive(Debug)]
pub(super) struct StalePrimary {
    stale: Newest,
    newest: Newest,
}

/// Compares what a primary shows with the newest seen; returns the newest with it.
pub(super) fn weigh(
    topology: &TopologyDescription,
    primary: &ServerDescription,
) -> Result<Newest, StalePrimary> {
    let newest = (topology.max_election_id, topology.max_set_version);
    let shown = (primary.election_id, primary.set_version);
    let weighed = if primary.max_wire_version >= ELECTION_FIRST_WIRE_VERSION {
        election_first(newest, shown)
    } else {
        configuration_first(newest, shown)
    };
    weighed.ok_or(StalePrimary { stale: shown, newest })
}

/// Whether a member says that it is the primary, but not yet that it takes writes: it was elected, and
/// catches up with what the others have. That takes a few milliseconds or seconds; nobody else will
/// be primary meanwhile, but for another election.
pub(super) fn is_about_to_lead(topology: &TopologyDescription, member: &ServerDescription) -> bool {
    topology.topology_type == TopologyType::ReplicaSetNoPrimary
        && member.server_type == ServerType::RsSecondary
        && member.primary.as_ref() == Some(&member.address)
}

/// Tuples of options compare just as the rule says: in order, and nothing before something.
fn election_first(newest: Newest, shown: Newest) -> Option<Newest> {
    (shown >= newest).then_some(shown)
}

/// The rule for servers before 6.0. A primary that shows no election is never stale, and leaves
/// the newest election as it was.
fn configuration_first(newest: Newest, shown: Newest) -> Option<Newest> {
    let (mut max_election_id, max_set_version) = newest;
    if let (Some(election_id), Some(set_version)) = shown {
        if let (Some(max_election_id), Some(max_set_version)) = newest
            && (max_set_version, max_election_id) > (set_version, election_id)
        {
            return None;
        }
        max_election_id = Some(election_id);
    }
    Some((max_election_id, max_set_version.max(shown.1)))
}

impl fmt::Display for StalePrimary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "primary marked stale due to electionId/setVersion mismatch, {} is stale compared to {}",
            Shown(self.stale),
            Shown(self.newest)
        )
    }
}

/// Writes the tuple as `(electionId, setVersion)`.
struct Shown(Newest);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (election_id, set_version) = self.0;
        let election_id = election_id.map_or_else(|| "null".to_owned(), |id| id.to_hex());
        let set_version = set_version.map_or_else(|| "null".to_owned(), |v| v.to_string());
        write!(f, "({election_id}, {set_version})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> Option<ObjectId> {
        Some(ObjectId::from_bytes([n; 12]))
    }

    #[test]
    fn from_6_0_on_a_newer_election_outweighs_an_older_configuration() {
        assert_eq!(election_first((id(1), Some(9)), (id(2), Some(1))), Some((id(2), Some(1))));
        assert_eq!(election_first((id(2), Some(1)), (id(1), Some(9))), None);
        assert_eq!(election_first((id(2), Some(1)), (id(2), Some(0))), None);
        assert_eq!(election_first((id(1), None), (None, Some(9))), None);
        assert_eq!(election_first((None, None), (None, None)), Some((None, None)));
    }

    #[test]
    fn before_6_0_a_newer_configuration_outweighs_an_older_election() {
        let weigh = configuration_first;
        assert_eq!(weigh((id(2), Some(1)), (id(1), Some(2))), Some((id(1), Some(2))));
        assert_eq!(weigh((id(1), Some(2)), (id(2), Some(1))), None);
        assert_eq!(weigh((id(2), Some(1)), (id(1), Some(1))), None);
    }

    #[test]
    fn before_6_0_a_primary_without_an_election_is_not_stale() {
        let weigh = configuration_first;
        assert_eq!(weigh((id(2), Some(5)), (None, Some(1))), Some((id(2), Some(5))));
        assert_eq!(weigh((id(2), Some(5)), (None, Some(6))), Some((id(2), Some(6))));
        assert_eq!(weigh((id(2), Some(5)), (None, None)), Some((id(2), Some(5))));
    }
}
