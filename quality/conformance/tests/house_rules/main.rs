//! Rules of the repository that neither the compiler nor clippy checks: dependencies between crates, the form of files,
//! the tests that documents name, and the requirements of published crates.
#![allow(missing_docs)]

mod dependencies;
mod layout;
mod publishing;
mod requirements;
mod words;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Root of the repository.
fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the root of the repository")
}

/// A Rust file with its path relative to the repository.
struct Source {
    path: String,
    text: String,
}

/// Folders of the repository that contain crates.
const PRODUCTS: &[&str] = &["driver", "kit", "patterns", "program", "quality"];

/// Folder of the crate that a file is part of. `patterns` is a product of one crate.
fn crate_folder(path: &str) -> &str {
    let depth = if path.starts_with("patterns/") { 1 } else { 2 };
    path.match_indices('/').nth(depth - 1).map_or(path, |(end, _)| &path[..end])
}

/// Rust files below these folders of the repository, sorted by path.
fn sources(folders: &[&str]) -> Vec<Source> {
    let root = root();
    let mut paths = Vec::new();
    for folder in folders {
        let before = paths.len();
        collect(&root.join(folder), &mut paths);
        assert!(paths.len() > before, "{folder} has no Rust files");
    }
    paths.sort();
    paths.into_iter().map(|path| read(&root, &path)).collect()
}

fn read(root: &Path, path: &Path) -> Source {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let relative = path.strip_prefix(root).expect("a path below the root");
    Source { path: relative.to_string_lossy().replace('\\', "/"), text }
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                collect(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Fails with the complaints, a line each, if there are any.
fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}
