//! Words in lines.

use std::fmt::Write;

/// Adds words to a text, in lines of at most so many columns; a longer word has a line of its own. `first` is what the
/// first line begins with, `rest` what the others do.
pub(crate) fn wrapped(columns: usize, words: &str, first: &str, rest: &str, text: &mut String) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in words.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > columns {
            // To a string, this does not fail.
            let _ = writeln!(text, "{line}");
            rest.clone_into(&mut line);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    let _ = writeln!(text, "{line}");
}
