//! Write concern of `commitTransaction`.

use std::time::Duration;

use crate::concern::{Acknowledgment, WriteConcern};

/// Default `wtimeout` of a repeated commit, so that the server does not wait forever.
const MAJORITY_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the write concern of a commit: the transaction's own, and `w: "majority"` for a repeated
/// commit (`repeated`).
///
/// A repeated commit can reach a new primary that has no record of the first one. The new primary
/// would report that there is no such transaction, and the application would run it again. The
/// first primary could then return with both. A majority cannot lose the record.
pub fn commit_write_concern(own: Option<&WriteConcern>, repeated: bool) -> Option<WriteConcern> {
    let own = own.filter(|concern| !concern.is_empty()).cloned();
    if !repeated {
        return own;
    }
    let mut concern = own.unwrap_or_default();
    concern.w = Some(Acknowledgment::Majority);
    concern.w_timeout.get_or_insert(MAJORITY_TIMEOUT);
    Some(concern)
}
