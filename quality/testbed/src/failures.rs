//! Failed attempts to fetch something, remembered so that the other tests of a run do not wait for them again.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::parent_id,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::TestbedError;

static OF_THIS_PROCESS: Mutex<BTreeMap<PathBuf, TestbedError>> = Mutex::new(BTreeMap::new());

/// Remembers that this directory could not be made.
pub(crate) fn remember(directory: &Path, error: &TestbedError) {
    let mut failures = OF_THIS_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    failures.insert(directory.to_owned(), error.clone());
    if let Some(run) = cargo_run() {
        // Without the file, other processes make an attempt of their own.
        let _ = fs::write(file(directory), format!("{run}\n{}", error.to_record()));
    }
}

/// Returns the error of a failed attempt to make this directory, by this process or by another one that the same run
/// of Cargo has started.
pub(crate) fn recall(directory: &Path) -> Option<TestbedError> {
    let failures = OF_THIS_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    failures.get(directory).cloned().or_else(|| {
        let content = fs::read_to_string(file(directory)).ok()?;
        let (run, record) = content.split_once('\n')?;
        (cargo_run()? == run).then(|| TestbedError::from_record(record))
    })
}

/// Forgets failures of other runs: the directory is made.
pub(crate) fn forget(directory: &Path) {
    // Usually there is no such file. One that stays is of another run, and has no effect.
    let _ = fs::remove_file(file(directory));
}

fn file(directory: &Path) -> PathBuf {
    let mut name = directory.as_os_str().to_owned();
    name.push(".failed");
    name.into()
}

/// Identifies the run of Cargo that has started this process, by process id and start time. Returns `None` if another
/// program has started it: a person who starts a test again may have repaired what was missing.
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
    fn failures_of_other_runs_do_not_count() {
        let home = folders::folder("tests").unwrap().join(format!("runs-{}", std::process::id()));
        cache::empty(&home).unwrap();
        let (ours, other) = (home.join("ours-1.2.3"), home.join("other"));
        fs::write(home.join("other.failed"), "1 2\nno network\0").unwrap();
        assert!(recall(&other).is_none());
        if let Some(run) = cargo_run() {
            fs::write(home.join("ours-1.2.3.failed"), format!("{run}\nno network\0")).unwrap();
            assert_eq!(recall(&ours).unwrap().to_string(), "no network");
            forget(&ours);
        }
        assert!(recall(&ours).is_none());
        fs::remove_dir_all(home).unwrap();
    }
}
