//! How a session is started, and a transaction in it.

use std::time::Duration;

use bson::Timestamp;
use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
    transaction::TransactionSettings,
};

options! {
    /// What a session is to guarantee.
    pub struct SessionOptions, SessionOptionsBuilder {
        /// Whether reads see what was written, or read, before in the session, also on secondaries.
        /// True by default, except in a snapshot session.
        causal_consistency: bool,
        /// How long committing, aborting or running a transaction of this session may take, unless
        /// the call itself says otherwise. By default what the client says. Zero is without end.
        #[serde(rename = "defaultTimeoutMS", with = "crate::serde_helpers::millis")]
        default_timeout: Duration,
        /// Whether all reads see the data as they were at one moment, that of the first read.
        snapshot: bool,
        /// The moment that a snapshot session reads at, as another session's
        /// [`snapshot_time`](crate::ClientSession::snapshot_time) gave it. That of the first read
        /// by default.
        snapshot_time: Timestamp,
        /// How transactions are run in it; what is not set is as in the client.
        default_transaction_options: TransactionOptions,
    }
}

options! {
    /// How a transaction is run; what is not set is as in the session's
    /// [`default_transaction_options`](crate::options::SessionOptions::default_transaction_options), else as in the
    /// client.
    pub struct TransactionOptions, TransactionOptionsBuilder {
        /// How long all of it may take, from its start to its commit. Operations in it cannot have a
        /// time limit of their own then. For [`and_run`](crate::action::StartTransaction::and_run) this is by
        /// default what the session says
        /// ([`default_timeout`](crate::options::SessionOptions::default_timeout)), else what the client says. Zero is
        /// without end.
        #[serde(rename = "timeoutMS", with = "crate::serde_helpers::millis")]
        timeout: Duration,
        /// What all of it sees. Databases and collections have no say in it.
        read_concern: ReadConcern,
        /// How durable its commit must be. It must be acknowledged. Databases and collections have
        /// no say in it.
        write_concern: WriteConcern,
        /// Which servers its reads go to. Only the primary is allowed: any other is refused by the
        /// first read.
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// How long the server may work on the commit.
        #[serde(rename = "maxCommitTimeMS", with = "crate::serde_helpers::millis")]
        max_commit_time: Duration,
    }
}

impl TransactionOptions {
    /// The same in the words of transactions.
    pub(crate) fn settings(&self) -> TransactionSettings {
        let mut settings = TransactionSettings::default();
        settings.read_concern.clone_from(&self.read_concern);
        settings.write_concern.clone_from(&self.write_concern);
        settings.criteria.clone_from(&self.selection_criteria);
        settings.max_commit_time = self.max_commit_time;
        settings
    }
}
