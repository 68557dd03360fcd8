//! A plot that is as wide as the screen lets it be: what is drawn is stretched, and text is not.
//!
//! Places along the time are a part of the whole: percent where SVG takes them, and of [`WIDE`] units in the
//! paths, which are in a picture of their own within the plot, made as wide as it is.

use std::{fmt::Write, time::Duration};

/// Units across the paths of a plot.
const WIDE: f64 = 1000.0;
/// Above the top tick and below the bottom one, so that their labels have room.
const MARGIN: f64 = 7.0;

/// A plot, while it is drawn.
pub(super) struct Plot {
    /// What it shows, for those who do not see it.
    label: String,
    height: f64,
    paths: String,
    rest: String,
    axis: String,
}

impl Plot {
    /// With so much room for values; the label is HTML.
    pub(super) fn new(label: String, height: f64) -> Self {
        let (paths, rest, axis) = (String::new(), String::new(), String::new());
        Self { label, height: height + 2.0 * MARGIN, paths, rest, axis }
    }

    /// How far down a value is, from 0 at the bottom to 1 at the top.
    pub(super) fn down(&self, value: f64) -> f64 {
        self.height - MARGIN - value * (self.height - 2.0 * MARGIN)
    }

    /// Lines across, with what they stand for beside them.
    pub(super) fn ticks(&mut self, ticks: impl Iterator<Item = (f64, String)>) {
        let mut lines = String::new();
        for (place, label) in ticks {
            let y = self.down(place);
            put(&mut lines, format_args!("M0 {y:.1}H{WIDE}"));
            self.label_at(y, &label);
        }
        self.path("grid", &lines);
    }

    /// What is written beside the plot.
    pub(super) fn label_at(&mut self, y: f64, label: &str) {
        put(&mut self.axis, format_args!(r#"<text x="66" y="{:.1}">{label}</text>"#, y + 4.0));
    }

    /// A path with places of [`along`] and [`Self::down`].
    pub(super) fn path(&mut self, class: &str, path: &str) {
        if !path.is_empty() {
            put(&mut self.paths, format_args!(r#"<path class="{class}" d="{path}"/>"#));
        }
    }

    /// SVG that stands before the paths and is not stretched.
    pub(super) fn add(&mut self, svg: &str) {
        self.rest.push_str(svg);
    }

    /// The plot with its axis.
    pub(super) fn html(&self) -> String {
        let Self { label, height, paths, rest, axis } = self;
        let mut html = format!(
            r#"<div class="plot"><svg class="y" width="74" height="{height}" aria-hidden="true">{axis}</svg>"#
        );
        put(
            &mut html,
            format_args!(
                r#"<svg class="x" role="img" aria-label="{label}" width="100%" height="{height}">"#
            ),
        );
        put(
            &mut html,
            format_args!(
                r#"<svg viewBox="0 0 {WIDE} {height}" preserveAspectRatio="none" width="100%" height="{height}">{paths}</svg>"#
            ),
        );
        put(&mut html, format_args!("{rest}</svg></div>\n"));
        html
    }
}

/// Where a time is, in the units of paths.
pub(super) fn along(at: Duration, lasted: Duration) -> f64 {
    part(at, lasted) * WIDE
}

/// Where a time is, in percent.
pub(super) fn percent(at: Duration, lasted: Duration) -> f64 {
    part(at, lasted) * 100.0
}

fn part(at: Duration, lasted: Duration) -> f64 {
    if lasted.is_zero() {
        return 0.0;
    }
    (at.as_secs_f64() / lasted.as_secs_f64()).clamp(0.0, 1.0)
}

/// Adds to a text.
pub(super) fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    // To a string, this does not fail.
    let _ = text.write_fmt(what);
}
