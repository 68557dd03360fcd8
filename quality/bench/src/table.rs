//! Table with a block per case and a line per contender, for the terminal and as Markdown.

use std::{fmt::Write, fs, path::Path};

use crate::{Result, comparison::CaseResult, contender::Contender, measurement::Sample};

pub(crate) const LEGEND: &str = "\
Medians of the rounds; +- is half the distance between the slowest and the fastest of them. A unit is an
operation, or a document or write where a call moves many; p50 and p99 are of calls. cpu is the client's
processor time, user and system. allocs and bytes are per unit, from a run of their own. peak is the most
memory that the process used. x floor and x official are ratios of units per second.";

/// Returns the median, or NaN without figures.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => figures[middle],
        _ => f64::midpoint(figures[middle - 1], figures[middle]),
    }
}

/// Figures of one contender in one case.
struct Line {
    contender: Contender,
    per_second: f64,
    spread: f64,
    p50_micros: f64,
    p99_micros: f64,
    processor_micros: f64,
    allocations: f64,
    allocated_bytes: f64,
    peak_megabytes: f64,
    of_floor: f64,
    of_official: f64,
}

impl Line {
    /// Returns the lines of the contenders that were measured.
    fn all(result: &CaseResult) -> Vec<Self> {
        result.samples.keys().map(|&contender| Self::new(result, contender)).collect()
    }

    fn new(result: &CaseResult, contender: Contender) -> Self {
        let own = |figure: fn(&Sample) -> f64| median_of(result, contender, figure);
        let rate = |contender| median_of(result, contender, |sample| sample.per_second);
        let counted = |figure: fn(&Sample) -> Option<f64>| {
            result.counted.get(&contender).and_then(figure).unwrap_or(f64::NAN)
        };
        Self {
            contender,
            per_second: rate(contender),
            spread: spread(result, contender),
            p50_micros: own(|sample| sample.p50_micros),
            p99_micros: own(|sample| sample.p99_micros),
            processor_micros: own(|sample| sample.processor_micros),
            allocations: counted(|sample| sample.allocations),
            allocated_bytes: counted(|sample| sample.allocated_bytes),
            peak_megabytes: own(|sample| megabytes(sample.peak_bytes)),
            of_floor: rate(contender) / rate(Contender::Floor),
            of_official: rate(contender) / rate(Contender::Official),
        }
    }
}

/// Formats one case for the terminal.
pub(crate) fn case_table(result: &CaseResult) -> String {
    let mut text = format!(
        "\n{}\n  {:<10} {:>11} {:>6} {:>10} {:>10} {:>9} {:>8} {:>8} {:>8} {:>8} {:>10}\n",
        result.case,
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
    for line in Line::all(result) {
        let _ = writeln!(
            text,
            "  {:<10} {:>11} {:>6} {:>10} {:>10} {:>9} {:>8} {:>8} {:>8} {:>8} {:>10}",
            line.contender.name(),
            figure(line.per_second),
            format!("{:.0}%", line.spread * 100.0),
            figure(line.p50_micros),
            figure(line.p99_micros),
            figure(line.processor_micros),
            figure(line.allocations),
            figure(line.allocated_bytes),
            figure(line.peak_megabytes),
            figure(line.of_floor),
            figure(line.of_official),
        );
    }
    text
}

/// Prints the samples that a comparison stored with `--json`.
pub(crate) fn print_markdown(samples: &Path) -> Result<()> {
    println!("{}", markdown(&read(samples)?));
    Ok(())
}

/// Reads the samples that a comparison stored with `--json`.
pub(crate) fn read(samples: &Path) -> Result<Vec<CaseResult>> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", samples.display());
    let text = fs::read_to_string(samples).map_err(|error| named(&error))?;
    Ok(serde_json::from_str(&text).map_err(|error| named(&error))?)
}

const MARKDOWN_HEAD: &str = "\
| case | | units/s | ± | p50 µs | p99 µs | cpu µs | allocs | peak MB | × floor | × official |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
";

fn markdown(results: &[CaseResult]) -> String {
    let mut text = MARKDOWN_HEAD.to_owned();
    for result in results {
        for (index, line) in Line::all(result).into_iter().enumerate() {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:.0} % | {} | {} | {} | {} | {} | {} | {} |",
                if index == 0 { &result.case } else { "" },
                line.contender.name(),
                figure(line.per_second),
                line.spread * 100.0,
                figure(line.p50_micros),
                figure(line.p99_micros),
                figure(line.processor_micros),
                figure(line.allocations),
                figure(line.peak_megabytes),
                figure(line.of_floor),
                figure(line.of_official),
            );
        }
    }
    let loads = results.iter().filter_map(|result| result.load_average);
    if let Some(most) = loads.reduce(f64::max) {
        let _ = write!(
            text,
            "\nThe load average was {most:.1} at most, the measured processes included."
        );
    }
    text
}

/// Returns the throughput of a contender as a share of the floor's.
pub(crate) fn share_of_floor(result: &CaseResult, contender: Contender) -> f64 {
    let rate = |contender| median_of(result, contender, |sample| sample.per_second);
    rate(contender) / rate(Contender::Floor)
}

fn median_of(result: &CaseResult, contender: Contender, figure: impl Fn(&Sample) -> f64) -> f64 {
    let samples = result.samples.get(&contender);
    median(samples.into_iter().flatten().map(figure).collect())
}

/// Returns half the distance between the extremes, as a share of the median.
fn spread(result: &CaseResult, contender: Contender) -> f64 {
    let samples = result.samples.get(&contender).into_iter().flatten();
    let rates: Vec<f64> = samples.map(|sample| sample.per_second).collect();
    let most = rates.iter().copied().fold(f64::MIN, f64::max);
    let least = rates.iter().copied().fold(f64::MAX, f64::min);
    (most - least) / 2.0 / median(rates)
}

fn dash() -> String {
    "-".to_owned()
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Formats a figure with three or more significant digits.
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
    fn median_is_the_middle_figure() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn markdown_has_a_line_per_measured_contender() {
        let sample = |per_second| Sample {
            units: 1,
            per_second,
            p50_micros: 1.0,
            p99_micros: 1.0,
            processor_micros: 1.0,
            allocations: None,
            allocated_bytes: None,
            peak_bytes: 2_000_000,
        };
        let result = CaseResult {
            case: "ping".to_owned(),
            samples: [(Contender::Floor, 2000.0), (Contender::Steadfast, 1000.0)]
                .map(|(contender, rate)| (contender, vec![sample(rate)]))
                .into(),
            counted: [].into(),
            load_average: Some(2.5),
        };
        let text = markdown(&[result]);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[2].starts_with("| ping | floor | 2,000 | 0 % |"), "{text}");
        assert!(lines[3].starts_with("|  | steadfast | 1,000 | 0 % |"), "{text}");
        assert!(lines[3].ends_with("| - | 2.00 | 0.50 | - |"), "{text}");
        assert!(lines[5].contains("2.5"), "{text}");
    }

    #[test]
    fn figures_have_three_significant_digits() {
        let formatted = [1_234_567.8, 123.4, 12.34, 1.234, f64::NAN].map(figure);
        assert_eq!(formatted, ["1,234,568", "123", "12.3", "1.23", "-"]);
    }
}
