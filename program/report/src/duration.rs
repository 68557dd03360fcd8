//! Durations as text: `90s`, `5m`, `1h30m`, `1d`.

use std::time::Duration;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

const UNITS: [(&str, u64); 5] = [("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND), ("ms", 1)];

/// Parses a duration: numbers with units, the largest unit first. `0` needs no unit.
///
/// # Errors
/// A sentence with the correct notation.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (mut rest, mut millis, mut smallest) = (text, 0_u64, u64::MAX);
    loop {
        let number_ends = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(number_ends);
        let unit_ends = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_ends);
        if number.is_empty() {
            return Err("write a number and a unit, such as 90s, 5m, 1h30m or 1d".to_owned());
        }
        if unit.is_empty() {
            return Err(format!(
                "a unit is missing after {number}: {number}s, {number}m, {number}h or {number}d?"
            ));
        }
        let Some(&(_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!(
                "{unit:?} is not a unit; the units are d, h, m, s and ms, as in 1h30m"
            ));
        };
        if size >= smallest {
            return Err("write each unit once, the largest first, as in 1h30m".to_owned());
        }
        smallest = size;
        let number: Option<u64> = number.parse().ok();
        let sum = number.and_then(|it| it.checked_mul(size)).and_then(|it| it.checked_add(millis));
        millis = sum.filter(|it| *it <= LONGEST).ok_or("more than a hundred years is too long")?;
        if after.is_empty() {
            return Ok(Duration::from_millis(millis));
        }
        rest = after;
    }
}

/// A hundred years. Adding or subtracting this much does not overflow a date.
const LONGEST: u64 = 36_525 * DAY;

/// Formats a duration as the shortest text that [`parse`] accepts, rounded down to a millisecond.
pub fn show(duration: Duration) -> String {
    let mut millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (name, size) in UNITS {
        let count = millis / size;
        if count > 0 {
            text.push_str(&format!("{count}{name}"));
            millis %= size;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        for (text, millis) in [
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            ("250ms", 250),
            ("1m0s500ms", 60_500),
            (" 2h ", 7_200_000),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn errors_contain_the_correct_notation() {
        for (text, part) in [
            ("", "a number and a unit"),
            ("soon", "a number and a unit"),
            ("-5m", "a number and a unit"),
            ("5", "5s, 5m, 5h or 5d?"),
            ("1h30", "30s, 30m"),
            ("5 m", "\" m\" is not a unit"),
            ("5min", "\"min\" is not a unit"),
            ("1.5h", "\".\" is not a unit"),
            ("30m1h", "the largest first"),
            ("1m1m", "each unit once"),
            ("99999999999999999999s", "too long"),
            ("36526d", "too long"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn shown_durations_can_be_parsed() {
        for (millis, text) in
            [(0, "0s"), (90_000, "1m30s"), (86_400_000, "1d"), (5_400_250, "1h30m250ms")]
        {
            let duration = Duration::from_millis(millis);
            assert_eq!(show(duration), text);
            assert_eq!(parse(text), Ok(duration));
        }
    }
}
