//! The operations of each kind.

use super::{
    table::Table,
    words::{grouped, rough},
};
use crate::{Report, figures::Operations};

pub(super) fn section(run: &Report) -> String {
    let kinds = &run.figures.kinds;
    if kinds.is_empty() {
        return String::new();
    }
    let titles = [
        "kind",
        "operations",
        "acknowledged",
        "not applied",
        "in doubt",
        "retried",
        "most attempts",
        "median",
        "99 %",
        "slowest",
    ];
    let mut table = Table::new("Operations by kind", "kinds", &titles);
    for (kind, operations) in kinds {
        table.row(&format!("<code>{}</code>", kind.name()), &cells(operations));
    }
    if kinds.len() > 1 {
        table.row("all", &cells(&run.figures.all));
    }
    format!(
        "<section aria-labelledby=\"kinds\">\n<h2 id=\"kinds\">By kind of write</h2>\n{}</section>\n",
        table.html()
    )
}

fn cells(operations: &Operations) -> Vec<String> {
    let (answers, latency) = (&operations.answers, &operations.latency);
    let most = operations.by_attempts.keys().last().copied().unwrap_or_default();
    let counts = [
        operations.count(),
        answers.acknowledged,
        answers.not_applied,
        answers.in_doubt,
        operations.retried(),
        u64::from(most),
    ];
    let mut cells: Vec<String> = counts.map(grouped).to_vec();
    cells.extend([latency.p50, latency.p99, latency.max].map(rough));
    cells
}
