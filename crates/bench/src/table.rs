//! The table: a block for each case, a line for each contender.

use std::fmt::Write;

use crate::{comparison::Outcome, contender::Contender, single::Sample};

pub(crate) const LEGEND: &str = "\
Medians of the rounds; +- is half the distance between the slowest and the fastest of them. A unit is an
operation, or a document or write where a call moves many; p50 and p99 are of calls. cpu is the client's
processor time, user and system. allocs and bytes are per unit, from a run of their own. peak is the most
memory that the process ever had. x floor and x official are ratios of units per second.";

/// The middle of a few figures.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => figures[middle],
        _ => f64::midpoint(figures[middle - 1], figures[middle]),
    }
}

/// The lines of one case.
pub(crate) fn of_case(outcome: &Outcome) -> String {
    let mut text = format!(
        "\n{}\n  {:<10} {:>11} {:>6} {:>10} {:>10} {:>9} {:>8} {:>8} {:>8} {:>8} {:>10}\n",
        outcome.case,
        "",
        "units/s",
        "+-",
        "p50 us",
        "p99 us",
        "cpu us",
        "allocs",
        "bytes",
        "peak MB",
        "x floor",
        "x official",
    );
    let rate = |contender| of(outcome, contender, |sample| sample.per_second);
    for contender in Contender::ALL {
        let own = |figure: fn(&Sample) -> f64| of(outcome, contender, figure);
        let counted = outcome.counted.get(&contender);
        let _ = writeln!(
            text,
            "  {:<10} {:>11} {:>6} {:>10} {:>10} {:>9} {:>8} {:>8} {:>8} {:>8} {:>10}",
            contender.name(),
            figure(own(|sample| sample.per_second)),
            format!("{:.0}%", spread(outcome, contender) * 100.0),
            figure(own(|sample| sample.p50_micros)),
            figure(own(|sample| sample.p99_micros)),
            figure(own(|sample| sample.processor_micros)),
            counted.and_then(|sample| sample.allocations).map_or_else(dash, figure),
            counted.and_then(|sample| sample.allocated_bytes).map_or_else(dash, figure),
            figure(own(|sample| to_mega(sample.peak_bytes))),
            format!("{:.2}", rate(contender) / rate(Contender::Floor)),
            format!("{:.2}", rate(contender) / rate(Contender::Official)),
        );
    }
    text
}

/// How near a contender comes to the floor.
pub(crate) fn share_of_floor(outcome: &Outcome, contender: Contender) -> f64 {
    let rate = |contender| of(outcome, contender, |sample| sample.per_second);
    rate(contender) / rate(Contender::Floor)
}

fn of(outcome: &Outcome, contender: Contender, figure: impl Fn(&Sample) -> f64) -> f64 {
    let samples = outcome.samples.get(&contender);
    median(samples.into_iter().flatten().map(figure).collect())
}

/// Half the distance between the extremes, as a share of the median.
fn spread(outcome: &Outcome, contender: Contender) -> f64 {
    let samples = outcome.samples.get(&contender).into_iter().flatten();
    let rates: Vec<f64> = samples.map(|sample| sample.per_second).collect();
    let most = rates.iter().copied().fold(f64::MIN, f64::max);
    let least = rates.iter().copied().fold(f64::MAX, f64::min);
    (most - least) / 2.0 / median(rates)
}

fn dash() -> String {
    "-".to_owned()
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn to_mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// A figure with as many digits as say something.
fn figure(figure: f64) -> String {
    match figure {
        _ if figure.is_nan() => dash(),
        _ if figure >= 100.0 => thousands(figure),
        _ if figure >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

fn thousands(figure: f64) -> String {
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn figures_have_the_digits_that_matter() {
        let told = [1_234_567.8, 123.4, 12.34, 1.234, f64::NAN].map(figure);
        assert_eq!(told, ["1,234,568", "123", "12.3", "1.23", "-"]);
    }
}
