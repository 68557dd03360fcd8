//! Options of sessions and transactions.

use std::time::Duration;

use bson::Timestamp;
use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
    transaction::TransactionSettings,
};

options! {
    /// Options of [`start_session`](crate::Client::start_session). See
    /// [sessions](https://github.com/mongodb/specifications/blob/master/source/sessions/driver-sessions.md).
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::options::SessionOptions;
    ///
    /// let options = SessionOptions::builder().snapshot(true).build();
    /// let session = client.start_session().with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct SessionOptions, SessionOptionsBuilder {
        /// Enables causal consistency (`causalConsistency`) if `true`: reads observe earlier reads
        /// and writes of the session, also on secondaries. Defaults to `true`, except in a snapshot
        /// session. See
        /// [causal consistency](https://www.mongodb.com/docs/manual/core/causal-consistency-read-write-concerns/).
        causal_consistency: bool,
        /// Default time-out (`defaultTimeoutMS`) of `commit_transaction`, `abort_transaction` and
        /// of a transaction run by `and_run`. Zero means no limit. Defaults to the time-out of the
        /// client.
        #[serde(rename = "defaultTimeoutMS", with = "crate::serde_helpers::millis")]
        default_timeout: Duration,
        /// Enables snapshot reads (`snapshot`) if `true`: all reads observe the data at one point
        /// in time, that of the first read. Mutually exclusive with causal consistency. Defaults to
        /// `false`.
        snapshot: bool,
        /// Timestamp of the snapshot (`snapshotTime`, sent as `atClusterTime`), as returned by
        /// [`snapshot_time`](crate::ClientSession::snapshot_time) of another session. Requires
        /// `snapshot`. Defaults to the time of the first read.
        snapshot_time: Timestamp,
        /// Default options of transactions in the session (`defaultTransactionOptions`). Defaults
        /// to those of the client.
        default_transaction_options: TransactionOptions,
    }
}

options! {
    /// Options of [`start_transaction`](crate::ClientSession::start_transaction). An option that is
    /// not set is inherited from
    /// [`default_transaction_options`](crate::options::SessionOptions::default_transaction_options)
    /// of the session, then from the client. See
    /// [transactions](https://github.com/mongodb/specifications/blob/master/source/transactions/transactions.md).
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::options::{TransactionOptions, WriteConcern};
    ///
    /// let options = TransactionOptions::builder().write_concern(WriteConcern::majority()).build();
    /// let mut session = client.start_session().await?;
    /// session.start_transaction().with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct TransactionOptions, TransactionOptionsBuilder {
        /// Time-out of the whole transaction (`timeoutMS`), from its start to the end of its
        /// commit. Operations in it cannot have their own time-out then. Zero means no limit. For
        /// [`and_run`](crate::action::StartTransaction::and_run) it defaults to
        /// [`default_timeout`](crate::options::SessionOptions::default_timeout) of the session,
        /// then to the time-out of the client; otherwise to no limit.
        #[serde(rename = "timeoutMS", with = "crate::serde_helpers::millis")]
        timeout: Duration,
        /// Read concern (`readConcern`) of the transaction. Those of databases and collections do
        /// not apply. Defaults to the read concern of the client. See
        /// [read concern](https://www.mongodb.com/docs/manual/reference/read-concern/).
        read_concern: ReadConcern,
        /// Write concern (`writeConcern`) of the commit. It must be acknowledged. Those of
        /// databases and collections do not apply. Defaults to the write concern of the client. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        write_concern: WriteConcern,
        /// Read preference (`readPreference`) of reads in the transaction. Only the primary is
        /// supported: with any other, the first read fails. Defaults to that of the client. See
        /// [read preference](https://www.mongodb.com/docs/manual/core/read-preference/).
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// Limit on the server's processing time of the commit (`maxCommitTimeMS`, sent as
        /// `maxTimeMS`). Defaults to no limit.
        #[serde(rename = "maxCommitTimeMS", with = "crate::serde_helpers::millis")]
        max_commit_time: Duration,
    }
}

impl TransactionOptions {
    /// Converts the options into the settings of a transaction.
    pub(crate) fn settings(&self) -> TransactionSettings {
        let mut settings = TransactionSettings::default();
        settings.read_concern.clone_from(&self.read_concern);
        settings.write_concern.clone_from(&self.write_concern);
        settings.criteria.clone_from(&self.selection_criteria);
        settings.max_commit_time = self.max_commit_time;
        settings
    }
}
