//! MongoDB's JSON test suites, from PyMongo's source distribution.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    TestbedError,
    fetch::{Package, PackageIndex, run},
};

/// Environment variable with a folder of the suites, in the layout of PyMongo or of the `specifications` repository.
const OVERRIDE: &str = "STEADFAST_SPEC_TESTS";

const PYMONGO: Package = Package {
    folder: "pymongo-4.20.0",
    index: PackageIndex::Pip(&["--no-binary", ":all:", "pymongo==4.20.0"]),
    sha256: "f773b0aec28687587cdeda490463a82debc4566a4a3620dcc8dada9d2c0a1acd",
    unpack,
};

/// Returns the folder of MongoDB's JSON test suites: `STEADFAST_SPEC_TESTS`, or the `test` folder of PyMongo 4.20.0, which
/// is fetched if it is not in the cache.
///
/// # Errors
///
/// Fails if the suites cannot be fetched, or if the variable does not name a folder.
pub fn spec_tests() -> Result<PathBuf, TestbedError> {
    if let Some(dir) = env::var_os(OVERRIDE) {
        let dir = PathBuf::from(dir);
        return match dir.is_dir() {
            true => Ok(dir),
            false => {
                Err(TestbedError::new(format!("{OVERRIDE}: {} is not a folder", dir.display())))
            }
        };
    }
    PYMONGO.provide().map(|dir| dir.join("test")).map_err(|error| {
        error
            .during("MongoDB's JSON suites are not available")
            .or_set(OVERRIDE, "the test folder of a PyMongo source tree, or the specifications")
    })
}

/// Unpacks the `test` folder only.
fn unpack(archive: &Path, into: &Path) -> Result<(), TestbedError> {
    let mut tar = Command::new("tar");
    tar.args(["--strip-components", "1", "--extract", "--gzip", "--file"]).arg(archive);
    run(tar.arg("--directory").arg(into).arg("pymongo-4.20.0/test"))
}
