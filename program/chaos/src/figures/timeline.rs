//! Timeline of a run: operations, latency and failures in steps of equal length.

use std::time::Duration;

use super::{Answers, Latency};
use crate::account::{Account, Answer, Incident, Record};

/// Maximum number of steps, which a page can still show.
const MOST_BINS: u64 = 160;
/// Maximum number of steps of a run with few operations.
const FEW_BINS: u64 = 20;
/// Operations per step, on average, that make a quantile meaningful.
const ENOUGH: u64 = 12;

/// Round widths, in milliseconds.
const WIDTHS: [u64; 18] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000,
    900_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000,
];

/// Steps of a run, from its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timeline {
    /// Length of a step. The last step may extend beyond the end of the run.
    pub(crate) width: Duration,
    /// From the beginning to the end of the last operation.
    pub(crate) lasted: Duration,
    pub(crate) bins: Vec<Bin>,
}

/// Figures of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bin {
    /// Operations that ended in the step.
    pub(crate) answers: Answers,
    /// Latency of these operations.
    pub(crate) latency: Latency,
    /// Attempts that failed in the step.
    pub(crate) failed_attempts: u64,
    /// Requests hit by faults. Those of a lasting fault are spread evenly over its duration.
    pub(crate) hits: u64,
}

impl Timeline {
    pub(super) fn of(account: &Account) -> Self {
        let ends = account.records.iter().map(|record| record.began + record.took);
        let lasted = ends.max().unwrap_or_default().max(account.lasted);
        let width = width(lasted, account.records.len() as u64);
        let mut timeline = Self { width, lasted, bins: Vec::new() };
        let count = lasted.as_nanos().div_ceil(width.as_nanos()).max(1);
        timeline.bins.resize(usize::try_from(count).unwrap_or(1), Bin::default());
        timeline.add_operations(&account.records);
        for incident in &account.incidents {
            timeline.add_hits(incident);
        }
        timeline
    }

    /// Returns the beginning of a step.
    pub(crate) fn begin(&self, bin: usize) -> Duration {
        self.width.saturating_mul(u32::try_from(bin).unwrap_or(u32::MAX))
    }

    /// Returns the step of a time: the last one for later times, which faults may have.
    fn bin(&self, at: Duration) -> usize {
        let nth = at.as_nanos() / self.width.as_nanos();
        usize::try_from(nth).unwrap_or(usize::MAX).min(self.bins.len() - 1)
    }

    fn add_operations(&mut self, records: &[Record]) {
        let mut took = vec![Vec::new(); self.bins.len()];
        for record in records {
            let bin = self.bin(record.began + record.took);
            self.bins[bin].answers.add(&record.answer);
            if record.answer != Answer::Dropped {
                took[bin].push(record.took);
            }
            for failure in &record.failures {
                let bin = self.bin(failure.at);
                self.bins[bin].failed_attempts += 1;
            }
        }
        for (bin, took) in self.bins.iter_mut().zip(took) {
            bin.latency = Latency::of(took);
        }
    }

    fn add_hits(&mut self, incident: &Incident) {
        let (first, last) = (self.bin(incident.began), self.bin(incident.ended));
        let count = (last.saturating_sub(first) + 1) as u64;
        for nth in 0..count {
            // Differences of cumulative counts: rounding loses nothing.
            let by = |nth: u64| incident.hits.saturating_mul(nth) / count;
            let bin = first + usize::try_from(nth).unwrap_or_default();
            self.bins[bin].hits += by(nth + 1) - by(nth);
        }
    }
}

/// Returns the smallest round width with few enough steps and enough operations in each.
fn width(lasted: Duration, operations: u64) -> Duration {
    let most = u128::from((operations / ENOUGH).clamp(FEW_BINS, MOST_BINS));
    let fits = |width: &Duration| lasted.as_nanos().div_ceil(width.as_nanos()) <= most;
    let mut days = (0..).map(|power| Duration::from_secs(86_400) * 2_u32.saturating_pow(power));
    let round = WIDTHS.into_iter().map(Duration::from_millis).find(fits);
    round.or_else(|| days.find(fits)).expect("some number of days is enough")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_wider_with_few_operations() {
        let width_of = |operations| width(Duration::from_secs(10), operations);
        assert_eq!(width_of(2_000), Duration::from_millis(100));
        assert_eq!(width_of(645), Duration::from_millis(200));
        assert_eq!(width_of(0), Duration::from_millis(500));
    }

    #[test]
    fn steps_have_round_widths_and_a_maximum_number() {
        for (lasted, expected) in [
            (0, 100),
            (1_000, 100),
            (16_000, 100),
            (16_001, 200),
            (60_000, 500),
            (300_000, 2_000),
            (3_600_000, 30_000),
            (86_400_000, 600_000),
            (30 * 86_400_000, 21_600_000),
            (365 * 86_400_000, 4 * 86_400_000),
        ] {
            let width = width(Duration::from_millis(lasted), u64::MAX);
            assert_eq!(width, Duration::from_millis(expected), "{lasted} ms");
        }
    }
}
