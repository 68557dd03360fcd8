//! The timeline: faults, latency, throughput and failures, one below the other on one time axis.

use std::time::Duration;

use maud::{Markup, html};

use super::{
    lanes, panels,
    plot::{Plot, along, percent, percentage, put},
    scale,
    words::{clock, counted, grouped, rough, spoken},
};
use crate::{
    Report,
    figures::{Bin, Latency, Recovery, Timeline},
};

/// Labels of the time axis on a wide screen. A phone shows every second one.
const LABELS: u64 = 10;

pub(super) fn section(run: &Report) -> Markup {
    let title = "Over time";
    if run.figures.all.count() == 0 {
        return super::section("time", title, &html! { p { "No operation ended." } });
    }
    let step = spoken(run.figures.timeline.width);
    super::section(
        "time",
        title,
        &html! {
            (quantiles(&run.figures.all.latency))
            p.fine {
                "Latency of operations, with all their attempts. Each step of the timeline is " (step) " long."
            }
            div.timeline {
                (lanes::panel(run))
                (panels::latency(run))
                (panels::throughput(run))
                (panels::failed_attempts(run))
                (panels::failures(run))
                (axis(run.figures.timeline.lasted))
            }
        },
    )
}

fn quantiles(latency: &Latency) -> Markup {
    let Latency { p50, p90, p99, p999, max } = *latency;
    let named = [("median", p50), ("90 %", p90), ("99 %", p99), ("99.9 %", p999), ("slowest", max)];
    html! {
        dl.quantiles {
            @for (name, value) in named { div { dt { (name) } dd { (rough(value)) } } }
        }
    }
}

/// Labels of the time axis, below all panels.
fn axis(lasted: Duration) -> Markup {
    html! {
        div.plot {
            span {}
            svg.x width="100%" height="22" aria-hidden="true" {
                line.tick x2="100%" y1=".5" y2=".5" {}
                @for (number, (place, label)) in scale::times(lasted, LABELS).into_iter().enumerate() {
                    @let anchor = match place { ..0.02 => "start", 0.975.. => "end", _ => "middle" };
                    // On a phone, half a label is a twelfth of the time.
                    @let is_for_all = number % 2 == 0 && !(0.92..0.975).contains(&place);
                    @let x = percentage(place * 100.0);
                    line.tick x1=(x) x2=(x) y1="0" y2="5" {}
                    text.wide[!is_for_all] x=(x) y="18" text-anchor=(anchor) { (label) }
                }
            }
        }
    }
}

/// Returns `true` if failovers are marked in all panels. Too many marks would hide the data.
pub(super) fn are_marked(failovers: &[Recovery]) -> bool {
    failovers.len() <= 60
}

/// Marks the failovers in the background of a panel, from a vertical position to the bottom.
pub(super) fn mark_failovers(plot: &mut Plot, run: &Report, from: f64) {
    if !are_marked(&run.figures.recoveries) {
        return;
    }
    let mut lines = String::new();
    for recovery in &run.figures.recoveries {
        let x = along(run.account.incidents[recovery.incident].began, run.figures.timeline.lasted);
        put(&mut lines, format_args!("M{x:.1} {from}V1000"));
    }
    plot.path("failover", &lines);
}

/// Adds a tooltip for each step of the timeline.
pub(super) fn titles(plot: &mut Plot, timeline: &Timeline) {
    for (nth, bin) in timeline.bins.iter().enumerate() {
        let began = timeline.begin(nth);
        let (x, end) =
            (percent(began, timeline.lasted), percent(began + timeline.width, timeline.lasted));
        plot.add(html! {
            rect.hit x=(percentage(x)) width=(percentage(end - x)) height="100%" { title { (title(began, bin)) } }
        });
    }
}

fn title(began: Duration, bin: &Bin) -> String {
    let mut text =
        format!("{}: {}", clock(began), counted(bin.answers.count(), "operation", "operations"));
    if bin.answers.count() > 0 {
        let latency = &bin.latency;
        let (p50, p99, max) = (rough(latency.p50), rough(latency.p99), rough(latency.max));
        put(&mut text, format_args!(", p50 {p50}, p99 {p99}, max {max}"));
    }
    for (count, label) in [
        (bin.failed_attempts, "failed attempts"),
        (bin.answers.not_applied, "not applied"),
        (bin.answers.in_doubt, "in doubt"),
        (bin.hits, "requests hit by faults"),
    ] {
        if count > 0 {
            put(&mut text, format_args!(", {} {label}", grouped(count)));
        }
    }
    text
}
