//! MongoDB's own JSON test suites, run against this driver.
//!
//! A [`Suite`] loads its [`Case`]s from a [`SpecDir`]; [`run()`] runs them, weighs the results
//! against the [`Ledger`] of known exceptions and returns a [`SuiteReport`]. What a suite's cases
//! mean is known only to its own file under [`suites`].

pub mod case;
pub mod context;
pub mod figures;
mod lane;
pub mod ledger;
pub mod markdown;
pub mod report;
pub mod run;
pub mod spec;
pub mod suites;
mod unified;

pub use case::{Case, CaseResult, Suite};
pub use context::{Context, Target};
pub use ledger::Ledger;
pub use report::SuiteReport;
pub use run::run;
pub use spec::{LoadError, SpecDir, SpecFile};
pub use unified::stop_servers;
