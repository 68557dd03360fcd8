//! How far away a server is, judged by its latest round trips.
//!
//! Server selection compares the moving average; deadlines take the shortest recent round trip off
//! the time a server is given.

use std::{collections::VecDeque, time::Duration};

/// The shortest round trip is looked for among this many of the latest.
const REMEMBERED_SAMPLES: usize = 10;

/// One sample proves little: the shortest round trip is zero until there are this many.
const SAMPLES_FOR_MINIMUM: usize = 2;

/// The recent round trips to one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    average: Option<Duration>,
    recent: VecDeque<Duration>,
}

impl RoundTrips {
    /// No round trip yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one more round trip into account.
    pub fn add(&mut self, sample: Duration) {
        self.average = Some(moving_average(self.average, sample));
        if self.recent.len() == REMEMBERED_SAMPLES {
            self.recent.pop_front();
        }
        self.recent.push_back(sample);
    }

    /// Forgets everything: the server could not be reached, and what was measured is history.
    pub fn reset(&mut self) {
        self.average = None;
        self.recent.clear();
    }

    /// The exponentially weighted moving average; none before the first sample.
    pub fn average(&self) -> Option<Duration> {
        self.average
    }

    /// The shortest of the last ten; zero until two were measured, none before the first.
    pub fn minimum(&self) -> Option<Duration> {
        let shortest = self.recent.iter().min().copied()?;
        Some(if self.recent.len() < SAMPLES_FOR_MINIMUM { Duration::ZERO } else { shortest })
    }
}

/// The exponentially weighted moving average with a weight of 0.2 for the new sample.
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
    fn the_first_sample_is_the_average() {
        let mut trips = RoundTrips::new();
        assert_eq!((trips.average(), trips.minimum()), (None, None));
        trips.add(7 * MS);
        assert_eq!(trips.average(), Some(7 * MS));
    }

    #[test]
    fn a_new_sample_weighs_a_fifth() {
        let mut trips = RoundTrips::new();
        trips.add(10 * MS);
        trips.add(20 * MS);
        assert_eq!(trips.average(), Some(12 * MS));
    }

    #[test]
    fn the_minimum_is_zero_until_there_are_two_samples() {
        let mut trips = RoundTrips::new();
        trips.add(10 * MS);
        assert_eq!(trips.minimum(), Some(Duration::ZERO));
        trips.add(20 * MS);
        assert_eq!(trips.minimum(), Some(10 * MS));
    }

    #[test]
    fn the_minimum_forgets_what_is_older_than_ten_samples() {
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
    fn a_reset_starts_from_scratch() {
        let mut trips = RoundTrips::new();
        trips.add(MS);
        trips.reset();
        assert_eq!(trips, RoundTrips::new());
    }

    #[test]
    fn an_absurd_sample_does_not_overflow() {
        let mut trips = RoundTrips::new();
        trips.add(Duration::MAX);
        trips.add(Duration::MAX);
        assert!(trips.average().is_some());
    }
}
