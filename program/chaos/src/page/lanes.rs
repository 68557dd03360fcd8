//! The top of the timeline: failovers, a lane for each fault, and one for what came out wrong.

use std::{collections::BTreeSet, time::Duration};

use super::{
    panels,
    plot::{Plot, percent, put},
    timeline::{are_marked, mark_failovers},
    words::{clock, counted, escaped, grouped, rough},
};
use crate::{Report, account::Kind, plan::Fault};

const LANE: f64 = 22.0;
/// Faults that are nearer to each other, in percent of the time, are drawn as one. It also bounds their number.
const NEAR: f64 = 0.2;
/// In percent.
const LEAST_WIDE: f64 = 0.35;
/// As near as two numbers of failovers may be, in percent, on a wide screen and on a phone.
const NUMBERS_APART: [f64; 2] = [3.6, 8.5];

pub(super) fn panel(run: &Report) -> String {
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
        return "<h3>Faults<small>None was planned.</small></h3>\n".to_owned();
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
    panels::panel("Faults", if is_marked { KEY } else { "" }, &plot)
}

const KEY: &str = r#"<span class="key"><svg width="10" height="10" aria-hidden="true"><path class="marker" d="M0 1H10L5 9z"/></svg>the set needs another primary</span>"#;

/// What happened of one sort, in its order.
struct Lane {
    name: &'static str,
    class: &'static str,
    /// In percent: from, to, and what to say of it.
    spans: Vec<(f64, f64, String)>,
}

fn fault_lane(run: &Report, fault: Fault) -> Lane {
    let lasted = run.figures.timeline.lasted;
    let incidents = run.account.incidents.iter().filter(|incident| incident.fault == fault);
    let spans = incidents.map(|incident| {
        let mut title = format!("{}: {}", clock(incident.began), escaped(&incident.what));
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
        (x, x, format!("{}: {}", clock(incident.began), escaped(&incident.what)))
    });
    Lane { name: "failovers", class: "fault", spans: merged(spans) }
}

/// When the operations began that contradict what is in the database.
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

/// Those too near to be told apart made one.
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
        // What takes no time has a width all the same.
        plot.add(&match wide < LEAST_WIDE {
            true => format!(
                r#"<line class="{class}" x1="{from:.2}%" x2="{from:.2}%" y1="{top:.0}" y2="{:.0}"><title>{title}</title></line>"#,
                top + 10.0
            ),
            false => format!(
                r#"<rect class="{class}" x="{from:.2}%" width="{wide:.2}%" y="{top:.0}" height="10"><title>{title}</title></rect>"#
            ),
        });
    }
}

/// With their numbers, as far as there is room.
fn number_failovers(plot: &mut Plot, run: &Report) {
    let mut last = [-100.0; 2];
    for (nth, recovery) in run.figures.recoveries.iter().enumerate() {
        let incident = &run.account.incidents[recovery.incident];
        let x = percent(incident.began, run.figures.timeline.lasted);
        let title = format!("{}: {}", clock(incident.began), escaped(&incident.what));
        plot.add(&format!(
            r#"<svg x="{x:.2}%" y="14" width="1" height="8" overflow="visible"><path class="marker" d="M-5 0H5L0 8z"><title>{title}</title></path></svg>"#
        ));
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
        if fits == [false; 2] {
            continue;
        }
        let class = match fits {
            [true, true] => "",
            [true, false] => r#" class="wide""#,
            [false, _] => r#" class="narrow""#,
        };
        plot.add(&format!(
            r#"<text x="{x:.2}%" y="11" text-anchor="{anchor}"{class}>{}</text>"#,
            nth + 1
        ));
    }
}
