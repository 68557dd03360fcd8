//! Files of the suites on disk, in one of two layouts.
//!
//! PyMongo has them in its `test` folder, the `specifications` repository under `source/<name>/tests`. The table
//! `FOLDERS` maps the name of a suite to its folder in each.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

/// Folder of a suite in each layout.
struct Folder {
    suite: &'static str,
    pymongo: &'static str,
    specifications: &'static str,
}

/// A suite whose PyMongo folder has its name.
const fn folder(suite: &'static str, specifications: &'static str) -> Folder {
    Folder { suite, pymongo: suite, specifications }
}

/// One line per suite. The suite's module chooses among the subfolders.
const FOLDERS: &[Folder] = &[
    folder("auth", "auth/tests"),
    folder("causal_consistency", "causal-consistency/tests"),
    folder("change_streams", "change-streams/tests"),
    folder("client-backpressure", "client-backpressure/tests"),
    folder("collection_management", "collection-management/tests"),
    folder("command_logging", "command-logging-and-monitoring/tests/logging"),
    folder("command_monitoring", "command-logging-and-monitoring/tests/monitoring"),
    folder("connection_logging", "connection-monitoring-and-pooling/tests/logging"),
    folder("connection_monitoring", "connection-monitoring-and-pooling/tests/cmap-format"),
    Folder {
        suite: "connection_string",
        pymongo: "connection_string/test",
        specifications: "connection-string/tests",
    },
    folder("csot", "client-side-operations-timeout/tests"),
    folder("crud", "crud/tests"),
    folder("discovery_and_monitoring", "server-discovery-and-monitoring/tests"),
    folder("gridfs", "gridfs/tests"),
    folder("handshake", "mongodb-handshake/tests"),
    folder("index_management", "index-management/tests"),
    folder("load_balancer", "load-balancers/tests"),
    folder("max_staleness", "max-staleness/tests"),
    folder("read_write_concern", "read-write-concern/tests"),
    folder("retryable_reads", "retryable-reads/tests"),
    folder("retryable_writes", "retryable-writes/tests"),
    folder("run_command", "run-command/tests"),
    folder("sdam_monitoring", "server-discovery-and-monitoring/tests/monitoring"),
    folder("server_selection", "server-selection/tests"),
    folder("server_selection_logging", "server-selection/tests/logging"),
    folder("sessions", "sessions/tests"),
    folder("srv_seedlist", "initial-dns-seedlist-discovery/tests"),
    folder("transactions", "transactions/tests"),
    folder("transactions-convenient-api", "transactions-convenient-api/tests"),
    folder("unified-test-format", "unified-test-format/tests"),
    folder("uri_options", "uri-options/tests"),
    folder("versioned-api", "versioned-api/tests"),
];

/// Folder of the suites.
#[derive(Clone, Debug)]
pub struct SpecDir {
    root: PathBuf,
    layout: Layout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    PyMongo,
    Specifications,
}

/// One JSON file of a suite.
#[derive(Clone, Debug)]
pub struct SpecFile {
    /// Path relative to the suite's folder, with forward slashes: `rs/discover_arbiters.json`.
    pub name: String,
    /// Path.
    pub path: PathBuf,
    /// Content.
    pub text: String,
}

impl SpecDir {
    /// Opens PyMongo's source tree or its `test` folder, or the `specifications` repository or its `source` folder.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, LoadError> {
        let dir = dir.as_ref();
        [(dir.to_owned(), Layout::PyMongo), (dir.join("test"), Layout::PyMongo)]
            .into_iter()
            .chain([
                (dir.join("source"), Layout::Specifications),
                (dir.to_owned(), Layout::Specifications),
            ])
            .find(|(root, layout)| {
                // Every edition has this suite, under a name that identifies the layout.
                let landmark = match layout {
                    Layout::PyMongo => "connection_string",
                    Layout::Specifications => "connection-string/tests",
                };
                root.join(landmark).is_dir()
            })
            .map(|(root, layout)| Self { root, layout })
            .ok_or_else(|| LoadError {
                path: dir.to_owned(),
                problem: "has neither the layout of PyMongo's test folder nor that of the \
                          specifications repository"
                    .to_owned(),
            })
    }

    /// Reads the JSON files of a suite with all subfolders, ordered by name.
    pub fn files(&self, suite: &str) -> Result<Vec<SpecFile>, LoadError> {
        self.files_in(suite, &[""])
    }

    /// Reads the JSON files below these subfolders of a suite, in the order of the subfolders and of the names in
    /// each. A missing or empty subfolder is an error, so that no suite loses cases unnoticed.
    pub fn files_in(&self, suite: &str, subfolders: &[&str]) -> Result<Vec<SpecFile>, LoadError> {
        let base = self.suite_dir(suite)?;
        let mut files = Vec::new();
        for subfolder in subfolders {
            let dir = base.join(subfolder);
            let mut paths = Vec::new();
            collect_json(&dir, &mut paths)?;
            if paths.is_empty() {
                return Err(LoadError { path: dir, problem: "contains no JSON files".to_owned() });
            }
            paths.sort();
            for path in paths {
                files.push(SpecFile::read(&base, path)?);
            }
        }
        Ok(files)
    }

    /// Folder of a suite.
    pub fn suite_dir(&self, suite: &str) -> Result<PathBuf, LoadError> {
        let folder =
            FOLDERS.iter().find(|folder| folder.suite == suite).ok_or_else(|| LoadError {
                path: self.root.clone(),
                problem: format!("no folder is known for the suite {suite}"),
            })?;
        Ok(self.root.join(match self.layout {
            Layout::PyMongo => folder.pymongo,
            Layout::Specifications => folder.specifications,
        }))
    }
}

impl SpecFile {
    /// Deserializes the file as plain JSON.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, LoadError> {
        serde_json::from_str(&self.text).map_err(|error| self.problem(&error))
    }

    /// Reads the file as Extended JSON: `{"$oid": …}`, `{"$numberLong": …}` and so on become BSON values.
    pub fn document(&self) -> Result<bson::Document, LoadError> {
        let value: serde_json::Map<String, serde_json::Value> = self.json()?;
        bson::Document::try_from(value).map_err(|error| self.problem(&error))
    }

    /// Creates an error that names this file.
    pub fn problem(&self, problem: &impl fmt::Display) -> LoadError {
        LoadError { path: self.path.clone(), problem: problem.to_string() }
    }

    fn read(base: &Path, path: PathBuf) -> Result<Self, LoadError> {
        let text = fs::read_to_string(&path).map_err(|error| LoadError::io(&path, &error))?;
        let relative = path.strip_prefix(base).unwrap_or(&path);
        let name = relative.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/");
        Ok(Self { name, path, text })
    }
}

fn collect_json(dir: &Path, found: &mut Vec<PathBuf>) -> Result<(), LoadError> {
    for entry in fs::read_dir(dir).map_err(|error| LoadError::io(dir, &error))? {
        let path = entry.map_err(|error| LoadError::io(dir, &error))?.path();
        if path.is_dir() {
            collect_json(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
    Ok(())
}

/// Error of reading a suite.
#[derive(Debug)]
pub struct LoadError {
    path: PathBuf,
    problem: String,
}

impl LoadError {
    fn io(path: &Path, error: &std::io::Error) -> Self {
        Self { path: path.to_owned(), problem: error.to_string() }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.problem)
    }
}

impl std::error::Error for LoadError {}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A temporary directory that contains these files.
    fn tree(files: &[&str]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, r#"{ "at": { "$numberLong": "7" } }"#).unwrap();
        }
        root
    }

    fn names(root: &Path, subfolders: &[&str]) -> Vec<String> {
        let spec = SpecDir::open(root).unwrap();
        let files = spec.files_in("discovery_and_monitoring", subfolders).unwrap();
        files.into_iter().map(|file| file.name).collect()
    }

    #[test]
    fn both_layouts_have_the_same_file_names() {
        let pymongo = tree(&[
            "test/connection_string/test/a.json",
            "test/discovery_and_monitoring/rs/b.json",
            "test/discovery_and_monitoring/rs/a.json",
            "test/discovery_and_monitoring/single/c.json",
        ]);
        let specifications = tree(&[
            "source/connection-string/tests/a.json",
            "source/server-discovery-and-monitoring/tests/rs/b.json",
            "source/server-discovery-and-monitoring/tests/rs/b.yml",
            "source/server-discovery-and-monitoring/tests/rs/a.json",
            "source/server-discovery-and-monitoring/tests/single/c.json",
        ]);
        let (pymongo, specifications) = (pymongo.path(), specifications.path());
        let roots =
            [pymongo, &pymongo.join("test"), specifications, &specifications.join("source")];
        for root in roots {
            assert_eq!(names(root, &["single", "rs"]), ["single/c.json", "rs/a.json", "rs/b.json"]);
        }
        let file = &SpecDir::open(pymongo).unwrap().files("connection_string").unwrap()[0];
        assert_eq!(file.document().unwrap().get_i64("at").unwrap(), 7);
    }

    #[test]
    fn folder_without_files_is_an_error() {
        let root = tree(&["connection_string/test/a.json"]);
        let spec = SpecDir::open(root.path()).unwrap();
        assert!(spec.files("connection_string").is_ok());
        assert!(spec.files("max_staleness").is_err());
    }
}
