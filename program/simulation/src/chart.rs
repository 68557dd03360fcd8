//! The curves as a picture: an SVG that reads on light and on dark paper.

use std::fmt::Write;

use crate::{measure::Report, scenario::Strategy};

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 700.0;

/// Colours follow the scheme of the reader; lines differ in their dashes, too, and each bears its
/// name, so that nobody has to tell colours apart.
const STYLE: &str = "\
svg{font:13px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}\
.paper{fill:#fff}text{fill:#24292f}.small{font-size:11px;fill:#6e7781}\
.title{font-size:14px;font-weight:600}.name{font-weight:600}\
.rule{stroke:#d8dee4;stroke-width:1}.mark{stroke:#8c959f;stroke-width:1;stroke-dasharray:2 3}\
polyline{fill:none;stroke-width:2;stroke-linejoin:round}\
.never polyline{stroke:#57606a;stroke-width:1.5}.never circle,.never .name{fill:#57606a}\
.at-once polyline{stroke:#cf222e;stroke-dasharray:2 4}.at-once circle,.at-once .name{fill:#cf222e}\
.backoff polyline{stroke:#bf5700;stroke-dasharray:8 4}.backoff circle,.backoff .name{fill:#bf5700}\
.steadfast polyline{stroke:#0969da;stroke-width:3}.steadfast circle,.steadfast .name{fill:#0969da}\
@media (prefers-color-scheme:dark){\
.paper{fill:#0d1117}text{fill:#e6edf3}.small{fill:#8b949e}\
.rule{stroke:#30363d}.mark{stroke:#6e7681}\
.never polyline{stroke:#9da7b3}.never circle,.never .name{fill:#9da7b3}\
.at-once polyline{stroke:#ff7b72}.at-once circle,.at-once .name{fill:#ff7b72}\
.backoff polyline{stroke:#f0a35e}.backoff circle,.backoff .name{fill:#f0a35e}\
.steadfast polyline{stroke:#58a6ff}.steadfast circle,.steadfast .name{fill:#58a6ff}}";

/// A rectangle with axes.
struct Panel {
    title: &'static str,
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    /// Where the axes begin and end.
    across: (f64, f64),
    up: (f64, f64),
    across_name: &'static str,
    across_ticks: Vec<f64>,
    up_ticks: Vec<f64>,
    up_label: fn(f64) -> String,
}

/// The picture of a whole grid.
pub fn svg(reports: &[Report]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Goodput and attempts per operation under overload, for four ways of retrying\">\
         <style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n"
    );
    legend(&mut svg);
    by_load(&mut svg, reports);
    by_time(&mut svg, reports);
    svg.push_str("</svg>\n");
    svg
}

fn class(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Never => "never",
        Strategy::AtOnce => "at-once",
        Strategy::Backoff => "backoff",
        Strategy::Steadfast => "steadfast",
    }
}

fn legend(svg: &mut String) {
    for (place, strategy) in (0_u8..).zip(Strategy::ALL) {
        let x = 60.0 + 210.0 * f64::from(place);
        let _ = writeln!(
            svg,
            "<g class=\"{}\"><polyline points=\"{x},22 {},22\"/>\
             <text class=\"name\" x=\"{}\" y=\"27\">{}</text></g>",
            class(strategy),
            x + 34.0,
            x + 42.0,
            strategy.name()
        );
    }
}

/// Goodput and attempts, over what is asked for.
fn by_load(svg: &mut String, reports: &[Report]) {
    let most = reports.iter().map(|report| report.load).fold(1.0, f64::max);
    let panel = |title, left, up, up_ticks, up_label| Panel {
        title,
        left,
        top: 80.0,
        width: 370.0,
        height: 220.0,
        across: (0.0, most),
        up,
        across_name: "offered load, in multiples of the capacity",
        across_ticks: ticks(most, 1.0),
        up_ticks,
        up_label,
    };
    let goodput =
        panel("Goodput, as a part of the capacity", 60.0, (0.0, 1.0), ticks(1.0, 0.25), percent);
    let attempts = panel("Attempts per operation", 520.0, (0.0, 6.0), ticks(6.0, 1.0), number);
    let marks = [(&goodput, "capacity", 1.0), (&attempts, "capacity", 1.0)];
    for (panel, name, at) in marks {
        panel.frame(svg);
        panel.mark(svg, at, name);
    }
    for strategy in Strategy::ALL {
        let of_strategy = reports.iter().filter(|report| report.strategy == strategy.name());
        let of_strategy: Vec<_> = of_strategy.collect();
        let points = |value: fn(&Report) -> f64| -> Vec<_> {
            of_strategy.iter().map(|report| (report.load, value(report))).collect()
        };
        goodput.line(svg, strategy, &points(|report| report.goodput_share), true);
        attempts.line(svg, strategy, &points(|report| report.attempts_per_operation), true);
    }
}

/// Goodput second by second, at the highest load.
fn by_time(svg: &mut String, reports: &[Report]) {
    let most = reports.iter().map(|report| report.load).fold(0.0, f64::max);
    let at_most: Vec<_> = reports.iter().filter(|report| report.load == most).collect();
    let seconds = at_most.iter().map(|report| report.goodput_share_by_second.len()).max();
    let seconds = seconds.unwrap_or_default().max(1) as f64;
    let panel = Panel {
        title: "Goodput second by second at the highest load, as a part of the capacity",
        left: 60.0,
        top: 400.0,
        width: 830.0,
        height: 220.0,
        across: (0.0, seconds),
        up: (0.0, 1.0),
        across_name: "seconds",
        across_ticks: ticks(seconds, (seconds / 6.0).ceil()),
        up_ticks: ticks(1.0, 0.25),
        up_label: percent,
    };
    panel.frame(svg);
    // The shares of `Scenario::lasting`.
    panel.mark(svg, seconds / 12.0, "overload begins");
    panel.mark(svg, seconds * 9.0 / 12.0, "… and ends");
    for strategy in Strategy::ALL {
        for report in at_most.iter().filter(|report| report.strategy == strategy.name()) {
            let middle = |second: usize| second as f64 + 0.5;
            let shares = report.goodput_share_by_second.iter().enumerate();
            let points: Vec<_> = shares.map(|(second, &share)| (middle(second), share)).collect();
            panel.line(svg, strategy, &points, false);
        }
    }
}

impl Panel {
    fn x(&self, value: f64) -> f64 {
        self.left + (value - self.across.0) / (self.across.1 - self.across.0) * self.width
    }

    fn y(&self, value: f64) -> f64 {
        let part = (value - self.up.0) / (self.up.1 - self.up.0);
        self.top + self.height * (1.0 - part)
    }

    fn frame(&self, svg: &mut String) {
        let Self { left, top, width, height, title, across_name, .. } = self;
        let _ = writeln!(
            svg,
            "<text class=\"title\" x=\"{left}\" y=\"{}\">{title}</text>\
             <text class=\"small\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{across_name}</text>",
            top - 18.0,
            left + width / 2.0,
            top + height + 36.0,
        );
        for &tick in &self.up_ticks {
            let y = self.y(tick);
            let _ = writeln!(
                svg,
                "<line class=\"rule\" x1=\"{left}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"small\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left + width,
                left - 6.0,
                y + 4.0,
                (self.up_label)(tick),
            );
        }
        for &tick in &self.across_ticks {
            let _ = writeln!(
                svg,
                "<text class=\"small\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                self.x(tick),
                top + height + 18.0,
                number(tick),
            );
        }
    }

    /// An upright line where something changes.
    fn mark(&self, svg: &mut String, at: f64, name: &str) {
        let x = self.x(at);
        let _ = writeln!(
            svg,
            "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{}\"/>\
             <text class=\"small\" x=\"{:.1}\" y=\"{}\">{name}</text>",
            self.top - 8.0,
            self.top + self.height,
            x + 4.0,
            self.top - 4.0,
        );
    }

    fn line(&self, svg: &mut String, strategy: Strategy, points: &[(f64, f64)], dots: bool) {
        let places = points.iter().map(|&(x, y)| (self.x(x), self.y(y.min(self.up.1 * 1.05))));
        let places: Vec<_> = places.collect();
        let list: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(
            svg,
            "<g class=\"{}\"><polyline points=\"{}\"/>",
            class(strategy),
            list.join(" ")
        );
        for (x, y) in places.iter().filter(|_| dots) {
            let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
        }
        svg.push_str("</g>\n");
    }
}

fn ticks(most: f64, step: f64) -> Vec<f64> {
    let ticks = (0_u32..).map(|count| f64::from(count) * step);
    ticks.take_while(|&tick| tick <= most + 1e-9).collect()
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

fn number(value: f64) -> String {
    format!("{value:.0}")
}
