//! Round numbers for axes.

use std::time::Duration;

use super::words::grouped;

/// An axis from zero to a round number that is not below the largest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Linear {
    pub(super) top: u64,
    pub(super) step: u64,
}

impl Linear {
    /// Returns the axis with at most `most` steps, at least one.
    pub(super) fn to(largest: u64, most: u64) -> Self {
        let largest = largest.max(1);
        let steps = (0..19).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
        let step = steps.into_iter().find(|step| largest.div_ceil(*step) <= most.max(1));
        let step = step.unwrap_or(largest);
        Self { top: largest.div_ceil(step).saturating_mul(step), step }
    }

    /// Returns the ticks from the bottom to the top.
    pub(super) fn ticks(self) -> impl Iterator<Item = (f64, String)> {
        let count = self.top / self.step;
        (0..=count).map(move |nth| {
            let value = nth * self.step;
            (self.place(value as f64), grouped(value))
        })
    }

    /// Returns the position of a value, from 0 at the bottom to 1 at the top.
    pub(super) fn place(self, value: f64) -> f64 {
        (value / self.top as f64).clamp(0.0, 1.0)
    }
}

/// An axis of durations on which each step is ten times the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Decades {
    /// Powers of ten of a microsecond.
    from: i32,
    to: i32,
}

impl Decades {
    /// Returns the axis that contains both values, with at least one decade.
    pub(super) fn around(least: Duration, largest: Duration) -> Self {
        let from = floor(power(least)).clamp(0, 11);
        let to = -floor(-power(largest));
        Self { from, to: to.max(from + 1) }
    }

    pub(super) fn ticks(self) -> impl Iterator<Item = (f64, String)> {
        (self.from..=self.to).map(move |exponent| {
            let place = f64::from(exponent - self.from) / f64::from(self.to - self.from);
            (place, decade(exponent))
        })
    }

    pub(super) fn place(self, value: Duration) -> f64 {
        let place = (power(value) - f64::from(self.from)) / f64::from(self.to - self.from);
        place.clamp(0.0, 1.0)
    }
}

fn power(value: Duration) -> f64 {
    (value.as_nanos().max(1) as f64 / 1e3).log10()
}

#[allow(clippy::cast_possible_truncation)] // The logarithm of a duration is small.
fn floor(value: f64) -> i32 {
    value.floor() as i32
}

fn decade(exponent: i32) -> String {
    let (unit, exponent) = match exponent {
        ..3 => ("µs", exponent),
        3..6 => ("ms", exponent - 3),
        6.. => ("s", exponent - 6),
    };
    let power = 10_u64.saturating_pow(u32::try_from(exponent).unwrap_or_default());
    format!("{} {unit}", grouped(power))
}

/// Distances between labels of the time axis, in milliseconds.
const STEPS: [u64; 23] = [
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    900_000,
    1_800_000,
    3_600_000,
    7_200_000,
    10_800_000,
    14_400_000,
    21_600_000,
    43_200_000,
    86_400_000,
    172_800_000,
];

/// Returns the labels of the time axis: the position from 0 to 1, and the text.
pub(super) fn times(lasted: Duration, most: u64) -> Vec<(f64, String)> {
    let lasted = u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX).max(1);
    let step = STEPS.into_iter().find(|step| lasted / step <= most);
    let step = step.unwrap_or_else(|| lasted.div_ceil(most.max(1)));
    let label = |at: u64| (at as f64 / lasted as f64, time(at, step));
    (0..=lasted / step).map(|nth| label(nth * step)).collect()
}

/// Formats a time in the unit of the steps.
fn time(millis: u64, step: u64) -> String {
    let minutes = millis / 60_000;
    match step {
        _ if millis == 0 => "0".to_owned(),
        ..1_000 => format!("{:.1} s", millis as f64 / 1e3),
        1_000..60_000 if minutes == 0 => format!("{} s", millis / 1_000),
        1_000..60_000 => format!("{minutes}:{:02}", millis / 1_000 % 60),
        60_000..3_600_000 if minutes < 180 => format!("{minutes} min"),
        60_000..3_600_000 => format!("{}:{:02} h", minutes / 60, minutes % 60),
        3_600_000.. => format!("{} h", minutes / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_axis_has_round_whole_numbers() {
        for (largest, top, step) in [
            (0, 1, 1),
            (1, 1, 1),
            (3, 3, 1),
            (4, 4, 2),
            (7, 10, 5),
            (230, 300, 100),
            (59_812, 60_000, 20_000),
        ] {
            assert_eq!(Linear::to(largest, 3), Linear { top, step }, "{largest}");
        }
        let ticks: Vec<_> = Linear::to(1_500, 3).ticks().collect();
        let labels: Vec<_> = ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["0", "500", "1,000", "1,500"]);
        assert_eq!(ticks[3].0, 1.0);
        assert_eq!(Linear::to(u64::MAX, 3).place(1.0e30), 1.0);
    }

    #[test]
    fn latency_axis_has_powers_of_ten() {
        let of = |least, largest| {
            let axis =
                Decades::around(Duration::from_micros(least), Duration::from_micros(largest));
            axis.ticks().map(|(_, label)| label).collect::<Vec<_>>()
        };
        assert_eq!(of(700, 9_000_000), ["100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]);
        assert_eq!(of(0, 0), ["1 µs", "10 µs"]);
        assert_eq!(of(1_000, 1_000), ["1 ms", "10 ms"]);
        let axis = Decades::around(Duration::from_millis(1), Duration::from_secs(1));
        assert!((axis.place(Duration::from_millis(10)) - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn time_labels_have_the_unit_of_their_steps() {
        let of = |secs| {
            let labels = times(Duration::from_secs(secs), 6);
            labels.into_iter().map(|(_, label)| label).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(1), "0 0.2 s 0.4 s 0.6 s 0.8 s 1.0 s");
        assert_eq!(of(60), "0 10 s 20 s 30 s 40 s 50 s 1:00");
        assert_eq!(of(300), "0 1 min 2 min 3 min 4 min 5 min");
        assert_eq!(of(86_400), "0 4 h 8 h 12 h 16 h 20 h 24 h");
        assert_eq!(of(0), "0");
    }
}
