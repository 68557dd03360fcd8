//! Allowed dependencies between the crates of the workspace, and of the crates without I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use serde::Deserialize;

use crate::{assert_none, publishing::Manifest, root};

/// Crates of the workspace that a crate may depend on, except for its tests, and whether it is published.
struct CrateRule {
    name: &'static str,
    published: bool,
    allowed: &'static [&'static str],
}

const fn published(name: &'static str, allowed: &'static [&'static str]) -> CrateRule {
    CrateRule { name, published: true, allowed }
}

const fn private(name: &'static str, allowed: &'static [&'static str]) -> CrateRule {
    CrateRule { name, published: false, allowed }
}

/// Rules of all crates. A new crate needs a line here.
const CRATES: &[CrateRule] = &[
    published("steadfast-bson", &[]),
    published("steadfast-wire", &["steadfast-bson"]),
    published("steadfast-core", &["steadfast-bson"]),
    published("steadfast-value", &["steadfast-bson"]),
    published("steadfast-query", &["steadfast-bson", "steadfast-value"]),
    published("steadfast", &["steadfast-bson", "steadfast-core", "steadfast-wire"]),
    published("steadfast-patterns", &["steadfast", "steadfast-bson", "steadfast-value"]),
    published("blackpipe-base", &["steadfast-bson", "steadfast-wire"]),
    published("blackpipe", &["blackpipe-base", "steadfast-bson", "steadfast-wire"]),
    published(
        "steadfast-embedded",
        &["blackpipe-base", "steadfast-bson", "steadfast-query", "steadfast-wire"],
    ),
    published("steadfast-testbed", &["steadfast-bson"]),
    published("steadfast-report", &[]),
    published("steadfast-simulation", &["steadfast-core", "steadfast-report"]),
    published(
        "steadfast-chaos",
        &[
            "steadfast",
            "steadfast-embedded",
            "steadfast-patterns",
            "blackpipe",
            "steadfast-report",
            "steadfast-testbed",
        ],
    ),
    published(
        "steadfast-cli",
        &[
            "steadfast-bson",
            "steadfast",
            "steadfast-embedded",
            "blackpipe",
            "steadfast-chaos",
            "steadfast-patterns",
            "steadfast-report",
            "steadfast-simulation",
            "steadfast-testbed",
        ],
    ),
    private(
        "conformance",
        &[
            "steadfast-bson",
            "steadfast-core",
            "steadfast-query",
            "steadfast-value",
            "steadfast-wire",
            "steadfast",
            "steadfast-embedded",
            "blackpipe",
            "steadfast-report",
            "steadfast-testbed",
        ],
    ),
    private(
        "bench",
        &[
            "steadfast-bson",
            "steadfast",
            "steadfast-core",
            "blackpipe",
            "steadfast-report",
            "steadfast-simulation",
            "steadfast-testbed",
            "steadfast-wire",
        ],
    ),
];

/// Crates that must not depend on the driver even in their tests, because they test it.
const INDEPENDENT: &[&str] =
    &["blackpipe-base", "blackpipe", "steadfast-embedded", "steadfast-testbed"];

/// Crates without I/O, clock and randomness.
const PURE: &[&str] =
    &["steadfast-bson", "steadfast-wire", "steadfast-core", "steadfast-value", "steadfast-query"];

/// Crates that those may not depend on directly. (`bson` depends on randomness for new ObjectIds; `clippy.toml` forbids
/// these crates to create any.)
const IMPURE: &[&str] = &[
    "async-std",
    "chrono",
    "fastrand",
    "futures",
    "getrandom",
    "jiff",
    "mio",
    "rand",
    "rand_core",
    "reqwest",
    "smol",
    "socket2",
    "time",
    "tokio",
    "uuid",
];

/// Crates that those may not depend on indirectly either, including their tests.
const BANNED_INDIRECTLY: &[&str] =
    &["async-std", "hickory-resolver", "mio", "rustls", "smol", "tokio"];

/// Output of `cargo metadata`.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    /// Registries that it may be published to: absent for any, empty for none.
    publish: Option<Vec<String>>,
    dependencies: Vec<Dependency>,
    #[serde(flatten)]
    manifest: Option<Manifest>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// Absent for a normal dependency, else `dev` or `build`.
    kind: Option<String>,
    /// Version requirement; `*` if the manifest has only a path.
    #[serde(default)]
    req: String,
}

impl Package {
    fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// Names of its dependencies, without those of tests.
    fn shipped(&self) -> impl Iterator<Item = &str> {
        let shipped = self.dependencies.iter().filter(|dep| dep.kind.as_deref() != Some("dev"));
        shipped.map(|dep| dep.name.as_str())
    }
}

impl Metadata {
    pub(crate) fn of_this_workspace() -> Self {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
            .current_dir(root())
            .output()
            .expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("cargo's own format")
    }

    /// Names and manifests of the published crates.
    pub(crate) fn published(&self) -> impl Iterator<Item = (&str, &Manifest)> {
        let published = self.packages.iter().filter(|package| package.is_published());
        published.map(|it| (it.name.as_str(), it.manifest.as_ref().expect("all fields")))
    }

    /// Crates of the workspace that must be published before this one. Cargo removes dev-dependencies with only a path,
    /// and keeps those with a version.
    pub(crate) fn needed_to_publish(&self, name: &str) -> impl Iterator<Item = &str> {
        let in_workspace = |name: &str| self.packages.iter().any(|other| other.name == name);
        let package = self.packages.iter().find(|package| package.name == name);
        let dependencies = package.into_iter().flat_map(|package| &package.dependencies);
        dependencies
            .filter(move |dependency| in_workspace(&dependency.name) && dependency.req != "*")
            .map(|dependency| dependency.name.as_str())
    }

    fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for package in &self.packages {
            let Some(rule) = CRATES.iter().find(|rule| rule.name == package.name) else {
                complaints.push(format!("{} has no line in CRATES", package.name));
                continue;
            };
            if rule.published != package.is_published() {
                complaints.push(format!("{}: publish = {}", rule.name, package.is_published()));
            }
            self.check_workspace_dependencies(package, rule, &mut complaints);
            check_purity(package, &mut complaints);
        }
        complaints
    }

    fn check_workspace_dependencies(
        &self,
        package: &Package,
        rule: &CrateRule,
        complaints: &mut Vec<String>,
    ) {
        let in_workspace = |name: &str| self.packages.iter().any(|other| other.name == name);
        for name in package.shipped().filter(|name| in_workspace(name) && *name != package.name) {
            if !rule.allowed.contains(&name) {
                complaints.push(format!("{} depends on {name}", package.name));
            }
        }
        let depends_on_driver = package.dependencies.iter().any(|dep| dep.name == "steadfast");
        if INDEPENDENT.contains(&rule.name) && depends_on_driver {
            complaints.push(format!("{} depends on the driver that it tests", rule.name));
        }
    }
}

fn check_purity(package: &Package, complaints: &mut Vec<String>) {
    if !PURE.contains(&package.name.as_str()) {
        return;
    }
    for name in package.shipped().filter(|name| IMPURE.contains(name)) {
        complaints.push(format!("{} depends on {name}", package.name));
    }
}

/// `Cargo.lock`: all packages with their dependencies.
#[derive(Debug, Deserialize)]
struct LockFile {
    package: Vec<LockedPackage>,
}

#[derive(Debug, Deserialize)]
struct LockedPackage {
    name: String,
    /// Names, followed by the version if there are several.
    #[serde(default)]
    dependencies: Vec<String>,
}

impl LockFile {
    fn of_this_workspace() -> Self {
        let text = fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock is committed");
        toml::from_str(&text).expect("cargo's own format")
    }

    /// Direct and indirect dependencies of a package, including those of its tests. Versions are not distinguished.
    fn dependencies_of(&self, name: &str) -> BTreeSet<&str> {
        let mut edges: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for package in &self.package {
            let names = package.dependencies.iter().filter_map(|dep| dep.split(' ').next());
            edges.entry(&package.name).or_default().extend(names);
        }
        let mut found = BTreeSet::new();
        let mut to_visit: Vec<&str> = edges.get(name).cloned().unwrap_or_default();
        while let Some(next) = to_visit.pop() {
            if found.insert(next) {
                to_visit.extend(edges.get(next).into_iter().flatten());
            }
        }
        found
    }

    fn complaints(&self) -> Vec<String> {
        let of_crate = |name: &&'static str| {
            let dependencies = self.dependencies_of(name);
            assert!(dependencies.contains("bson"), "{name} is not in the lock file");
            let name = *name;
            BANNED_INDIRECTLY
                .iter()
                .filter(move |banned| dependencies.contains(*banned))
                .map(move |banned| format!("{name} depends indirectly on {banned}"))
        };
        PURE.iter().flat_map(of_crate).collect()
    }
}

#[test]
fn crates_have_only_allowed_dependencies() {
    let metadata = Metadata::of_this_workspace();
    for name in ["steadfast-wire", "steadfast-core", "steadfast"] {
        assert!(metadata.packages.iter().any(|package| package.name == name), "{name} is missing");
    }
    assert_none(&metadata.complaints());
}

#[test]
fn pure_crates_depend_on_no_runtime_indirectly() {
    assert_none(&LockFile::of_this_workspace().complaints());
}

fn complaints_about(packages: serde_json::Value) -> Vec<String> {
    let metadata = serde_json::json!({ "packages": packages });
    serde_json::from_value::<Metadata>(metadata).expect("well formed").complaints()
}

#[test]
fn forbidden_dependency_is_found() {
    let complaints = complaints_about(serde_json::json!([
        { "name": "steadfast-wire", "publish": null, "dependencies": [] },
        { "name": "steadfast-core", "publish": null, "dependencies": [
            { "name": "steadfast-wire", "kind": null },
            { "name": "tokio", "kind": null },
            { "name": "rand", "kind": "dev" },
        ] },
    ]));
    let expected = ["steadfast-core depends on steadfast-wire", "steadfast-core depends on tokio"];
    assert_eq!(complaints, expected);
}

#[test]
fn dependency_of_the_test_kit_on_the_driver_is_found_in_tests_too() {
    let complaints = complaints_about(serde_json::json!([
        { "name": "steadfast", "publish": null, "dependencies": [] },
        { "name": "blackpipe", "publish": null, "dependencies": [
            { "name": "steadfast", "kind": "dev" },
        ] },
    ]));
    assert_eq!(complaints, ["blackpipe depends on the driver that it tests"]);
}

#[test]
fn published_private_crate_and_unknown_crate_are_found() {
    let complaints = complaints_about(serde_json::json!([
        { "name": "bench", "publish": null, "dependencies": [] },
        { "name": "conformance", "publish": [], "dependencies": [] },
        { "name": "unknown", "publish": [], "dependencies": [] },
    ]));
    assert_eq!(complaints, ["bench: publish = true", "unknown has no line in CRATES"]);
}

#[test]
fn indirect_dependency_is_found() {
    let lock: LockFile = toml::from_str(
        r#"
        [[package]]
        name = "steadfast-bson"
        dependencies = ["bson 2.15.0", "bson 3.1.0"]
        [[package]]
        name = "steadfast-core"
        dependencies = ["steadfast-bson"]
        [[package]]
        name = "steadfast-wire"
        dependencies = ["steadfast-bson"]
        [[package]]
        name = "steadfast-value"
        dependencies = ["steadfast-bson"]
        [[package]]
        name = "steadfast-query"
        dependencies = ["steadfast-value"]
        [[package]]
        name = "bson"
        dependencies = ["odd"]
        [[package]]
        name = "odd"
        dependencies = ["bson", "mio"]
        [[package]]
        name = "mio"
        "#,
    )
    .expect("well formed");
    let expected: Vec<_> =
        PURE.iter().map(|name| format!("{name} depends indirectly on mio")).collect();
    assert_eq!(lock.complaints(), expected);
}
