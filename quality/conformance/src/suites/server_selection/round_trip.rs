//! Moving average of a server's round trip time.

use std::time::Duration;

use serde::Deserialize;
use steadfast_core::round_trip::moving_average;

use super::SUITE;
use crate::{Case, Context, LoadError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoundTripTest {
    avg_rtt_ms: Average,
    new_rtt_ms: f64,
    new_avg_rtt: f64,
}

/// Milliseconds, or the text `NULL` before the first measurement.
#[derive(Deserialize)]
#[serde(untagged)]
enum Average {
    Millis(f64),
    NotMeasured(String),
}

pub(super) fn cases(context: &Context) -> Result<Vec<Case>, LoadError> {
    let files = context.spec.files_in(SUITE.name, &["rtt"])?;
    files
        .into_iter()
        .map(|file| {
            let round_trip: RoundTripTest = file.json()?;
            Ok(Case::new(file.name.clone(), file.name, move || round_trip.run()))
        })
        .collect()
}

impl RoundTripTest {
    fn run(self) -> Result<(), String> {
        let before = match self.avg_rtt_ms {
            Average::Millis(millis) => Some(duration(millis)),
            Average::NotMeasured(text) if text == "NULL" => None,
            Average::NotMeasured(text) => return Err(format!("invalid average {text}")),
        };
        let average = moving_average(before, duration(self.new_rtt_ms));
        let expected = duration(self.new_avg_rtt);
        // The files have fractions of milliseconds, a `Duration` has nanoseconds.
        if average.abs_diff(expected) > Duration::from_nanos(1) {
            return Err(format!("expected {expected:?}, got {average:?}"));
        }
        Ok(())
    }
}

fn duration(millis: f64) -> Duration {
    Duration::from_secs_f64(millis / 1000.0)
}
