//! Options of clients, databases, collections and actions.
//!
//! Each struct of options has a `builder()`. The same fields are setters of the action that accepts
//! the options:
//!
//! ```no_run
//! # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
//! use steadfast::{bson::doc, options::FindOptions};
//!
//! let options = FindOptions::builder().limit(10).build();
//! let first = books.find(doc! {}).with_options(options).await?;
//! let same = books.find(doc! {}).limit(10).await?;
//! # Ok(()) }
//! ```
//!
//! An option that is not set is not sent, so the server's default applies. Defaults of the driver
//! are stated with each option.

#[macro_use]
mod declare;
#[macro_use]
mod catalog;
#[macro_use]
mod change_stream;
mod client;
mod collation;
#[macro_use]
mod gridfs;
#[macro_use]
mod index;
#[macro_use]
mod read;
#[macro_use]
mod run_command;
#[macro_use]
mod session;
#[macro_use]
mod write;
mod write_model;

pub use steadfast_core::{
    address::ServerAddress,
    concern::{Acknowledgment, ReadConcern, ReadConcernLevel, WriteConcern},
    connection_string::{
        Compressor, ConnectionString, HostInfo, ServerMonitoringMode, Tls, TlsOptions,
    },
    credential::{AuthMechanism, Credential},
    description::TagSet,
    read_preference::{HedgedReadOptions, ReadPreference, ReadPreferenceOptions},
    selection::{Predicate, SelectionCriteria},
    server_api::{ServerApi, ServerApiVersion},
};

#[cfg(feature = "dns")]
pub use crate::dns::ResolverConfig;

pub use self::{
    catalog::{
        ChangeStreamPreAndPostImages, ChangeStreamPreAndPostImagesBuilder, ClusteredIndex,
        CollectionOptions, CollectionOptionsBuilder, CreateCollectionOptions,
        CreateCollectionOptionsBuilder, DatabaseOptions, DatabaseOptionsBuilder,
        DropCollectionOptions, DropCollectionOptionsBuilder, DropDatabaseOptions,
        DropDatabaseOptionsBuilder, IndexOptionDefaults, IndexOptionDefaultsBuilder,
        ListCollectionsOptions, ListCollectionsOptionsBuilder, ListDatabasesOptions,
        ListDatabasesOptionsBuilder, TimeseriesGranularity, TimeseriesOptions,
        TimeseriesOptionsBuilder, ValidationAction, ValidationLevel,
    },
    change_stream::{
        ChangeStreamOptions, ChangeStreamOptionsBuilder, FullDocumentBeforeChangeType,
        FullDocumentType,
    },
    client::{
        ClientOptions, ClientOptionsBuilder, DriverInfo, DriverInfoBuilder, ParseClientOptions,
    },
    collation::{
        Collation, CollationAlternate, CollationBuilder, CollationCaseFirst, CollationMaxVariable,
        CollationStrength,
    },
    gridfs::{
        GridFsBucketOptions, GridFsBucketOptionsBuilder, GridFsDownloadByNameOptions,
        GridFsDownloadByNameOptionsBuilder, GridFsFindOneOptions, GridFsFindOneOptionsBuilder,
        GridFsFindOptions, GridFsFindOptionsBuilder, GridFsUploadOptions,
        GridFsUploadOptionsBuilder,
    },
    index::{
        CommitQuorum, CreateIndexOptions, CreateIndexOptionsBuilder, CreateSearchIndexOptions,
        CreateSearchIndexOptionsBuilder, DropIndexOptions, DropIndexOptionsBuilder,
        DropSearchIndexOptions, DropSearchIndexOptionsBuilder, IndexOptions, IndexOptionsBuilder,
        IndexVersion, ListIndexesOptions, ListIndexesOptionsBuilder, ListSearchIndexOptions,
        ListSearchIndexOptionsBuilder, Sphere2DIndexVersion, TextIndexVersion,
        UpdateSearchIndexOptions, UpdateSearchIndexOptionsBuilder,
    },
    read::{
        AggregateOptions, AggregateOptionsBuilder, CountOptions, CountOptionsBuilder, CursorType,
        DistinctOptions, DistinctOptionsBuilder, EstimatedDocumentCountOptions,
        EstimatedDocumentCountOptionsBuilder, FindOneOptions, FindOneOptionsBuilder, FindOptions,
        FindOptionsBuilder, Hint, TimeoutMode,
    },
    run_command::{
        RunCommandOptions, RunCommandOptionsBuilder, RunCursorCommandOptions,
        RunCursorCommandOptionsBuilder,
    },
    session::{
        SessionOptions, SessionOptionsBuilder, TransactionOptions, TransactionOptionsBuilder,
    },
    write::{
        BulkWriteOptions, BulkWriteOptionsBuilder, DeleteOptions, DeleteOptionsBuilder,
        FindOneAndDeleteOptions, FindOneAndDeleteOptionsBuilder, FindOneAndReplaceOptions,
        FindOneAndReplaceOptionsBuilder, FindOneAndUpdateOptions, FindOneAndUpdateOptionsBuilder,
        InsertManyOptions, InsertManyOptionsBuilder, InsertOneOptions, InsertOneOptionsBuilder,
        ReplaceOptions, ReplaceOptionsBuilder, ReturnDocument, UpdateModifications, UpdateOptions,
        UpdateOptionsBuilder,
    },
    write_model::{
        DeleteManyModel, DeleteManyModelBuilder, DeleteOneModel, DeleteOneModelBuilder, Given,
        InsertOneModel, InsertOneModelBuilder, Missing, ReplaceOneModel, ReplaceOneModelBuilder,
        UpdateManyModel, UpdateManyModelBuilder, UpdateOneModel, UpdateOneModelBuilder, WriteModel,
    },
};

/// Types of the options' fields, in scope for the setters of actions.
pub(crate) mod field_types {
    pub(crate) use std::time::Duration;

    pub(crate) use bson::{Bson, Document, Timestamp};

    pub(crate) use super::*;
    pub(crate) use crate::resume_token::ResumeToken;

    /// Collects the stages of a pipeline, or array filters.
    pub(crate) fn documents(items: impl IntoIterator<Item = Document>) -> Vec<Document> {
        items.into_iter().collect()
    }
}
