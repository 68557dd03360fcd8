//! Counts and durations for reports.

use std::time::Duration;

use crate::duration;

/// Formats a number with commas between its thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number and its noun: `no writes`, `1 write`, `2000 writes`.
pub fn plural(number: u64, one: &str, several: &str) -> String {
    match number {
        0 => format!("no {several}"),
        1 => format!("1 {one}"),
        more => format!("{more} {several}"),
    }
}

/// Formats a duration with two or three digits: `2.3 ms`, `23 s`, `1m23s`.
pub fn rough(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1000.0;
    match time.as_millis() {
        0..10 => format!("{millis:.1} ms"),
        10..1_000 => format!("{millis:.0} ms"),
        1_000..10_000 => format!("{:.1} s", millis / 1000.0),
        10_000..60_000 => format!("{} s", time.as_secs()),
        _ => duration::show(Duration::from_secs(time.as_secs())),
    }
}

/// Formats a time since a start: `4:05.3`, `13:04:05`.
pub fn clock(time: Duration) -> String {
    let (seconds, tenths) = (time.as_secs(), time.subsec_millis() / 100);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}.{tenths}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Wraps words into lines of at most `columns` characters. A longer word gets its own line.
///
/// The first line begins with `first`, each other line with `rest`.
pub fn wrapped<'a>(
    words: impl IntoIterator<Item = &'a str>,
    columns: usize,
    first: &str,
    rest: &str,
) -> Vec<String> {
    let (mut lines, mut line, mut is_empty) = (Vec::new(), first.to_owned(), true);
    for word in words {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > columns {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_or_three_digits() {
        for (micros, text) in [
            (0, "0.0 ms"),
            (2_340, "2.3 ms"),
            (23_400, "23 ms"),
            (234_000, "234 ms"),
            (2_340_000, "2.3 s"),
            (23_400_000, "23 s"),
            (83_400_000, "1m23s"),
        ] {
            assert_eq!(rough(Duration::from_micros(micros)), text);
        }
    }

    #[test]
    fn words_are_wrapped_with_indentation() {
        let wrap = |text: &'static str| wrapped(text.split(' '), 8, "- ", "  ");
        assert_eq!(wrap("a b c µµµ e"), ["- a b c", "  µµµ e"]);
        assert_eq!(wrap("a enormous b"), ["- a", "  enormous", "  b"]);
        assert_eq!(wrapped([], 8, "- ", "  "), ["- "]);
    }

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn clock_has_hours_only_if_needed() {
        let clock_of = |millis| clock(Duration::from_millis(millis));
        assert_eq!(clock_of(0), "0:00.0");
        assert_eq!(clock_of(245_390), "4:05.3");
        assert_eq!(clock_of(47_045_000), "13:04:05");
    }
}
