//! MongoDB's own JSON test suites, run against this driver.
//!
//! A [`Suite`] loads its [`Case`]s from a [`SpecDir`]; [`run()`] runs them, compares the results with the [`Ledger`] of
//! known exceptions and returns a [`SuiteReport`]. Each file under [`suites`] implements one suite.

pub mod case;
pub mod context;
pub mod figures;
pub mod ledger;
pub mod markdown;
pub mod report;
pub mod run;
pub mod spec;
pub mod suites;
mod unified;
mod worker_slot;

pub use case::{Case, CaseResult, Suite};
pub use context::{Context, Target};
pub use ledger::Ledger;
pub use report::SuiteReport;
pub use run::run;
pub use spec::{LoadError, SpecDir, SpecFile};
pub use unified::stop_servers;
