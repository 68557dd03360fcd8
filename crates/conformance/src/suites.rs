//! The suites, each in a file of its own.
//!
//! To add one: a file `suites/<name>.rs` with a `pub const SUITE: Suite`, a `pub mod` line and a
//! line in `for_each_suite!` here, and its folders in [`crate::spec`]. Such a file reads:
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
pub mod causal_consistency;
pub mod change_streams;
pub mod client_backpressure;
pub mod collection_management;
pub mod command_logging;
pub mod command_monitoring;
pub mod connection_logging;
pub mod connection_monitoring;
pub mod connection_string;
pub mod crud;
pub mod csot;
pub mod discovery_and_monitoring;
pub mod gridfs;
pub mod handshake;
pub mod index_management;
pub mod load_balancer;
pub mod max_staleness;
pub mod read_write_concern;
pub mod retryable_reads;
pub mod retryable_writes;
pub mod run_command;
pub mod sdam_monitoring;
pub mod server_selection;
pub mod server_selection_logging;
pub mod sessions;
pub mod srv_seedlist;
pub mod transactions;
pub mod transactions_convenient_api;
pub mod unified_test_format;
pub mod uri_options;
pub mod versioned_api;

mod parsed_uri;

/// Calls the macro `$each` with the names of all suites: the one list of them.
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

/// The suite of this name: that of PyMongo's folder, with dashes or underscores.
pub fn find(name: &str) -> Option<Suite> {
    let name = name.replace('-', "_");
    ALL.iter().copied().find(|suite| suite.name.replace('-', "_") == name)
}
