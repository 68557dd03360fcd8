//! Round trip times of a server.
//!
//! Server selection compares the moving averages. Deadlines subtract the minimum of the recent
//! round trip times from the time that the server gets (`maxTimeMS`).

use std::{collections::VecDeque, time::Duration};

/// Number of samples for the minimum.
const REMEMBERED_SAMPLES: usize = 10;

/// Number of samples below which the minimum is zero.
const SAMPLES_FOR_MINIMUM: usize = 2;

/// Recent round trip times of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    average: Option<Duration>,
    recent: VecDeque<Duration>,
}

impl RoundTrips {
    /// Creates a history without samples.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sample.
    pub fn add(&mut self, sample: Duration) {
        self.average = Some(moving_average(self.average, sample));
        if self.recent.len() == REMEMBERED_SAMPLES {
            self.recent.pop_front();
        }
        self.recent.push_back(sample);
    }

    /// Removes all samples after the server was unreachable.
    pub fn reset(&mut self) {
        self.average = None;
        self.recent.clear();
    }

    /// Returns the exponentially weighted moving average. `None` before the first sample.
    pub fn average(&self) -> Option<Duration> {
        self.average
    }

    /// Returns the minimum of the last ten samples. Zero with one sample, `None` without samples.
    pub fn minimum(&self) -> Option<Duration> {
        let shortest = self.recent.iter().min().copied()?;
        Some(if self.recent.len() < SAMPLES_FOR_MINIMUM { Duration::ZERO } else { shortest })
    }
}

/// Returns the exponentially weighted moving average; the new sample has weight 0.2.
pub fn moving_average(average: Option<Duration>, sample: Duration) -> Duration {
    match average {
        None => sample,
        Some(average) => average.saturating_mul(4).saturating_add(sample) / 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn first_sample_is_the_average() {
        let mut trips = RoundTrips::new();
        assert_eq!((trips.average(), trips.minimum()), (None, None));
        trips.add(7 * MS);
        assert_eq!(trips.average(), Some(7 * MS));
    }

    #[test]
    fn new_sample_has_weight_one_fifth() {
        let mut trips = RoundTrips::new();
        trips.add(10 * MS);
        trips.add(20 * MS);
        assert_eq!(trips.average(), Some(12 * MS));
    }

    #[test]
    fn minimum_is_zero_below_two_samples() {
        let mut trips = RoundTrips::new();
        trips.add(10 * MS);
        assert_eq!(trips.minimum(), Some(Duration::ZERO));
        trips.add(20 * MS);
        assert_eq!(trips.minimum(), Some(10 * MS));
    }

    #[test]
    fn minimum_covers_the_last_ten_samples() {
        let mut trips = RoundTrips::new();
        trips.add(MS);
        for _ in 0..9 {
            trips.add(5 * MS);
        }
        assert_eq!(trips.minimum(), Some(MS));
        trips.add(5 * MS);
        assert_eq!(trips.minimum(), Some(5 * MS));
    }

    #[test]
    fn reset_removes_all_samples() {
        let mut trips = RoundTrips::new();
        trips.add(MS);
        trips.reset();
        assert_eq!(trips, RoundTrips::new());
    }

    #[test]
    fn huge_samples_do_not_overflow() {
        let mut trips = RoundTrips::new();
        trips.add(Duration::MAX);
        trips.add(Duration::MAX);
        assert!(trips.average().is_some());
    }
}
