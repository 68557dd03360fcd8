//! How durable a commit must be that is sent again.

use std::time::Duration;

use crate::concern::{Acknowledgment, WriteConcern};

/// How long a server waits for a majority if nobody says otherwise, so that it does not wait for
/// ever.
const MAJORITY_TIMEOUT: Duration = Duration::from_secs(10);

/// The write concern of a commit: that of the transaction, and if it is sent `again`, a majority
/// whatever else it asks for.
///
/// A second commit that met a new primary without the first could be told that there is no such
/// transaction, and the application would run it a second time; then the first primary returns with
/// both. A majority cannot be told so.
pub fn commit_write_concern(own: Option<&WriteConcern>, again: bool) -> Option<WriteConcern> {
    let own = own.filter(|concern| !concern.is_empty()).cloned();
    if !again {
        return own;
    }
    let mut concern = own.unwrap_or_default();
    concern.w = Some(Acknowledgment::Majority);
    concern.w_timeout.get_or_insert(MAJORITY_TIMEOUT);
    Some(concern)
}
