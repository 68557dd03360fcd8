//! The timeline: faults, latency, throughput and failures, one below the other on one axis of time.

use std::time::Duration;

use super::{
    lanes, panels,
    plot::{Plot, along, percent, put},
    scale,
    words::{clock, counted, grouped, rough, spoken},
};
use crate::{
    Report,
    figures::{Bin, Latency, Recovery, Timeline},
};

/// Labels along the time: as many fit, and every second one fits a phone.
const LABELS: u64 = 10;

pub(super) fn section(run: &Report) -> String {
    let mut html =
        "<section aria-labelledby=\"time\">\n<h2 id=\"time\">Over time</h2>\n".to_owned();
    if run.figures.all.count() == 0 {
        return html + "<p>No operation ended.</p>\n</section>\n";
    }
    html.push_str(&quantiles(&run.figures.all.latency));
    let step = spoken(run.figures.timeline.width);
    put(
        &mut html,
        format_args!(
            "<p class=\"fine\">How long operations took, with all their attempts. Each step of the timeline is {step} long.</p>\n<div class=\"timeline\">\n"
        ),
    );
    html.push_str(&lanes::panel(run));
    html.push_str(&panels::latency(run));
    html.push_str(&panels::throughput(run));
    html.push_str(&panels::failed_attempts(run));
    html.push_str(&panels::failures(run));
    html.push_str(&axis(run.figures.timeline.lasted));
    html + "</div>\n</section>\n"
}

fn quantiles(latency: &Latency) -> String {
    let Latency { p50, p90, p99, p999, max } = *latency;
    let named = [("median", p50), ("90 %", p90), ("99 %", p99), ("99.9 %", p999), ("slowest", max)];
    let one = |(name, value): (&str, Duration)| {
        format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", rough(value))
    };
    format!("<dl class=\"quantiles\">\n{}</dl>\n", named.map(one).concat())
}

/// The labels of the time, below all panels.
fn axis(lasted: Duration) -> String {
    let mut texts = String::new();
    for (nth, (place, label)) in scale::times(lasted, LABELS).into_iter().enumerate() {
        let anchor = match place {
            ..0.02 => "start",
            0.975.. => "end",
            _ => "middle",
        };
        // On a phone, half a label is a twelfth of the time.
        let is_for_all = nth % 2 == 0 && !(0.92..0.975).contains(&place);
        let class = if is_for_all { "" } else { r#" class="wide""# };
        let x = place * 100.0;
        put(
            &mut texts,
            format_args!(
                r#"<line class="tick" x1="{x:.2}%" x2="{x:.2}%" y1="0" y2="5"/><text x="{x:.2}%" y="18" text-anchor="{anchor}"{class}>{label}</text>"#
            ),
        );
    }
    format!(
        r#"<div class="plot"><span></span><svg class="x" width="100%" height="22" aria-hidden="true"><line class="tick" x2="100%" y1=".5" y2=".5"/>{texts}</svg></div>
"#
    )
}

/// A failover is marked through all panels, unless there are so many that they would hide what is shown.
pub(super) fn are_marked(failovers: &[Recovery]) -> bool {
    failovers.len() <= 60
}

/// What panels have behind what they show: the failovers, from so far down.
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

/// What is said of each part when it is pointed at.
pub(super) fn titles(plot: &mut Plot, timeline: &Timeline) {
    for (nth, bin) in timeline.bins.iter().enumerate() {
        let began = timeline.begin(nth);
        let (x, end) =
            (percent(began, timeline.lasted), percent(began + timeline.width, timeline.lasted));
        plot.add(&format!(
            r#"<rect class="hit" x="{x:.2}%" width="{:.2}%" height="100%"><title>{}</title></rect>"#,
            end - x,
            title(began, bin),
        ));
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
    for (count, what) in [
        (bin.failed_attempts, "failed attempts"),
        (bin.answers.not_applied, "not applied"),
        (bin.answers.in_doubt, "in doubt"),
        (bin.hits, "requests hit by faults"),
    ] {
        if count > 0 {
            put(&mut text, format_args!(", {} {what}", grouped(count)));
        }
    }
    text
}
