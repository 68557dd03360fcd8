//! Outcomes of the operations that had each kind of error.

use maud::{Markup, html};

use super::{
    table::table,
    words::{counted, grouped, harmless},
};
use crate::Report;

/// Rows of the table. There may be one kind of error for each port of a host.
const LISTED: usize = 40;

pub(super) fn section(run: &Report) -> Markup {
    let errors = &run.figures.errors;
    let title = "Errors and outcomes";
    if errors.is_empty() {
        return super::section("errors", title, &html! { p { "No attempt failed." } });
    }
    let titles = ["error", "attempts", "operations", "acknowledged", "not applied", "in doubt"];
    let row = |met: &crate::figures::ErrorFigures| {
        let answers = &met.answers;
        let cells = [
            met.attempts,
            answers.count(),
            answers.acknowledged,
            answers.not_applied,
            answers.in_doubt,
        ];
        (html! { (harmless(&met.what)) }, cells.map(grouped).to_vec())
    };
    let rows = errors.iter().take(LISTED).map(row);
    let rest = errors.get(LISTED..).unwrap_or_default();
    let attempts = rest.iter().map(|met| met.attempts).sum();
    super::section(
        "errors",
        title,
        &html! {
            p { "Errors of failed attempts, and the final results of the operations that had them." }
            (table("Errors", "errors", &titles, rows))
            @if !rest.is_empty() {
                p.fine { "… and " (rest.len()) " more kinds, " (counted(attempts, "attempt", "attempts")) "." }
            }
        },
    )
}
