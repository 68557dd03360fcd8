//! Where the testbed keeps its things: in the build's target folder, or in the user's cache.

use std::{env, ffi::OsString, fs, path::PathBuf};

use crate::TestbedError;

/// The folder of this name, created if it is not there.
pub(crate) fn folder(name: &str) -> Result<PathBuf, TestbedError> {
    let dir = home()?.join(name);
    fs::create_dir_all(&dir).map_err(|error| {
        TestbedError::at(&dir, &error)
            .during("the folder for servers cannot be made")
            .advise("set XDG_CACHE_HOME to a folder that can be written to")
    })?;
    Ok(dir)
}

fn home() -> Result<PathBuf, TestbedError> {
    match target_dir() {
        Some(target) => Ok(target.join("testbed")),
        None => user_cache(env::var_os("XDG_CACHE_HOME"), env::var_os("HOME")),
    }
}

/// The folder above the running program that Cargo has marked as its target folder. This holds
/// however the folder was chosen: by variable, by option or by configuration. An installed program
/// is in none.
fn target_dir() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let marked = program.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file())?;
    Some(marked.to_owned())
}

/// As the XDG base directory specification has it: paths that are not absolute do not count.
fn user_cache(cache: Option<OsString>, home: Option<OsString>) -> Result<PathBuf, TestbedError> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    cache
        .and_then(absolute)
        .or_else(|| home.and_then(absolute).map(|home| home.join(".cache")))
        .map(|cache| cache.join("steadfast"))
        .ok_or_else(|| {
            TestbedError::new("there is no folder to keep servers in")
                .because("neither XDG_CACHE_HOME nor HOME is set")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_program_keeps_its_things_in_the_cache_of_its_user() {
        let told = |cache: &str, home: &str| {
            let some = |path: &str| (!path.is_empty()).then(|| OsString::from(path));
            user_cache(some(cache), some(home)).map(|path| path.display().to_string())
        };
        assert_eq!(told("/cache", "/home/ada").unwrap(), "/cache/steadfast");
        assert_eq!(told("", "/home/ada").unwrap(), "/home/ada/.cache/steadfast");
        assert_eq!(told("relative", "/home/ada").unwrap(), "/home/ada/.cache/steadfast");
        assert!(told("", "").unwrap_err().to_string().contains("XDG_CACHE_HOME"));
    }

    #[test]
    fn a_test_keeps_its_things_in_the_target_folder() {
        assert!(folder("tests").unwrap().ends_with("testbed/tests"));
    }
}
