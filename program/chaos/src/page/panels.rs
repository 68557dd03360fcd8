//! The panels of the timeline that show numbers: latency, throughput, failed attempts, failed operations.

use std::{fmt::Write, time::Duration};

use super::{
    plot::{Plot, along},
    scale::{Decades, Linear},
    timeline::{mark_failovers, titles},
    words::{grouped, rough},
};
use crate::{
    Report,
    figures::{Bin, Latency, Timeline},
};

/// Latency on a logarithmic axis: the middle, the slowest in a hundred, and the slowest of all.
pub(super) fn latency(run: &Report) -> String {
    let timeline = &run.figures.timeline;
    let all = &run.figures.all.latency;
    let present = || timeline.bins.iter().filter(|bin| bin.answers.count() > 0);
    let least = present().map(|bin| bin.latency.p50).min().unwrap_or_default();
    let axis = Decades::around(least, all.max);
    let label = format!(
        "Latency over time, on a logarithmic axis: the median is {} in all, the 99th percentile {}, the slowest {}.",
        rough(all.p50),
        rough(all.p99),
        rough(all.max)
    );
    let mut plot = Plot::new(label, 150.0);
    plot.ticks(axis.ticks());
    mark_failovers(&mut plot, run, 0.0);
    let drawn = Drawn { timeline, axis };
    let (mut p50, mut p99, mut between) = (String::new(), String::new(), String::new());
    for stretch in drawn.stretches() {
        let middle = drawn.line(&plot, &stretch, |latency| latency.p50);
        let slow = drawn.line(&plot, &stretch, |latency| latency.p99);
        let _ = write!(between, "M{}L{}z", points(&middle), points(&reversed(&slow)));
        let _ = write!(p50, "M{}", points(&middle));
        let _ = write!(p99, "M{}", points(&slow));
    }
    plot.path("between", &between);
    plot.path("max", &drawn.slowest(&plot));
    plot.path("p99", &p99);
    plot.path("p50", &p50);
    titles(&mut plot, timeline);
    let key = r#"<span class="key"><svg width="22" height="10" aria-hidden="true"><path class="p50" d="M0 4.5H22"/></svg>median</span> <span class="key"><svg width="22" height="10" aria-hidden="true"><path class="p99" d="M0 4.5H22"/></svg>99 %</span> <span class="key"><svg width="22" height="10" aria-hidden="true"><path class="max" d="M4 3H9M13 7H18"/></svg>slowest</span>"#;
    panel("Latency", key, &plot)
}

/// A timeline on an axis.
struct Drawn<'a> {
    timeline: &'a Timeline,
    axis: Decades,
}

impl Drawn<'_> {
    /// Parts without a gap between them. In a gap, nothing ended.
    fn stretches(&self) -> Vec<Vec<usize>> {
        let mut stretches: Vec<Vec<usize>> = Vec::new();
        let mut is_within = false;
        for (nth, bin) in self.timeline.bins.iter().enumerate() {
            let has_any = bin.answers.count() > 0;
            match stretches.last_mut() {
                Some(stretch) if has_any && is_within => stretch.push(nth),
                _ if has_any => stretches.push(vec![nth]),
                _ => {}
            }
            is_within = has_any;
        }
        stretches
    }

    /// Through the middle of each part, from the beginning of the first one to the end of the last.
    fn line(
        &self,
        plot: &Plot,
        stretch: &[usize],
        of: impl Fn(&Latency) -> Duration,
    ) -> Vec<(f64, f64)> {
        let y = |nth: usize| plot.down(self.axis.place(of(&self.timeline.bins[nth].latency)));
        let (begin, end) = (stretch[0], stretch[stretch.len() - 1]);
        let mut line = vec![(edges(self.timeline, begin).0, y(begin))];
        line.extend(stretch.iter().map(|nth| {
            let (from, to) = edges(self.timeline, *nth);
            (f64::midpoint(from, to), y(*nth))
        }));
        line.push((edges(self.timeline, end).1, y(end)));
        line
    }

    fn slowest(&self, plot: &Plot) -> String {
        let mut path = String::new();
        for (nth, bin) in self.timeline.bins.iter().enumerate() {
            if bin.answers.count() > 0 {
                let (from, to) = edges(self.timeline, nth);
                let y = plot.down(self.axis.place(bin.latency.max));
                let _ = write!(path, "M{from:.1} {y:.1}H{to:.1}");
            }
        }
        path
    }
}

fn edges(timeline: &Timeline, nth: usize) -> (f64, f64) {
    let began = timeline.begin(nth);
    (along(began, timeline.lasted), along(began + timeline.width, timeline.lasted))
}

fn points(line: &[(f64, f64)]) -> String {
    let point = |(x, y): &(f64, f64)| format!("{x:.1} {y:.1}");
    line.iter().map(point).collect::<Vec<_>>().join(" ")
}

fn reversed(line: &[(f64, f64)]) -> Vec<(f64, f64)> {
    line.iter().rev().copied().collect()
}

/// Acknowledged operations in a second.
pub(super) fn throughput(run: &Report) -> String {
    let timeline = &run.figures.timeline;
    let rate = |nth: usize| rate(timeline, nth);
    let largest = (0..timeline.bins.len()).map(rate).fold(0.0, f64::max);
    let axis = Linear::to(whole(largest), 2);
    let planned = f64::from(run.account.plan.rate);
    let label = format!(
        "Acknowledged operations per second over time: {} is planned, and {} is the most.",
        grouped(u64::from(run.account.plan.rate)),
        grouped(whole(largest))
    );
    let mut plot = Plot::new(label, 70.0);
    plot.ticks(axis.ticks());
    mark_failovers(&mut plot, run, 0.0);
    let base = plot.down(0.0);
    let (mut area, mut edge) = (String::new(), String::new());
    for nth in 0..timeline.bins.len() {
        let (from, to) = edges(timeline, nth);
        let y = plot.down(axis.place(rate(nth)));
        let _ = write!(area, "{}{from:.1} {y:.1}H{to:.1}", if nth == 0 { "M" } else { "L" });
    }
    edge.push_str(&area);
    let _ = write!(area, "V{base:.1}H0z");
    plot.path("area", &area);
    plot.path("edge", &edge);
    if planned <= axis.top as f64 {
        let y = plot.down(axis.place(planned));
        plot.path("planned", &format!("M0 {y:.1}H1000"));
    }
    titles(&mut plot, timeline);
    let key = r#"<span class="key"><svg width="22" height="10" aria-hidden="true"><path class="planned" d="M0 4.5H22"/></svg>planned</span>"#;
    panel("Acknowledged per second", key, &plot)
}

/// The last part may be shorter than the others.
fn rate(timeline: &Timeline, nth: usize) -> f64 {
    let rest = timeline.lasted.saturating_sub(timeline.begin(nth));
    // At its very end, a moment's worth would make a tower.
    let within = rest.min(timeline.width).max(timeline.width / 4);
    timeline.bins[nth].answers.acknowledged as f64 / within.as_secs_f64()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Not below zero, and no axis is so long.
fn whole(value: f64) -> u64 {
    value.ceil() as u64
}

/// Attempts that failed, as bars.
pub(super) fn failed_attempts(run: &Report) -> String {
    let timeline = &run.figures.timeline;
    let count = run.figures.all.failed_attempts;
    if count == 0 {
        return quiet("Failed attempts", "No attempt failed.");
    }
    let largest = timeline.bins.iter().map(|bin| bin.failed_attempts).max().unwrap_or_default();
    let axis = Linear::to(largest, 2);
    let label = format!(
        "Failed attempts over time: {} in all, at most {} in one step.",
        grouped(count),
        grouped(largest)
    );
    let mut plot = Plot::new(label, 56.0);
    plot.ticks(axis.ticks());
    mark_failovers(&mut plot, run, 0.0);
    let bars = bars(&plot, timeline, 0.0, |bin| axis.place(bin.failed_attempts as f64));
    plot.path("bars", &bars);
    titles(&mut plot, timeline);
    panel("Failed attempts", &format!("{} in all", grouped(count)), &plot)
}

/// Operations that failed: upwards those that were not applied, downwards those in doubt.
pub(super) fn failures(run: &Report) -> String {
    let (timeline, answers) = (&run.figures.timeline, &run.figures.all.answers);
    if answers.failed() == 0 {
        return quiet("Failed operations", "No operation failed.");
    }
    let largest = |of: fn(&Bin) -> u64| timeline.bins.iter().map(of).max().unwrap_or_default();
    let up = Linear::to(largest(|bin| bin.answers.not_applied), 1);
    let down = Linear::to(largest(|bin| bin.answers.in_doubt), 1);
    let top = up.top.max(down.top) as f64;
    let label = format!(
        "Failed operations over time: {} not applied, {} in doubt.",
        grouped(answers.not_applied),
        grouped(answers.in_doubt)
    );
    let mut plot = Plot::new(label, 72.0);
    let tick = |sign: f64| 0.5 + sign / 2.0;
    let number = |value: f64| grouped(whole(value));
    plot.ticks(
        [(tick(1.0), number(top)), (tick(0.0), "0".to_owned()), (tick(-1.0), number(top))]
            .into_iter(),
    );
    mark_failovers(&mut plot, run, 0.0);
    let place = |count: u64, sign: f64| tick(sign * count as f64 / top);
    let not_applied = bars(&plot, timeline, 0.5, |bin| place(bin.answers.not_applied, 1.0));
    let in_doubt = bars(&plot, timeline, 0.5, |bin| place(bin.answers.in_doubt, -1.0));
    plot.path("bars", &not_applied);
    plot.path("doubt", &in_doubt);
    titles(&mut plot, timeline);
    let key = format!(
        r#"<span class="key"><svg width="10" height="10" aria-hidden="true"><path class="bars" d="M0 10V2H10V10z"/></svg>up: {} not applied</span> <span class="key"><svg width="10" height="10" aria-hidden="true"><path class="doubt" d="M0 0V8H10V0z"/></svg>down: {} in doubt</span>"#,
        grouped(answers.not_applied),
        grouped(answers.in_doubt)
    );
    panel("Failed operations", &key, &plot)
}

/// From a base to each value, with a little room between them.
fn bars(plot: &Plot, timeline: &Timeline, base: f64, place: impl Fn(&Bin) -> f64) -> String {
    let mut path = String::new();
    for (nth, bin) in timeline.bins.iter().enumerate() {
        let value = place(bin);
        if (value - base).abs() < f64::EPSILON {
            continue;
        }
        let (from, to) = edges(timeline, nth);
        let (room, base, y) = ((to - from) * 0.1, plot.down(base), plot.down(value));
        let _ = write!(path, "M{:.1} {base:.1}V{y:.1}H{:.1}V{base:.1}z", from + room, to - room);
    }
    path
}

pub(super) fn panel(title: &str, key: &str, plot: &Plot) -> String {
    format!("<h3>{title}<small>{key}</small></h3>\n{}", plot.html())
}

fn quiet(title: &str, what: &str) -> String {
    format!("<h3>{title}<small>{what}</small></h3>\n")
}
