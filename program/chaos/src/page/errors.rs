//! What happened to each kind of error.

use super::{
    plot::put,
    table::Table,
    words::{counted, escaped, grouped},
};
use crate::Report;

/// So many are told; there may be one for each port of a host.
const LISTED: usize = 40;

pub(super) fn section(run: &Report) -> String {
    let errors = &run.figures.errors;
    let mut html =
        "<section aria-labelledby=\"errors\">\n<h2 id=\"errors\">What became of errors</h2>\n"
            .to_owned();
    if errors.is_empty() {
        return html + "<p>No attempt failed.</p>\n</section>\n";
    }
    html.push_str("<p>Why attempts failed, and what the application was told in the end of the operations that met it.</p>\n");
    let titles = ["error", "attempts", "operations", "acknowledged", "not applied", "in doubt"];
    let mut table = Table::new("Errors", "errors", &titles);
    for met in errors.iter().take(LISTED) {
        let answers = &met.answers;
        let cells = [
            met.attempts,
            answers.count(),
            answers.acknowledged,
            answers.not_applied,
            answers.in_doubt,
        ];
        table.row(&escaped(&met.what), &cells.map(grouped));
    }
    html.push_str(&table.html());
    if let Some(rest) = errors.get(LISTED..).filter(|rest| !rest.is_empty()) {
        let attempts = rest.iter().map(|met| met.attempts).sum();
        let attempts = counted(attempts, "attempt", "attempts");
        put(
            &mut html,
            format_args!("<p class=\"fine\">… and {} more kinds, {attempts}.</p>\n", rest.len()),
        );
    }
    html + "</section>\n"
}
