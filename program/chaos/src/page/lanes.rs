//! Top of the timeline: failovers, a lane for each fault, and a lane for contradictions.

use std::{collections::BTreeSet, time::Duration};

use maud::{Markup, html};

use super::{
    panels::{empty_panel, key, panel as titled},
    plot::{Plot, percent, percentage, put},
    timeline::{are_marked, mark_failovers},
    words::{clock, counted, grouped, harmless, rough},
};
use crate::{Report, account::Kind, plan::Fault};

const LANE: f64 = 22.0;
/// Distance in percent below which faults are drawn as one. It bounds the size of the page.
const NEAR: f64 = 0.2;
/// Width in percent below which a fault is drawn as a line.
const LEAST_WIDE: f64 = 0.35;
/// Minimum distance in percent between two numbers of failovers, on a wide screen and on a phone.
const NUMBERS_APART: [f64; 2] = [3.6, 8.5];

pub(super) fn panel(run: &Report) -> Markup {
    let failovers = &run.figures.recoveries;
    let is_marked = are_marked(failovers) && !failovers.is_empty();
    let mut lanes: Vec<Lane> = Vec::new();
    if !is_marked && !failovers.is_empty() {
        lanes.push(failover_lane(run));
    }
    let faults = run.account.plan.faults.iter().chain(run.figures.faults.keys());
    let faults: BTreeSet<Fault> = faults.copied().collect();
    lanes.extend(faults.into_iter().map(|fault| fault_lane(run, fault)));
    if !run.verdict.is_clean() {
        lanes.push(wrong_lane(run));
    }
    if lanes.is_empty() {
        return empty_panel("Faults", "None was planned.");
    }
    let label = format!(
        "Faults over time: {}, {}.",
        counted(run.account.incidents.len() as u64, "fault", "faults"),
        counted(failovers.len() as u64, "failover", "failovers")
    );
    let head = if is_marked { LANE } else { 0.0 };
    let mut plot = Plot::new(label, head + LANE * lanes.len() as f64);
    mark_failovers(&mut plot, run, 22.0);
    if is_marked {
        plot.label_at(LANE / 2.0 + 4.0, "failovers");
        number_failovers(&mut plot, run);
    }
    for (nth, lane) in lanes.iter().enumerate() {
        draw(&mut plot, lane, head + LANE * nth as f64 + 7.0);
    }
    let keys = match is_marked {
        true => key(10, "marker", "M0 1H10L5 9z", "failover"),
        false => html! {},
    };
    titled("Faults", &keys, &plot)
}

/// Events of one sort, in order of time.
struct Lane {
    name: &'static str,
    class: &'static str,
    /// Beginning and end in percent, and the tooltip.
    spans: Vec<(f64, f64, String)>,
}

fn fault_lane(run: &Report, fault: Fault) -> Lane {
    let lasted = run.figures.timeline.lasted;
    let incidents = run.account.incidents.iter().filter(|incident| incident.fault == fault);
    let spans = incidents.map(|incident| {
        let mut title = format!("{}: {}", clock(incident.began), harmless(&incident.what));
        let took = incident.ended.saturating_sub(incident.began);
        if !took.is_zero() {
            put(&mut title, format_args!(", for {}", rough(took)));
        }
        if incident.hits > 0 {
            put(&mut title, format_args!(", {}", counted(incident.hits, "request", "requests")));
        }
        (percent(incident.began, lasted), percent(incident.ended, lasted), title)
    });
    Lane { name: fault.name(), class: "fault", spans: merged(spans) }
}

fn failover_lane(run: &Report) -> Lane {
    let spans = run.figures.recoveries.iter().map(|recovery| {
        let incident = &run.account.incidents[recovery.incident];
        let x = percent(incident.began, run.figures.timeline.lasted);
        (x, x, format!("{}: {}", clock(incident.began), harmless(&incident.what)))
    });
    Lane { name: "failovers", class: "fault", spans: merged(spans) }
}

/// Beginnings of the operations whose results contradict the database.
fn wrong_lane(run: &Report) -> Lane {
    let marks = run.verdict.contradictions().into_iter().flat_map(|(_, marks)| marks);
    let wrong: BTreeSet<u64> = marks.map(|mark| mark / Kind::MARKS).collect();
    let records = run.account.records.iter();
    let mut began: Vec<Duration> = records
        .filter(|record| wrong.contains(&record.operation))
        .map(|record| record.began)
        .collect();
    began.sort_unstable();
    let span = |at: Duration| {
        let x = percent(at, run.figures.timeline.lasted);
        (x, x, format!("{}: an operation contradicts the database", clock(at)))
    };
    Lane { name: "wrong", class: "wrong", spans: merged(began.into_iter().map(span)) }
}

/// Merges spans that are too close to be distinguished.
fn merged(spans: impl Iterator<Item = (f64, f64, String)>) -> Vec<(f64, f64, String)> {
    let mut merged: Vec<(f64, f64, String, u64)> = Vec::new();
    for (from, to, title) in spans {
        match merged.last_mut() {
            Some(last) if from - last.1 < NEAR => {
                last.1 = last.1.max(to);
                last.3 += 1;
            }
            _ => merged.push((from, to, title, 1)),
        }
    }
    let titled = |(from, to, title, count): (f64, f64, String, u64)| match count {
        1 => (from, to, title),
        more => (from, to, format!("{title}, and {} more", grouped(more - 1))),
    };
    merged.into_iter().map(titled).collect()
}

fn draw(plot: &mut Plot, lane: &Lane, y: f64) {
    plot.label_at(y + LANE / 2.0, lane.name);
    let class = lane.class;
    let top = y + 6.0;
    for (from, to, title) in &lane.spans {
        let wide = to - from;
        // A span without duration is drawn as a line.
        plot.add(html! {
            @if wide < LEAST_WIDE {
                line class=(class) x1=(percentage(*from)) x2=(percentage(*from)) y1=(top) y2=(top + 10.0) {
                    title { (title) }
                }
            } @else {
                rect class=(class) x=(percentage(*from)) width=(percentage(wide)) y=(top) height="10" {
                    title { (title) }
                }
            }
        });
    }
}

/// Marks the failovers, with their numbers where there is space.
fn number_failovers(plot: &mut Plot, run: &Report) {
    let mut last = [-100.0; 2];
    for (nth, recovery) in run.figures.recoveries.iter().enumerate() {
        let incident = &run.account.incidents[recovery.incident];
        let x = percent(incident.began, run.figures.timeline.lasted);
        let title = format!("{}: {}", clock(incident.began), harmless(&incident.what));
        plot.add(html! {
            svg x=(percentage(x)) y="14" width="1" height="8" overflow="visible" {
                path.marker d="M-5 0H5L0 8z" { title { (title) } }
            }
        });
        let (anchor, aside) = match x {
            ..3.0 => ("start", 0.5),
            97.0.. => ("end", -0.5),
            _ => ("middle", 0.0),
        };
        let fits: [bool; 2] = std::array::from_fn(|screen| {
            let middle = x + aside * NUMBERS_APART[screen];
            let fits = middle - last[screen] >= NUMBERS_APART[screen];
            if fits {
                last[screen] = middle;
            }
            fits
        });
        let class = match fits {
            [false, false] => continue,
            [true, true] => None,
            [true, false] => Some("wide"),
            [false, true] => Some("narrow"),
        };
        plot.add(html! {
            text x=(percentage(x)) y="11" text-anchor=(anchor) class=[class] { (nth + 1) }
        });
    }
}
