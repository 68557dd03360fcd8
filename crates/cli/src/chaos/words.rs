//! Numbers and times as people read them.

use std::time::Duration;

use indicatif::HumanCount;

use crate::duration;

/// A number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

/// A duration as people say it, with two or three digits.
pub(super) fn rough(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1000.0;
    match time.as_millis() {
        0..10 => format!("{millis:.1} ms"),
        10..1_000 => format!("{millis:.0} ms"),
        1_000..10_000 => format!("{:.1} s", millis / 1000.0),
        10_000..60_000 => format!("{} s", time.as_secs()),
        _ => duration::show(Duration::from_secs(time.as_secs())),
    }
}

/// A time since the load began: `4:05.3`, `13:04:05`.
pub(super) fn clock(time: Duration) -> String {
    let (seconds, tenths) = (time.as_secs(), time.subsec_millis() / 100);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}.{tenths}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_or_three_digits() {
        for (micros, said) in [
            (0, "0.0 ms"),
            (2_340, "2.3 ms"),
            (23_400, "23 ms"),
            (234_000, "234 ms"),
            (2_340_000, "2.3 s"),
            (23_400_000, "23 s"),
            (83_400_000, "1m23s"),
        ] {
            assert_eq!(rough(Duration::from_micros(micros)), said);
        }
    }

    #[test]
    fn thousands_stand_apart() {
        for (number, said) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), said);
        }
    }

    #[test]
    fn times_are_told_with_hours_if_there_are_any() {
        let clock_of = |millis| clock(Duration::from_millis(millis));
        assert_eq!(clock_of(0), "0:00.0");
        assert_eq!(clock_of(245_390), "4:05.3");
        assert_eq!(clock_of(47_045_000), "13:04:05");
    }
}
