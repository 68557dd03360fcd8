//! Operations by kind.

use maud::{Markup, html};

use super::{
    table::table,
    words::{grouped, rough},
};
use crate::{Report, figures::Operations};

pub(super) fn section(run: &Report) -> Markup {
    let kinds = &run.figures.kinds;
    if kinds.is_empty() {
        return html! {};
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
    let each = kinds.iter().map(|(kind, it)| (html! { code { (kind.name()) } }, cells(it)));
    let all = (kinds.len() > 1).then(|| (html! { "all" }, cells(&run.figures.all)));
    let table = table("Operations by kind", "kinds", &titles, each.chain(all));
    super::section("kinds", "By kind of write", &table)
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
