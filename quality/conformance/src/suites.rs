//! The suites: a table of those in the unified test format, and a module for each other suite.
//!
//! A new suite needs a line in `unified_suites!`, or a file `suites/<name>.rs` with a `pub const SUITE: Suite` and a
//! `pub mod` line; a line in `for_each_suite!` here; and its folders in [`crate::spec`]. Such a file reads:
//!
//! ```
//! use conformance::{Case, Context, LoadError, Suite};
//!
//! pub const SUITE: Suite = Suite { name: "connection_string", load };
//!
//! fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
//!     let mut cases = Vec::new();
//!     for file in context.spec.files(SUITE.name)? {
//!         let content: serde_json::Value = file.json()?;
//!         for test in content["tests"].as_array().into_iter().flatten().cloned() {
//!             let description = test["description"].as_str().unwrap_or_default().to_owned();
//!             cases.push(Case::new(&file.name, description, move || check(&test)));
//!         }
//!     }
//!     Ok(cases)
//! }
//!
//! fn check(test: &serde_json::Value) -> Result<(), String> {
//!     test["uri"].as_str().map(drop).ok_or_else(|| "no uri".to_owned())
//! }
//! ```

use crate::Suite;

// pub mod lines, in alphabetical order:
pub mod auth;
pub mod connection_monitoring;
pub mod connection_string;
pub mod discovery_and_monitoring;
pub mod max_staleness;
pub mod read_write_concern;
pub mod sdam_monitoring;
pub mod server_selection;
pub mod srv_seedlist;
pub mod unified_test_format;
pub mod uri_options;

mod parsed_uri;

/// Declares suites of the unified test format: module, function that loads the cases, name and folder.
macro_rules! unified_suites {
    ($($(#[$doc:meta])* $module:ident: $cases:ident($name:literal, $folder:literal),)*) => {
        $(
            $(#[$doc])*
            pub mod $module {
                /// The suite.
                pub const SUITE: crate::Suite = crate::Suite {
                    name: $name,
                    load: |context| crate::unified::$cases(context, $name, &[$folder]),
                };
            }
        )*
    };
}

unified_suites! {
    /// Causal consistency: `afterClusterTime` in sessions.
    causal_consistency: cases("causal_consistency", ""),
    /// Change streams: events, and resuming.
    change_streams: cases("change_streams", "unified"),
    /// Client backpressure: retries of commands rejected by overloaded servers.
    client_backpressure: cases("client-backpressure", ""),
    /// Collection management: creating, modifying and listing collections.
    collection_management: cases("collection_management", ""),
    /// Command logging: log messages of commands.
    command_logging: cases("command_logging", ""),
    /// Command monitoring: command events.
    command_monitoring: cases("command_monitoring", ""),
    /// Connection logging: log messages of connections and pools.
    connection_logging: cases("connection_logging", ""),
    /// CRUD: reads and writes of documents.
    crud: cases("crud", "unified"),
    /// Client-side operations timeout (`timeoutMS`).
    csot: timed_cases("csot", ""),
    /// GridFS: files stored in chunks.
    gridfs: cases("gridfs", ""),
    /// Handshake: client metadata in `hello`.
    handshake: cases("handshake", "unified"),
    /// Index management: search indexes.
    index_management: cases("index_management", ""),
    /// Load balancers: `serviceId` and pinned connections.
    load_balancer: cases("load_balancer", ""),
    /// Retryable reads.
    retryable_reads: cases("retryable_reads", "unified"),
    /// Retryable writes.
    retryable_writes: cases("retryable_writes", "unified"),
    /// Run command: generic commands.
    run_command: cases("run_command", "unified"),
    /// Server selection logging: log messages of server selection.
    server_selection_logging: cases("server_selection_logging", ""),
    /// Sessions: explicit, implicit, snapshot and dirty sessions.
    sessions: cases("sessions", ""),
    /// Transactions: `startTransaction`, `commitTransaction`, `abortTransaction`.
    transactions: cases("transactions", "unified"),
    /// Convenient API of transactions: `withTransaction`.
    transactions_convenient_api: cases("transactions-convenient-api", "unified"),
    /// Versioned API: clients that declare an API version.
    versioned_api: cases("versioned-api", ""),
}

/// Calls the macro `$each` with the names of all suites. This is the only list of them.
#[macro_export]
macro_rules! for_each_suite {
    ($each:ident) => {
        $each! {
            auth,
            causal_consistency,
            change_streams,
            client_backpressure,
            collection_management,
            command_logging,
            command_monitoring,
            connection_logging,
            connection_monitoring,
            connection_string,
            crud,
            csot,
            discovery_and_monitoring,
            gridfs,
            handshake,
            index_management,
            load_balancer,
            max_staleness,
            read_write_concern,
            retryable_reads,
            retryable_writes,
            run_command,
            sdam_monitoring,
            server_selection,
            server_selection_logging,
            sessions,
            srv_seedlist,
            transactions,
            transactions_convenient_api,
            unified_test_format,
            uri_options,
            versioned_api,
        }
    };
}

macro_rules! registry {
    ($($name:ident,)*) => {
        /// All suites, in the order in which they are run.
        pub const ALL: &[Suite] = &[$($name::SUITE,)*];
    };
}
for_each_suite!(registry);

/// Finds a suite by the name of PyMongo's folder, with dashes or underscores.
pub fn find(name: &str) -> Option<Suite> {
    let name = name.replace('-', "_");
    ALL.iter().copied().find(|suite| suite.name.replace('-', "_") == name)
}
