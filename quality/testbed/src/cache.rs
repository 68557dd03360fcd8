//! Directories that are made once, by the first process that needs them, while the others wait.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process, thread,
    time::Duration,
};

use crate::{TestbedError, folders};

/// Delays before the second and the third attempt: package servers may fail for a moment.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];

/// Returns the cached directory of this name, filled by `make`.
///
/// `make` is given an empty directory, which is renamed when it is complete. The first caller runs it, with up
/// to three attempts; callers in other threads and processes wait. An interrupted attempt leaves nothing that
/// could be taken for a complete directory.
///
/// ```no_run
/// let folder = testbed::cached("greetings", |folder| {
///     std::fs::write(folder.join("hello"), "Hello!")?;
///     Ok::<(), Box<dyn std::error::Error>>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cached<E: From<TestbedError>>(
    name: &str,
    make: impl FnMut(&Path) -> Result<(), E>,
) -> Result<PathBuf, E> {
    cached_in(&directory()?, name, make)
}

/// The cache in the testbed's own directory.
pub(crate) fn directory() -> Result<PathBuf, TestbedError> {
    folders::folder("fetched")
}

/// Like [`cached`], in another cache.
pub(crate) fn cached_in<E: From<TestbedError>>(
    home: &Path,
    name: &str,
    make: impl FnMut(&Path) -> Result<(), E>,
) -> Result<PathBuf, E> {
    cached_with_retries(home, name, &RETRY_DELAYS, make)
}

fn cached_with_retries<E: From<TestbedError>>(
    home: &Path,
    name: &str,
    delays: &[Duration],
    mut make: impl FnMut(&Path) -> Result<(), E>,
) -> Result<PathBuf, E> {
    let ready = home.join(name);
    if ready.is_dir() {
        return Ok(ready);
    }
    let _lock = lock(&home.join(format!("{name}.lock")))?;
    if ready.is_dir() {
        return Ok(ready);
    }
    let begun = format!("{name}.partial");
    remove_all(home, &begun)?;
    // Named by process: a child of an interrupted process may still write to the other one.
    let partial = home.join(format!("{begun}-{}", process::id()));
    let mut delays = delays.iter();
    loop {
        empty(&partial)?;
        match (make(&partial), delays.next()) {
            (Ok(()), _) => break,
            (Err(_), Some(&delay)) => thread::sleep(delay),
            (Err(error), None) => return Err(error),
        }
    }
    fs::rename(&partial, &ready).map_err(|error| TestbedError::at(&ready, &error))?;
    Ok(ready)
}

fn lock(path: &Path) -> Result<File, TestbedError> {
    let file = File::create(path).map_err(|error| TestbedError::at(path, &error))?;
    file.lock().map_err(|error| TestbedError::at(path, &error))?;
    Ok(file)
}

/// Removes the folders whose names begin so.
fn remove_all(home: &Path, beginning: &str) -> Result<(), TestbedError> {
    let entries = fs::read_dir(home).map_err(|error| TestbedError::at(home, &error))?;
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(beginning) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Makes `dir` an empty folder, whatever was there.
pub(crate) fn empty(dir: &Path) -> Result<(), TestbedError> {
    remove(dir)?;
    fs::create_dir_all(dir).map_err(|error| TestbedError::at(dir, &error))
}

/// Lets all users read a directory, whatever the umask. Makes it if it is not there.
pub(crate) fn make_readable(dir: &Path) -> Result<(), TestbedError> {
    fs::create_dir_all(dir)
        .and_then(|()| fs::set_permissions(dir, fs::Permissions::from_mode(0o755)))
        .map_err(|error| TestbedError::at(dir, &error))
}

fn remove(dir: &Path) -> Result<(), TestbedError> {
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

    const AT_ONCE: [Duration; 2] = [Duration::ZERO; 2];

    /// A home of the test's own, empty.
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
    fn the_first_makes_it_and_the_others_wait_until_it_is_whole() {
        let home = home_of("first");
        let (made, barrier) = (AtomicUsize::new(0), Barrier::new(8));
        let ask = || {
            barrier.wait();
            let folder = cached_with_retries(&home, "it", &AT_ONCE, |folder| {
                made.fetch_add(1, Ordering::Relaxed);
                fs::write(folder.join("one"), "1").unwrap();
                thread::yield_now();
                fs::write(folder.join("two"), "2").unwrap();
                Ok::<(), TestbedError>(())
            });
            assert_eq!(names(&folder.unwrap()), ["one", "two"]);
        };
        thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(ask))));
        assert_eq!(made.into_inner(), 1);
        assert_eq!(names(&home), ["it", "it.lock"]);
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn what_was_interrupted_is_neither_taken_for_the_whole_nor_left() {
        let home = home_of("interrupted");
        let theirs = home.join("it.partial-1");
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("half"), "").unwrap();
        let folder = cached_with_retries(&home, "it", &[], |folder| {
            assert!(names(folder).is_empty());
            // What is left running of the other finds no place to write to.
            assert!(fs::write(theirs.join("other half"), "").is_err());
            Ok::<(), TestbedError>(())
        });
        assert_eq!(folder.unwrap(), home.join("it"));
        assert_eq!(names(&home), ["it", "it.lock"]);
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn it_is_tried_again_from_the_beginning_but_not_for_ever() {
        let home = home_of("again");
        let mut tries = 0;
        let mut ask = |fails: usize| {
            let asked = cached_with_retries(&home, "it", &AT_ONCE, |folder| {
                tries += 1;
                assert!(names(folder).is_empty());
                fs::write(folder.join("it"), "").unwrap();
                match tries <= fails {
                    true => Err(TestbedError::new(format!("no luck at try {tries}"))),
                    false => Ok(()),
                }
            });
            asked.map_err(|error| error.to_string())
        };
        assert_eq!(ask(3), Err("no luck at try 3".to_owned()));
        assert_eq!(ask(5), Ok(home.join("it")));
        assert_eq!(tries, 6);
        fs::remove_dir_all(home).unwrap();
    }
}
