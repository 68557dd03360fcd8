//! Chaos runs: concurrent writes of all kinds while the deployment fails, and a verdict on every write.
//!
//! Several tasks write through the driver while connections break, members freeze or are killed, the primary
//! steps down, servers reject requests and callers drop futures. Every operation is recorded with its result. At
//! the end, the [`Verdict`] compares these results with the contents of the database.
//!
//! The run of a test needs nothing but the embedded deployment:
//!
//! ```
//! use std::time::Duration;
//! use steadfast_chaos::{Fault, Plan, Servers};
//!
//! # #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut plan = Plan::new(Servers::Embedded);
//! plan.lasting = Duration::from_secs(2);
//! plan.faults = vec![Fault::Cuts, Fault::StepDown, Fault::Drops];
//! let report = steadfast_chaos::run(plan).await?;
//! assert!(report.verdict.is_clean(), "{report}");
//! # Ok(())
//! # }
//! ```
//!
//! This library prints nothing. [`run_observed`] reports its progress to an [`Observer`]; the command
//! `steadfast chaos` is one.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod account;
mod contradiction;
mod course;
mod figures;
mod json;
mod judge;
mod live;
mod observer;
mod page;
mod plan;
mod repeat;
#[cfg(test)]
mod sample;
mod schedule;
mod stage;
pub mod strategy;
mod summary;
mod workload;

use std::{error::Error, fmt, path::Path, sync::Arc, time::Duration};

use serde_json::Value;

use self::{account::Account, course::Course, figures::Figures};
pub use self::{
    judge::Verdict,
    live::Live,
    observer::{Observer, Phase},
    plan::{DATABASE, Fault, InvalidPlan, LASTING, Load, Plan, RATE, Servers, TASKS, TIMEOUT, Uri},
    summary::Styles,
};

/// Runs a plan.
///
/// # Errors
///
/// [`InvalidPlan`] if the plan cannot be run, and other errors if the run ended without a verdict.
pub async fn run(plan: Plan) -> Result<Report, Box<dyn Error>> {
    run_observed(plan, Arc::new(()), async || std::future::pending().await).await
}

/// Runs a plan, reports its progress, and ends early after an interruption.
///
/// `interrupt` is called repeatedly; each completion of its future is an interruption. The first one ends the load,
/// and the writes until then are counted. The second one ends the run without a verdict.
///
/// # Errors
///
/// The same as those of [`run`].
pub async fn run_observed(
    plan: Plan,
    observer: Arc<dyn Observer>,
    mut interrupt: impl AsyncFnMut(),
) -> Result<Report, Box<dyn Error>> {
    plan.check()?;
    let Course { account, left_behind } = course::run(plan, observer, &mut interrupt).await?;
    Ok(Report { left_behind, ..Report::of(account) })
}

/// Result of a run: the verdict and the data of the summary, the JSON document and the HTML page.
///
/// `Display` writes the summary without colours.
#[derive(Clone, Debug)]
pub struct Report {
    /// Contradictions between the results of operations and the database.
    pub verdict: Verdict,
    /// Error of the clean-up, if servers or data were left in place.
    pub left_behind: Option<String>,
    account: Account,
    figures: Figures,
}

impl Report {
    fn of(account: Account) -> Self {
        let (verdict, figures) = (judge::judge(&account), Figures::of(&account));
        Self { verdict, left_behind: None, account, figures }
    }

    /// Returns the duration of the load if it was interrupted.
    pub fn interrupted_after(&self) -> Option<Duration> {
        self.account.interrupted.then_some(self.account.lasted)
    }

    /// Returns the HTML page, one file without references to others.
    pub fn page(&self) -> String {
        page::page(self)
    }

    /// Returns the JSON document, which contains the path of the page.
    pub fn json(&self, page: Option<&Path>) -> Value {
        json::document(self, page)
    }

    /// Returns the summary of at most 100 columns, which contains the path of the page.
    pub fn summary(&self, styles: Styles, page: Option<&Path>) -> String {
        summary::text(styles, self, page)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary(Styles::default(), None))
    }
}
