//! Table of reports, as Markdown that is readable in a terminal.

use steadfast_report::table::Table;

use crate::{
    measure::Report,
    scenario::{Scenario, Strategy},
};

const TITLES: &str = ">load|strategy|>offered/s|>goodput/s|>of capacity|>at its end|>of no retries|>attempts/op|\
                      >failed|>p50 / p99|>recovered after";

/// Returns a table with a row for each report.
pub fn table(reports: &[Report], scenario: &Scenario) -> String {
    let mut table = Table::new(TITLES);
    for report in reports {
        table.row(row(report, reports, scenario));
    }
    table.markdown()
}

fn row(report: &Report, all: &[Report], scenario: &Scenario) -> [String; 11] {
    let of_no_retries = all
        .iter()
        .find(|other| other.load == report.load && other.strategy == Strategy::Never.name())
        .filter(|never| never.goodput > 0.0)
        .map_or_else(|| "–".to_owned(), |never| percent(report.goodput / never.goodput));
    let recovered = match report.recovered_after {
        Some(seconds) => format!("{seconds:.1} s"),
        None => format!("> {:.0} s", scenario.after as f64 / 1e9),
    };
    [
        format!("{:.2}", report.load),
        report.strategy.to_owned(),
        format!("{:.0}", report.offered),
        format!("{:.0}", report.goodput),
        percent(report.goodput_share),
        percent(report.late_goodput_share),
        of_no_retries,
        format!("{:.2}", report.attempts_per_operation),
        percent(report.failed_share),
        format!("{} / {}", millis(report.median_ms), millis(report.p99_ms)),
        recovered,
    ]
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn millis(millis: f64) -> String {
    if millis < 10.0 { format!("{millis:.1} ms") } else { format!("{millis:.0} ms") }
}
