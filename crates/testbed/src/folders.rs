//! Where the testbed keeps its things: `testbed/` in the build's target folder.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::TestbedError;

/// `<target>/testbed/<name>`, created if it is not there.
pub(crate) fn folder(name: &str) -> Result<PathBuf, TestbedError> {
    let dir = target_dir().join("testbed").join(name);
    fs::create_dir_all(&dir).map_err(|error| TestbedError::at(&dir, &error))?;
    Ok(dir)
}

/// The target folder of the build that this process comes from.
fn target_dir() -> PathBuf {
    running_from()
        .or_else(|| env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).filter(|d| d.is_absolute()))
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"))
}

/// The folder above the running program that Cargo has marked as its target folder. This holds
/// however the folder was chosen: by variable, by option or by configuration.
fn running_from() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let marked = program.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file())?;
    Some(marked.to_owned())
}
