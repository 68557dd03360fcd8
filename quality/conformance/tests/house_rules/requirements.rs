//! `docs/requirements.md` (requirements of the specifications) and `docs/pitfalls.md` (known pitfalls of drivers): every
//! test that they name exists and runs.

use std::{collections::BTreeSet, fs, path::Path};

use crate::{PRODUCTS, Source, assert_none, crate_folder, root, sources};

/// Names of tests in the last column of a document's tables.
fn named_tests(document: &str) -> BTreeSet<&str> {
    let rows = document.lines().filter(|line| line.starts_with('|'));
    let shown_by = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    let in_code = shown_by.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    in_code.filter(|name| is_test_name(name)).collect()
}

/// Returns true for names of more than two words. Suites and options have one or two.
fn is_test_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && (name.matches('_').count() > 1 || name.ends_with("_fault"))
}

/// Tests of a file that are not ignored.
fn tests_in(text: &str) -> BTreeSet<&str> {
    let (mut tests, mut attributes, mut is_open) = (BTreeSet::new(), String::new(), false);
    for line in text.lines().map(str::trim) {
        if is_open || line.starts_with("#[") {
            attributes += line;
            is_open = !line.ends_with(']');
        } else if !line.starts_with("//") {
            let is_test = attributes.contains("#[test]") || attributes.contains("#[tokio::test");
            let function = line.split_once("fn ").and_then(|(_, rest)| rest.split_once('('));
            if let (true, false, Some((name, _))) =
                (is_test, attributes.contains("ignore"), function)
            {
                tests.insert(name);
            }
            attributes.clear();
        }
    }
    tests
}

fn missing(path: &str, document: &str, sources: &[Source]) -> Vec<String> {
    let tests: BTreeSet<_> = sources.iter().flat_map(|source| tests_in(&source.text)).collect();
    let named = named_tests(document).into_iter();
    named
        .filter(|name| !tests.contains(name))
        .map(|name| format!("{path} names `{name}`, which is not a test that runs"))
        .collect()
}

#[test]
fn every_test_named_in_requirements_and_pitfalls_runs() {
    let sources = sources(PRODUCTS);
    for (path, fewest) in [("docs/requirements.md", 40), ("docs/pitfalls.md", 12)] {
        let document = fs::read_to_string(root().join(path)).expect("the document");
        assert!(named_tests(&document).len() > fewest, "the tables of {path} are not read");
        assert_none(&missing(path, &document, &sources));
    }
}

#[test]
fn missing_and_ignored_tests_are_found() {
    let document = "| MUST | `not_this_one_here` | suite `uri_options`; `a_b_c`, `a_b_d`, `a_b_e`, `a_b_f`, \
                    `gone_for_good` |";
    let text = "#[test]\nfn a_b_c() {}\n\n/// Words.\n#[tokio::test(\n    start_paused = true\n)]\n// More.\n\
                async fn a_b_d() {}\nfn a_b_e() {}\n#[test]\n#[ignore = \"slow\"]\nfn a_b_f() {}";
    let source = Source { path: "a.rs".to_owned(), text: text.to_owned() };
    let all = ["a_b_c", "a_b_d", "a_b_e", "a_b_f", "gone_for_good"];
    assert_eq!(named_tests(document), BTreeSet::from(all));
    let missing = missing("a document", document, &[source]);
    assert_eq!(missing.len(), 3, "{missing:?}");
    for (complaint, name) in missing.iter().zip(["a_b_e", "a_b_f", "gone_for_good"]) {
        assert!(complaint.contains(name), "{complaint}");
    }
}

/// Returns true for the root file of a Cargo target.
fn is_root(path: &str) -> bool {
    let within: Vec<_> = path[crate_folder(path).len()..].split('/').skip(1).collect();
    match within[..] {
        ["fuzz_targets", _] => true,
        ["build.rs"] | ["src", "lib.rs" | "main.rs"] | ["src", "bin", _] => true,
        ["tests" | "benches" | "examples", file] => file.ends_with(".rs"),
        ["tests" | "benches" | "examples", _, "main.rs"] => true,
        _ => false,
    }
}

/// Files of the modules that a file declares.
fn modules_of(source: &Source) -> BTreeSet<String> {
    let path = Path::new(&source.path);
    let folder = path.parent().expect("a file is in a folder");
    let own = match path.ends_with("mod.rs") || is_root(&source.path) {
        true => folder.to_owned(),
        false => path.with_extension(""),
    };
    let (mut modules, mut named) = (BTreeSet::new(), None);
    for line in source.text.lines().map(str::trim) {
        if let Some(file) = line.strip_prefix("#[path = \"") {
            named = Some(folder.join(file.trim_end_matches("\"]")));
        } else if let Some(name) = line.split_once("mod ").and_then(|it| it.1.strip_suffix(';')) {
            let default_paths =
                [own.join(name).with_extension("rs"), own.join(name).join("mod.rs")];
            let files = named.take().map_or(default_paths.to_vec(), |file| vec![file]);
            let exists = files.into_iter().filter_map(|file| root().join(file).canonicalize().ok());
            modules.extend(exists.map(|file| crate::read(&root(), &file).path));
        }
    }
    modules
}

/// A test in a file that no target contains does not run.
#[test]
fn every_file_with_tests_is_in_a_target() {
    let sources = sources(PRODUCTS);
    let mut compiled = BTreeSet::new();
    let mut found: Vec<_> = sources.iter().filter(|it| is_root(&it.path)).collect();
    while let Some(source) = found.pop() {
        if compiled.insert(&source.path) {
            let modules = modules_of(source);
            found.extend(sources.iter().filter(|it| modules.contains(&it.path)));
        }
    }
    assert!(compiled.len() > sources.len() / 2, "the declarations of modules are not read");
    let complaint = |source: &Source| format!("{} is in no target", source.path);
    let left_out = sources.iter().filter(|source| !compiled.contains(&source.path));
    assert_none(
        &left_out.filter(|it| !tests_in(&it.text).is_empty()).map(complaint).collect::<Vec<_>>(),
    );
}
