//! `wire`, `core`, `value` and `query` read no clock, roll no die, do no I/O and have no order but the one they say.
//!
//! Clippy knows these rules too (`clippy.toml` in each of these crates) and sees through renamed
//! imports; this scan runs with the tests, and also finds what is named but not called.

use crate::{Source, assert_none, sources};

/// What may not be named, and what to do instead.
const BANNED: &[(&str, &str)] = &[
    ("Instant::now", "take `now` as a parameter"),
    (".elapsed(", "it reads the clock: take `now` as a parameter"),
    ("SystemTime", "take the time as a parameter"),
    ("DateTime::now", "take the time as a parameter"),
    ("ObjectId::new(", "take the id as a parameter"),
    ("ObjectId::default(", "take the id as a parameter"),
    ("Uuid::new(", "take the id as a parameter"),
    ("rand::", "take random numbers as parameters"),
    ("getrandom", "take random numbers as parameters"),
    ("RandomState", "take random numbers as parameters"),
    ("HashMap", "its order could leak: use BTreeMap"),
    ("HashSet", "its order could leak: use BTreeSet"),
    ("thread::", "return an effect"),
    ("tokio", "return an effect"),
    ("TcpStream", "return an effect"),
    ("TcpListener", "return an effect"),
    ("UdpSocket", "return an effect"),
    ("UnixStream", "return an effect"),
    ("fs::", "return an effect"),
    ("env::", "let the driver read the environment"),
    ("process::", "return an effect"),
];

/// A file without its comments and without what is compiled for tests only; line numbers stay.
struct Shipped<'a> {
    lines: Vec<(usize, &'a str)>,
    /// Where the files of modules are that are compiled for tests only, without `.rs`.
    test_modules: Vec<String>,
}

impl<'a> Shipped<'a> {
    fn of(source: &'a Source) -> Self {
        let mut shipped = Self { lines: Vec::new(), test_modules: Vec::new() };
        let mut lines = (1..).zip(source.text.lines());
        while let Some((number, line)) = lines.next() {
            if line.trim() == "#[cfg(test)]" {
                let item = lines.by_ref().map(|(_, line)| line).find(|line| !is_attribute(line));
                shipped.skip_item(source, item.unwrap_or_default(), &mut lines);
            } else {
                shipped.lines.push((number, without_comment(line)));
            }
        }
        shipped
    }

    /// Passes over the item that begins with `first`. As the code is formatted, the item ends where
    /// a line begins at its own depth with a closing brace, unless it is all on one line.
    fn skip_item(
        &mut self,
        source: &Source,
        first: &str,
        rest: &mut impl Iterator<Item = (usize, &'a str)>,
    ) {
        let code = without_comment(first).trim();
        if let Some(name) = module_in_a_file(code) {
            self.test_modules.push(format!("{}/{name}", folder_of_submodules(&source.path)));
        }
        if !code.ends_with(['{', '(', ',', '[']) {
            return;
        }
        let depth = first.len() - first.trim_start().len();
        let ends = |line: &str| {
            line.len() - line.trim_start().len() == depth
                && line.trim_start().starts_with(['}', ')', ']'])
        };
        rest.find(|(_, line)| ends(line));
    }
}

fn is_attribute(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("#[") || line.starts_with("//")
}

/// Cuts off a comment. A string with `//` in it loses its end, which holds no code.
fn without_comment(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

/// `name` in `mod name;`, whatever its visibility.
fn module_in_a_file(code: &str) -> Option<&str> {
    let (_, name) = code.strip_suffix(';')?.rsplit_once("mod ")?;
    Some(name.trim())
}

/// Where the modules that a file declares have their own files.
fn folder_of_submodules(path: &str) -> String {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    match stem.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => folder.to_owned(),
        _ => stem.to_owned(),
    }
}

fn complaints(sources: &[Source]) -> Vec<String> {
    let shipped: Vec<_> = sources.iter().map(|source| (source, Shipped::of(source))).collect();
    let test_modules: Vec<&String> =
        shipped.iter().flat_map(|(_, shipped)| &shipped.test_modules).collect();
    let only_for_tests = |path: &str| {
        let below = |module: &&String| {
            path.strip_prefix(module.as_str())
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        test_modules.iter().any(below)
    };
    let mut complaints = Vec::new();
    for (source, shipped) in &shipped {
        if only_for_tests(&source.path) {
            continue;
        }
        for (number, line) in &shipped.lines {
            for (banned, instead) in BANNED.iter().filter(|(banned, _)| names(line, banned)) {
                complaints.push(format!("{}:{number}: `{banned}`: {instead}", source.path));
            }
        }
    }
    complaints
}

/// Whether `line` has `banned` in it, not merely as the end of a longer word.
fn names(line: &str, banned: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(banned)
        .any(|(at, _)| !banned.starts_with(is_word) || !line[..at].ends_with(is_word))
}

#[test]
fn wire_core_value_and_query_touch_nothing_outside_themselves() {
    for folder in ["driver/wire/src", "driver/core/src", "kit/value/src", "kit/query/src"] {
        assert_none(&complaints(&sources(&[folder])));
    }
}

fn source(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn a_clock_that_is_read_is_noticed_with_its_line() {
    let files = [source("core/src/a.rs", "//! A.\n\nfn now() {\n    Instant::now();\n}\n")];
    assert_eq!(complaints(&files), ["core/src/a.rs:4: `Instant::now`: take `now` as a parameter"]);
}

#[test]
fn grouped_imports_are_seen_into() {
    let text = "use std::{\n    collections::HashMap,\n    thread::spawn,\n};\n";
    assert_eq!(complaints(&[source("core/src/a.rs", text)]).len(), 2);
}

#[test]
fn comments_and_longer_words_are_no_breach() {
    let text = "//! Not a HashMap.\n/// No `Instant::now` here.\nlet x = operand::y; // rand::\n";
    assert_eq!(complaints(&[source("core/src/a.rs", text)]), Vec::<String>::new());
}

#[test]
fn what_is_compiled_for_tests_only_is_free() {
    let files = [
        source("core/src/lib.rs", "#[cfg(test)]\nmod fixture;\nmod pool;\n"),
        source("core/src/fixture.rs", "use std::fs::read;\n"),
        source("core/src/pool.rs", "#[cfg(test)]\n#[rustfmt::skip]\npub(crate) mod tests;\n"),
        source("core/src/pool/tests.rs", "mod deep;\nlet now = Instant::now();\n"),
        source("core/src/pool/tests/deep.rs", "let now = Instant::now();\n"),
    ];
    assert_eq!(complaints(&files), Vec::<String>::new());
}

#[test]
fn what_follows_a_module_of_tests_is_not_free() {
    let text = "#[cfg(test)]\nmod tests {\n    fn f() {\n        Instant::now();\n    }\n}\n\
                fn g() {\n    Instant::now();\n}\n";
    let files = [source("core/src/a.rs", text), source("core/src/tests_of.rs", "HashSet\n")];
    let found = complaints(&files);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("core/src/a.rs:8:"));
    assert!(found[1].starts_with("core/src/tests_of.rs:1:"));
}
