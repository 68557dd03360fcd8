//! The options of clients, databases, collections and actions.
//!
//! Every struct of an action's options is made by `Default`, by its `builder()`, or by the setters
//! of the action that takes it; the three mean the same.

mod aggregate;
mod bulk_write;
mod change_stream;
mod client;
mod collation;
mod collection;
mod count;
mod create_collection;
mod cursor_type;
mod database;
mod declare;
mod delete;
mod distinct;
mod drop;
mod find;
mod find_one_and;
mod gridfs;
mod hint;
mod index;
mod insert;
mod list;
pub(crate) mod millis;
pub(crate) mod number;
mod run_command;
mod search_index;
pub(crate) mod seconds;
mod timeout_mode;
mod update;
pub(crate) mod words;
mod write_model;

pub use steadfast_core::{
    address::ServerAddress,
    concern::{Acknowledgment, ReadConcern, ReadConcernLevel, WriteConcern},
    connection_string::{Compressor, ConnectionString, ServerMonitoringMode, Tls, TlsOptions},
    credential::{AuthMechanism, Credential},
    description::TagSet,
    read_preference::{HedgedReadOptions, ReadPreference, ReadPreferenceOptions},
    selection::SelectionCriteria,
    server_api::{ServerApi, ServerApiVersion},
};

pub(crate) use self::declare::options;
pub use self::{
    aggregate::{AggregateOptions, AggregateOptionsBuilder},
    bulk_write::{BulkWriteOptions, BulkWriteOptionsBuilder},
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
    collection::{CollectionOptions, CollectionOptionsBuilder},
    count::{
        CountOptions, CountOptionsBuilder, EstimatedDocumentCountOptions,
        EstimatedDocumentCountOptionsBuilder,
    },
    create_collection::{
        ChangeStreamPreAndPostImages, ClusteredIndex, CreateCollectionOptions,
        CreateCollectionOptionsBuilder, IndexOptionDefaults, TimeseriesGranularity,
        TimeseriesOptions, TimeseriesOptionsBuilder, ValidationAction, ValidationLevel,
    },
    cursor_type::CursorType,
    database::{DatabaseOptions, DatabaseOptionsBuilder},
    delete::{DeleteOptions, DeleteOptionsBuilder},
    distinct::{DistinctOptions, DistinctOptionsBuilder},
    drop::{
        DropCollectionOptions, DropCollectionOptionsBuilder, DropDatabaseOptions,
        DropDatabaseOptionsBuilder,
    },
    find::{FindOneOptions, FindOneOptionsBuilder, FindOptions, FindOptionsBuilder},
    find_one_and::{
        FindOneAndDeleteOptions, FindOneAndDeleteOptionsBuilder, FindOneAndReplaceOptions,
        FindOneAndReplaceOptionsBuilder, FindOneAndUpdateOptions, FindOneAndUpdateOptionsBuilder,
        ReturnDocument,
    },
    gridfs::{
        GridFsBucketOptions, GridFsBucketOptionsBuilder, GridFsDownloadByNameOptions,
        GridFsDownloadByNameOptionsBuilder, GridFsFindOneOptions, GridFsFindOneOptionsBuilder,
        GridFsFindOptions, GridFsFindOptionsBuilder, GridFsUploadOptions,
        GridFsUploadOptionsBuilder,
    },
    hint::Hint,
    index::{
        CommitQuorum, CreateIndexOptions, CreateIndexOptionsBuilder, DropIndexOptions,
        DropIndexOptionsBuilder, ListIndexesOptions, ListIndexesOptionsBuilder,
    },
    insert::{
        InsertManyOptions, InsertManyOptionsBuilder, InsertOneOptions, InsertOneOptionsBuilder,
    },
    list::{
        ListCollectionsOptions, ListCollectionsOptionsBuilder, ListDatabasesOptions,
        ListDatabasesOptionsBuilder,
    },
    run_command::{
        RunCommandOptions, RunCommandOptionsBuilder, RunCursorCommandOptions,
        RunCursorCommandOptionsBuilder,
    },
    search_index::{
        CreateSearchIndexOptions, CreateSearchIndexOptionsBuilder, DropSearchIndexOptions,
        DropSearchIndexOptionsBuilder, ListSearchIndexOptions, ListSearchIndexOptionsBuilder,
        UpdateSearchIndexOptions, UpdateSearchIndexOptionsBuilder,
    },
    timeout_mode::TimeoutMode,
    update::{
        ReplaceOptions, ReplaceOptionsBuilder, UpdateModifications, UpdateOptions,
        UpdateOptionsBuilder,
    },
    write_model::{
        DeleteManyModel, DeleteManyModelBuilder, DeleteOneModel, DeleteOneModelBuilder, Given,
        InsertOneModel, InsertOneModelBuilder, Missing, ReplaceOneModel, ReplaceOneModelBuilder,
        UpdateManyModel, UpdateManyModelBuilder, UpdateOneModel, UpdateOneModelBuilder, WriteModel,
    },
};
pub use crate::index::{
    IndexOptions, IndexOptionsBuilder, IndexVersion, Sphere2DIndexVersion, TextIndexVersion,
};
pub use crate::session::{
    SessionOptions, SessionOptionsBuilder, TransactionOptions, TransactionOptionsBuilder,
};
