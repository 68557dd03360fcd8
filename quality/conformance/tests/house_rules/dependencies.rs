//! Which way dependencies point.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use serde::Deserialize;

use crate::{assert_none, publishing::Manifest, root};

/// What a crate may know of the workspace in the code that is shipped, and whether it is published.
struct Place {
    name: &'static str,
    published: bool,
    may_know: &'static [&'static str],
}

const fn published(name: &'static str, may_know: &'static [&'static str]) -> Place {
    Place { name, published: true, may_know }
}

const fn private(name: &'static str, may_know: &'static [&'static str]) -> Place {
    Place { name, published: false, may_know }
}

/// The house. A crate that is not named here has no place in it yet: decide on one.
const HOUSE: &[Place] = &[
    published("steadfast-wire", &[]),
    published("steadfast-core", &[]),
    published("steadfast-value", &[]),
    published("steadfast-query", &["steadfast-value"]),
    published("steadfast", &["steadfast-core", "steadfast-wire"]),
    published("steadfast-patterns", &["steadfast", "steadfast-value"]),
    published("blackpipe-base", &["steadfast-wire"]),
    published("blackpipe", &["blackpipe-base", "steadfast-wire"]),
    published("steadfast-embedded", &["blackpipe-base", "steadfast-query", "steadfast-wire"]),
    published("steadfast-testbed", &[]),
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

/// These must not know the driver even in their tests: what tests it must not lean on it.
const INDEPENDENT: &[&str] =
    &["blackpipe-base", "blackpipe", "steadfast-embedded", "steadfast-testbed"];

/// The crates without I/O, clock and randomness.
const PURE: &[&str] = &["steadfast-wire", "steadfast-core", "steadfast-value", "steadfast-query"];

/// What those crates may not depend on by themselves. (`bson` brings randomness along, for ids that
/// they do not make; that they do not, `clippy.toml` in these crates asserts.)
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

/// What may not come in even by way of something else, tests included.
const NEVER_BENEATH: &[&str] = &["async-std", "hickory-resolver", "mio", "rustls", "smol", "tokio"];

/// What `cargo metadata` tells of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    /// The registries it may be published to: absent for any, empty for none.
    publish: Option<Vec<String>>,
    dependencies: Vec<Dependency>,
    #[serde(flatten)]
    manifest: Option<Manifest>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// Absent for an ordinary dependency, else `dev` or `build`.
    kind: Option<String>,
    /// Requirement on the version: `*` if the manifest names none, and then only a path.
    #[serde(default)]
    req: String,
}

impl Package {
    fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// What the shipped code depends on.
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

    /// The published crates, by name.
    pub(crate) fn published(&self) -> impl Iterator<Item = (&str, &Manifest)> {
        let published = self.packages.iter().filter(|package| package.is_published());
        published.map(|it| (it.name.as_str(), it.manifest.as_ref().expect("all fields")))
    }

    /// Crates of the workspace that a registry must have before it accepts this one: cargo strips
    /// dev-dependencies by path alone, and keeps those with a version.
    pub(crate) fn needed_to_publish(&self, name: &str) -> impl Iterator<Item = &str> {
        let in_house = |name: &str| self.packages.iter().any(|other| other.name == name);
        let package = self.packages.iter().find(|package| package.name == name);
        let dependencies = package.into_iter().flat_map(|package| &package.dependencies);
        dependencies
            .filter(move |dependency| in_house(&dependency.name) && dependency.req != "*")
            .map(|dependency| dependency.name.as_str())
    }

    fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for package in &self.packages {
            let Some(place) = HOUSE.iter().find(|place| place.name == package.name) else {
                complaints.push(format!("{} has no place in the house", package.name));
                continue;
            };
            if place.published != package.is_published() {
                complaints.push(format!("{}: publish = {}", place.name, package.is_published()));
            }
            self.check_neighbours(package, place, &mut complaints);
            check_purity(package, &mut complaints);
        }
        complaints
    }

    fn check_neighbours(&self, package: &Package, place: &Place, complaints: &mut Vec<String>) {
        let in_house = |name: &str| self.packages.iter().any(|other| other.name == name);
        for name in package.shipped().filter(|name| in_house(name) && *name != package.name) {
            if !place.may_know.contains(&name) {
                complaints.push(format!("{} depends on {name}", package.name));
            }
        }
        let knows_driver = package.dependencies.iter().any(|dep| dep.name == "steadfast");
        if INDEPENDENT.contains(&place.name) && knows_driver {
            complaints.push(format!("{} knows the driver that it tests", place.name));
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

/// The resolved tree, as far as it is needed here.
#[derive(Debug, Deserialize)]
struct LockFile {
    package: Vec<Locked>,
}

#[derive(Debug, Deserialize)]
struct Locked {
    name: String,
    /// Each is a name, and the version after it where there are several.
    #[serde(default)]
    dependencies: Vec<String>,
}

impl LockFile {
    fn of_this_workspace() -> Self {
        let text = fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock is committed");
        toml::from_str(&text).expect("cargo's own format")
    }

    /// All that a package leads to, also by way of its tests. Versions are not told apart.
    fn beneath(&self, name: &str) -> BTreeSet<&str> {
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
            let beneath = self.beneath(name);
            assert!(beneath.contains("bson"), "{name} is not in the lock file");
            let name = *name;
            NEVER_BENEATH
                .iter()
                .filter(move |banned| beneath.contains(*banned))
                .map(move |banned| format!("{name} leads to {banned}"))
        };
        PURE.iter().flat_map(of_crate).collect()
    }
}

#[test]
fn dependencies_point_one_way() {
    let metadata = Metadata::of_this_workspace();
    for name in ["steadfast-wire", "steadfast-core", "steadfast"] {
        assert!(metadata.packages.iter().any(|package| package.name == name), "{name} is gone");
    }
    assert_none(&metadata.complaints());
}

#[test]
fn no_runtime_lies_beneath_the_pure_crates() {
    assert_none(&LockFile::of_this_workspace().complaints());
}

fn complaints_about(packages: serde_json::Value) -> Vec<String> {
    let metadata = serde_json::json!({ "packages": packages });
    serde_json::from_value::<Metadata>(metadata).expect("well formed").complaints()
}

#[test]
fn a_dependency_against_the_grain_is_noticed() {
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
fn a_test_kit_that_leans_on_the_driver_is_noticed_even_in_its_tests() {
    let complaints = complaints_about(serde_json::json!([
        { "name": "steadfast", "publish": null, "dependencies": [] },
        { "name": "blackpipe", "publish": null, "dependencies": [
            { "name": "steadfast", "kind": "dev" },
        ] },
    ]));
    assert_eq!(complaints, ["blackpipe knows the driver that it tests"]);
}

#[test]
fn a_private_crate_that_would_be_published_and_an_unknown_crate_are_noticed() {
    let complaints = complaints_about(serde_json::json!([
        { "name": "bench", "publish": null, "dependencies": [] },
        { "name": "conformance", "publish": [], "dependencies": [] },
        { "name": "stranger", "publish": [], "dependencies": [] },
    ]));
    assert_eq!(complaints, ["bench: publish = true", "stranger has no place in the house"]);
}

#[test]
fn what_lies_beneath_is_found_by_way_of_others() {
    let lock: LockFile = toml::from_str(
        r#"
        [[package]]
        name = "steadfast-core"
        dependencies = ["bson 3.1.0"]
        [[package]]
        name = "steadfast-wire"
        dependencies = ["bson 3.1.0"]
        [[package]]
        name = "steadfast-value"
        dependencies = ["bson 3.1.0"]
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
    let all = ["steadfast-wire", "steadfast-core", "steadfast-value", "steadfast-query"];
    assert_eq!(lock.complaints(), all.map(|name| format!("{name} leads to mio")));
}
