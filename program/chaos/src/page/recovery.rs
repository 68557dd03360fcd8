//! How long it took to go on after each failover.

use std::time::Duration;

use super::{
    plot::put,
    words::{clock, counted, escaped, grouped, rough},
};
use crate::{Report, figures::Recovery};

/// Of more, the slowest so many are shown first.
const SLOWEST: usize = 12;
/// So many at most in their order.
const LISTED: usize = 300;

pub(super) fn section(run: &Report) -> String {
    let all = &run.figures.recoveries;
    let mut html =
        "<section aria-labelledby=\"recovery\">\n<h2 id=\"recovery\">Time to recover</h2>\n"
            .to_owned();
    if all.is_empty() {
        return html + "<p>There was no failover.</p>\n</section>\n";
    }
    put(&mut html, format_args!("<p>{}</p>\n", summary(all)));
    html.push_str(KEY);
    let numbered: Vec<(usize, &Recovery)> = (1..).zip(all).collect();
    let longest = all.iter().flat_map(|it| [it.took.unwrap_or_default(), it.silence]).max();
    let rows = Rows { run, longest: longest.unwrap_or_default().max(Duration::from_micros(1)) };
    if all.len() <= SLOWEST {
        html.push_str(&rows.html(&numbered));
        return html + "</section>\n";
    }
    let mut slowest = numbered.clone();
    // Those that never went on first.
    slowest.sort_by_key(|(_, it)| std::cmp::Reverse((it.took.is_none(), it.took, it.silence)));
    put(
        &mut html,
        format_args!("<h3>The slowest {SLOWEST}</h3>\n{}", rows.html(&slowest[..SLOWEST])),
    );
    let shown = &numbered[..numbered.len().min(LISTED)];
    let count = grouped(all.len() as u64);
    put(
        &mut html,
        format_args!(
            "<details><summary>All {count} in their order</summary>\n{}",
            rows.html(shown)
        ),
    );
    if shown.len() < all.len() {
        let rest = grouped((all.len() - shown.len()) as u64);
        put(&mut html, format_args!("<p class=\"fine\">… and {rest} more.</p>\n"));
    }
    html + "</details>\n</section>\n"
}

const KEY: &str = r#"<p class="keys"><span class="key"><svg width="22" height="10" aria-hidden="true"><rect class="bar" y="1" width="22" height="8"/></svg>until a write was acknowledged that began after it</span> <span class="key"><svg width="22" height="10" aria-hidden="true"><rect class="silence" y="3" width="22" height="4"/></svg>longest time without any acknowledgement</span></p>
"#;

fn summary(all: &[Recovery]) -> String {
    let mut took: Vec<Duration> = all.iter().filter_map(|it| it.took).collect();
    took.sort_unstable();
    let count = all.len() as u64;
    let mut text = match (took.as_slice(), took.get(took.len() / 2), took.last()) {
        ([only], _, _) if count == 1 => format!(
            "One failover. A write that began after it was acknowledged {} later.",
            rough(*only)
        ),
        (_, Some(median), Some(worst)) => format!(
            "{}. Until a write that began after it was acknowledged, it took {} in the middle, and {} at most.",
            counted(count, "failover", "failovers"),
            rough(*median),
            rough(*worst)
        ),
        _ => format!("{}.", counted(count, "failover", "failovers")),
    };
    let never = count - took.len() as u64;
    if never > 0 {
        put(
            &mut text,
            format_args!(" After {never} of them, no such write was acknowledged before the end."),
        );
    }
    text
}

/// Failovers with bars on one scale.
struct Rows<'a> {
    run: &'a Report,
    longest: Duration,
}

impl Rows<'_> {
    fn html(&self, recoveries: &[(usize, &Recovery)]) -> String {
        let rows: String = recoveries.iter().map(|(number, it)| self.row(*number, it)).collect();
        format!("<ol class=\"recoveries\">\n{rows}</ol>\n")
    }

    fn row(&self, number: usize, recovery: &Recovery) -> String {
        let incident = &self.run.account.incidents[recovery.incident];
        let wide = |it: Duration| 100.0 * it.as_secs_f64() / self.longest.as_secs_f64();
        let took = recovery.took.map_or_else(|| "never".to_owned(), rough);
        format!(
            r#"<li><span class="nth">{number}</span><time>{at}</time><span class="what">{what}</span><svg width="100%" height="14" aria-hidden="true"><rect class="bar" width="{solid:.2}%" height="8"/><rect class="silence" y="10" width="{thin:.2}%" height="4"/></svg><span class="took"><b>{took}</b> <small>{silence}</small></span></li>
"#,
            what = escaped(&incident.what),
            at = clock(incident.began),
            silence = rough(recovery.silence),
            solid = recovery.took.map_or(0.0, wide),
            thin = wide(recovery.silence),
        )
    }
}
