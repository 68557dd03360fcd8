//! A picture of the table: for each case how near to the floor the drivers come, as bars.

use std::{fmt::Write, fs, path::Path};

use crate::{Result, comparison::Outcome, contender::Contender, table};

const ROW: usize = 34;
const TOP: usize = 56;
const LABELS: f64 = 330.0;
const WIDTH: f64 = 420.0;

/// Draws what a comparison has stored with `--json`.
pub(crate) fn draw(samples: &Path, picture: &Path) -> Result<()> {
    let outcomes: Vec<Outcome> = serde_json::from_str(&fs::read_to_string(samples)?)?;
    Ok(fs::write(picture, svg(&outcomes))?)
}

fn svg(outcomes: &[Outcome]) -> String {
    let height = TOP + ROW * outcomes.len() + 10;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"800\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"15\">Units per second, as a share of a raw socket's</text>\n"
    );
    legend(&mut svg);
    for (row, outcome) in outcomes.iter().enumerate() {
        let y = TOP + ROW * row;
        let _ = writeln!(svg, "<text x=\"10\" y=\"{}\">{}</text>", y + 18, outcome.case);
        bar(&mut svg, y + 2, outcome, Contender::Steadfast);
        bar(&mut svg, y + 16, outcome, Contender::Official);
    }
    // The floor itself: the line that no driver passes but by chance.
    let floor = LABELS + WIDTH;
    let _ = writeln!(
        svg,
        "<line x1=\"{floor}\" y1=\"{TOP}\" x2=\"{floor}\" y2=\"{height}\" stroke=\"#555555\" stroke-dasharray=\"3 3\"/>"
    );
    svg + "</svg>\n"
}

fn legend(svg: &mut String) {
    for (x, contender) in [(330, Contender::Steadfast), (440, Contender::Official)] {
        let (color, name) = (color(contender), contender.name());
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"32\" width=\"12\" height=\"12\" fill=\"{color}\"/>\
             <text x=\"{}\" y=\"42\">{name}</text>",
            x + 18
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"42\" text-anchor=\"middle\">floor</text>",
        LABELS + WIDTH
    );
}

fn bar(svg: &mut String, y: usize, outcome: &Outcome, contender: Contender) {
    let share = table::share_of_floor(outcome, contender);
    if !share.is_finite() {
        return;
    }
    let width = WIDTH * share.min(1.05);
    let _ = writeln!(
        svg,
        "<rect x=\"{LABELS}\" y=\"{y}\" width=\"{width:.1}\" height=\"12\" fill=\"{}\"/>\
         <text x=\"{:.1}\" y=\"{}\" font-size=\"10\">{share:.2}</text>",
        color(contender),
        LABELS + width + 4.0,
        y + 10,
    );
}

fn color(contender: Contender) -> &'static str {
    match contender {
        Contender::Floor => "#555555",
        Contender::Steadfast => "#1b7f79",
        Contender::Official => "#c9a227",
    }
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
        let outcome = Outcome { case: "ping".to_owned(), samples, counted: BTreeMap::new() };
        let svg = svg(&[outcome]);
        assert!(svg.contains("width=\"210.0\" height=\"12\" fill=\"#1b7f79\""), "{svg}");
        assert!(!svg.contains("NaN"), "who was not measured has no bar: {svg}");
    }
}
