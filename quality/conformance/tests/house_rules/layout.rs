//! How files look: each says first what it is for, none grows without end, all are linted.

use std::fs;

use crate::{PRODUCTS, Source, assert_none, root, sources};

/// A file past about 500 lines is asked what two things it is; past this many it must answer.
const MOST_LINES: usize = 700;

fn complaints(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for Source { path, text } in sources {
        if !text.starts_with("//! ") {
            complaints.push(format!("{path}:1: does not begin by saying what it is for (`//!`)"));
        }
        let lines = text.lines().count();
        if lines > MOST_LINES {
            complaints.push(format!("{path}: has {lines} lines, and {MOST_LINES} are the most"));
        }
    }
    complaints
}

/// Whether a manifest takes over the lints of the workspace.
fn is_linted(manifest: &str) -> bool {
    let manifest: toml::Table = toml::from_str(manifest).expect("cargo has read it already");
    manifest.get("lints").and_then(|lints| lints.get("workspace")?.as_bool()) == Some(true)
}

#[test]
fn every_file_says_what_it_is_for_and_keeps_a_readable_size() {
    assert_none(&complaints(&sources(PRODUCTS)));
}

#[test]
fn every_crate_takes_over_the_lints_of_the_workspace() {
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
fn testing_everything_does_not_compile_the_official_driver() {
    let manifest = fs::read_to_string(root().join("quality/bench/Cargo.toml")).expect("readable");
    let manifest: toml::Table = toml::from_str(&manifest).expect("cargo has read it already");
    assert_eq!(manifest["features"]["default"].as_array().map(Vec::len), Some(0));
    assert_eq!(manifest["dependencies"]["mongodb"]["optional"].as_bool(), Some(true));
}

#[test]
fn a_silent_file_and_an_endless_one_are_noticed() {
    let silent = Source { path: "a.rs".to_owned(), text: "use std::fs;\n".to_owned() };
    let endless = Source { path: "b.rs".to_owned(), text: "//! B.\n".repeat(MOST_LINES + 1) };
    let fine = Source { path: "c.rs".to_owned(), text: "//! C.\n".repeat(MOST_LINES) };
    let found = complaints(&[silent, endless, fine]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("a.rs:1:"));
    assert!(found[1].starts_with("b.rs: has 701 lines"));
}

#[test]
fn a_manifest_without_the_lints_is_noticed() {
    assert!(is_linted("[package]\nname = 'a'\n[lints]\nworkspace = true\n"));
    assert!(!is_linted("[package]\nname = 'a'\n"));
    assert!(!is_linted("[lints.rust]\nunsafe_code = 'forbid'\n"));
}
