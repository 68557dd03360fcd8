//! Text for the page: what comes from outside is made harmless, and numbers are put as people read them.

use std::time::Duration;

pub(super) use steadfast_report::words::{clock, grouped, rough};

/// As long as anything from outside may be.
const LONGEST: usize = 240;

/// Text that cannot be taken for HTML, in an element or in an attribute.
pub(super) fn escaped(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for (nth, character) in text.chars().enumerate() {
        if nth == LONGEST {
            harmless.push('…');
            break;
        }
        match character {
            '&' => harmless.push_str("&amp;"),
            '<' => harmless.push_str("&lt;"),
            '>' => harmless.push_str("&gt;"),
            '"' => harmless.push_str("&quot;"),
            '\'' => harmless.push_str("&#39;"),
            '\n' | '\t' => harmless.push(' '),
            it if it.is_control() || turns_text_around(it) => harmless.push('\u{fffd}'),
            it => harmless.push(it),
        }
    }
    harmless
}

/// The marks of Unicode that could make text read otherwise than it is written.
fn turns_text_around(character: char) -> bool {
    matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A span of time in the units that people use: `5 min 4 s`, `200 ms`.
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

/// A part of a whole in percent. What is not all and not nothing is not called so.
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

/// `no writes`, `1 write`, `2,000 writes`.
pub(super) fn counted(number: u64, one: &str, several: &str) -> String {
    match number {
        0 => format!("no {several}"),
        1 => format!("1 {one}"),
        more => format!("{} {several}", grouped(more)),
    }
}

/// `once`, `twice`, `12 times`.
pub(super) fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{} times", grouped(more)),
    }
}

/// `a, b and c`.
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
    fn nothing_from_outside_is_taken_for_html() {
        assert_eq!(
            escaped("<img src=x onerror='a()'> & \"b\"\n\u{1b}[31m\u{202e}"),
            "&lt;img src=x onerror=&#39;a()&#39;&gt; &amp; &quot;b&quot; \u{fffd}[31m\u{fffd}"
        );
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let long = escaped(&"<".repeat(5_000));
        assert_eq!(long, "&lt;".repeat(LONGEST) + "…");
    }

    #[test]
    fn a_part_is_not_called_the_whole() {
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
    fn spans_are_told_in_their_units() {
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
