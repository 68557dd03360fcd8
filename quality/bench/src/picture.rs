//! Chart of the table: results of the drivers as shares of the floor, as bars.

use std::{fs, path::Path};

use maud::{Markup, PreEscaped, html};

use crate::{Result, comparison::CaseResult, contender::Contender, table};

const WIDTH: usize = 860;
/// Beginning of the bars.
const LEFT: f64 = 290.0;
/// Length of a bar that reaches the floor.
const FLOOR_WIDTH: f64 = 440.0;
/// Maximum share that is drawn, for a bar that exceeds the floor due to noise.
const MAX_SHARE: f64 = 1.04;
const ROW: usize = 32;
const TOP: usize = 78;
/// Height of the name of a server, above its cases.
const HEADING: usize = 34;

/// Colours by name, for a light and for a dark page.
const STYLE: &str = "
  text { font: 12px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #24292f }
  .page { fill: #ffffff } .title { font-size: 17px; font-weight: 600 }
  .heading { font-weight: 600; paint-order: stroke; stroke: #ffffff; stroke-width: 6px }
  .faint { fill: #6e7781; font-size: 11px } .line { stroke: #d0d7de } .floor { stroke: #57606a }
  .steadfast { fill: #0f766e } .official { fill: #c2a14d }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .page { fill: #0d1117 } .heading { stroke: #0d1117 } .faint { fill: #8d96a0 }
    .line { stroke: #30363d } .floor { stroke: #8d96a0 }
    .steadfast { fill: #2dd4bf } .official { fill: #a5822f }
  }
";

/// Draws the results that a comparison has stored with `--json`.
pub(crate) fn draw(samples: &Path, picture: &Path) -> Result<()> {
    Ok(fs::write(picture, svg(&table::read(samples)?))?)
}

fn svg(results: &[CaseResult]) -> String {
    let mut rows = Vec::new();
    let mut y = TOP;
    let mut server = "";
    for result in results {
        // "find-one, 64 tasks, canned": the server comes last.
        let (case, on) = result.case.rsplit_once(", ").unwrap_or((&result.case, ""));
        if on != server {
            server = on;
            rows.push(html! { text.heading x="16" y=(y + 22) { (title(on)) } });
            y += HEADING;
        }
        rows.push(row(y, case, result));
        y += ROW;
    }
    let height = y + 12;
    let name = "Operations or documents per second, as a share of a raw socket's";
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format_args!("0 0 {WIDTH} {height}")) width=(WIDTH)
            height=(height) role="img" aria-label=(name) {
            style { (PreEscaped(STYLE)) }
            rect.page width=(WIDTH) height=(height) rx="6" {}
            text.title x="16" y="28" { (name) }
            (legend())
            (scale(height))
            @for row in rows { (row) }
        }
    };
    svg.into_string() + "\n"
}

fn title(server: &str) -> &str {
    match server {
        "canned" => "Canned replies: only the clients differ",
        "mongod" => "A real mongod: the server takes most of the time",
        other => other,
    }
}

fn row(y: usize, case: &str, result: &CaseResult) -> Markup {
    let share = |contender| table::share_of_floor(result, contender);
    let times = share(Contender::Steadfast) / share(Contender::Official);
    html! {
        text x="16" y=(y + 17) { (case) }
        (bar(y + 2, share(Contender::Steadfast), Contender::Steadfast))
        (bar(y + 15, share(Contender::Official), Contender::Official))
        @if times.is_finite() {
            text x=(WIDTH - 16) y=(y + 17) text-anchor="end" { (format_args!("{times:.1} ×")) }
        }
    }
}

fn legend() -> Markup {
    html! {
        @for (x, contender) in [(16, Contender::Steadfast), (106, Contender::Official)] {
            rect class=(contender.name()) x=(x) y="44" width="11" height="11" rx="2" {}
            text x=(x + 17) y="54" { (contender.name()) }
        }
        text.faint x=(WIDTH - 16) y="54" text-anchor="end" { "against official" }
    }
}

/// Draws a line at each quarter. The last one is the floor itself.
fn scale(height: usize) -> Markup {
    html! {
        @for (quarter, label) in (0_u8..).zip(["0", "0.25", "0.5", "0.75", "raw socket"]) {
            @let x = LEFT + FLOOR_WIDTH / 4.0 * f64::from(quarter);
            @let class = if quarter == 4 { "floor" } else { "line" };
            text.faint x=(x) y="72" text-anchor="middle" { (label) }
            line class=(class) x1=(x) y1=(TOP) x2=(x) y2=(height - 10) {}
        }
    }
}

/// Draws a bar, if the contender was measured.
fn bar(y: usize, share: f64, contender: Contender) -> Markup {
    let width = FLOOR_WIDTH * share.min(MAX_SHARE);
    html! {
        @if share.is_finite() {
            rect class=(contender.name()) x=(LEFT) y=(y) width=(format_args!("{width:.1}")) height="11" rx="2" {}
            text.faint x=(format_args!("{:.1}", LEFT + width + 5.0)) y=(y + 10) { (format_args!("{share:.2}")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::measurement::Sample;

    #[test]
    fn bar_length_is_the_share_of_the_floor() {
        let sample = |per_second| Sample {
            units: 1,
            per_second,
            p50_micros: 1.0,
            p99_micros: 1.0,
            processor_micros: 1.0,
            allocations: None,
            allocated_bytes: None,
            peak_bytes: 1,
        };
        let samples = BTreeMap::from([
            (Contender::Floor, vec![sample(100.0)]),
            (Contender::Steadfast, vec![sample(50.0)]),
        ]);
        let case = "ping, 1 task, canned".to_owned();
        let result = CaseResult { case, samples, counted: BTreeMap::new(), load_average: None };
        let svg = svg(&[result]);
        assert!(svg.contains("width=\"220.0\" height=\"11\""), "{svg}");
        assert!(svg.contains(">ping, 1 task</text>"), "{svg}");
        assert!(!svg.contains("NaN"), "a contender without samples has no bar: {svg}");
    }
}
