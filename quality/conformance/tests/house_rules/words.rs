//! Language of the repository: documentation begins with a noun or a verb and is in MongoDB's terms, the docs of
//! options name the wire field, and names have one meaning.

use std::{collections::BTreeMap, fs, path::PathBuf};

use crate::{PRODUCTS, Source, assert_none, crate_folder, root, sources};

/// Beginnings that no documentation has: it names the thing, then qualifies it.
const RELATIVE: &[&str] = &[
    "By",
    "How",
    "In what",
    "In which",
    "To what",
    "To whom",
    "What",
    "Whatever",
    "When",
    "Where",
    "Whether",
    "Which",
    "Whichever",
    "Who",
    "Whoever",
    "Whom",
    "Whose",
    "Why",
];

/// Percentage of doc comments of a crate's sources, or of its tests, that may begin so.
const MOST_RELATIVE: f64 = 3.0;

/// Beginnings of test names that are not a subject of MongoDB or Rust.
const NOT_A_SUBJECT: &[&str] = &[
    "he", "how", "it", "nobody", "nothing", "somebody", "someone", "they", "there", "what",
    "whatever", "whether", "who", "whoever", "whom", "whose", "why",
];

/// Words that no function, type, constant or module has in its name.
const AVOIDED_IN_NAMES: &[&str] = &[
    "befall",
    "befalls",
    "beside",
    "blemish",
    "blemishes",
    "dice",
    "forget",
    "forgets",
    "forgotten",
    "hear",
    "heard",
    "hears",
    "kindness",
    "leavings",
    "nobody",
    "patience",
    "refusal",
    "refusals",
    "refuse",
    "refused",
    "refuses",
    "said",
    "says",
    "somebody",
    "suffer",
    "suffered",
    "suffers",
    "tell",
    "tells",
    "told",
    "want",
    "wanted",
    "wants",
    "whoever",
];

/// Names with such a word, and the reason.
const NAMES_WITH_AVOIDED_WORDS: &[(&str, &str)] = &[
    ("CONNECTION_REFUSED", "a TCP connection is refused"),
    ("dropped_listener_refuses_connections_despite_a_copied_socket", "a TCP connection is refused"),
    ("refuse_applies_the_given_number_of_times", "`refuse` is a reaction of proxy rules"),
    ("refuse_applies_to_connections_only", "`refuse` is a reaction of proxy rules"),
];

/// Number of option fields that the driver has at least.
const LEAST_OPTIONS: usize = 150;

/// Types that have the name of another one in their crate, and the reason.
const NAMED_TWICE: &[(&str, &str, &str)] = &[
    (
        "driver/steadfast",
        "Delete",
        "actions of collections and of GridFS, as in the crate `mongodb`",
    ),
    ("driver/steadfast", "Find", "actions of collections and of GridFS, as in the crate `mongodb`"),
    (
        "driver/steadfast",
        "FindOne",
        "actions of collections and of GridFS, as in the crate `mongodb`",
    ),
];

/// Files whose types have the names of others on purpose: the blocking API has the names of the async one.
const MIRRORS: &[&str] = &[
    "driver/steadfast/src/blocking",
    "driver/steadfast/src/gridfs/blocking.rs",
    "driver/steadfast/src/sync",
];

/// Words that MongoDB's manual does not use, and the term to use instead. Matched in lower case, at the start of a word.
const AVOIDED: &[(&str, &str)] = &[
    ("be it ", "a plain sentence"),
    ("befall", "fail, happen"),
    ("came of", "result, outcome"),
    ("come of", "result, outcome"),
    ("beside", "next to, document sequence"),
    ("blemish", "write failure"),
    ("but for", "except"),
    ("dice", "random number generator"),
    ("forgets", "removes"),
    ("hear of", "receive"),
    ("heard", "received"),
    ("hears", "receives"),
    ("in vain", "without effect"),
    ("is stopping", "shuts down"),
    ("is to be ", "a plain sentence"),
    ("kindness", "client backpressure"),
    ("leavings", "what it is"),
    ("limit of its time", "deadline"),
    ("loses its office", "steps down"),
    ("nobody", "a plain sentence"),
    ("of one's own", "a plain sentence"),
    ("may pass", "transient error"),
    ("of its own accord", "by default"),
    ("out of time", "the deadline has passed"),
    ("passing state", "retryable error"),
    ("patience", "time-out, deadline"),
    ("recognisable write", "retryable write"),
    ("refusal", "command error, rejection"),
    ("refuse", "reject; error reply"),
    ("so many", "the number"),
    ("somebody", "a plain sentence"),
    ("tells", "reports"),
    ("told", "reported, received"),
    ("to whom", "a plain sentence"),
    ("tried again", "retried"),
    ("trying again", "retrying"),
    ("turned away", "rejected"),
    ("turns away", "rejects"),
    ("wants to", "a plain sentence"),
    ("what went wrong", "the error"),
    ("whoever", "a plain sentence"),
];

/// Consecutive doc comment lines.
struct DocComment<'a> {
    line: usize,
    text: Vec<&'a str>,
}

fn doc_comments(text: &str) -> Vec<DocComment<'_>> {
    let mut comments: Vec<DocComment<'_>> = Vec::new();
    let mut open = false;
    for (line, code) in (1..).zip(text.lines().map(str::trim)) {
        let doc = code.strip_prefix("///").or_else(|| code.strip_prefix("//!"));
        match doc.filter(|doc| !doc.starts_with('/')) {
            Some(doc) if open => comments.last_mut().expect("it is open").text.push(doc.trim()),
            Some(doc) => comments.push(DocComment { line, text: vec![doc.trim()] }),
            None => {}
        }
        open = doc.is_some();
    }
    comments
}

fn begins_with_relative(comment: &DocComment<'_>) -> bool {
    let text = comment.text[0];
    let is_first = |words: &&str| {
        text.strip_prefix(*words).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    RELATIVE.iter().any(is_first)
}

/// Returns `true` for a file of tests, as opposed to sources and examples.
fn is_of_tests(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// The types that a line at the top level of a file or of an `options!` block declares.
fn declared_types(line: &str) -> Vec<&str> {
    // In `options!`, the struct is followed by its builder.
    let pair = line.strip_prefix("    pub struct ").and_then(|rest| rest.strip_suffix(" {"));
    match pair.and_then(|pair| pair.split_once(", ")) {
        Some((options, builder)) if !pair.is_some_and(|it| it.contains(['<', '('])) => {
            vec![options, builder]
        }
        _ => declared_type(line).into_iter().collect(),
    }
}

/// The type that a line at the top level of a file declares.
fn declared_type(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub").map_or(line, |rest| match rest.split_once(") ") {
        Some((scope, rest)) if scope.starts_with('(') => rest,
        _ => rest.trim_start(),
    });
    let rest = ["struct ", "enum ", "trait ", "union ", "type "]
        .iter()
        .find_map(|it| line.strip_prefix(it))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end])
}

/// The name of the function, type, constant or module that a line declares.
fn declared_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub").map_or(line, |rest| match rest.split_once(") ") {
        Some((scope, rest)) if scope.starts_with('(') => rest,
        _ => rest.trim_start(),
    });
    let line = line.strip_prefix("async ").unwrap_or(line);
    let line = line.strip_prefix("const fn ").map_or(line, |_| &line["const ".len()..]);
    let rest = ["fn ", "struct ", "enum ", "trait ", "type ", "const ", "static ", "mod "]
        .iter()
        .find_map(|it| line.strip_prefix(it))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end])
}

/// The first avoided word of a name in snake case, upper case or camel case.
fn avoided_in_name(name: &str) -> Option<&'static str> {
    let mut words = String::new();
    let mut after_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && after_lower {
            words.push('_');
        }
        after_lower = c.is_lowercase();
        words.extend(c.to_lowercase());
    }
    AVOIDED_IN_NAMES.iter().copied().find(|avoided| words.split('_').any(|word| word == *avoided))
}

/// Internal comments of a file, with their lines.
fn internal_comments(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let comment = |code: &'_ str| {
        code.starts_with("//") && !code.starts_with("///") && !code.starts_with("//!")
    };
    (1..).zip(text.lines().map(str::trim)).filter(move |(_, code)| comment(code))
}

/// Names of the functions that are tests, with their lines.
fn tests_of(text: &str) -> Vec<(usize, &str)> {
    let mut tests = Vec::new();
    let mut is_test = false;
    for (line, code) in (1..).zip(text.lines().map(str::trim)) {
        if code.starts_with("#[") {
            is_test |= code.starts_with("#[test]") || code.starts_with("#[tokio::test");
            continue;
        }
        let function = code.strip_prefix("async ").unwrap_or(code).strip_prefix("fn ");
        if let (true, Some(name)) = (is_test, function) {
            tests.push((line, name.split(['(', '<']).next().unwrap_or_default()));
        }
        is_test &= code.starts_with("//");
    }
    tests
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
/// Returns the complaints, and the number of fields.
fn unnamed_options(source: &Source) -> (Vec<String>, usize) {
    let (mut complaints, mut fields) = (Vec::new(), 0);
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
            fields += 1;
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
    (complaints, fields)
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

#[test]
#[allow(clippy::print_stdout, reason = "the figures of the crates, with `--nocapture`")]
fn doc_comments_begin_with_a_noun_or_a_verb() {
    let mut parts: BTreeMap<(String, bool), (usize, Vec<String>)> = BTreeMap::new();
    for Source { path, text } in &sources(PRODUCTS) {
        let part = (crate_folder(path).to_owned(), is_of_tests(path));
        let (count, relative) = parts.entry(part).or_default();
        for comment in doc_comments(text) {
            *count += 1;
            if begins_with_relative(&comment) {
                relative.push(format!("{path}:{}: {}", comment.line, comment.text[0]));
            }
        }
    }
    let mut complaints = Vec::new();
    for ((folder, tests), (count, relative)) in parts {
        let share = percentage(relative.len(), count);
        println!("{folder}{}: {share:.1} % of {count}", if tests { ", tests" } else { "" });
        if share >= MOST_RELATIVE {
            complaints.push(format!("{folder}: {share:.1} % of the doc comments begin so:"));
            complaints.extend(relative);
        }
    }
    assert_none(&complaints);
}

fn percentage(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

#[test]
fn docs_avoid_words_that_the_manual_does_not_use() {
    let mut complaints = Vec::new();
    for Source { path, text } in sources(PRODUCTS).iter().filter(|it| !is_of_tests(&it.path)) {
        for comment in doc_comments(text) {
            for (line, text) in (comment.line..).zip(&comment.text) {
                complaints
                    .extend(avoided(text).into_iter().map(|it| format!("{path}:{line}: {it}")));
            }
        }
        for (line, comment) in internal_comments(text) {
            complaints
                .extend(avoided(comment).into_iter().map(|it| format!("{path}:{line}: {it}")));
        }
    }
    let guides = guides();
    assert!(
        ["README.md", "CHANGELOG.md", "docs/README.md"].iter().all(|it| guides.contains_key(*it))
    );
    for (path, text) in guides {
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

/// All documents: those of the root, `docs/` with its folders, and the READMEs of crates.
fn guides() -> BTreeMap<String, String> {
    fn collect(folder: PathBuf, depth: usize, paths: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("readable").path();
            let hidden = path
                .file_name()
                .is_some_and(|it| it == "target" || it.as_encoded_bytes()[0] == b'.');
            if path.is_dir() && depth > 0 && !hidden {
                collect(path, depth - 1, paths);
            } else if path.extension().is_some_and(|it| it == "md") {
                paths.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    collect(root(), 2, &mut paths);
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a readable guide");
        (path.strip_prefix(root()).expect("below the root").display().to_string(), text)
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn test_names_begin_with_a_subject() {
    let mut complaints = Vec::new();
    for Source { path, text } in &sources(PRODUCTS) {
        for (line, name) in tests_of(text) {
            let first = name.split('_').find(|word| !["a", "an", "the"].contains(word));
            if first.is_some_and(|first| NOT_A_SUBJECT.contains(&first)) {
                complaints.push(format!("{path}:{line}: {name}"));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn names_avoid_words_that_the_manual_does_not_use() {
    let mut complaints = Vec::new();
    for Source { path, text } in &sources(PRODUCTS) {
        for (number, line) in (1..).zip(text.lines()) {
            let Some(name) = declared_name(line) else { continue };
            if NAMES_WITH_AVOIDED_WORDS.iter().any(|(excepted, _)| *excepted == name) {
                continue;
            }
            complaints.extend(
                avoided_in_name(name)
                    .map(|word| format!("{path}:{number}: {name} has the word {word}")),
            );
        }
    }
    assert_none(&complaints);
}

#[test]
fn type_names_are_unique_in_a_crate() {
    let mut types: BTreeMap<(String, bool, String), Vec<String>> = BTreeMap::new();
    for Source { path, text } in &sources(PRODUCTS) {
        // Each example is a program of its own.
        if path.contains("/examples/") || MIRRORS.iter().any(|mirror| path.starts_with(mirror)) {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
            for name in declared_types(line) {
                let key = (crate_folder(path).to_owned(), is_of_tests(path), name.to_owned());
                types.entry(key).or_default().push(format!("{path}:{number}"));
            }
        }
    }
    types.retain(|_, places| places.len() > 1);
    let mut complaints = Vec::new();
    for ((folder, _, name), places) in &types {
        if !NAMED_TWICE.iter().any(|(of, it, _)| of == folder && it == name) {
            complaints.push(format!("{name}: {}", places.join(", ")));
        }
    }
    for (folder, name, _) in NAMED_TWICE {
        if !types.keys().any(|(of, _, it)| of == folder && it == name) {
            complaints.push(format!("NAMED_TWICE: {folder} has one {name}"));
        }
    }
    assert_none(&complaints);
}

#[test]
fn docs_of_options_name_the_wire_field_or_its_term() {
    let options = sources(&["driver/steadfast/src/options"]);
    let (complaints, fields): (Vec<_>, Vec<_>) = options.iter().map(unnamed_options).unzip();
    assert_none(&complaints.concat());
    let fields: usize = fields.into_iter().sum();
    assert!(fields >= LEAST_OPTIONS, "only {fields} options were found");
}

#[test]
fn violations_of_the_rules_of_language_are_found() {
    let text = "/// Whether it is on.\n#[serde(skip)]\npub on: bool,\n\n/// Number of retries.\nfn retries() {}\n";
    let comments = doc_comments(text);
    assert_eq!(comments.len(), 2);
    assert!(begins_with_relative(&comments[0]) && !begins_with_relative(&comments[1]));
    let begins = |text: &str| begins_with_relative(&doc_comments(text)[0]);
    assert!(
        begins("/// By what it is found.")
            && begins("/// By its key.")
            && begins("/// In which order.")
            && begins("//! Whoever asks.")
    );
    assert!(
        !begins("/// Bytes sent.")
            && !begins("/// Whole seconds.")
            && !begins("/// In the order sent.")
    );
    assert!((percentage(3, 100) - MOST_RELATIVE).abs() < 1e-9);

    let found =
        ["pub(crate) struct Kind;", "pub enum Kind {", "type Kind<T> = T;", "trait Kind: Sized {"];
    assert!(found.iter().all(|line| declared_type(line) == Some("Kind")));
    assert_eq!(declared_type("    struct Local;"), None);
    let pair = "    pub struct FindOptions, FindOptionsBuilder {";
    assert_eq!(declared_types(pair), ["FindOptions", "FindOptionsBuilder"]);
    assert_eq!(declared_types("pub struct Kind {"), ["Kind"]);

    let declared = [
        "    pub(crate) const fn hear() {",
        "async fn hear() {",
        "pub async fn hear<T>() {",
        "const hear: u8 = 1;",
        "    fn hear(&self);",
        "mod hear;",
    ];
    assert!(declared.iter().all(|line| declared_name(line) == Some("hear")));
    assert_eq!(declared_name("let hear = 1;"), None);
    let avoided_names = ["lost_is_told", "PATIENCE", "DiceRoll", "is_refused"];
    assert!(avoided_names.iter().all(|name| avoided_in_name(name).is_some()));
    assert_eq!(["retold", "Whoa", "is_rejected"].map(avoided_in_name), [None; 3]);
    let comments: Vec<_> =
        internal_comments("/// Doc.\n//! Doc.\n    // Nobody waits.\n").collect();
    assert_eq!(comments, [(3, "// Nobody waits.")]);

    let text = "#[test]\nfn who_waits() {}\n#[tokio::test(start_paused = true)]\n// pitfall 1\nasync fn retry() {}\nfn helper() {}\n";
    assert_eq!(tests_of(text), [(2, "who_waits"), (5, "retry")]);

    assert_eq!(avoided("The server refused it, of its own accord.").len(), 2);
    assert_eq!(avoided("`refused` is a field; connection refused is an error"), [""; 0]);

    let options = "options! {\n    /// Options of `find`.\n    pub struct FindOptions, FindOptionsBuilder {\n        \
        /// Disables the time-out (`noCursorTimeout`).\n        no_cursor_timeout: bool,\n        \
        /// Default write concern.\n        write_concern: WriteConcern,\n        \
        /// A note.\n        #[serde(rename = \"let\")]\n        let_vars: Document,\n    }\n}\n";
    let source = Source { path: "a.rs".to_owned(), text: options.to_owned() };
    let (found, fields) = unnamed_options(&source);
    assert_eq!((found.len(), fields), (1, 3), "{found:?}");
    assert!(found[0].contains("`let`"), "{found:?}");
}
