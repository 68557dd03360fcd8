//! Manifests and READMEs of published crates: fields that registries and docs.rs show.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{assert_none, dependencies::Metadata, root};

/// Categories of crates.io that this workspace uses. It rejects others than those of its list.
const CATEGORIES: &[&str] = &[
    "asynchronous",
    "command-line-utilities",
    "data-structures",
    "database",
    "database-implementations",
    "development-tools::testing",
    "encoding",
    "network-programming",
    "parser-implementations",
    "simulation",
    "value-formatting",
];

/// Limits of crates.io.
const MAX_KEYWORDS: usize = 5;
const MAX_KEYWORD_LENGTH: usize = 20;

/// Fields of a package in `cargo metadata`.
#[derive(Debug, Deserialize)]
pub(crate) struct Manifest {
    manifest_path: PathBuf,
    description: Option<String>,
    keywords: Vec<String>,
    categories: Vec<String>,
    readme: Option<PathBuf>,
    documentation: Option<String>,
    license: Option<String>,
    repository: Option<String>,
    metadata: Option<serde_json::Value>,
    targets: Vec<CargoTarget>,
}

#[derive(Debug, Deserialize)]
struct CargoTarget {
    kind: Vec<String>,
    src_path: PathBuf,
}

impl Manifest {
    /// The source of the library, if the package has one.
    fn library(&self) -> Option<&Path> {
        let library =
            self.targets.iter().find(|target| target.kind.iter().any(|kind| kind == "lib"));
        library.map(|target| target.src_path.as_path())
    }

    /// Fields that a registry would miss or reject.
    fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut require = |holds: bool, complaint: &str| {
            if !holds {
                complaints.push(complaint.to_owned());
            }
        };
        let description = self.description.as_deref().unwrap_or_default();
        require((20..200).contains(&description.len()), "no `description` of 20 to 200 characters");
        require(
            self.license.is_some() && self.repository.is_some(),
            "no `license` or `repository`",
        );
        let keywords = self.keywords.iter();
        require(
            (1..=MAX_KEYWORDS).contains(&self.keywords.len())
                && keywords.clone().all(|keyword| is_keyword(keyword)),
            "no one to five `keywords` that crates.io accepts",
        );
        let unknown = |category: &String| !CATEGORIES.contains(&category.as_str());
        require(
            !self.categories.is_empty() && !self.categories.iter().any(unknown),
            "no `categories`, or one that is not in `CATEGORIES`",
        );
        require(
            self.readme.as_deref() == Some(Path::new("README.md")),
            "no `readme = \"README.md\"`",
        );
        // docs.rs shows libraries only. The manifest of a program names its manual.
        match self.library() {
            Some(_) => {
                let all_features = "/docs/rs/all-features";
                let metadata = self.metadata.as_ref().and_then(|all| all.pointer(all_features));
                require(
                    metadata == Some(&serde_json::Value::Bool(true)),
                    "no `[package.metadata.docs.rs] all-features = true`",
                );
            }
            None => require(self.documentation.is_some(), "a program without `documentation`"),
        }
        complaints
    }

    /// Files that the crate's folder lacks.
    fn complaints_about_files(&self, name: &str) -> Vec<String> {
        let folder = self.manifest_path.parent().expect("a manifest is in a folder");
        let mut complaints = Vec::new();
        let readme = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        if !readme.starts_with(&format!("# {name}\n\n")) {
            complaints.push(format!("README.md does not begin with `# {name}`"));
        }
        if !folder.join("LICENSE").is_file() {
            complaints.push("LICENSE is missing: link it to that of the repository".to_owned());
        }
        let Some(library) = self.library() else { return complaints };
        if !readme.contains("\n```rust") {
            complaints.push("README.md has no example in Rust".to_owned());
        }
        let library = fs::read_to_string(library).expect("the library's source");
        if !library.contains("doc = include_str!(\"../README.md\")") {
            complaints.push("README.md is not compiled by the library's doctests".to_owned());
        }
        complaints
    }
}

/// Returns true if crates.io accepts the keyword.
fn is_keyword(keyword: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_+".contains(&byte);
    keyword.len() <= MAX_KEYWORD_LENGTH
        && keyword.starts_with(|first: char| first.is_ascii_alphanumeric())
        && keyword.bytes().all(allowed)
}

#[test]
fn published_crates_have_the_fields_and_files_of_a_registry() {
    let mut complaints = Vec::new();
    let mut published = 0;
    for (name, manifest) in Metadata::of_this_workspace().published() {
        published += 1;
        let found = manifest.complaints().into_iter().chain(manifest.complaints_about_files(name));
        complaints.extend(found.map(|complaint| format!("{name}: {complaint}")));
    }
    assert!(published > 10, "only {published} crates are published");
    assert_none(&complaints);
}

/// Folders and files that the manifest excludes from the package.
fn excluded(folder: &Path) -> Vec<PathBuf> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
    let manifest: toml::Table = manifest.parse().expect("a manifest that cargo reads");
    let list = manifest["package"].get("exclude").and_then(|it| it.as_array());
    let paths = list.into_iter().flatten().filter_map(|it| it.as_str());
    paths.map(|path| folder.join(path.trim_start_matches('/'))).collect()
}

/// Files that a source includes, by `#[path]` or `include_str!`, from outside of its crate's folder. Those of
/// doctests (`#[doc = include_str!(..)]`) are read in the repository only.
fn included_from_outside(folder: &Path, source: &Path, text: &str) -> Vec<String> {
    let mut outside = Vec::new();
    for line in text.lines().filter(|line| !line.contains("doc = include_str!")) {
        for start in ["#[path = \"", "include_str!(\"", "include_bytes!(\""] {
            let Some((_, rest)) = line.split_once(start) else { continue };
            let path = rest.split('"').next().unwrap_or_default();
            let mut place = source.parent().expect("a source is in a folder").to_owned();
            for part in Path::new(path).components() {
                match part {
                    std::path::Component::ParentDir => _ = place.pop(),
                    part => place.push(part),
                }
            }
            if !place.starts_with(folder) {
                outside.push(format!("{} includes {path}", source.display()));
            }
        }
    }
    outside
}

#[test]
fn packages_include_no_file_from_outside_of_their_folder() {
    let mut complaints = Vec::new();
    for (_, manifest) in Metadata::of_this_workspace().published() {
        let folder = manifest.manifest_path.parent().expect("a manifest is in a folder");
        let excluded = excluded(folder);
        let mut paths = Vec::new();
        crate::collect(folder, &mut paths);
        paths.retain(|path| !excluded.iter().any(|it| path.starts_with(it)));
        for path in paths {
            let text = fs::read_to_string(&path).expect("a readable source");
            complaints.extend(included_from_outside(folder, &path, &text));
        }
    }
    assert_none(&complaints);
    let found = included_from_outside(
        Path::new("/a/b"),
        Path::new("/a/b/tests/c.rs"),
        "#[path = \"../../d.rs\"]\n#[path = \"common/e.rs\"]\n const T: &str = include_str!(\"../../../f.md\");",
    );
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn contributing_md_lists_every_published_crate_after_its_dependencies() {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md");
    let (_, releasing) = text.split_once("\n## Releasing\n").expect("a section on releases");
    let (_, order) = releasing.split_once("dev-dependencies included:\n").expect("the order");
    let (order, _) = order.split_once("\n\n   A ").expect("the end of the order");
    let order: Vec<&str> = order.split('`').skip(1).step_by(2).collect();
    let metadata = Metadata::of_this_workspace();
    let mut complaints = Vec::new();
    for (name, _) in metadata.published() {
        let Some(place) = order.iter().position(|it| *it == name) else {
            complaints.push(format!("{name} is not in the order of publication"));
            continue;
        };
        for needed in metadata.needed_to_publish(name) {
            if !order[..place].contains(&needed) {
                complaints.push(format!("{name} comes before {needed}"));
            }
        }
    }
    assert_eq!(order.len(), metadata.published().count(), "{order:?}");
    assert_none(&complaints);
}

#[test]
fn manifest_without_the_fields_is_found() {
    let mut manifest = Manifest {
        manifest_path: PathBuf::new(),
        description: Some("MongoDB's wire protocol as bytes.".to_owned()),
        keywords: vec!["mongodb".to_owned()],
        categories: vec!["encoding".to_owned()],
        readme: Some(PathBuf::from("README.md")),
        documentation: None,
        license: Some("Apache-2.0".to_owned()),
        repository: Some("https://example.org".to_owned()),
        metadata: Some(serde_json::json!({ "docs": { "rs": { "all-features": true } } })),
        targets: vec![CargoTarget { kind: vec!["lib".to_owned()], src_path: PathBuf::new() }],
    };
    assert_none(&manifest.complaints());
    manifest.keywords = vec!["wire protocol".to_owned()];
    manifest.categories.push("nonsense".to_owned());
    manifest.description = None;
    manifest.metadata = None;
    assert_eq!(manifest.complaints().len(), 4);
    manifest.targets.clear();
    manifest.readme = None;
    assert_eq!(manifest.complaints().len(), 5);
}
