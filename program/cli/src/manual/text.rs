//! Converts the plain text of help into Markdown.

use std::fmt::Write;

use steadfast_report::words::wrapped;

const COLUMNS: usize = 118;

/// A Markdown text.
#[derive(Default)]
pub(super) struct Text {
    text: String,
    /// True after an item of a list.
    in_list: bool,
}

impl Text {
    /// Adds lines without changes.
    pub(super) fn line(&mut self, line: &str) {
        self.apart();
        let _ = writeln!(self.text, "{line}");
    }

    /// Adds a paragraph.
    pub(super) fn prose(&mut self, words: &str) {
        self.apart();
        self.wrapped(&marked(words), "", "");
    }

    pub(super) fn item(&mut self, words: &str) {
        if !self.in_list {
            self.apart();
        }
        self.in_list = true;
        self.wrapped(&marked(words), "- ", "  ");
    }

    /// Adds another paragraph to an item.
    pub(super) fn more(&mut self, words: &str) {
        self.wrapped(&marked(words), "  ", "  ");
    }

    /// Adds an item within an item.
    pub(super) fn inner(&mut self, words: &str) {
        self.wrapped(&marked(words), "  - ", "    ");
    }

    pub(super) fn fence(&mut self, language: &str, code: &str) {
        self.apart();
        let _ = writeln!(self.text, "```{language}\n{}\n```", code.trim_end());
    }

    /// Adds the text of a help: paragraphs and indented code.
    pub(super) fn help(&mut self, text: &str) {
        // Code that continues after an empty line.
        let mut open: Vec<String> = Vec::new();
        for paragraph in text.split("\n\n").filter(|it| !it.trim().is_empty()) {
            if is_code(paragraph) {
                open.push(unindented(paragraph));
            } else {
                self.flush(&mut open);
                open.extend(self.mixed(paragraph));
            }
        }
        self.flush(&mut open);
    }

    fn flush(&mut self, code: &mut Vec<String>) {
        if !code.is_empty() {
            let is_session = code.iter().all(|it| it.starts_with("$ "));
            let text = std::mem::take(code).join("\n\n");
            self.fence(if is_session { "console" } else { "text" }, &text);
        }
    }

    /// Adds a paragraph with an optional title. Returns the code at its end.
    fn mixed(&mut self, paragraph: &str) -> Option<String> {
        let mut words: Vec<&str> = Vec::new();
        let mut lines = paragraph.lines().peekable();
        while let Some(line) = lines.next_if(|line| !is_typed(line)) {
            let is_title = !line.starts_with(' ') && line.ends_with(':');
            if is_title && lines.peek().is_some_and(|next| next.starts_with(' ')) {
                self.words(&mut words);
                self.line(&format!("**{}**", line.trim_end()));
            } else {
                words.push(line.trim());
            }
        }
        self.words(&mut words);
        let rest: Vec<&str> = lines.collect();
        (!rest.is_empty()).then(|| unindented(&rest.join("\n")))
    }

    fn words(&mut self, words: &mut Vec<&str>) {
        if words.is_empty() {
            return;
        }
        let text = std::mem::take(words).join(" ");
        match text.strip_prefix("Exit status:") {
            Some(rest) => {
                self.apart();
                self.wrapped(&format!("**Exit status:** {}", marked(rest)), "", "");
            }
            None => self.prose(&text),
        }
    }

    fn apart(&mut self) {
        self.in_list = false;
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    fn wrapped(&mut self, words: &str, first: &str, rest: &str) {
        for line in wrapped(words.split_whitespace(), COLUMNS, first, rest) {
            let _ = writeln!(self.text, "{line}");
        }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// Returns true if a paragraph is code: it is indented, and begins like code or does not end like a sentence.
fn is_code(paragraph: &str) -> bool {
    let is_indented = paragraph.lines().all(|line| line.starts_with("  "));
    let is_sentence = paragraph.trim_end().ends_with(['.', ':', '?']);
    match paragraph.lines().next() {
        Some(first) if is_typed(first) => true,
        Some(_) | None => is_indented && !is_sentence && !paragraph.lines().any(is_typed),
    }
}

/// Returns true for a shell command and a line of a configuration file.
fn is_typed(line: &str) -> bool {
    let inner = line.trim_start();
    line.starts_with("  ")
        && (inner.starts_with("$ ") || inner.starts_with("> ") || is_setting(inner))
}

/// Returns true for a line of TOML.
fn is_setting(line: &str) -> bool {
    line.starts_with('[') || line.split_once(" = ").is_some_and(|(name, _)| !name.contains(' '))
}

fn unindented(code: &str) -> String {
    let lines: Vec<_> = code.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
    lines.join("\n")
}

/// Marks code, and turns names of guides into links.
fn marked(words: &str) -> String {
    let mut is_code = false;
    let word = |word: &str| {
        let was_code = is_code;
        if word.matches('`').count() % 2 == 1 {
            is_code = !is_code;
        }
        if was_code || word.contains('`') { word.to_owned() } else { marked_word(word) }
    };
    let words = words.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    // Joins adjacent code, such as an option and its value.
    words.replace("` `", " ")
}

fn marked_word(word: &str) -> String {
    let core = word.trim_start_matches('(').trim_end_matches([',', '.', ';', ':', ')', '?']);
    if core.is_empty() {
        return word.to_owned();
    }
    let begin = word.len() - word.trim_start_matches('(').len();
    let (before, after) = (&word[..begin], &word[begin + core.len()..]);
    if let Some(guide) = core.strip_prefix("docs/").filter(|it| it.ends_with(".md")) {
        return format!("{before}[{core}]({guide}){after}");
    }
    let is_option = core.starts_with("--") && core.len() > 2;
    let is_name =
        core.contains("::") || core.contains("://") || core.contains('_') || core.contains('=');
    let needs_care = core.contains(['<', '>', '*', '|']);
    if is_option || is_name || needs_care {
        return format!("{before}`{core}`{after}");
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_help(help: &str) -> String {
        let mut text = Text::default();
        text.help(help);
        text.finish()
    }

    #[test]
    fn commands_are_code_and_explanations_are_text() {
        let help =
            "Examples:\n  Once:\n  $ a b\n  out\n\n  Twice:\n  $ c\n\nExit status: 0 if --x.";
        assert_eq!(
            of_help(help),
            "**Examples:**\n\nOnce:\n\n```console\n$ a b\nout\n```\n\nTwice:\n\n```console\n$ c\n```\n\n\
             **Exit status:** 0 if `--x`.\n"
        );
    }

    #[test]
    fn configuration_files_are_one_block() {
        let help = "A file:\n  [[rule]]\n  a = 1\n\n  [[rule]]\n  b = 2\n\n  That is all.";
        assert_eq!(
            of_help(help),
            "**A file:**\n\n```text\n[[rule]]\na = 1\n\n[[rule]]\nb = 2\n```\n\nThat is all.\n"
        );
    }

    #[test]
    fn names_are_code_and_guides_are_links() {
        assert_eq!(
            marked("with --key (or `a b`), see docs/chaos.md: the _id of steadfast_patterns."),
            "with `--key` (or `a b`), see [docs/chaos.md](chaos.md): the `_id` of `steadfast_patterns`."
        );
    }
}
