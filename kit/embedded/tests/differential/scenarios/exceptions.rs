//! Known differences between the embedded deployment and MongoDB 8.2. `docs/embedded.md` lists their reasons.

use super::{Scenario, Step, Target, reply::Difference};

/// A step whose reply differs.
pub(crate) struct Exception {
    pub(crate) target: Target,
    pub(crate) scenario: &'static str,
    pub(crate) step: &'static str,
    /// Reason that it stays different.
    pub(crate) reason: &'static str,
    /// Path of each field that differs, its value on the real server and on the embedded one.
    pub(crate) fields: &'static [(&'static str, &'static str, &'static str)],
}

impl Exception {
    pub(crate) fn is_about(&self, scenario: &Scenario, step: &Step) -> bool {
        self.scenario == scenario.name && self.step == step.label
    }

    pub(crate) fn has(&self, found: &Difference) -> bool {
        let found = (found.path.as_str(), found.real.as_str(), found.embedded.as_str());
        self.fields.contains(&found)
    }
}

const SHARD_FAIL_POINTS: &str =
    "fail points of a shard do not concern what an embedded mongos sends to it";
const TRANSACTION_STATES: &str = "which shards take part is decided later than by a real mongos";
const LATER_COLLECTIONS: &str =
    "a collection that was created after a transaction began is visible in it";
const VALIDATION: &str = "a rare command is checked in another place";
const SHARD_KEYS: &str = "indexes are not considered when a collection gets its shard key";
const CURSORS: &str = "a field of a cursor that no driver reads";
const EARLY_ERRORS: &str = "a real mongos rejects these before it knows the cluster time";
const CHANGE_STREAMS: &str =
    "resume tokens of another collection are rejected, shard keys cannot be refined";

/// All exceptions.
#[rustfmt::skip]
pub(crate) const EXCEPTIONS: &[Exception] = &[
    Exception { target: Target::ShardedCollection, scenario: "repeated inserts", step: "another command", reason: VALIDATION, fields: &[
        ("upserted", "[{index: 0, _id: 1}]", "absent"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "failed on a shard", step: "write concern error 100", reason: SHARD_FAIL_POINTS, fields: &[
        ("writeConcernError", "{code: 100, codeName: \"UnsatisfiableWriteConcern\", errmsg: (any), errInfo: {}}", "absent"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "failed on a shard", step: "set 91 as write concern error", reason: SHARD_FAIL_POINTS, fields: &[
        ("count", "1", "0"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "failed on a shard", step: "write concern error 91", reason: SHARD_FAIL_POINTS, fields: &[
        ("retriedStmtIds", "[0]", "absent"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "failed on a shard", step: "set 91 as write concern error once more", reason: SHARD_FAIL_POINTS, fields: &[
        ("count", "2", "0"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "failed on a shard", step: "write concern error 91 without a number", reason: SHARD_FAIL_POINTS, fields: &[
        ("writeConcernError", "{code: 6, codeName: \"HostUnreachable\", errmsg: (any), errInfo: {}}", "absent"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "failed on a shard", step: "set 8", reason: SHARD_FAIL_POINTS, fields: &[
        ("count", "3", "0"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "failed on a shard", step: "error 8", reason: SHARD_FAIL_POINTS, fields: &[
        ("n", "0", "1"),
        ("writeErrors", "[{index: 0, code: 8, errmsg: (any)}]", "absent"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "failed on a shard", step: "set 91", reason: SHARD_FAIL_POINTS, fields: &[
        ("count", "4", "0"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "failed on a shard", step: "set 8 for one of two shards", reason: SHARD_FAIL_POINTS, fields: &[
        ("count", "5", "0"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "failed on a shard", step: "error 8 on one of two shards", reason: SHARD_FAIL_POINTS, fields: &[
        ("n", "1", "2"),
        ("writeErrors", "[{index: 0, code: 8, errmsg: (any)}]", "absent"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "failed on a shard", step: "off", reason: SHARD_FAIL_POINTS, fields: &[
        ("count", "6", "0"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "failed on a shard", step: "stored", reason: SHARD_FAIL_POINTS, fields: &[
        ("cursor.firstBatch.5._id", "6", "5"),
        ("cursor.firstBatch.5.k", "6", "5"),
        ("cursor.firstBatch.6", "absent", "{_id: 6, k: 6}"),
        ("cursor.firstBatch.7", "absent", "{_id: 7, k: 7}"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "states of transactions", step: "begin with the number of a retryable write", reason: TRANSACTION_STATES, fields: &[
        ("n", "0", "absent"),
        ("writeErrors", "[{index: 0, code: 50911, errmsg: (any)}]", "absent"),
        ("ok", "1.0", "0.0"),
        ("recoveryToken", "{}", "absent"),
        ("errmsg", "absent", "(any)"),
        ("code", "absent", "117"),
        ("codeName", "absent", "\"ConflictingOperationInProgress\""),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "states of transactions", step: "commit with the number of a retryable write", reason: TRANSACTION_STATES, fields: &[
        ("recoveryToken", "absent", "{}"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "wrong fields of transactions", step: "commit in another database", reason: TRANSACTION_STATES, fields: &[
        ("recoveryToken", "{}", "absent"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "catalogs and transactions", step: "read what was created later", reason: LATER_COLLECTIONS, fields: &[
        ("ok", "0.0", "1.0"),
        ("errmsg", "(any)", "absent"),
        ("code", "246", "absent"),
        ("codeName", "\"SnapshotUnavailable\"", "absent"),
        ("errorLabels", "[\"TransientTransactionError\"]", "absent"),
        ("cursor", "absent", "{firstBatch: [], id: 0L, ns: \"catalogs_and_transactions.later\"}"),
        ("recoveryToken", "absent", "{}"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "catalogs and transactions", step: "write what was created later", reason: LATER_COLLECTIONS, fields: &[
        ("ok", "0.0", "1.0"),
        ("errmsg", "(any)", "absent"),
        ("code", "251", "absent"),
        ("codeName", "\"NoSuchTransaction\"", "absent"),
        ("errorLabels", "[\"TransientTransactionError\"]", "absent"),
        ("n", "absent", "1"),
        ("recoveryToken", "absent", "{recoveryShardId: \"shard0\"}"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "catalogs and transactions", step: "abort", reason: LATER_COLLECTIONS, fields: &[
        ("errorLabels", "[\"TransientTransactionError\"]", "absent"),
        ("ok", "0.0", "1.0"),
        ("errmsg", "(any)", "absent"),
        ("code", "251", "absent"),
        ("codeName", "\"NoSuchTransaction\"", "absent"),
        ("recoveryToken.recoveryShardId", "absent", "\"shard0\""),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "catalogs and transactions", step: "index on what has documents", reason: TRANSACTION_STATES, fields: &[
        ("recoveryToken", "{}", "absent"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "catalogs and transactions", step: "index that is there", reason: TRANSACTION_STATES, fields: &[
        ("recoveryToken.recoveryShardId", "absent", "\"shard0\""),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "catalogs and transactions", step: "commit 7", reason: TRANSACTION_STATES, fields: &[
        ("recoveryToken.recoveryShardId", "absent", "\"shard0\""),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "failures in transactions", step: "commit after bad filter", reason: TRANSACTION_STATES, fields: &[
        ("ok", "1", "0.0"),
        ("errmsg", "absent", "(any)"),
        ("code", "absent", "251"),
        ("codeName", "absent", "\"NoSuchTransaction\""),
        ("errorLabels", "absent", "[\"TransientTransactionError\"]"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "failures in transactions", step: "commit after unknown field", reason: TRANSACTION_STATES, fields: &[
        ("code", "50940", "251"),
        ("codeName", "\"Location50940\"", "\"NoSuchTransaction\""),
        ("errorLabels", "absent", "[\"TransientTransactionError\"]"),
        ("recoveryToken", "absent", "{}"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "concerns of transactions", step: "commit with a read concern", reason: TRANSACTION_STATES, fields: &[
        ("ok", "1.0", "0.0"),
        ("errmsg", "absent", "(any)"),
        ("code", "absent", "72"),
        ("codeName", "absent", "\"InvalidOptions\""),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "concerns of transactions", step: "read preference secondary", reason: TRANSACTION_STATES, fields: &[
        ("errorLabels", "absent", "[\"TransientTransactionError\"]"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "recovery tokens", step: "commit through the other mongos too early", reason: TRANSACTION_STATES, fields: &[
        ("recoveryToken", "{}", "absent"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "targeted deletes", step: "bad limit", reason: VALIDATION, fields: &[
        ("ok", "0.0", "1.0"),
        ("errmsg", "(any)", "absent"),
        ("code", "9", "absent"),
        ("codeName", "\"FailedToParse\"", "absent"),
        ("n", "absent", "0"),
        ("writeErrors", "absent", "[{index: 0, code: 9, errmsg: (any)}]"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "targeted findAndModify", step: "by neither, repeated", reason: VALIDATION, fields: &[
        ("retriedStmtId", "0", "absent"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "targeted findAndModify", step: "upsert by neither", reason: VALIDATION, fields: &[
        ("ok", "1", "1.0"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "changed shard keys", step: "to an array", reason: VALIDATION, fields: &[
        ("writeErrors.0.code", "54", "61"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "targeted inserts", step: "into config", reason: VALIDATION, fields: &[
        ("n", "1", "absent"),
        ("ok", "1.0", "0.0"),
        ("errmsg", "absent", "(any)"),
        ("code", "absent", "20"),
        ("codeName", "absent", "\"IllegalOperation\""),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "pipelines that write", step: "$out to itself", reason: VALIDATION, fields: &[
        ("code", "28769", "115"),
        ("codeName", "\"NamespaceCannotBeSharded\"", "\"CommandNotSupported\""),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "pipelines that write", step: "$merge on another field", reason: VALIDATION, fields: &[
        ("code", "51190", "51183"),
        ("codeName", "\"Location51190\"", "\"Location51183\""),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "shardCollection", step: "index is there", reason: SHARD_KEYS, fields: &[
        ("collectionsharded", "\"shardCollection.full\"", "absent"),
        ("ok", "1.0", "0.0"),
        ("errmsg", "absent", "(any)"),
        ("code", "absent", "85"),
        ("codeName", "absent", "\"IndexOptionsConflict\""),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "shardCollection", step: "the same again", reason: SHARD_KEYS, fields: &[
        ("collectionsharded", "\"shardCollection.full\"", "absent"),
        ("ok", "1.0", "0.0"),
        ("errmsg", "absent", "(any)"),
        ("code", "absent", "85"),
        ("codeName", "absent", "\"IndexOptionsConflict\""),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "shardCollection", step: "another key", reason: SHARD_KEYS, fields: &[
        ("ok", "0.0", "1.0"),
        ("errmsg", "(any)", "absent"),
        ("code", "23", "absent"),
        ("codeName", "\"AlreadyInitialized\"", "absent"),
        ("collectionsharded", "absent", "\"shardCollection.full\""),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "shardCollection", step: "unique with the shard key", reason: SHARD_KEYS, fields: &[
        ("raw.shard0/127.0.0.1:(port).numIndexesBefore", "2", "absent"),
        ("raw.shard0/127.0.0.1:(port).numIndexesAfter", "3", "absent"),
        ("raw.shard0/127.0.0.1:(port).createdCollectionAutomatically", "false", "absent"),
        ("raw.shard0/127.0.0.1:(port).commitQuorum", "\"votingMembers\"", "absent"),
        ("raw.shard0/127.0.0.1:(port).ok", "1.0", "0.0"),
        ("raw.shard0/127.0.0.1:(port).errmsg", "absent", "(any)"),
        ("raw.shard0/127.0.0.1:(port).code", "absent", "67"),
        ("raw.shard0/127.0.0.1:(port).codeName", "absent", "\"CannotCreateIndex\""),
        ("numIndexesBefore", "2", "absent"),
        ("numIndexesAfter", "3", "absent"),
        ("createdCollectionAutomatically", "false", "absent"),
        ("commitQuorum", "\"votingMembers\"", "absent"),
        ("ok", "1.0", "0.0"),
        ("errmsg", "absent", "(any)"),
        ("code", "absent", "67"),
        ("codeName", "absent", "\"CannotCreateIndex\""),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "shardCollection", step: "drop the shard key's index", reason: SHARD_KEYS, fields: &[
        ("raw.shard0/127.0.0.1:(port).nIndexesWas", "3", "2"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "shardCollection", step: "other unique index first", reason: SHARD_KEYS, fields: &[
        ("raw.shard0/127.0.0.1:(port).createdCollectionAutomatically", "false", "true"),
        ("createdCollectionAutomatically", "false", "true"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "sharded collection", step: "count", reason: VALIDATION, fields: &[
        ("shards", "{shard0: 1, shard1: 1}", "absent"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "validation of bulkWrite", step: "unacknowledged with errorsOnly false", reason: VALIDATION, fields: &[
        ("retriedStmtIds", "absent", "[]"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "cursors", step: "limit", reason: CURSORS, fields: &[
        ("cursor.id", "(open)", "0L"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "stable API", step: "without the version", reason: CURSORS, fields: &[
        ("ok", "0.0", "1.0"),
        ("errmsg", "(any)", "absent"),
        ("code", "347", "absent"),
        ("codeName", "\"APIMismatchError\"", "absent"),
        ("cursor", "absent", "{nextBatch: [{_id: 1}], id: 0L, ns: \"stable_API.c\"}"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "write concerns", step: "w 0 with journal", reason: VALIDATION, fields: &[
        ("n", "absent", "1"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "write concerns", step: "w 10 of $out", reason: VALIDATION, fields: &[
        ("ok", "0.0", "1.0"),
        ("errmsg", "(any)", "absent"),
        ("code", "100", "absent"),
        ("codeName", "\"UnsatisfiableWriteConcern\"", "absent"),
        ("cursor", "absent", "{firstBatch: [], id: 0L, ns: \"write_concerns.c\"}"),
        ("writeConcernError", "absent", "{code: 100, codeName: \"UnsatisfiableWriteConcern\", errmsg: (any), errInfo: {writeConcern: {w: 10, wtimeout: 0, provenance: \"clientSupplied\"}}}"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "write concerns", step: "of find", reason: EARLY_ERRORS, fields: &[
        ("$clusterTime", "absent", "(any)"),
        ("operationTime", "absent", "(timestamp)"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "write concerns", step: "of ping", reason: EARLY_ERRORS, fields: &[
        ("$clusterTime", "absent", "(any)"),
        ("operationTime", "absent", "(timestamp)"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "read concerns", step: "of insert, majority", reason: EARLY_ERRORS, fields: &[
        ("$clusterTime", "absent", "(any)"),
        ("operationTime", "absent", "(timestamp)"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "read concerns", step: "of findAndModify, majority", reason: EARLY_ERRORS, fields: &[
        ("$clusterTime", "absent", "(any)"),
        ("operationTime", "absent", "(timestamp)"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "read concerns", step: "of count, snapshot", reason: EARLY_ERRORS, fields: &[
        ("$clusterTime", "absent", "(any)"),
        ("operationTime", "absent", "(timestamp)"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "read concerns", step: "of create, majority", reason: EARLY_ERRORS, fields: &[
        ("$clusterTime", "absent", "(any)"),
        ("operationTime", "absent", "(timestamp)"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "read concerns", step: "of $out, linearizable", reason: EARLY_ERRORS, fields: &[
        ("$clusterTime", "absent", "(any)"),
        ("operationTime", "absent", "(timestamp)"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "snapshots", step: "second batch", reason: CURSORS, fields: &[
        ("cursor.atClusterTime", "(timestamp)", "absent"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "snapshots", step: "insert with snapshot", reason: EARLY_ERRORS, fields: &[
        ("$clusterTime", "absent", "(any)"),
        ("operationTime", "absent", "(timestamp)"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "snapshots", step: "listCollections with snapshot", reason: EARLY_ERRORS, fields: &[
        ("$clusterTime", "absent", "(any)"),
        ("operationTime", "absent", "(timestamp)"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "starts of change streams", step: "token elsewhere", reason: CHANGE_STREAMS, fields: &[
        ("cursor", "{firstBatch: [], postBatchResumeToken: {_data: (any)}, id: (open), ns: \"starts_of_change_streams.d\"}", "absent"),
        ("ok", "1.0", "0.0"),
        ("errmsg", "absent", "(any)"),
        ("code", "absent", "280"),
        ("codeName", "absent", "\"ChangeStreamFatalError\""),
        ("errorLabels", "absent", "[\"NonResumableChangeStreamError\"]"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "errors of change streams", step: "read concern local", reason: EARLY_ERRORS, fields: &[
        ("$clusterTime", "absent", "(any)"),
        ("operationTime", "absent", "(timestamp)"),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "change streams of shards", step: "refineCollectionShardKey", reason: CHANGE_STREAMS, fields: &[
        ("ok", "1.0", "0.0"),
        ("errmsg", "absent", "(any)"),
        ("code", "absent", "115"),
        ("codeName", "absent", "\"CommandNotSupported\""),
    ] },
    Exception { target: Target::ReplicaSet, scenario: "repeated inserts", step: "another command", reason: VALIDATION, fields: &[
        ("upserted", "[{index: 0, _id: 1}]", "absent"),
    ] },
    Exception { target: Target::ReplicaSet, scenario: "failed commands", step: "63 StaleShardVersion, not retryable", reason: VALIDATION, fields: &[
        ("errorLabels", "[\"RetryableWriteError\"]", "absent"),
    ] },
    Exception { target: Target::ReplicaSet, scenario: "stable API", step: "without the version", reason: CURSORS, fields: &[
        ("ok", "0.0", "1.0"),
        ("errmsg", "(any)", "absent"),
        ("code", "347", "absent"),
        ("codeName", "\"APIMismatchError\"", "absent"),
        ("cursor", "absent", "{nextBatch: [{_id: 1}], id: 0L, ns: \"stable_API.c\"}"),
    ] },
    Exception { target: Target::ReplicaSet, scenario: "snapshots", step: "second batch", reason: CURSORS, fields: &[
        ("cursor.atClusterTime", "(timestamp)", "absent"),
    ] },
    Exception { target: Target::ReplicaSet, scenario: "snapshots", step: "of nothing", reason: CURSORS, fields: &[
        ("cursor.atClusterTime", "absent", "(timestamp)"),
    ] },
    Exception { target: Target::ReplicaSet, scenario: "starts of change streams", step: "token elsewhere", reason: CHANGE_STREAMS, fields: &[
        ("cursor", "{firstBatch: [], postBatchResumeToken: {_data: (any)}, id: (open), ns: \"starts_of_change_streams.d\"}", "absent"),
        ("ok", "1.0", "0.0"),
        ("errorLabels", "absent", "[\"NonResumableChangeStreamError\"]"),
        ("errmsg", "absent", "(any)"),
        ("code", "absent", "280"),
        ("codeName", "absent", "\"ChangeStreamFatalError\""),
    ] },
    Exception { target: Target::ReplicaSet, scenario: "errors of change streams", step: "$out", reason: CHANGE_STREAMS, fields: &[
        ("code", "20", "40324"),
        ("codeName", "\"IllegalOperation\"", "\"Location40324\""),
    ] },
    Exception { target: Target::ShardedCollection, scenario: "change streams of shards", step: "drop events", reason: CHANGE_STREAMS, fields: &[
        ("cursor.nextBatch.2.operationType", "\"refineCollectionShardKey\"", "\"drop\""),
        ("cursor.nextBatch.2.operationDescription", "{shardKey: {k: 1, _id: 1}, oldShardKey: {k: 1}}", "absent"),
        ("cursor.nextBatch.3.operationType", "\"drop\"", "\"invalidate\""),
        ("cursor.nextBatch.3.collectionUUID", "(UUID)", "absent"),
        ("cursor.nextBatch.3.ns", "{db: \"change_streams_of_shards\", coll: \"s\"}", "absent"),
        ("cursor.nextBatch.4", "{_id: {_data: (any)}, operationType: \"invalidate\", clusterTime: (timestamp), wallTime: (any)}", "absent"),
    ] },
];
