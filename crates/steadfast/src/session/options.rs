//! How a session is started.

use std::time::Duration;

use bson::Timestamp;

use crate::{options::options, session::StartSession};

options! {
    /// What a session is to guarantee.
    pub struct SessionOptions, SessionOptionsBuilder, untimed for ['a] StartSession<'a> {
        /// Whether reads see what was written, or read, before in the session, also on secondaries.
        /// True by default, except in a snapshot session.
        causal_consistency: bool,
        /// How long committing, aborting or running a transaction of this session may take, unless
        /// the call itself says otherwise. By default what the client says. Zero is without end.
        #[serde(rename = "defaultTimeoutMS", with = "crate::options::millis")]
        default_timeout: Duration,
        /// Whether all reads see the data as they were at one moment, that of the first read.
        snapshot: bool,
        /// The moment that a snapshot session reads at, as another session's
        /// [`snapshot_time`](crate::ClientSession::snapshot_time) gave it. That of the first read
        /// by default.
        snapshot_time: Timestamp,
    }
}
