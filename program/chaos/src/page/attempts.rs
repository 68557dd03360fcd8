//! Number of attempts per operation.

use maud::{Markup, html};

use super::words::{counted, grouped, share};
use crate::Report;

/// Operations with at least this many attempts are counted together.
const MANY: u32 = 8;

pub(super) fn section(run: &Report) -> Markup {
    let all = &run.figures.all;
    let count = all.count();
    if count == 0 {
        return html! {};
    }
    let once = all.by_attempts.get(&1).copied().unwrap_or_default();
    let rows = rows(run);
    let largest = rows.iter().map(|(_, count)| *count).max().unwrap_or_default();
    super::section(
        "attempts",
        "Attempts per operation",
        &html! {
            p {
                (share(once, count)) " of the operations took one attempt. For "
                (counted(count, "operation", "operations")) ", there were "
                (counted(all.attempts(), "attempt", "attempts")) "."
            }
            @if largest > 0 {
                h3 { "The others" }
                ul.bars {
                    @for (label, operations) in &rows {
                        @let width = 100.0 * *operations as f64 / largest as f64;
                        li {
                            span { (label) }
                            svg width="100%" height="12" aria-hidden="true" {
                                rect.bar width=(format_args!("{width:.2}%")) height="12" {}
                            }
                            span { (grouped(*operations)) " " small { (share(*operations, count)) } }
                        }
                    }
                }
            }
        },
    )
}

/// Operations by number of attempts without those with one attempt, without gaps.
fn rows(run: &Report) -> Vec<(String, u64)> {
    let by_attempts = &run.figures.all.by_attempts;
    let of = |attempts| by_attempts.get(&attempts).copied().unwrap_or_default();
    let most = by_attempts.keys().last().copied().unwrap_or_default();
    let mut rows = Vec::new();
    if of(0) > 0 {
        rows.push(("never sent".to_owned(), of(0)));
    }
    rows.extend(
        (2..=most.min(MANY - 1)).map(|attempts| (format!("{attempts} attempts"), of(attempts))),
    );
    if most >= MANY {
        let many = by_attempts.range(MANY..).map(|(_, count)| count).sum();
        rows.push((format!("{MANY} or more"), many));
    }
    rows
}
