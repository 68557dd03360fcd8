//! A plot as wide as the screen: paths are stretched, text is not.
//!
//! Horizontal positions are parts of the whole time: percent where SVG accepts them, and of [`WIDE`] units in
//! paths, which are in an inner image that is stretched to the width of the plot.

use std::{fmt::Write, time::Duration};

use maud::{Markup, html};

/// Units across the paths of a plot.
const WIDE: f64 = 1000.0;
/// Space for labels above the top tick and below the bottom one.
const MARGIN: f64 = 7.0;

/// A plot that is being drawn.
pub(super) struct Plot {
    /// Description for screen readers.
    label: String,
    height: f64,
    paths: Vec<Markup>,
    overlay: Vec<Markup>,
    axis: Vec<Markup>,
}

impl Plot {
    /// Returns an empty plot with a height for the values.
    pub(super) fn new(label: String, height: f64) -> Self {
        let (paths, overlay, axis) = (Vec::new(), Vec::new(), Vec::new());
        Self { label, height: height + 2.0 * MARGIN, paths, overlay, axis }
    }

    /// Returns the vertical position of a value from 0 at the bottom to 1 at the top.
    pub(super) fn down(&self, value: f64) -> f64 {
        self.height - MARGIN - value * (self.height - 2.0 * MARGIN)
    }

    /// Adds horizontal lines with labels.
    pub(super) fn ticks(&mut self, ticks: impl Iterator<Item = (f64, String)>) {
        let mut lines = String::new();
        for (place, label) in ticks {
            let y = self.down(place);
            put(&mut lines, format_args!("M0 {y:.1}H{WIDE}"));
            self.label_at(y, &label);
        }
        self.path("grid", &lines);
    }

    /// Adds a label to the vertical axis.
    pub(super) fn label_at(&mut self, y: f64, label: &str) {
        self.axis.push(html! { text x="66" y=(format_args!("{:.1}", y + 4.0)) { (label) } });
    }

    /// Adds a path with positions of [`along`] and [`Self::down`].
    pub(super) fn path(&mut self, class: &str, path: &str) {
        if !path.is_empty() {
            self.paths.push(html! { path class=(class) d=(path) {} });
        }
    }

    /// Adds SVG in front of the paths, which is not stretched.
    pub(super) fn add(&mut self, svg: Markup) {
        self.overlay.push(svg);
    }

    /// Returns the plot with its axis.
    pub(super) fn html(&self) -> Markup {
        let Self { label, height, paths, overlay, axis } = self;
        html! {
            div.plot {
                svg.y width="74" height=(height) aria-hidden="true" { @for label in axis { (label) } }
                svg.x role="img" aria-label=(label) width="100%" height=(height) {
                    svg viewBox=(format_args!("0 0 {WIDE} {height}")) preserveAspectRatio="none" width="100%"
                        height=(height) {
                        @for path in paths { (path) }
                    }
                    @for element in overlay { (element) }
                }
            }
        }
    }
}

/// Returns the horizontal position of a time in the units of paths.
pub(super) fn along(at: Duration, lasted: Duration) -> f64 {
    part(at, lasted) * WIDE
}

/// Returns the horizontal position of a time in percent.
pub(super) fn percent(at: Duration, lasted: Duration) -> f64 {
    part(at, lasted) * 100.0
}

fn part(at: Duration, lasted: Duration) -> f64 {
    if lasted.is_zero() {
        return 0.0;
    }
    (at.as_secs_f64() / lasted.as_secs_f64()).clamp(0.0, 1.0)
}

/// Formats an attribute in percent.
pub(super) fn percentage(value: f64) -> String {
    format!("{value:.2}%")
}

/// Appends to a text.
pub(super) fn put(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = text.write_fmt(arguments);
}
