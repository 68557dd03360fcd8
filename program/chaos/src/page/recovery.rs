//! Time to recover after each failover.

use std::time::Duration;

use maud::{Markup, html};
use steadfast_report::quantiles::quantile;

use super::{
    plot::{percentage, put},
    words::{clock, counted, grouped, harmless, rough},
};
use crate::{Report, figures::Recovery};

/// Number of the slowest failovers that are shown first if there are more.
const SLOWEST: usize = 12;
/// Failovers in the list of all.
const LISTED: usize = 300;

pub(super) fn section(run: &Report) -> Markup {
    let all = &run.figures.recoveries;
    let title = "Time to recover";
    if all.is_empty() {
        return super::section("recovery", title, &html! { p { "There was no failover." } });
    }
    let numbered: Vec<(usize, &Recovery)> = (1..).zip(all).collect();
    let longest = all.iter().flat_map(|it| [it.took.unwrap_or_default(), it.silence]).max();
    let rows = Rows { run, longest: longest.unwrap_or_default().max(Duration::from_micros(1)) };
    let mut slowest = numbered.clone();
    // Failovers without recovery first.
    slowest.sort_by_key(|(_, it)| std::cmp::Reverse((it.took.is_none(), it.took, it.silence)));
    super::section(
        "recovery",
        title,
        &html! {
            p { (summary(all)) }
            p.keys {
                span.key {
                    svg width="22" height="10" aria-hidden="true" { rect.bar y="1" width="22" height="8" {} }
                    "until a write that began after the failover was acknowledged"
                } " "
                span.key {
                    svg width="22" height="10" aria-hidden="true" { rect.silence y="3" width="22" height="4" {} }
                    "longest time without an acknowledgement"
                }
            }
            @if all.len() <= SLOWEST {
                (rows.html(&numbered))
            } @else {
                h3 { "The slowest " (SLOWEST) }
                (rows.html(&slowest[..SLOWEST]))
                details {
                    summary { "All " (grouped(all.len() as u64)) " in order of time" }
                    (rows.html(&numbered[..numbered.len().min(LISTED)]))
                    @if numbered.len() > LISTED {
                        p.fine { "… and " (grouped((numbered.len() - LISTED) as u64)) " more." }
                    }
                }
            }
        },
    )
}

fn summary(all: &[Recovery]) -> String {
    let mut took: Vec<Duration> = all.iter().filter_map(|it| it.took).collect();
    took.sort_unstable();
    let count = all.len() as u64;
    let failovers = counted(count, "failover", "failovers");
    let mut text = match (took.as_slice(), quantile(&took, 500), took.last()) {
        ([only], _, _) if count == 1 => {
            format!(
                "One failover. A write that began after it was acknowledged {} later.",
                rough(*only)
            )
        }
        (_, Some(median), Some(worst)) => format!(
            "{failovers}. The time until a write that began after the failover was acknowledged is {} at the \
             median and {} at most.",
            rough(median),
            rough(*worst)
        ),
        _ => format!("{failovers}."),
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
    fn html(&self, recoveries: &[(usize, &Recovery)]) -> Markup {
        html! {
            ol.recoveries { @for (number, recovery) in recoveries { (self.row(*number, recovery)) } }
        }
    }

    fn row(&self, number: usize, recovery: &Recovery) -> Markup {
        let incident = &self.run.account.incidents[recovery.incident];
        let wide = |it: Duration| percentage(100.0 * it.as_secs_f64() / self.longest.as_secs_f64());
        html! {
            li {
                span.nth { (number) }
                time { (clock(incident.began)) }
                span.what { (harmless(&incident.what)) }
                svg width="100%" height="14" aria-hidden="true" {
                    rect.bar width=(wide(recovery.took.unwrap_or_default())) height="8" {}
                    rect.silence y="10" width=(wide(recovery.silence)) height="4" {}
                }
                span.took {
                    b { (recovery.took.map_or_else(|| "never".to_owned(), rough)) } " "
                    small { (rough(recovery.silence)) }
                }
            }
        }
    }
}
