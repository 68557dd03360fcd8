//! Detection of stale primaries by `electionId` and `setVersion`.

use std::fmt;

use bson::oid::ObjectId;

use crate::description::{ServerDescription, ServerType, TopologyDescription, TopologyType};

/// Wire version of MongoDB 6.0. Since then, `electionId` takes precedence over `setVersion`.
const ELECTION_FIRST_WIRE_VERSION: i32 = 17;

/// Highest `electionId` and `setVersion` of a primary.
type ElectionTuple = (Option<ObjectId>, Option<i32>);

/// A primary with a lower `electionId` or `setVersion` than another one.
#[derive(Debug)]
pub(super) struct StalePrimary {
    stale: ElectionTuple,
    newest: ElectionTuple,
}

/// Compares a primary with the highest values so far. Returns the highest values including its own.
pub(super) fn compare(
    topology: &TopologyDescription,
    primary: &ServerDescription,
) -> Result<ElectionTuple, StalePrimary> {
    let newest = (topology.max_election_id, topology.max_set_version);
    let shown = (primary.election_id, primary.set_version);
    let weighed = if primary.max_wire_version >= ELECTION_FIRST_WIRE_VERSION {
        election_first(newest, shown)
    } else {
        configuration_first(newest, shown)
    };
    weighed.ok_or(StalePrimary { stale: shown, newest })
}

/// Returns `true` for a member that reports itself as primary, but does not accept writes yet: it
/// was elected and catches up with the other members, for milliseconds or seconds. Without another
/// election, no other member becomes primary meanwhile.
pub(super) fn is_elected_but_not_writable(
    topology: &TopologyDescription,
    member: &ServerDescription,
) -> bool {
    topology.topology_type == TopologyType::ReplicaSetNoPrimary
        && member.server_type == ServerType::RsSecondary
        && member.primary.as_ref() == Some(&member.address)
}

/// Compares by the rule since MongoDB 6.0. Tuples of `Option` have its order: element by element,
/// and `None` first.
fn election_first(newest: ElectionTuple, shown: ElectionTuple) -> Option<ElectionTuple> {
    (shown >= newest).then_some(shown)
}

/// Compares by the rule before MongoDB 6.0. A primary without `electionId` is never stale, and does
/// not change the highest `electionId`.
fn configuration_first(newest: ElectionTuple, shown: ElectionTuple) -> Option<ElectionTuple> {
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
            DisplayTuple(self.stale),
            DisplayTuple(self.newest)
        )
    }
}

/// Displays the tuple as `(electionId, setVersion)`.
struct DisplayTuple(ElectionTuple);

impl fmt::Display for DisplayTuple {
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
    fn since_6_0_election_id_takes_precedence() {
        assert_eq!(election_first((id(1), Some(9)), (id(2), Some(1))), Some((id(2), Some(1))));
        assert_eq!(election_first((id(2), Some(1)), (id(1), Some(9))), None);
        assert_eq!(election_first((id(2), Some(1)), (id(2), Some(0))), None);
        assert_eq!(election_first((id(1), None), (None, Some(9))), None);
        assert_eq!(election_first((None, None), (None, None)), Some((None, None)));
    }

    #[test]
    fn before_6_0_set_version_takes_precedence() {
        let compare = configuration_first;
        assert_eq!(compare((id(2), Some(1)), (id(1), Some(2))), Some((id(1), Some(2))));
        assert_eq!(compare((id(1), Some(2)), (id(2), Some(1))), None);
        assert_eq!(compare((id(2), Some(1)), (id(1), Some(1))), None);
    }

    #[test]
    fn before_6_0_primary_without_election_id_is_not_stale() {
        let compare = configuration_first;
        assert_eq!(compare((id(2), Some(5)), (None, Some(1))), Some((id(2), Some(5))));
        assert_eq!(compare((id(2), Some(5)), (None, Some(6))), Some((id(2), Some(6))));
        assert_eq!(compare((id(2), Some(5)), (None, None)), Some((id(2), Some(5))));
    }
}
