//! Durations as people write them: `90s`, `5m`, `1h30m`, `1d`.

use std::time::Duration;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

const UNITS: [(&str, u64); 5] = [("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND), ("ms", 1)];

/// Parses a duration. The error says what to write instead.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (mut rest, mut millis, mut least) = (text, 0_u64, u64::MAX);
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
            return Err(format!("{unit:?} is no unit; there are d, h, m, s and ms, as in 1h30m"));
        };
        if size >= least {
            return Err("each unit comes once, the largest first, as in 1h30m".to_owned());
        }
        least = size;
        let number: Option<u64> = number.parse().ok();
        let sum = number.and_then(|it| it.checked_mul(size)).and_then(|it| it.checked_add(millis));
        millis = sum.filter(|it| *it <= MOST).ok_or("more than a hundred years is too long")?;
        if after.is_empty() {
            return Ok(Duration::from_millis(millis));
        }
        rest = after;
    }
}

/// What dates can be reckoned with on either side.
const MOST: u64 = 36_525 * DAY;

/// Formats a duration: the shortest text that [`parse`] reads as this, to the millisecond.
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
    fn what_is_wrong_is_said() {
        for (text, said) in [
            ("", "a number and a unit"),
            ("soon", "a number and a unit"),
            ("-5m", "a number and a unit"),
            ("5", "5s, 5m, 5h or 5d?"),
            ("1h30", "30s, 30m"),
            ("5 m", "\" m\" is no unit"),
            ("5min", "\"min\" is no unit"),
            ("1.5h", "\".\" is no unit"),
            ("30m1h", "the largest first"),
            ("1m1m", "each unit comes once"),
            ("99999999999999999999s", "too long"),
            ("36526d", "too long"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_shown_can_be_parsed() {
        for (millis, text) in
            [(0, "0s"), (90_000, "1m30s"), (86_400_000, "1d"), (5_400_250, "1h30m250ms")]
        {
            let duration = Duration::from_millis(millis);
            assert_eq!(show(duration), text);
            assert_eq!(parse(text), Ok(duration));
        }
    }
}
