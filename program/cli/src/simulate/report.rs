//! Results of the experiments as text and as a JSON document.

use std::{fmt, time::Duration};

use serde_json::{Value, json};
use simulation::{measure::Report, scenario::Scenario, table};

/// Results of all experiments.
pub(super) struct SimulateOutcome {
    pub(super) base: Scenario,
    pub(super) reports: Vec<Report>,
    pub(super) took: Duration,
}

impl SimulateOutcome {
    /// Returns the duration of an experiment, in virtual seconds.
    fn lasting(&self) -> f64 {
        self.base.phases()[2] as f64 / 1e9
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "clients": self.base.clients,
            "capacity": self.base.capacity(),
            "share": self.base.share,
            "shedCost": self.base.shed_cost,
            "virtualSeconds": self.lasting(),
            "seed": self.base.seed,
            "experiments": self.reports,
            "seconds": self.took.as_secs_f64(),
        })
    }
}

/// The table, and a line about its parameters.
impl fmt::Display for SimulateOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempts: u64 = self.reports.iter().map(|report| report.counts.attempts).sum();
        writeln!(f, "{}", table::table(&self.reports, &self.base))?;
        write!(
            f,
            "{} clients, a server of {:.0} operations a second, {:.0} s each; {} experiments with {:.1} \
             million attempts took {:.1} s.",
            self.base.clients,
            self.base.capacity(),
            self.lasting(),
            self.reports.len(),
            attempts as f64 / 1e6,
            self.took.as_secs_f64(),
        )
    }
}
