//! Entities to create for a test.

use bson::Document;
use serde::Deserialize;

use super::{
    encryption::{AutoEncryptionSpec, ClientEncryptionSpec},
    log::LogComponents,
    primitives::NonEmpty,
};

/// An entity to create.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum EntitySpec {
    Client(Box<ClientSpec>),
    ClientEncryption(EncryptionSpec),
    Database(DatabaseSpec),
    Collection(CollectionSpec),
    Session(SessionSpec),
    Bucket(BucketSpec),
    Thread(ThreadSpec),
}

/// A client.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ClientSpec {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) uri_options: Document,
    // Without effect unless the deployment has mongos.
    #[serde(rename = "useMultipleMongoses")]
    pub(in crate::unified) use_multiple_mongoses: Option<bool>,
    pub(crate) observe_events: Option<NonEmpty<EventName>>,
    pub(crate) ignore_command_monitoring_events: Option<NonEmpty<String>>,
    #[serde(default)]
    pub(crate) observe_sensitive_commands: bool,
    pub(crate) store_events_as_entities: Option<NonEmpty<Document>>,
    pub(crate) observe_log_messages: Option<LogComponents>,
    pub(crate) observe_tracing_messages: Option<TracingSpec>,
    pub(crate) server_api: Option<ServerApiSpec>,
    pub(crate) auto_encrypt_opts: Option<AutoEncryptionSpec>,
    #[serde(rename = "awaitMinPoolSizeMS")]
    pub(crate) await_min_pool_size_ms: Option<u64>,
}

/// Events that a test can observe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::enum_variant_names, reason = "the names are those of the test files")]
pub(crate) enum EventName {
    CommandStartedEvent,
    CommandSucceededEvent,
    CommandFailedEvent,
    PoolCreatedEvent,
    PoolReadyEvent,
    PoolClearedEvent,
    PoolClosedEvent,
    ConnectionCreatedEvent,
    ConnectionReadyEvent,
    ConnectionClosedEvent,
    ConnectionCheckOutStartedEvent,
    ConnectionCheckOutFailedEvent,
    ConnectionCheckedOutEvent,
    ConnectionCheckedInEvent,
    ServerDescriptionChangedEvent,
    ServerHeartbeatStartedEvent,
    ServerHeartbeatSucceededEvent,
    ServerHeartbeatFailedEvent,
    TopologyDescriptionChangedEvent,
    TopologyOpeningEvent,
    TopologyClosedEvent,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TracingSpec {
    #[serde(rename = "enableCommandPayload")]
    _enable_command_payload: Option<bool>,
}

/// API version that a client declares (`serverApi`).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ServerApiSpec {
    pub(crate) version: String,
    pub(crate) strict: Option<bool>,
    pub(crate) deprecation_errors: Option<bool>,
}

/// A client for explicit encryption (`clientEncryption`).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EncryptionSpec {
    pub(crate) id: String,
    #[serde(rename = "clientEncryptionOpts")]
    _client_encryption_opts: ClientEncryptionSpec,
}

/// A database of a client.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DatabaseSpec {
    pub(crate) id: String,
    pub(crate) client: String,
    pub(crate) database_name: String,
    #[serde(default)]
    pub(crate) database_options: CommonOptions,
}

/// A collection of a database.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CollectionSpec {
    pub(crate) id: String,
    pub(crate) database: String,
    pub(crate) collection_name: String,
    #[serde(default)]
    pub(crate) collection_options: CommonOptions,
}

/// Options of a database or a collection.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CommonOptions {
    pub(crate) read_concern: Option<Document>,
    pub(crate) read_preference: Option<Document>,
    pub(crate) write_concern: Option<Document>,
    #[serde(rename = "timeoutMS")]
    pub(crate) timeout_ms: Option<i64>,
}

/// A session of a client.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SessionSpec {
    pub(crate) id: String,
    pub(crate) client: String,
    #[serde(default)]
    pub(crate) session_options: Document,
}

/// A GridFS bucket of a database.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BucketSpec {
    pub(crate) id: String,
    pub(crate) database: String,
    #[serde(default)]
    pub(crate) bucket_options: Document,
}

/// A thread of the runner.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThreadSpec {
    pub(crate) id: String,
}
