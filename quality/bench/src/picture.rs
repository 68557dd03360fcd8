//! A picture of the table: for each case how near to the floor the drivers come, as bars.

use std::{fmt::Write, fs, path::Path};

use crate::{Result, comparison::Outcome, contender::Contender, table};

const WIDTH: usize = 860;
/// Where the bars begin, and how long one is that reaches the floor.
const LEFT: f64 = 290.0;
const FLOOR: f64 = 440.0;
/// What is drawn of a bar that passes the floor by chance.
const MOST: f64 = 1.04;
const ROW: usize = 32;
const TOP: usize = 78;
/// The room that the name of a server takes, above its cases.
const HEADING: usize = 34;

/// Colours by name, for a light and for a dark page.
const STYLE: &str = "\
<style>
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
</style>
";

/// Draws what a comparison has stored with `--json`.
pub(crate) fn draw(samples: &Path, picture: &Path) -> Result<()> {
    Ok(fs::write(picture, svg(&table::read(samples)?))?)
}

fn svg(outcomes: &[Outcome]) -> String {
    let mut body = String::new();
    let mut y = TOP;
    let mut server = "";
    for outcome in outcomes {
        // "find-one, 64 tasks, canned": the server comes last.
        let (case, on) = outcome.case.rsplit_once(", ").unwrap_or((&outcome.case, ""));
        if on != server {
            server = on;
            let _ = writeln!(
                body,
                "<text class=\"heading\" x=\"16\" y=\"{}\">{}</text>",
                y + 22,
                title(on)
            );
            y += HEADING;
        }
        row(&mut body, y, case, outcome);
        y += ROW;
    }
    let height = y + 12;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-label=\"Operations or documents per second as a share of a raw socket's\">\n\
         {STYLE}<rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>\n\
         <text class=\"title\" x=\"16\" y=\"28\">Operations or documents per second, as a share of a raw socket's</text>\n"
    );
    legend(&mut svg);
    scale(&mut svg, height);
    svg + &body + "</svg>\n"
}

fn title(server: &str) -> &str {
    match server {
        "canned" => "Canned replies: what differs is the client alone",
        "mongod" => "A real mongod: the server takes most of the time",
        other => other,
    }
}

fn row(svg: &mut String, y: usize, case: &str, outcome: &Outcome) {
    let _ = writeln!(svg, "<text x=\"16\" y=\"{}\">{case}</text>", y + 17);
    bar(svg, y + 2, outcome, Contender::Steadfast);
    bar(svg, y + 15, outcome, Contender::Official);
    let share = |contender| table::share_of_floor(outcome, contender);
    let times = share(Contender::Steadfast) / share(Contender::Official);
    if times.is_finite() {
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{times:.1} ×</text>",
            WIDTH - 16,
            y + 17
        );
    }
}

fn legend(svg: &mut String) {
    for (x, contender) in [(16, Contender::Steadfast), (106, Contender::Official)] {
        let name = contender.name();
        let _ = writeln!(
            svg,
            "<rect class=\"{name}\" x=\"{x}\" y=\"44\" width=\"11\" height=\"11\" rx=\"2\"/>\
             <text x=\"{}\" y=\"54\">{name}</text>",
            x + 17
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"faint\" x=\"{}\" y=\"54\" text-anchor=\"end\">against official</text>",
        WIDTH - 16
    );
}

/// Lines at each quarter; the last is the floor itself, which no driver passes but by chance.
fn scale(svg: &mut String, height: usize) {
    for (quarter, label) in ["0", "0.25", "0.5", "0.75", "raw socket"].into_iter().enumerate() {
        let x = LEFT + FLOOR / 4.0 * f64::from(u8::try_from(quarter).unwrap_or(0));
        let class = if quarter == 4 { "floor" } else { "line" };
        let _ = writeln!(
            svg,
            "<text class=\"faint\" x=\"{x}\" y=\"72\" text-anchor=\"middle\">{label}</text>\
             <line class=\"{class}\" x1=\"{x}\" y1=\"{TOP}\" x2=\"{x}\" y2=\"{}\"/>",
            height - 10
        );
    }
}

fn bar(svg: &mut String, y: usize, outcome: &Outcome, contender: Contender) {
    let share = table::share_of_floor(outcome, contender);
    if !share.is_finite() {
        return;
    }
    let width = FLOOR * share.min(MOST);
    let _ = writeln!(
        svg,
        "<rect class=\"{}\" x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"11\" rx=\"2\"/>\
         <text class=\"faint\" x=\"{:.1}\" y=\"{}\">{share:.2}</text>",
        contender.name(),
        LEFT + width + 5.0,
        y + 10,
    );
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::single::Sample;

    #[test]
    fn a_bar_is_as_long_as_its_share_of_the_floor() {
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
        let outcome = Outcome { case, samples, counted: BTreeMap::new(), load_average: None };
        let svg = svg(&[outcome]);
        assert!(svg.contains("width=\"220.0\" height=\"11\""), "{svg}");
        assert!(svg.contains(">ping, 1 task</text>"), "{svg}");
        assert!(!svg.contains("NaN"), "who was not measured has no bar: {svg}");
    }
}
