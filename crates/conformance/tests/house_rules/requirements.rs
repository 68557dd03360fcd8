//! The demands of the specifications, as `docs/requirements.md` lists them, and the known ways to get
//! a driver wrong of `docs/pitfalls.md`: every test that is named there exists.

use std::{collections::BTreeSet, fs};

use crate::{Source, assert_none, root, sources};

/// What is set in code in the last column of a table and looks like the name of a test.
fn named_tests(document: &str) -> BTreeSet<&str> {
    let rows = document.lines().filter(|line| line.starts_with('|'));
    let shown_by = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    let in_code = shown_by.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    in_code.filter(|name| is_test_name(name)).collect()
}

/// Tests are named by sentences; suites and options by a word or two.
fn is_test_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && (name.matches('_').count() > 1 || name.ends_with("_fault"))
}

fn missing(path: &str, document: &str, sources: &[Source]) -> Vec<String> {
    let exists = |name: &str| {
        let definition = format!("fn {name}(");
        sources.iter().any(|source| source.text.contains(&definition))
    };
    let named = named_tests(document).into_iter();
    named
        .filter(|name| !exists(name))
        .map(|name| format!("{path} names `{name}`, and there is no such test"))
        .collect()
}

#[test]
fn every_test_that_is_said_to_show_a_demand_exists() {
    let sources = sources("crates");
    for (path, fewest) in [("docs/requirements.md", 40), ("docs/pitfalls.md", 12)] {
        let document = fs::read_to_string(root().join(path)).expect("it is there");
        assert!(named_tests(&document).len() > fewest, "the tables of {path} are not read");
        assert_none(&missing(path, &document, &sources));
    }
}

#[test]
fn a_test_that_does_not_exist_is_noticed() {
    let document = "| MUST | `not_this_one_here` | suite `uri_options`; `a_b_c`, `gone_for_good` |";
    let source = Source { path: "a.rs".to_owned(), text: "fn a_b_c() {}".to_owned() };
    assert_eq!(named_tests(document), BTreeSet::from(["a_b_c", "gone_for_good"]));
    let missing = missing("a document", document, &[source]);
    assert_eq!(missing.len(), 1);
    assert!(missing[0].contains("gone_for_good"));
}
