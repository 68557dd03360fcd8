//! Text of the page: text from servers without control characters, and formatted numbers.

use std::time::Duration;

pub(super) use steadfast_report::words::{clock, grouped, rough};

/// Maximum number of characters of a text from a server.
const LONGEST: usize = 240;

/// Returns text from a server with a limited length and without control characters. It is not escaped.
pub(super) fn harmless(text: &str) -> String {
    let replaced = |character: char| match character {
        '\n' | '\t' => ' ',
        it if it.is_control() || is_bidi_control(it) => '\u{fffd}',
        it => it,
    };
    let mut characters = text.chars().map(replaced);
    let mut harmless: String = characters.by_ref().take(LONGEST).collect();
    if characters.next().is_some() {
        harmless.push('…');
    }
    harmless
}

/// Returns `true` for the control characters of Unicode that change the order in which text is displayed.
fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Formats a duration in words: `5 min 4 s`, `200 ms`.
pub(super) fn spoken(time: Duration) -> String {
    let millis = time.as_millis();
    if millis < 1_000 {
        return format!("{millis} ms");
    }
    if millis < 10_000 && !millis.is_multiple_of(1_000) {
        return format!("{:.1} s", time.as_secs_f64());
    }
    let seconds = time.as_secs();
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    parts.map(|(count, unit)| format!("{count} {unit}")).collect::<Vec<_>>().join(" ")
}

/// Formats a part of a whole in percent. Only the whole is `100 %`, and only nothing is `0 %`.
pub(super) fn share(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return "0 %".to_owned();
    }
    let percent = 100.0 * part as f64 / whole as f64;
    match percent {
        _ if part == whole => "100 %".to_owned(),
        _ if percent < 0.01 => "< 0.01 %".to_owned(),
        _ if percent < 1.0 => format!("{percent:.2} %"),
        _ if percent > 99.99 => "> 99.99 %".to_owned(),
        _ if percent > 99.0 => format!("{percent:.2} %"),
        _ => format!("{percent:.1} %"),
    }
}

/// Formats a number and its noun: `no writes`, `1 write`, `2,000 writes`.
pub(super) fn counted(number: u64, one: &str, several: &str) -> String {
    match number {
        0 => format!("no {several}"),
        1 => format!("1 {one}"),
        more => format!("{} {several}", grouped(more)),
    }
}

/// Formats a frequency: `once`, `twice`, `12 times`.
pub(super) fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{} times", grouped(more)),
    }
}

/// Formats a list: `a, b and c`.
pub(super) fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(harmless("<b>\n\u{1b}[31m\u{202e}"), "<b> \u{fffd}[31m\u{fffd}");
    }

    #[test]
    fn long_text_is_cut() {
        assert_eq!(harmless(&"<".repeat(5_000)), "<".repeat(LONGEST) + "…");
        assert_eq!(harmless(&"<".repeat(LONGEST)), "<".repeat(LONGEST));
    }

    #[test]
    fn only_the_whole_is_100_percent() {
        for (part, whole, expected) in [
            (0, 0, "0 %"),
            (0, 9, "0 %"),
            (9, 9, "100 %"),
            (1, 1_000_000, "< 0.01 %"),
            (999_999, 1_000_000, "> 99.99 %"),
            (1, 200, "0.50 %"),
            (199, 200, "99.50 %"),
            (1, 3, "33.3 %"),
        ] {
            assert_eq!(share(part, whole), expected, "{part} of {whole}");
        }
    }

    #[test]
    fn durations_have_their_units() {
        for (millis, expected) in [
            (0, "0 ms"),
            (200, "200 ms"),
            (2_000, "2 s"),
            (2_340, "2.3 s"),
            (304_900, "5 min 4 s"),
            (3_600_000, "1 h"),
            (90_061_000, "1 d 1 h 1 min 1 s"),
        ] {
            assert_eq!(spoken(Duration::from_millis(millis)), expected);
        }
    }
}
