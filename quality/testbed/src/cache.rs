//! Cached directories: the first process that needs one creates it, and the others wait.

use std::{
    fmt::Display,
    fs::{self, File},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process, thread,
    time::Duration,
};

use crate::{Result, TestbedError, failures, folders};

/// Delays before the second and the third attempt: package servers may fail for a moment.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];

/// Returns the cached directory of this name, filled by `make`.
///
/// `make` fills an empty directory, which is renamed when it is complete. The first caller runs `make`, with up to three
/// attempts; callers in other threads and processes wait. An interrupted attempt never leaves a directory of this name.
///
/// If `make` fails, later calls in this process return its error without another attempt, as do those in other
/// processes that the same run of Cargo starts.
///
/// ```no_run
/// let folder = testbed::cached("greetings", |folder| {
///     std::fs::write(folder.join("hello"), "Hello!")?;
///     Ok::<(), Box<dyn std::error::Error>>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Returns the last error of `make`, or an error of the file system.
pub fn cached<E: Display>(
    name: &str,
    mut make: impl FnMut(&Path) -> std::result::Result<(), E>,
) -> Result<PathBuf> {
    cached_in(&directory()?, name, |folder| {
        make(folder).map_err(|error| TestbedError::new(error.to_string()))
    })
}

/// Cache in the testbed's own directory.
pub(crate) fn directory() -> Result<PathBuf> {
    folders::folder("fetched")
}

/// Like [`cached`], in another cache.
pub(crate) fn cached_in(
    home: &Path,
    name: &str,
    make: impl FnMut(&Path) -> Result<()>,
) -> Result<PathBuf> {
    cached_with_retries(home, name, &RETRY_DELAYS, make)
}

fn cached_with_retries(
    home: &Path,
    name: &str,
    delays: &[Duration],
    mut make: impl FnMut(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let ready = home.join(name);
    if ready.is_dir() {
        return Ok(ready);
    }
    let _lock = lock(&home.join(format!("{name}.lock")))?;
    if ready.is_dir() {
        return Ok(ready);
    }
    if let Some(error) = failures::find(&ready) {
        return Err(error);
    }
    let begun = format!("{name}.partial");
    remove_all(home, &begun)?;
    // Named by process id, because a child of an interrupted process may still write to its directory.
    let partial = home.join(format!("{begun}-{}", process::id()));
    let mut delays = delays.iter();
    loop {
        empty(&partial)?;
        let Err(error) = make(&partial) else { break };
        match delays.next() {
            Some(&delay) if !is_lasting(&error) => thread::sleep(delay),
            _ => {
                failures::record(&ready, &error);
                return Err(error);
            }
        }
    }
    failures::remove(&ready);
    fs::rename(&partial, &ready).map_err(|error| TestbedError::at(&ready, &error))?;
    Ok(ready)
}

/// Returns true if another attempt would fail, too, because a program is not installed or there is no network.
fn is_lasting(error: &TestbedError) -> bool {
    // As pip, npm and apt-get report them.
    const REASONS: [&str; 9] = [
        "is not installed",
        "No module named pip",
        "Temporary failure",
        "Name or service not known",
        "ConnectTimeoutError",
        "unreachable",
        "EAI_AGAIN",
        "ENOTFOUND",
        "ETIMEDOUT",
    ];
    let report = error.to_string();
    REASONS.iter().any(|reason| report.contains(reason))
}

fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).map_err(|error| TestbedError::at(path, &error))?;
    file.lock().map_err(|error| TestbedError::at(path, &error))?;
    Ok(file)
}

/// Removes folders by the beginning of their names.
fn remove_all(home: &Path, beginning: &str) -> Result<()> {
    let entries = fs::read_dir(home).map_err(|error| TestbedError::at(home, &error))?;
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(beginning) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Empties a folder. Creates it if it does not exist.
pub(crate) fn empty(dir: &Path) -> Result<()> {
    remove(dir)?;
    fs::create_dir_all(dir).map_err(|error| TestbedError::at(dir, &error))
}

/// Makes a directory readable for all users. Creates it if it does not exist.
pub(crate) fn make_readable(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)
        .and_then(|()| fs::set_permissions(dir, fs::Permissions::from_mode(0o755)))
        .map_err(|error| TestbedError::at(dir, &error))
}

fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(TestbedError::at(dir, &error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    const NO_DELAYS: [Duration; 2] = [Duration::ZERO; 2];

    /// An empty directory for one test.
    fn home_of(test: &str) -> PathBuf {
        let home = folders::folder("tests").unwrap().join(format!("{test}-{}", process::id()));
        empty(&home).unwrap();
        home
    }

    fn names(home: &Path) -> Vec<String> {
        let entries = fs::read_dir(home).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn first_caller_fills_the_directory_and_others_wait() {
        let home = home_of("first");
        let (made, barrier) = (AtomicUsize::new(0), Barrier::new(8));
        let request = || {
            barrier.wait();
            let folder = cached_with_retries(&home, "it", &NO_DELAYS, |folder| {
                made.fetch_add(1, Ordering::Relaxed);
                fs::write(folder.join("one"), "1").unwrap();
                thread::yield_now();
                fs::write(folder.join("two"), "2").unwrap();
                Ok(())
            });
            assert_eq!(names(&folder.unwrap()), ["one", "two"]);
        };
        thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(request))));
        assert_eq!(made.into_inner(), 1);
        assert_eq!(names(&home), ["it", "it.lock"]);
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn interrupted_attempt_is_neither_used_nor_left_behind() {
        let home = home_of("interrupted");
        let theirs = home.join("it.partial-1");
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("half"), "").unwrap();
        let folder = cached_with_retries(&home, "it", &[], |folder| {
            assert!(names(folder).is_empty());
            // A process that the other attempt has left cannot write any more.
            assert!(fs::write(theirs.join("other half"), "").is_err());
            Ok(())
        });
        assert_eq!(folder.unwrap(), home.join("it"));
        assert_eq!(names(&home), ["it", "it.lock"]);
        fs::remove_dir_all(home).unwrap();
    }

    /// Requests a directory whose first `fails` attempts fail. Returns the result and the number of attempts.
    fn request(home: &Path, name: &str, fails: usize, reason: &str) -> (Result<PathBuf>, usize) {
        let mut attempts = 0;
        let made = cached_with_retries(home, name, &NO_DELAYS, |folder| {
            attempts += 1;
            assert!(names(folder).is_empty());
            fs::write(folder.join("it"), "").unwrap();
            match attempts <= fails {
                true => Err(TestbedError::new(format!("attempt {attempts}: {reason}"))),
                false => Ok(()),
            }
        });
        (made, attempts)
    }

    #[test]
    fn failed_attempt_is_repeated_twice_with_an_empty_directory() {
        let home = home_of("again");
        let (made, attempts) = request(&home, "it", 2, "no luck");
        assert_eq!((made.unwrap(), attempts), (home.join("it"), 3));
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn failure_is_cached_in_the_process() {
        let home = home_of("remembered");
        let (made, attempts) = request(&home, "it", 3, "no luck");
        assert_eq!((made.unwrap_err().to_string(), attempts), ("attempt 3: no luck".to_owned(), 3));
        let (made, attempts) = request(&home, "it", 0, "");
        assert_eq!((made.unwrap_err().to_string(), attempts), ("attempt 3: no luck".to_owned(), 0));
        let (made, attempts) = request(&home, "other", 0, "");
        assert_eq!((made.unwrap(), attempts), (home.join("other"), 1));
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn network_errors_are_not_repeated() {
        let home = home_of("offline");
        let (_, attempts) = request(&home, "it", 3, "Temporary failure in name resolution");
        assert_eq!(attempts, 1);
        fs::remove_dir_all(home).unwrap();
    }
}
