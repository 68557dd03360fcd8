//! Writes a Perl regular expression so that Rust's means the same.

use std::{iter::Peekable, str::Chars};

/// The pattern as it is written here; or why it cannot be.
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

/// How many characters after a parenthesis say what group it opens.
const LONGEST_SIGN: usize = 3;

/// What stands before a place in the pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing that can be repeated.
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
        let mut before = Before::Nothing;
        while let Some(next) = self.rest.next() {
            before = match (next, before) {
                ('?', Before::Quantifier) => {
                    self.text.push('?');
                    Before::Nothing
                }
                ('+', Before::Quantifier) => {
                    return Err("possessive quantifiers are not known".into());
                }
                ('*' | '+' | '?', Before::Quantifier | Before::Nothing) => {
                    return Err("nothing to repeat".into());
                }
                ('*' | '+' | '?', Before::Something) => {
                    self.text.push(next);
                    Before::Quantifier
                }
                ('{', _) if self.is_count() && before != Before::Something => {
                    return Err("nothing to repeat".into());
                }
                ('{', _) if self.is_count() => {
                    self.count();
                    Before::Quantifier
                }
                _ => self.item(next, before)?,
            };
        }
        Ok(())
    }

    /// What is no quantifier.
    fn item(&mut self, next: char, before: Before) -> Result<Before, String> {
        match next {
            '\\' => return self.escape(),
            '[' => self.class()?,
            '(' => {
                let comment = self.group()?;
                return Ok(if comment { before } else { Before::Nothing });
            }
            // Before a line break at the end, too. It is taken here: what follows in the pattern does
            // not see it, which only matters to patterns that go on after their end.
            '$' if !self.multi_line => {
                self.text.push_str(r"(?:\n?\z)");
                return Ok(Before::Nothing);
            }
            '^' | '$' | '|' => {
                self.text.push(next);
                return Ok(Before::Nothing);
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
        Ok(Before::Something)
    }

    /// What the pattern looks at next, without going on.
    fn ahead(&self) -> String {
        self.rest.clone().collect()
    }

    fn escape(&mut self) -> Result<Before, String> {
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
            return Ok(Before::Nothing);
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
        Ok(Before::Something)
    }

    /// An escape that stands for one character, in a class or outside.
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

    /// `\Q…\E`
    fn quoted(&mut self) {
        while let Some(next) = self.rest.next() {
            if next == '\\' && self.rest.peek() == Some(&'E') {
                self.rest.next();
                return;
            }
            self.literal(next);
        }
    }

    /// A comment to the end of the line. The server's own parenthesis after the pattern is lost in one
    /// that has no end.
    fn comment(&mut self) -> Result<(), String> {
        let end = self.rest.by_ref().find(|it| *it == '\n');
        end.map(|_| ()).ok_or_else(|| "missing )".into())
    }

    /// Opens a group; whether it is but a comment.
    fn group(&mut self) -> Result<bool, String> {
        let ahead: String = self.rest.clone().take(LONGEST_SIGN).collect();
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

    /// What stands between `(?` and the group's own pattern, or its end.
    fn options(&mut self) {
        while let Some(next) = self.rest.next_if(|it| !matches!(it, ')' | '(' | '[' | '\\')) {
            self.text.push(next);
            if matches!(next, ':' | '>') {
                return;
            }
        }
    }

    /// Whether a brace that was read is the beginning of `{2,3}`.
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

    /// Copies until this character.
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

    /// `[:alpha:]`
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

    /// A set inside a class; Rust's classes can lie in each other.
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
