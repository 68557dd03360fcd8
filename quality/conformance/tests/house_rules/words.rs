//! Documentation in MongoDB's terms: how it begins, which words it avoids, and what the docs of options name.

use std::{collections::BTreeMap, fs};

use crate::{PRODUCTS, Source, assert_none, crate_folder, root, sources};

/// Words with which no documentation begins: it names the thing, then qualifies it.
const RELATIVE: &[&str] =
    &["By", "How", "What", "When", "Where", "Whether", "Which", "Who", "Whom", "Whose", "Why"];

/// Percentage of doc comments of a crate that may begin with such a word.
const MOST_RELATIVE: f64 = 3.0;

/// Crates whose documentation is not in MongoDB's terms yet.
const TO_REWRITE: &[&str] =
    &["patterns", "program/chaos", "program/cli", "quality/bench", "quality/conformance"];

/// Guides that are not in MongoDB's terms yet. `cli.md` is the program's help.
const GUIDES_TO_REWRITE: &[&str] = &[
    "docs/chaos.md",
    "docs/cli.md",
    "docs/ingest.md",
    "docs/local-writes.md",
    "docs/resilience.md",
    "docs/speed.md",
];

/// Words that MongoDB's manual does not use, and the term to use instead. Matched in lower case, at the start of a word.
const AVOIDED: &[(&str, &str)] = &[
    ("be it ", "a plain sentence"),
    ("beside", "next to, document sequence"),
    ("blemish", "write failure"),
    ("dice", "random number generator"),
    ("kindness", "client backpressure"),
    ("leavings", "what it is"),
    ("loses its office", "steps down"),
    ("nobody", "a plain sentence"),
    ("of a passing state", "retryable error"),
    ("of its own accord", "by default"),
    ("out of time", "the deadline has passed"),
    ("patience", "time-out, deadline"),
    ("recognisable write", "retryable write"),
    ("refusal", "command error, rejection"),
    ("refuse", "reject; error reply"),
    ("so many", "the number"),
    ("that may pass", "transient error"),
    ("turned away", "rejected"),
    ("turns away", "rejects"),
    ("whoever", "a plain sentence"),
];

/// Consecutive doc comment lines, and the first line of code after them.
struct DocComment<'a> {
    line: usize,
    text: Vec<&'a str>,
    item: &'a str,
}

impl DocComment<'_> {
    fn is_public(&self) -> bool {
        let item = self.item;
        item.starts_with("pub ") || item.is_empty()
    }
}

fn doc_comments(text: &str) -> Vec<DocComment<'_>> {
    let mut comments: Vec<DocComment<'_>> = Vec::new();
    let mut open = false;
    for (line, code) in (1..).zip(text.lines().map(str::trim)) {
        let doc = code.strip_prefix("///").or_else(|| code.strip_prefix("//!"));
        match doc.filter(|doc| !doc.starts_with('/')) {
            Some(doc) if open => comments.last_mut().expect("it is open").text.push(doc.trim()),
            Some(doc) => comments.push(DocComment { line, text: vec![doc.trim()], item: "" }),
            None if open && code.starts_with("#[") => continue,
            None if open => comments.last_mut().expect("it is open").item = code,
            None => {}
        }
        open = doc.is_some();
    }
    comments
}

fn begins_with_relative(comment: &DocComment<'_>) -> bool {
    let first = comment.text[0].split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    RELATIVE.contains(&first)
}

/// Avoided words in a line, without code in backticks and the operating system's "connection refused".
fn avoided(line: &str) -> Vec<String> {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let prose = prose.to_lowercase().replace("connection refused", "").replace("besides", "");
    let hit = |word: &str| {
        prose.match_indices(word).any(|(at, _)| !prose[..at].ends_with(char::is_alphanumeric))
    };
    let found = AVOIDED.iter().filter(|(word, _)| hit(word));
    found.map(|(word, instead)| format!("`{word}`: write {instead}")).collect()
}

/// Fields of the `options!` and `client_options!` blocks of a file whose docs name neither the wire field nor its words.
/// Options of a client may also name the URI option, which differs from the field.
fn unnamed_options(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut docs = String::new();
    let mut renamed = None;
    let mut inside = false;
    for (number, line) in (1..).zip(source.text.lines()) {
        let code = line.trim();
        if line.starts_with("options! {") || line.starts_with("client_options! {") {
            inside = true;
        } else if line.starts_with('}') {
            inside = false;
        }
        if let Some(doc) = code.strip_prefix("///") {
            docs.push_str(doc);
            continue;
        }
        if let Some((_, rest)) = code.split_once("rename = \"") {
            renamed = rest.split('"').next().map(str::to_owned);
        }
        if code.starts_with("#[") {
            continue;
        }
        let field = code.split_once(':').map(|(name, _)| name).filter(|name| {
            !name.is_empty()
                && name.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
        });
        if let (true, Some(field)) = (inside, field) {
            let wire = renamed.take().unwrap_or_else(|| camel_case(field));
            let words = field.replace('_', " ");
            let names_command_field = docs.contains(&format!("`{wire}`"));
            let names_uri_option = line.find(field) == Some(4) && names_a_field(&docs);
            if !names_command_field && !names_uri_option && !docs.to_lowercase().contains(&words) {
                let path = &source.path;
                let complaint =
                    format!("the docs of {field} name neither `{wire}` nor \"{words}\"");
                complaints.push(format!("{path}:{number}: {complaint}"));
            }
        }
        docs.clear();
        renamed = None;
    }
    complaints
}

/// Returns `true` if a word in backticks has the form of a URI option or wire field, such as `maxIdleTimeMS`.
fn names_a_field(docs: &str) -> bool {
    let is_field = |word: &str| {
        word.chars().all(char::is_alphanumeric)
            && word.starts_with(char::is_lowercase)
            && word.contains(char::is_uppercase)
    };
    docs.split('`').skip(1).step_by(2).any(is_field)
}

fn camel_case(field: &str) -> String {
    let mut parts = field.split('_');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (first, rest) = part.split_at(1);
        name.push_str(&first.to_uppercase());
        name.push_str(rest);
    }
    name
}

fn shipped() -> Vec<Source> {
    sources(PRODUCTS)
}

#[test]
fn doc_comments_begin_with_a_noun_or_a_verb() {
    let mut crates: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    for Source { path, text } in &shipped() {
        let (count, relative) = crates.entry(crate_folder(path).to_owned()).or_default();
        for comment in doc_comments(text) {
            *count += 1;
            if begins_with_relative(&comment) {
                relative.push(format!("{path}:{}: {}", comment.line, comment.text[0]));
            }
        }
    }
    let mut complaints = Vec::new();
    for (folder, (count, relative)) in crates {
        let share = 100.0 * relative.len() as f64 / count.max(1) as f64;
        if share >= MOST_RELATIVE && !TO_REWRITE.contains(&folder.as_str()) {
            complaints.push(format!(
                "{folder}: {share:.1} % of the doc comments begin with one of {RELATIVE:?}:"
            ));
            complaints.extend(relative);
        }
    }
    assert_none(&complaints);
}

#[test]
fn public_docs_avoid_words_that_the_manual_does_not_use() {
    let mut complaints = Vec::new();
    let exempt = |path: &str| path.contains("/tests") || TO_REWRITE.contains(&crate_folder(path));
    for Source { path, text } in shipped().iter().filter(|source| !exempt(&source.path)) {
        for comment in doc_comments(text).iter().filter(|comment| comment.is_public()) {
            for (line, text) in (comment.line..).zip(&comment.text) {
                complaints
                    .extend(avoided(text).into_iter().map(|it| format!("{path}:{line}: {it}")));
            }
        }
    }
    for (path, text) in guides() {
        let mut code = false;
        for (number, line) in (1..).zip(text.lines()) {
            code ^= line.trim_start().starts_with("```");
            if !code {
                complaints
                    .extend(avoided(line).into_iter().map(|it| format!("{path}:{number}: {it}")));
            }
        }
    }
    assert_none(&complaints);
}

/// The README, the map and the guides in `docs/`.
fn guides() -> Vec<(String, String)> {
    let docs = fs::read_dir(root().join("docs")).expect("a folder of guides");
    let mut paths: Vec<_> = docs
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|it| it == "md"))
        .chain(["README.md", "ARCHITECTURE.md"].map(|it| root().join(it)))
        .collect();
    paths.sort();
    paths.retain(|path| !GUIDES_TO_REWRITE.iter().any(|guide| path.ends_with(guide)));
    let read = |path: std::path::PathBuf| {
        let text = fs::read_to_string(&path).expect("a readable guide");
        (path.strip_prefix(root()).expect("below the root").display().to_string(), text)
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn the_docs_of_options_name_the_wire_field_or_its_term() {
    let options = sources(&["driver/steadfast/src/options"]);
    let complaints: Vec<_> = options.iter().flat_map(unnamed_options).collect();
    assert_none(&complaints);
}

#[test]
fn a_relative_clause_an_avoided_word_and_an_unnamed_option_are_noticed() {
    let text = "/// Whether it is on.\n#[serde(skip)]\npub on: bool,\n\n/// Number of retries.\nfn retries() {}\n";
    let comments = doc_comments(text);
    assert_eq!(comments.len(), 2);
    assert!(begins_with_relative(&comments[0]) && comments[0].is_public());
    assert!(!begins_with_relative(&comments[1]) && !comments[1].is_public());

    assert_eq!(avoided("The server refused it, of its own accord.").len(), 2);
    assert_eq!(avoided("`refused` is a field; connection refused is an error"), [""; 0]);

    let options = "options! {\n    /// Options of `find`.\n    pub struct FindOptions, FindOptionsBuilder {\n        \
        /// Disables the time-out (`noCursorTimeout`).\n        no_cursor_timeout: bool,\n        \
        /// Default write concern.\n        write_concern: WriteConcern,\n        \
        /// A note.\n        #[serde(rename = \"let\")]\n        let_vars: Document,\n    }\n}\n";
    let source = Source { path: "a.rs".to_owned(), text: options.to_owned() };
    let found = unnamed_options(&source);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("`let`"), "{found:?}");
}
