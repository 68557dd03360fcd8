//! The layers of the driver: a module imports only from modules below it.
//!
//! Paths count (`crate::module::Item`), names that the root re-exports (`crate::Client`), and methods
//! that a module adds to a type of a lower one: a module that calls such a method lies above the module
//! that adds it.
#![allow(missing_docs)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The modules, from the lowest to the highest. A new module needs a place here.
const LAYERS: [&str; 34] = [
    "random",
    "decode",
    "serde_helpers",
    "resume_token",
    "write_results",
    "error",
    "namespace",
    "event",
    "deadline",
    "sequence",
    "dns",
    "tls",
    "auth",
    "trace",
    "options",
    "results",
    "index",
    "search_index",
    "connection",
    "pool",
    "topology",
    "pin",
    "session",
    "command",
    "exec",
    "client",
    "database",
    "collection",
    "operation",
    "client_session",
    "cursor",
    "change_stream",
    "actions",
    "gridfs",
];

struct File {
    path: PathBuf,
    /// The top-level module that it is part of.
    module: String,
    /// Without comments, texts and tests.
    code: String,
}

fn level(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == module)
}

fn sources() -> Vec<File> {
    fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("the sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, files);
            } else if path.extension().is_some_and(|it| it == "rs") {
                files.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    let is_test = |path: &Path| path.iter().any(|it| it == "tests" || it == "tests.rs");
    paths.retain(|path| !is_test(path.strip_prefix(&root).expect("below the root")));
    let file = |path: PathBuf| {
        let below = path.strip_prefix(&root).expect("below the root");
        let first = below.iter().next().and_then(|it| it.to_str()).expect("a name");
        let module = first.strip_suffix(".rs").unwrap_or(first).to_owned();
        let code = code_of(&fs::read_to_string(&path).expect("a source"));
        File { path: below.to_owned(), module, code }
    };
    paths.into_iter().map(file).collect()
}

/// The source without comments and texts, up to its tests.
fn code_of(source: &str) -> String {
    let mut code = String::new();
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        let is_module = |line: &&str| line.trim_start_matches("pub(crate) ").starts_with("mod ");
        if line == "#[cfg(test)]"
            && lines.peek().is_some_and(|it| is_module(it) && it.ends_with('{'))
        {
            break;
        }
        let line = line.split("//").next().unwrap_or_default();
        // Every second piece is within quotes.
        for outside in line.split('"').step_by(2) {
            code.push_str(outside);
            code.push(' ');
        }
        code.push('\n');
    }
    code
}

/// The first two names of every path that begins with `crate::`, in lists too.
fn crate_paths(code: &str) -> Vec<(String, Option<String>)> {
    let mut paths = Vec::new();
    for (at, found) in code.match_indices("crate::") {
        let begins = code[..at].chars().next_back().is_none_or(|it| !is_of_name(it));
        if begins {
            collect(&code[at + found.len()..], &mut paths);
        }
    }
    paths
}

/// Reads one path, or the paths in braces.
fn collect(rest: &str, paths: &mut Vec<(String, Option<String>)>) {
    let rest = rest.trim_start();
    let Some(inside) = rest.strip_prefix('{') else {
        let first: String = rest.chars().take_while(|it| is_of_name(*it)).collect();
        let second = rest[first.len()..]
            .strip_prefix("::")
            .map(|rest| rest.chars().take_while(|it| is_of_name(*it)).collect::<String>());
        if !first.is_empty() {
            paths.push((first, second.filter(|it| !it.is_empty())));
        }
        return;
    };
    let (mut depth, mut begin) = (1, 0);
    for (at, letter) in inside.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && letter == ',') {
            collect(&inside[begin..at], paths);
            begin = at + 1;
        }
        if depth == 0 {
            return;
        }
    }
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// What the root re-exports, by name, with its module.
fn reexports(root: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for statement in root.split(';').filter(|it| it.contains("pub use self::{")) {
        let list = &statement[statement.find("self::{").expect("it is there") + 7..];
        for part in list.split("::").collect::<Vec<_>>().windows(2) {
            let module: String = part[0].chars().rev().take_while(|it| is_of_name(*it)).collect();
            let module: String = module.chars().rev().collect();
            // The last name of the part is the next module.
            let items = part[1].trim_start().trim_start_matches('{');
            let items = items.split('}').next().unwrap_or(items);
            let single = !part[1].trim_start().starts_with('{');
            for item in items.split(',').take(if single { 1 } else { usize::MAX }) {
                names.insert(item.trim().to_owned(), module.clone());
            }
        }
    }
    names
}

#[test]
fn a_module_imports_only_from_below() {
    let files = sources();
    let root = files.iter().find(|file| file.module == "lib").expect("lib.rs");
    let reexports = reexports(&root.code);
    assert_eq!(reexports.get("Client").map(String::as_str), Some("client"), "{reexports:?}");
    assert_eq!(reexports.get("Cursor").map(String::as_str), Some("cursor"), "{reexports:?}");
    let mut wrong = BTreeSet::new();
    let mut seen = 0;
    for file in files.iter().filter(|file| file.module != "lib") {
        let Some(own) = level(&file.module) else {
            wrong.insert(format!("{} has no place in LAYERS", file.module));
            continue;
        };
        for (first, second) in crate_paths(&file.code) {
            let module = match (first.as_str(), second) {
                // The facade of `actions` and of those of `gridfs`.
                ("action", Some(second)) if second == "gridfs" => "gridfs".to_owned(),
                ("action", _) => "actions".to_owned(),
                (first, _) => reexports.get(first).cloned().unwrap_or_else(|| first.to_owned()),
            };
            seen += 1;
            match level(&module) {
                Some(level) if level <= own => {}
                Some(_) => {
                    let (path, from) = (file.path.display(), &file.module);
                    wrong.insert(format!("{path}: {from} imports {module}, which is above it"));
                }
                // What the root takes from other crates.
                None if module.starts_with(char::is_uppercase) || module == "bson" => {}
                None => {
                    wrong.insert(format!("{}: no module {module}", file.path.display()));
                }
            }
        }
    }
    assert!(seen > 500, "only {seen} imports were found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Names of types with the modules that declare them; of functions with all modules that have one.
fn declared(files: &[File], keywords: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        for keyword in keywords {
            for (at, found) in file.code.match_indices(keyword) {
                let begins = file.code[..at].chars().next_back().is_none_or(|it| !is_of_name(it));
                let rest = &file.code[at + found.len()..];
                let name: String = rest.chars().take_while(|it| is_of_name(*it)).collect();
                if begins && !name.is_empty() {
                    names.entry(name).or_default().insert(file.module.clone());
                }
            }
        }
    }
    names
}

#[test]
fn a_method_is_called_only_from_above_the_module_that_adds_it() {
    let files = sources();
    let types = declared(&files, &["struct ", "enum "]);
    let functions = declared(&files, &["fn "]);
    let mut wrong = BTreeSet::new();
    let mut added = 0;
    for file in &files {
        let blocks = file.code.split("\nimpl").skip(1);
        for block in blocks {
            let head = block.split('{').next().unwrap_or_default();
            if head.contains(" for ") {
                continue;
            }
            let subject = head.trim_start_matches('<').rsplit('>').find_map(|part| {
                let name: String = part.trim().chars().take_while(|it| is_of_name(*it)).collect();
                types.contains_key(&name).then_some(name)
            });
            let Some(subject) = subject.or_else(|| {
                let name: String = head.trim().chars().take_while(|it| is_of_name(*it)).collect();
                types.contains_key(&name).then_some(name)
            }) else {
                continue;
            };
            let (Some(home), Some(own)) = (types.get(&subject), level(&file.module)) else {
                continue;
            };
            if home.contains(&file.module) {
                continue;
            }
            let end = block.find("\n}").unwrap_or(block.len());
            for part in block[..end].split("fn ").skip(1) {
                let name: String = part.chars().take_while(|it| is_of_name(*it)).collect();
                // A name that others have as well says nothing of who is called.
                if functions.get(&name).is_some_and(|modules| modules.len() > 1) {
                    continue;
                }
                added += 1;
                for caller in &files {
                    let calls = caller.code.contains(&format!(".{name}("))
                        || caller.code.contains(&format!("{subject}::{name}("));
                    if calls && level(&caller.module).is_some_and(|level| level < own) {
                        wrong.insert(format!(
                            "{} calls {subject}::{name}, which {} adds",
                            caller.path.display(),
                            file.module
                        ));
                    }
                }
            }
        }
    }
    assert!(added > 30, "only {added} methods were found that a module adds to a lower one's type");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
