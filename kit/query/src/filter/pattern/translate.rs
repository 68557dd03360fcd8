//! Translation of PCRE patterns to the syntax of the crate `regex`.

use std::{iter::Peekable, str::Chars};

/// Translates a pattern. Fails with the reason for unsupported syntax.
pub(super) fn translated(
    pattern: &str,
    multi_line: bool,
    extended: bool,
) -> Result<String, String> {
    let mut translation = Translation {
        rest: pattern.chars().peekable(),
        text: String::with_capacity(pattern.len() + 8),
        multi_line,
        extended,
    };
    translation.run()?;
    Ok(translation.text)
}

/// Maximum number of characters that identify the kind of a group.
const MAX_GROUP_PREFIX: usize = 3;

/// Kind of the previous token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PreviousToken {
    /// Start of the pattern, or a token that cannot be repeated.
    Nothing,
    Something,
    Quantifier,
}

struct Translation<'p> {
    rest: Peekable<Chars<'p>>,
    text: String,
    multi_line: bool,
    extended: bool,
}

impl Translation<'_> {
    fn run(&mut self) -> Result<(), String> {
        let mut before = PreviousToken::Nothing;
        while let Some(next) = self.rest.next() {
            before = match (next, before) {
                ('?', PreviousToken::Quantifier) => {
                    self.text.push('?');
                    PreviousToken::Nothing
                }
                ('+', PreviousToken::Quantifier) => {
                    return Err("possessive quantifiers are not known".into());
                }
                ('*' | '+' | '?', PreviousToken::Quantifier | PreviousToken::Nothing) => {
                    return Err("nothing to repeat".into());
                }
                ('*' | '+' | '?', PreviousToken::Something) => {
                    self.text.push(next);
                    PreviousToken::Quantifier
                }
                ('{', _) if self.is_count() && before != PreviousToken::Something => {
                    return Err("nothing to repeat".into());
                }
                ('{', _) if self.is_count() => {
                    self.count();
                    PreviousToken::Quantifier
                }
                _ => self.item(next, before)?,
            };
        }
        Ok(())
    }

    /// Translates a token other than a quantifier.
    fn item(&mut self, next: char, before: PreviousToken) -> Result<PreviousToken, String> {
        match next {
            '\\' => return self.escape(),
            '[' => self.class()?,
            '(' => {
                let comment = self.group()?;
                return Ok(if comment { before } else { PreviousToken::Nothing });
            }
            // `$` also matches before a line break at the end. The translation consumes the line
            // break, which only matters to patterns that continue after `$`.
            '$' if !self.multi_line => {
                self.text.push_str(r"(?:\n?\z)");
                return Ok(PreviousToken::Nothing);
            }
            '^' | '$' | '|' => {
                self.text.push(next);
                return Ok(PreviousToken::Nothing);
            }
            '{' => self.text.push_str("\\{"),
            '#' if self.extended => {
                self.comment()?;
                return Ok(before);
            }
            space if self.extended && space.is_ascii_whitespace() => {
                self.text.push(space);
                return Ok(before);
            }
            other => self.text.push(other),
        }
        Ok(PreviousToken::Something)
    }

    /// Returns the rest of the pattern.
    fn ahead(&self) -> String {
        self.rest.clone().collect()
    }

    fn escape(&mut self) -> Result<PreviousToken, String> {
        let Some(next) = self.rest.next() else { return Err("\\ at end of pattern".into()) };
        let assertion = match next {
            'b' => r"(?-u:\b)",
            'B' => r"(?-u:\B)",
            'A' => r"\A",
            'z' => r"\z",
            'Z' => r"(?:\n?\z)",
            _ => "",
        };
        if !assertion.is_empty() {
            self.text.push_str(assertion);
            return Ok(PreviousToken::Nothing);
        }
        match next {
            'd' => self.text.push_str("[0-9]"),
            'D' => self.text.push_str("[^0-9]"),
            'w' => self.text.push_str("[0-9A-Za-z_]"),
            'W' => self.text.push_str("[^0-9A-Za-z_]"),
            's' => self.text.push_str(r"[\ \t\n\r\x0b\x0c]"),
            'S' => self.text.push_str(r"[^\ \t\n\r\x0b\x0c]"),
            'h' => self.text.push_str(r"[\ \t\u{a0}]"),
            'v' => self.text.push_str(r"[\n\x0b\x0c\r\u{85}\u{2028}\u{2029}]"),
            'N' => self.text.push_str(r"[^\n]"),
            'R' => self.text.push_str(r"(?:\r\n|[\n\x0b\x0c\r\u{85}\u{2028}\u{2029}])"),
            'Q' => self.quoted(),
            'E' => {}
            other => self.character(other)?,
        }
        Ok(PreviousToken::Something)
    }

    /// Translates an escape of one character, in a class or outside.
    fn character(&mut self, escaped: char) -> Result<(), String> {
        match escaped {
            'e' => self.text.push_str(r"\x1b"),
            '0' => self.text.push_str(r"\x00"),
            '1'..='9' => return Err("back references are not known".into()),
            'a' | 'f' | 'n' | 'r' | 't' => {
                self.text.push('\\');
                self.text.push(escaped);
            }
            'x' | 'p' | 'P' => {
                self.text.push('\\');
                self.text.push(escaped);
                if self.rest.peek() == Some(&'{') {
                    self.through('}');
                }
            }
            'G' | 'K' | 'X' | 'C' | 'g' | 'k' | 'c' | 'H' | 'V' | 'u' | 'U' | 'l' | 'L' | 'o' => {
                return Err(format!("\\{escaped} is not known"));
            }
            other => self.literal(other),
        }
        Ok(())
    }

    fn literal(&mut self, character: char) {
        if character.is_ascii_punctuation() && !matches!(character, '<' | '>')
            || character.is_ascii_whitespace() && self.extended
        {
            self.text.push('\\');
        }
        self.text.push(character);
    }

    /// Translates `\Q…\E`.
    fn quoted(&mut self) {
        while let Some(next) = self.rest.next() {
            if next == '\\' && self.rest.peek() == Some(&'E') {
                self.rest.next();
                return;
            }
            self.literal(next);
        }
    }

    /// Skips a comment up to the end of the line. Servers append a parenthesis to the pattern,
    /// which an unterminated comment would hide.
    fn comment(&mut self) -> Result<(), String> {
        let end = self.rest.by_ref().find(|it| *it == '\n');
        end.map(|_| ()).ok_or_else(|| "missing )".into())
    }

    /// Translates the start of a group. Returns `true` for a comment.
    fn group(&mut self) -> Result<bool, String> {
        let ahead: String = self.rest.clone().take(MAX_GROUP_PREFIX).collect();
        for (sign, what) in [
            ("?=", "lookahead"),
            ("?!", "lookahead"),
            ("?<=", "lookbehind"),
            ("?<!", "lookbehind"),
            ("?>", "an atomic group"),
            ("?|", "a branch reset group"),
            ("?R", "recursion"),
            ("?(", "a conditional group"),
            ("*", "a verb"),
        ] {
            if ahead.starts_with(sign) {
                return Err(format!("{what} is not known"));
            }
        }
        if ahead.starts_with("?#") {
            self.rest.by_ref().find(|it| *it == ')');
            return Ok(true);
        }
        self.text.push('(');
        if self.rest.next_if_eq(&'?').is_some() {
            self.text.push('?');
            self.options();
        }
        Ok(false)
    }

    /// Copies the options of a group.
    fn options(&mut self) {
        while let Some(next) = self.rest.next_if(|it| !matches!(it, ')' | '(' | '[' | '\\')) {
            self.text.push(next);
            if matches!(next, ':' | '>') {
                return;
            }
        }
    }

    /// Returns `true` if the brace starts a repetition such as `{2,3}`.
    fn is_count(&self) -> bool {
        let number = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
        let mut ahead = self.rest.clone();
        let mut inner = String::new();
        while let Some(next) = ahead.next_if(|it| it.is_ascii_digit() || *it == ',') {
            inner.push(next);
        }
        let is_count = match inner.split_once(',') {
            Some((low, high)) => number(low) && (high.is_empty() || number(high)),
            None => number(&inner),
        };
        is_count && ahead.next() == Some('}')
    }

    fn count(&mut self) {
        self.text.push('{');
        self.through('}');
    }

    /// Copies up to and including this character.
    fn through(&mut self, end: char) {
        for next in self.rest.by_ref() {
            self.text.push(next);
            if next == end {
                return;
            }
        }
    }

    fn class(&mut self) -> Result<(), String> {
        self.text.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.text.push('^');
        }
        if self.rest.next_if_eq(&']').is_some() {
            self.text.push_str("\\]");
        }
        while let Some(next) = self.rest.next() {
            match next {
                ']' => {
                    self.text.push(']');
                    return Ok(());
                }
                '[' if self.rest.peek() == Some(&':') => self.named_class()?,
                '\\' => self.escape_in_class()?,
                '-' => self.text.push('-'),
                other => self.literal(other),
            }
        }
        Err("missing terminating ] for character class".into())
    }

    /// Translates `[:alpha:]`.
    fn named_class(&mut self) -> Result<(), String> {
        const KNOWN: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print",
            "punct", "space", "upper", "word", "xdigit",
        ];
        let ahead = self.ahead();
        let Some((name, _)) = ahead[1..].split_once(":]") else {
            self.text.push_str("\\[");
            return Ok(());
        };
        if !KNOWN.contains(&name.trim_start_matches('^')) {
            return Err("unknown POSIX class name".into());
        }
        self.text.push_str(&format!("[:{name}:]"));
        self.rest.nth(name.len() + 2);
        Ok(())
    }

    fn escape_in_class(&mut self) -> Result<(), String> {
        let Some(next) = self.rest.next() else { return Err("\\ at end of pattern".into()) };
        match next {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'h' | 'v' => {
                self.escape_named(next);
                Ok(())
            }
            'b' => {
                self.text.push_str(r"\x08");
                Ok(())
            }
            'A' | 'z' | 'N' | 'R' | 'B' | 'Z' => Err(format!("\\{next} is not known in a class")),
            other => self.character(other),
        }
    }

    /// Translates a set inside a class. Classes of the crate `regex` can be nested.
    fn escape_named(&mut self, name: char) {
        self.text.push_str(match name {
            'd' => "0-9",
            'D' => "[^0-9]",
            'w' => "0-9A-Za-z_",
            'W' => "[^0-9A-Za-z_]",
            's' => r"\ \t\n\r\x0b\x0c",
            'S' => r"[^\ \t\n\r\x0b\x0c]",
            'h' => r"\ \t\u{a0}",
            _ => r"\n\x0b\x0c\r\u{85}\u{2028}\u{2029}",
        });
    }
}
