//! Tables of the trial, as Markdown.

use std::fmt::Write;

use simulation::measure::Report;

use super::{cost::Cost, strategy::Strategy};

/// Figures of one strategy at one load.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) load: f64,
    pub(super) strategy: Strategy,
    pub(super) offered: f64,
    pub(super) goodput: f64,
    pub(super) attempts_per_operation: f64,
    pub(super) late_attempts_per_operation: f64,
    pub(super) failed_share: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// Processor time of the server for each operation that succeeded.
    pub(super) micros_per_success: f64,
    pub(super) simulated: Option<Report>,
}

/// Returns the table of costs.
pub(super) fn costs(costs: &[Cost]) -> String {
    let mut text = "\
| request | served, µs | rejected, µs | rejected / served |
|---|--:|--:|--:|
"
    .to_owned();
    for cost in costs {
        let Cost { request, served, rejected } = cost;
        let _ = writeln!(text, "| {request} | {served:.1} | {rejected:.1} | {:.4} |", cost.ratio());
    }
    text
}

/// Returns the table of one route.
pub(super) fn rows(rows: &[Row]) -> String {
    let mut text = "\
| load | strategy | offered/s | goodput/s | attempts/op | at its end | failed | p50 / p99 | server µs/success | simulated: goodput/s | attempts/op | failed |
|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"
    .to_owned();
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {:.0} | {:.0} | {:.2} | {:.2} | {:.1} % | {:.1} / {:.1} ms | {:.0} | {} |",
            row.load,
            row.strategy.name(),
            row.offered,
            row.goodput,
            row.attempts_per_operation,
            row.late_attempts_per_operation,
            row.failed_share * 100.0,
            row.p50_ms,
            row.p99_ms,
            row.micros_per_success,
            simulated(row),
        );
    }
    text
}

fn simulated(row: &Row) -> String {
    row.simulated.as_ref().map_or_else(
        || "– | – | –".to_owned(),
        |report| {
            format!(
                "{:.0} | {:.2} | {:.1} %",
                report.goodput,
                report.attempts_per_operation,
                report.failed_share * 100.0
            )
        },
    )
}
