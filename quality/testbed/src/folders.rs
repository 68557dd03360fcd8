//! Folders of the testbed, in Cargo's target folder or in the user's cache.

use std::{env, ffi::OsString, fs, path::PathBuf};

use crate::TestbedError;

/// Returns the folder of this name. Creates it if it does not exist.
pub(crate) fn folder(name: &str) -> Result<PathBuf, TestbedError> {
    let dir = home()?.join(name);
    fs::create_dir_all(&dir).map_err(|error| {
        TestbedError::at(&dir, &error)
            .during("the folder for servers cannot be created")
            .advise("set XDG_CACHE_HOME to a writable folder")
    })?;
    Ok(dir)
}

fn home() -> Result<PathBuf, TestbedError> {
    match target_dir() {
        Some(target) => Ok(target.join("testbed")),
        None => user_cache(env::var_os("XDG_CACHE_HOME"), env::var_os("HOME")),
    }
}

/// Target folder that contains the running program, found by Cargo's marker file. Works for target folders set by
/// variable, option or configuration. Returns `None` for an installed program.
fn target_dir() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let marked = program.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file())?;
    Some(marked.to_owned())
}

/// Cache folder by the XDG base directory specification, which ignores relative paths.
fn user_cache(cache: Option<OsString>, home: Option<OsString>) -> Result<PathBuf, TestbedError> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    cache
        .and_then(absolute)
        .or_else(|| home.and_then(absolute).map(|home| home.join(".cache")))
        .map(|cache| cache.join("steadfast"))
        .ok_or_else(|| {
            TestbedError::new("there is no folder for servers")
                .because("neither XDG_CACHE_HOME nor HOME is set")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_program_uses_the_cache_folder_of_the_user() {
        let cache_of = |cache: &str, home: &str| {
            let some = |path: &str| (!path.is_empty()).then(|| OsString::from(path));
            user_cache(some(cache), some(home)).map(|path| path.display().to_string())
        };
        assert_eq!(cache_of("/cache", "/home/ada").unwrap(), "/cache/steadfast");
        assert_eq!(cache_of("", "/home/ada").unwrap(), "/home/ada/.cache/steadfast");
        assert_eq!(cache_of("relative", "/home/ada").unwrap(), "/home/ada/.cache/steadfast");
        assert!(cache_of("", "").unwrap_err().to_string().contains("XDG_CACHE_HOME"));
    }

    #[test]
    fn test_uses_the_target_folder() {
        assert!(folder("tests").unwrap().ends_with("testbed/tests"));
    }
}
