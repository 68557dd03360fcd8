//! How many attempts operations took.

use super::{
    plot::put,
    words::{counted, grouped, share},
};
use crate::Report;

/// From here on, they are counted together.
const MANY: u32 = 8;

pub(super) fn section(run: &Report) -> String {
    let all = &run.figures.all;
    let count = all.count();
    if count == 0 {
        return String::new();
    }
    let once = all.by_attempts.get(&1).copied().unwrap_or_default();
    let mut html = format!(
        "<section aria-labelledby=\"attempts\">\n<h2 id=\"attempts\">Attempts per operation</h2>\n<p>{} of the \
         operations took one attempt. For {}, there were {}.</p>\n",
        share(once, count),
        counted(count, "operation", "operations"),
        counted(all.attempts(), "attempt", "attempts"),
    );
    let rows = rows(run);
    let largest = rows.iter().map(|(_, count)| *count).max().unwrap_or_default();
    if largest > 0 {
        html.push_str("<h3>The others</h3>\n<ul class=\"bars\">\n");
        for (what, operations) in &rows {
            let wide = 100.0 * *operations as f64 / largest as f64;
            let (operations, share) = (grouped(*operations), share(*operations, count));
            put(
                &mut html,
                format_args!(
                    r#"<li><span>{what}</span><svg width="100%" height="12" aria-hidden="true"><rect class="bar" width="{wide:.2}%" height="12"/></svg><span>{operations} <small>{share}</small></span></li>
"#
                ),
            );
        }
        html.push_str("</ul>\n");
    }
    html + "</section>\n"
}

/// All but one attempt, without a gap.
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
