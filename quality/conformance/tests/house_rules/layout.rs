//! Form of files: each begins with a description, none is too long, and all crates have the workspace's lints.

use std::fs;

use crate::{PRODUCTS, Source, assert_none, root, sources};

/// Limit of lines in a file. Files of more than 500 lines should be split.
const MAX_LINES: usize = 700;

fn complaints(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for Source { path, text } in sources {
        if !text.starts_with("//! ") {
            complaints.push(format!("{path}:1: does not begin with a description (`//!`)"));
        }
        let lines = text.lines().count();
        if lines > MAX_LINES {
            complaints.push(format!("{path}: has {lines} lines; the limit is {MAX_LINES}"));
        }
    }
    complaints
}

/// Returns true if a manifest has `[lints] workspace = true`.
fn is_linted(manifest: &str) -> bool {
    let manifest: toml::Table = toml::from_str(manifest).expect("cargo has read it already");
    manifest.get("lints").and_then(|lints| lints.get("workspace")?.as_bool()) == Some(true)
}

#[test]
fn every_file_has_a_description_and_at_most_700_lines() {
    assert_none(&complaints(&sources(PRODUCTS)));
}

#[test]
fn every_crate_has_the_lints_of_the_workspace() {
    let products = PRODUCTS.iter().map(|product| root().join(product));
    let crates = products.clone().flat_map(|it| fs::read_dir(it).expect("a folder of crates"));
    let manifests = crates
        .map(|entry| entry.expect("readable").path())
        .chain(products)
        .filter(|path| !path.ends_with("fuzz"))
        .map(|path| path.join("Cargo.toml"));
    let unlinted = manifests
        .filter(|manifest| manifest.is_file())
        .filter(|manifest| !is_linted(&fs::read_to_string(manifest).expect("readable")))
        .map(|manifest| format!("{}: no `[lints] workspace = true`", manifest.display()));
    assert_none(&unlinted.collect::<Vec<_>>());
}

#[test]
fn official_driver_is_an_optional_dependency_of_bench() {
    let manifest = fs::read_to_string(root().join("quality/bench/Cargo.toml")).expect("readable");
    let manifest: toml::Table = toml::from_str(&manifest).expect("cargo has read it already");
    assert_eq!(manifest["features"]["default"].as_array().map(Vec::len), Some(0));
    assert_eq!(manifest["dependencies"]["mongodb"]["optional"].as_bool(), Some(true));
}

#[test]
fn file_without_description_and_long_file_are_found() {
    let undescribed = Source { path: "a.rs".to_owned(), text: "use std::fs;\n".to_owned() };
    let long = Source { path: "b.rs".to_owned(), text: "//! B.\n".repeat(MAX_LINES + 1) };
    let valid = Source { path: "c.rs".to_owned(), text: "//! C.\n".repeat(MAX_LINES) };
    let found = complaints(&[undescribed, long, valid]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("a.rs:1:"));
    assert!(found[1].starts_with("b.rs: has 701 lines"));
}

#[test]
fn manifest_without_the_lints_is_found() {
    assert!(is_linted("[package]\nname = 'a'\n[lints]\nworkspace = true\n"));
    assert!(!is_linted("[package]\nname = 'a'\n"));
    assert!(!is_linted("[lints.rust]\nunsafe_code = 'forbid'\n"));
}
