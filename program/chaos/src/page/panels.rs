//! Panels of the timeline with numbers: latency, throughput, failed attempts, failed operations.

use std::{fmt::Write, time::Duration};

use maud::{Markup, html};

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

/// Latency on a logarithmic axis: median, 99th percentile and maximum.
pub(super) fn latency(run: &Report) -> Markup {
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
        let median = drawn.line(&plot, &stretch, |latency| latency.p50);
        let slow = drawn.line(&plot, &stretch, |latency| latency.p99);
        let _ = write!(between, "M{}L{}z", points(&median), points(&reversed(&slow)));
        let _ = write!(p50, "M{}", points(&median));
        let _ = write!(p99, "M{}", points(&slow));
    }
    plot.path("between", &between);
    plot.path("max", &drawn.slowest(&plot));
    plot.path("p99", &p99);
    plot.path("p50", &p50);
    titles(&mut plot, timeline);
    let keys = html! {
        (key(22, "p50", "M0 4.5H22", "median")) " "
        (key(22, "p99", "M0 4.5H22", "99 %")) " "
        (key(22, "max", "M4 3H9M13 7H18", "slowest"))
    };
    panel("Latency", &keys, &plot)
}

/// A timeline on a latency axis.
struct Drawn<'a> {
    timeline: &'a Timeline,
    axis: Decades,
}

impl Drawn<'_> {
    /// Returns the runs of consecutive steps in which operations ended.
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

    /// Returns a line through the middle of each step, from the beginning of the first step to the end of the last.
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

/// Acknowledged operations per second.
pub(super) fn throughput(run: &Report) -> Markup {
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
    let mut edge = String::new();
    for nth in 0..timeline.bins.len() {
        let (from, to) = edges(timeline, nth);
        let y = plot.down(axis.place(rate(nth)));
        let _ = write!(edge, "{}{from:.1} {y:.1}H{to:.1}", if nth == 0 { "M" } else { "L" });
    }
    plot.path("area", &format!("{edge}V{base:.1}H0z"));
    plot.path("edge", &edge);
    if planned <= axis.top as f64 {
        let y = plot.down(axis.place(planned));
        plot.path("planned", &format!("M0 {y:.1}H1000"));
    }
    titles(&mut plot, timeline);
    panel("Acknowledged per second", &key(22, "planned", "M0 4.5H22", "planned"), &plot)
}

/// Acknowledged operations per second of a step. The last step may be shorter than the others.
fn rate(timeline: &Timeline, nth: usize) -> f64 {
    let rest = timeline.lasted.saturating_sub(timeline.begin(nth));
    // A very short last step would have an arbitrary rate.
    let within = rest.min(timeline.width).max(timeline.width / 4);
    timeline.bins[nth].answers.acknowledged as f64 / within.as_secs_f64()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Not below zero, and no axis is so long.
fn whole(value: f64) -> u64 {
    value.ceil() as u64
}

/// Failed attempts as bars.
pub(super) fn failed_attempts(run: &Report) -> Markup {
    let timeline = &run.figures.timeline;
    let count = run.figures.all.failed_attempts;
    if count == 0 {
        return empty_panel("Failed attempts", "No attempt failed.");
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
    panel("Failed attempts", &html! { (grouped(count)) " in all" }, &plot)
}

/// Failed operations: upwards those that were not applied, downwards those in doubt.
pub(super) fn failures(run: &Report) -> Markup {
    let (timeline, answers) = (&run.figures.timeline, &run.figures.all.answers);
    if answers.failed() == 0 {
        return empty_panel("Failed operations", "No operation failed.");
    }
    let largest = |of: fn(&Bin) -> u64| timeline.bins.iter().map(of).max().unwrap_or_default();
    let up = Linear::to(largest(|bin| bin.answers.not_applied), 1);
    let down = Linear::to(largest(|bin| bin.answers.in_doubt), 1);
    let top = up.top.max(down.top) as f64;
    let (not_applied, in_doubt) = (grouped(answers.not_applied), grouped(answers.in_doubt));
    let label =
        format!("Failed operations over time: {not_applied} not applied, {in_doubt} in doubt.");
    let mut plot = Plot::new(label, 72.0);
    let tick = |sign: f64| 0.5 + sign / 2.0;
    let number = |value: f64| grouped(whole(value));
    plot.ticks(
        [(tick(1.0), number(top)), (tick(0.0), "0".to_owned()), (tick(-1.0), number(top))]
            .into_iter(),
    );
    mark_failovers(&mut plot, run, 0.0);
    let place = |count: u64, sign: f64| tick(sign * count as f64 / top);
    let upwards = bars(&plot, timeline, 0.5, |bin| place(bin.answers.not_applied, 1.0));
    let downwards = bars(&plot, timeline, 0.5, |bin| place(bin.answers.in_doubt, -1.0));
    plot.path("bars", &upwards);
    plot.path("doubt", &downwards);
    titles(&mut plot, timeline);
    let keys = html! {
        (key(10, "bars", "M0 10V2H10V10z", &format!("up: {not_applied} not applied"))) " "
        (key(10, "doubt", "M0 0V8H10V0z", &format!("down: {in_doubt} in doubt")))
    };
    panel("Failed operations", &keys, &plot)
}

/// Returns bars from a base to each value, with gaps between them.
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

/// Returns an entry of a legend: a path of a class, and its meaning.
pub(super) fn key(width: u32, class: &str, path: &str, text: &str) -> Markup {
    html! {
        span.key {
            svg width=(width) height="10" aria-hidden="true" { path class=(class) d=(path) {} }
            (text)
        }
    }
}

pub(super) fn panel(title: &str, keys: &Markup, plot: &Plot) -> Markup {
    html! { h3 { (title) small { (keys) } } (plot.html()) }
}

/// Returns the heading of a panel without data.
pub(super) fn empty_panel(title: &str, text: &str) -> Markup {
    html! { h3 { (title) small { (text) } } }
}
