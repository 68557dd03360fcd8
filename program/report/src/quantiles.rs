//! Quantiles by the nearest rank: exact ones of sorted values, and those of a histogram.

use std::time::Duration;

/// Returns the least value that `per_mille` thousandths of the values do not exceed, or `None` without values.
///
/// `sorted` is in ascending order. The median is `quantile(sorted, 500)`: of an even number of values, the lower
/// one of the two in the middle.
pub fn quantile<T: Copy>(sorted: &[T], per_mille: u64) -> Option<T> {
    let rank = usize::try_from(rank(sorted.len() as u64, per_mille)).ok()?;
    sorted.get(rank.checked_sub(1)?).copied()
}

/// Returns the number of the value at a quantile, counted from 1; 0 if there are no values.
fn rank(count: u64, per_mille: u64) -> u64 {
    let rank = (u128::from(count) * u128::from(per_mille)).div_ceil(1000);
    u64::try_from(rank).unwrap_or(u64::MAX).clamp(count.min(1), count)
}

/// Buckets in each doubling of the duration, as a power of two.
const STEP_BITS: u32 = 6;
const STEPS: usize = 1 << STEP_BITS;
/// The smallest durations have a bucket for each nanosecond; each further bit of a `u64` is a doubling.
const BUCKETS: usize = STEPS * (u64::BITS - STEP_BITS + 1) as usize;

/// Number of durations by length. A quantile is off by less than 0.8 %.
///
/// It has a fixed size, so that adding a duration allocates nothing.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0 }
    }
}

impl Histogram {
    /// Counts a duration.
    pub fn add(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(nanos)] += 1;
        self.count += 1;
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (sum, count) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum += count;
        }
        self.count += other.count;
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the duration that `per_mille` thousandths of the durations do not exceed; zero without durations.
    pub fn quantile(&self, per_mille: u64) -> Duration {
        let rank = rank(self.count, per_mille);
        let mut passed = 0;
        let reached = |count: &u64| {
            passed += count;
            passed >= rank.max(1)
        };
        let bucket = self.buckets.iter().position(reached);
        bucket.map_or(Duration::ZERO, |bucket| Duration::from_nanos(middle_of(bucket)))
    }
}

fn bucket_of(nanos: u64) -> usize {
    let bits = u64::BITS - nanos.leading_zeros();
    let doublings = bits.saturating_sub(STEP_BITS + 1);
    let step = usize::try_from(nanos >> doublings).expect("at most twice the number of steps");
    doublings as usize * STEPS + step
}

fn middle_of(bucket: usize) -> u64 {
    let doublings = (bucket / STEPS).saturating_sub(1);
    let step = (bucket - doublings * STEPS) as u64;
    (step << doublings) + ((1_u64 << doublings) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_sorted_values_are_values_that_occurred() {
        let hundred: Vec<u64> = (1..=100).collect();
        let of = |per_mille| quantile(&hundred, per_mille).unwrap();
        assert_eq!(
            [of(0), of(500), of(900), of(990), of(999), of(1000)],
            [1, 50, 90, 99, 100, 100]
        );
        assert_eq!((quantile(&[7], 999), quantile(&[1, 2], 500)), (Some(7), Some(1)));
        assert_eq!(quantile::<u64>(&[], 500), None);
    }

    #[test]
    fn bucket_is_within_one_percent_of_its_durations() {
        for nanos in [0, 1, 63, 64, 127, 128, 1_000, 123_456, 987_654_321, 60_000_000_000, u64::MAX]
        {
            let middle = middle_of(bucket_of(nanos));
            assert!(middle.abs_diff(nanos) <= nanos / 128, "{nanos} became {middle}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn histogram_has_the_quantiles_of_its_durations() {
        let (mut even, mut odd) = (Histogram::default(), Histogram::default());
        for micros in 1..=1000 {
            let half = if micros % 2 == 0 { &mut even } else { &mut odd };
            half.add(Duration::from_micros(micros));
        }
        even.merge(&odd);
        assert_eq!(even.count(), 1000);
        for (per_mille, expected) in [(1, 1.0), (500, 500.0), (990, 990.0), (1000, 1000.0)] {
            let micros = even.quantile(per_mille).as_secs_f64() * 1e6;
            assert!((micros / expected - 1.0).abs() < 0.008, "{micros} at {per_mille}");
        }
        assert_eq!(Histogram::default().quantile(500), Duration::ZERO);
    }
}
