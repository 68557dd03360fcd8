//! The reports as a table that reads well in a terminal and is Markdown, too.

use std::fmt::Write;

use crate::{
    measure::Report,
    scenario::{Scenario, Strategy},
};

const HEAD: [&str; 11] = [
    "load",
    "strategy",
    "offered/s",
    "goodput/s",
    "of capacity",
    "at its end",
    "of no retries",
    "attempts/op",
    "failed",
    "p50 / p99",
    "well after",
];

/// A table with a row for each report.
pub fn table(reports: &[Report], scenario: &Scenario) -> String {
    let rows: Vec<_> = reports.iter().map(|report| row(report, reports, scenario)).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([HEAD[column].len()]).max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..HEAD.len()).map(width).collect();
    let mut text = String::new();
    line(&mut text, &HEAD.map(str::to_owned), &widths);
    let rules = widths.iter().enumerate().map(|(column, &width)| {
        let dashes = "-".repeat(width + 1);
        if is_text(column) { format!(":{dashes}") } else { format!("{dashes}:") }
    });
    let _ = writeln!(text, "|{}|", rules.collect::<Vec<_>>().join("|"));
    for row in &rows {
        line(&mut text, row, &widths);
    }
    text
}

fn is_text(column: usize) -> bool {
    HEAD[column] == "strategy"
}

fn line(text: &mut String, cells: &[String], widths: &[usize]) {
    for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        let _ = if is_text(column) {
            write!(text, "| {cell:<width$} ")
        } else {
            write!(text, "| {cell:>width$} ")
        };
    }
    text.push_str("|\n");
}

fn row(report: &Report, all: &[Report], scenario: &Scenario) -> [String; 11] {
    let plain = all
        .iter()
        .find(|other| other.load == report.load && other.strategy == Strategy::Never.name())
        .filter(|plain| plain.goodput > 0.0)
        .map_or_else(|| "–".to_owned(), |plain| percent(report.goodput / plain.goodput));
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
        plain,
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
