//! Chart of a grid: an SVG image for light and dark pages.

use maud::{Markup, PreEscaped, html};

use crate::{measure::Report, scenario::Strategy};

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 700.0;

/// Colours for light and dark pages. Lines differ in their dashes, too, for readers who cannot distinguish colours.
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

/// Plot area with axes.
struct Panel {
    title: &'static str,
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    /// Range of the horizontal axis.
    across: (f64, f64),
    /// Range of the vertical axis.
    up: (f64, f64),
    across_name: &'static str,
    across_ticks: Vec<f64>,
    up_ticks: Vec<f64>,
    up_label: fn(f64) -> String,
}

/// Returns the chart of all reports of a grid.
pub fn svg(reports: &[Report]) -> String {
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img"
            aria-label="Goodput and attempts per operation under overload, for four ways of retrying" {
            style { (PreEscaped(STYLE)) }
            rect.paper width=(WIDTH) height=(HEIGHT) {}
            @for (number, strategy) in (0_u8..).zip(Strategy::ALL) {
                (legend(60.0 + 210.0 * f64::from(number), strategy))
            }
            (by_load(reports))
            (by_time(reports))
        }
    };
    svg.into_string() + "\n"
}

fn class(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Never => "never",
        Strategy::AtOnce => "at-once",
        Strategy::Backoff => "backoff",
        Strategy::Steadfast => "steadfast",
    }
}

fn legend(x: f64, strategy: Strategy) -> Markup {
    html! {
        g class=(class(strategy)) {
            polyline points=(format_args!("{x},22 {},22", x + 34.0)) {}
            text.name x=(x + 42.0) y="27" { (strategy.name()) }
        }
    }
}

/// Goodput and attempts by offered load.
fn by_load(reports: &[Report]) -> Markup {
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
    let points = |strategy: Strategy, value: fn(&Report) -> f64| -> Vec<_> {
        let of_strategy = reports.iter().filter(|report| report.strategy == strategy.name());
        of_strategy.map(|report| (report.load, value(report))).collect()
    };
    html! {
        @for panel in [&goodput, &attempts] { (panel.frame()) (panel.mark(1.0, "capacity")) }
        @for strategy in Strategy::ALL {
            (goodput.line(strategy, &points(strategy, |report| report.goodput_share), true))
            (attempts.line(strategy, &points(strategy, |report| report.attempts_per_operation), true))
        }
    }
}

/// Goodput by time, at the highest load.
fn by_time(reports: &[Report]) -> Markup {
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
    let points = |report: &Report| -> Vec<_> {
        let shares = report.goodput_share_by_second.iter().enumerate();
        shares.map(|(second, &share)| (second as f64 + 0.5, share)).collect()
    };
    html! {
        (panel.frame())
        // The shares of `Scenario::lasting`.
        (panel.mark(seconds / 12.0, "overload begins"))
        (panel.mark(seconds * 9.0 / 12.0, "… and ends"))
        @for strategy in Strategy::ALL {
            @for report in at_most.iter().filter(|report| report.strategy == strategy.name()) {
                (panel.line(strategy, &points(report), false))
            }
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

    fn frame(&self) -> Markup {
        let Self { left, top, width, height, .. } = *self;
        html! {
            text.title x=(left) y=(top - 18.0) { (self.title) }
            text.small x=(left + width / 2.0) y=(top + height + 36.0) text-anchor="middle" { (self.across_name) }
            @for &tick in &self.up_ticks {
                @let y = self.y(tick);
                line.rule x1=(left) x2=(left + width) y1=(tenths(y)) y2=(tenths(y)) {}
                text.small x=(left - 6.0) y=(tenths(y + 4.0)) text-anchor="end" { ((self.up_label)(tick)) }
            }
            @for &tick in &self.across_ticks {
                text.small x=(tenths(self.x(tick))) y=(top + height + 18.0) text-anchor="middle" { (number(tick)) }
            }
        }
    }

    /// A vertical line with a name.
    fn mark(&self, at: f64, name: &str) -> Markup {
        let (x, top) = (self.x(at), self.top);
        html! {
            line.mark x1=(tenths(x)) x2=(tenths(x)) y1=(top - 8.0) y2=(top + self.height) {}
            text.small x=(tenths(x + 4.0)) y=(top - 4.0) { (name) }
        }
    }

    fn line(&self, strategy: Strategy, points: &[(f64, f64)], has_dots: bool) -> Markup {
        let place = |&(x, y): &(f64, f64)| (self.x(x), self.y(y.min(self.up.1 * 1.05)));
        let places: Vec<_> = points.iter().map(place).collect();
        let list: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        html! {
            g class=(class(strategy)) {
                polyline points=(list.join(" ")) {}
                @for &(x, y) in places.iter().filter(|_| has_dots) {
                    circle cx=(tenths(x)) cy=(tenths(y)) r="3" {}
                }
            }
        }
    }
}

fn tenths(value: f64) -> String {
    format!("{value:.1}")
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
