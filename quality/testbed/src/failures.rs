//! Cached errors of failed downloads, so that other tests of the same run do not repeat them.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::parent_id,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::TestbedError;

static OF_THIS_PROCESS: Mutex<BTreeMap<PathBuf, TestbedError>> = Mutex::new(BTreeMap::new());

/// Records the error of a directory that could not be created.
pub(crate) fn record(directory: &Path, error: &TestbedError) {
    let mut failures = OF_THIS_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    failures.insert(directory.to_owned(), error.clone());
    if let Some(run) = cargo_run() {
        // Without the file, other processes repeat the attempt.
        let _ = fs::write(file(directory), format!("{run}\n{}", error.to_record()));
    }
}

/// Returns the recorded error of this directory, if this process or another one of the same Cargo run recorded it.
pub(crate) fn find(directory: &Path) -> Option<TestbedError> {
    let failures = OF_THIS_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    failures.get(directory).cloned().or_else(|| {
        let content = fs::read_to_string(file(directory)).ok()?;
        let (run, record) = content.split_once('\n')?;
        (cargo_run()? == run).then(|| TestbedError::from_record(record))
    })
}

/// Removes the record of other runs, after the directory was created.
pub(crate) fn remove(directory: &Path) {
    // Usually there is no such file. The record of another run has no effect.
    let _ = fs::remove_file(file(directory));
}

fn file(directory: &Path) -> PathBuf {
    let mut name = directory.as_os_str().to_owned();
    name.push(".failed");
    name.into()
}

/// Identifies the Cargo run that started this process, by process id and start time. Returns `None` if another program
/// started it: a test that is started by hand repeats the attempt.
fn cargo_run() -> Option<String> {
    let parent = parent_id();
    let stat = fs::read_to_string(format!("/proc/{parent}/stat")).ok()?;
    let (name, fields) = stat.split_once('(')?.1.rsplit_once(')')?;
    let started = fields.split_whitespace().nth(19)?;
    name.starts_with("cargo").then(|| format!("{parent} {started}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cache, folders};

    #[test]
    fn errors_of_other_runs_are_ignored() {
        let home = folders::folder("tests").unwrap().join(format!("runs-{}", std::process::id()));
        cache::empty(&home).unwrap();
        let (ours, other) = (home.join("ours-1.2.3"), home.join("other"));
        fs::write(home.join("other.failed"), "1 2\nno network\0").unwrap();
        assert!(find(&other).is_none());
        if let Some(run) = cargo_run() {
            fs::write(home.join("ours-1.2.3.failed"), format!("{run}\nno network\0")).unwrap();
            assert_eq!(find(&ours).unwrap().to_string(), "no network");
            remove(&ours);
        }
        assert!(find(&ours).is_none());
        fs::remove_dir_all(home).unwrap();
    }
}
