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

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Modules from the lowest to the highest. Every module of the crate is listed.
const LAYERS: [&str; 38] = [
    "random",
    "decode",
    "serde_helpers",
    "resume_token",
    "write_results",
    "error",
    "runtime",
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
    "raw_batch_cursor",
    "change_stream",
    "blocking",
    "actions",
    "gridfs",
    "sync",
];

/// Modules that repeat the names of the async API. Their methods add nothing to the types of the same names below.
const MIRRORS: [&str; 2] = ["blocking", "sync"];

struct File {
    path: PathBuf,
    /// Top-level module of the file.
    module: String,
    /// Tokens without comments, literals and tests, as text.
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

/// Tokens of a source without comments, literals and tests, as text: a space between two names, each `impl` on
/// its own line, and `self` instead of a `super` that stays in the file.
fn code_of(source: &str) -> String {
    let tokens: TokenStream = source.parse().expect("a source that compiles");
    let mut code = String::new();
    write_tokens(tokens, 0, &mut code);
    code
}

/// Writes the tokens of a module nested in `modules` modules of its file.
fn write_tokens(tokens: TokenStream, modules: usize, code: &mut String) {
    // The item after `#[cfg(test)]` ends with the next group in braces or semicolon.
    let mut in_test = false;
    let mut begins_module = false;
    let mut supers = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(name) if !in_test => {
                let mut name = name.to_string();
                supers = if name == "super" { supers + 1 } else { 0 };
                if (1..=modules).contains(&supers) {
                    name = "self".to_owned();
                }
                begins_module |= name == "mod";
                if name == "impl" {
                    code.push('\n');
                } else if code.ends_with(is_of_name) {
                    code.push(' ');
                }
                code.push_str(&name);
            }
            TokenTree::Punct(punct) if in_test => in_test = punct.as_char() != ';',
            TokenTree::Punct(punct) => {
                begins_module &= punct.as_char() != ';';
                code.push(punct.as_char());
            }
            TokenTree::Group(group) if in_test => in_test = group.delimiter() != Delimiter::Brace,
            TokenTree::Group(group) if group.stream().to_string() == "cfg (test)" => in_test = true,
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                let inside = begins_module && open == "{";
                begins_module &= open != "{";
                code.push_str(open);
                write_tokens(group.stream(), modules + usize::from(inside), code);
                code.push_str(close);
            }
            TokenTree::Ident(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Text up to the brace that closes its block.
fn block(code: &str) -> &str {
    let mut depth = 1;
    for (at, letter) in code.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &code[..at];
        }
    }
    code
}

/// Paths with this prefix, also in lists: the names after the prefix.
fn paths_after(prefix: &str, code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for (at, found) in code.match_indices(prefix) {
        let begins = !code[..at].ends_with(|it| is_of_name(it) || it == ':');
        if begins {
            collect(&code[at + found.len()..], &[], &mut paths);
        }
    }
    paths
}

/// Reads one path, or the paths in braces. The last name of `a as b` is `a as b`.
fn collect(rest: &str, before: &[String], paths: &mut Vec<Vec<String>>) {
    if let Some(rest) = rest.strip_prefix('{') {
        let (list, mut depth, mut begin) = (block(rest), 0, 0);
        for (at, letter) in list.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    collect(&list[begin..at], before, paths);
                    begin = at + 1;
                }
                _ => {}
            }
        }
        if begin < list.len() {
            collect(&list[begin..], before, paths);
        }
        return;
    }
    let end = rest.find(|it: char| !is_of_name(it) && it != ' ' && it != '*').unwrap_or(rest.len());
    let path = [before, &[rest[..end].to_owned()]].concat();
    match rest[end..].strip_prefix("::") {
        Some(rest) => collect(rest, &path, paths),
        None => paths.push(path),
    }
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Names that the root re-exports, each with its module or crate.
fn reexports(root: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for path in paths_after("pub use ", root) {
        let path: Vec<_> = path.into_iter().filter(|it| it != "self" && it != "crate").collect();
        if let (Some(first), Some(last)) = (path.first(), path.last()) {
            let name = last.rsplit(" as ").next().unwrap_or(last);
            names.insert(name.to_owned(), first.clone());
        }
    }
    names
}

/// Complaints about the imports of a module at this level.
fn wrong_imports(file: &File, own: usize, reexports: &BTreeMap<String, String>) -> Vec<String> {
    let mut wrong = Vec::new();
    let File { path, module: from, code } = file;
    let mut complain = |what: String| wrong.push(format!("{}: {what}", path.display()));
    for names in paths_after("crate::", code) {
        let first = names[0].as_str();
        let second = names.get(1).map(String::as_str);
        let module = match (first, second) {
            // The facade of `actions` and of those of `gridfs`.
            ("action", Some("gridfs")) => "gridfs",
            ("action", _) => "actions",
            _ => reexports.get(first).map_or(first, String::as_str),
        };
        match level(module) {
            Some(level) if level <= own => {}
            Some(_) => complain(format!("{from} imports {module}, which is above it")),
            // Another crate that the root re-exports.
            None if reexports.contains_key(first) => {}
            None => complain(format!("no module {first}")),
        }
    }
    // A file of depth 1 leaves its module by the first `super`.
    let depth = path.components().count();
    if code.contains(&"super::".repeat(depth)) {
        complain(format!("`{}` leaves {from}", "super::".repeat(depth)));
    }
    wrong
}

#[test]
fn modules_import_only_lower_modules() {
    let files = sources();
    let root = files.iter().find(|file| file.module == "lib").expect("lib.rs");
    let reexports = reexports(&root.code);
    assert_eq!(reexports.get("Client").map(String::as_str), Some("client"), "{reexports:?}");
    assert_eq!(reexports.get("Cursor").map(String::as_str), Some("cursor"), "{reexports:?}");
    let mut wrong = BTreeSet::new();
    let mut seen = 0;
    for file in files.iter().filter(|file| file.module != "lib") {
        seen += paths_after("crate::", &file.code).len();
        match level(&file.module) {
            Some(own) => wrong.extend(wrong_imports(file, own, &reexports)),
            None => wrong.extend([format!("{} is not in LAYERS", file.module)]),
        }
    }
    assert!(seen > 500, "only {seen} imports were found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn imports_of_higher_modules_are_found_in_every_form() {
    let root = code_of(
        "mod client; pub use bson; pub use self::{client::{Client, Inner}, client::A as Handle};",
    );
    let reexports = reexports(&root);
    let wrong = |path: &str, source: &str| {
        let (path, module) = (PathBuf::from(path), "pool".to_owned());
        let own = level("pool").expect("a layer");
        !wrong_imports(&File { path, module, code: code_of(source) }, own, &reexports).is_empty()
    };
    for source in [
        "use crate::client::Client;",
        "use crate::Client;",
        "use crate::Handle;",
        "use crate ::client;",
        "use crate::{error::Error, client::{self, Client}};",
        "use crate::*;",
        "use crate::{self as root};",
        "use super::client::Client;",
        "mod inside { use super::super::client::Client; }",
        "fn f() { g(\"http://\", '\"', crate::client::f()); }",
        "#[cfg(test)] mod tests { fn a() {} } fn f() { crate::exec::f() }",
        "macro_rules! m { () => { $crate::client::f() } }",
        "impl From<crate::client::Client> for A {}",
    ] {
        assert!(wrong("pool.rs", source), "{source}");
    }
    assert!(wrong("pool/wait.rs", "use super::super::client;"));
    for source in [
        "use crate::{bson::doc, error::Error, pool::*};",
        "/// [crate::client]\n fn f() { \"crate::client\" }",
        "#[cfg(test)] mod tests { use crate::Client; }",
        "#[cfg(test)] use crate::Client;",
        "use other_crate::client;",
        "mod inside { use super::*; }",
    ] {
        assert!(!wrong("pool.rs", source), "{source}");
    }
    assert!(!wrong("pool/wait.rs", "use super::client;"));
}

/// Names of types or functions, each with the modules that declare it.
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
fn methods_are_called_only_from_modules_above_their_own() {
    let mut files = sources();
    files.retain(|file| !MIRRORS.contains(&file.module.as_str()));
    let types = declared(&files, &["struct ", "enum "]);
    let functions = declared(&files, &["fn "]);
    let mut wrong = BTreeSet::new();
    let mut added = 0;
    for file in &files {
        for text in file.code.split("\nimpl").skip(1) {
            let (head, body) = text.split_once('{').unwrap_or_default();
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
            let (Some(declaring), Some(own)) = (types.get(&subject), level(&file.module)) else {
                continue;
            };
            if declaring.contains(&file.module) {
                continue;
            }
            for part in block(body).split("fn ").skip(1) {
                let name: String = part.chars().take_while(|it| is_of_name(*it)).collect();
                // A name that several modules declare does not identify the callee.
                if functions.get(&name).is_some_and(|modules| modules.len() > 1) {
                    continue;
                }
                added += 1;
                for caller in &files {
                    let calls =
                        [format!(".{name}("), format!(".{name}::<"), format!("{subject}::{name}(")]
                            .iter()
                            .any(|it| caller.code.contains(it));
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
