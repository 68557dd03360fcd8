//! Download of pinned packages from the Python or npm package index.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    process::Command,
};

use sha2::{Digest, Sha256};

use crate::{TestbedError, cache};

/// A package of a fixed version, with the hash of its file.
pub(crate) struct Package {
    /// Name of its directory in the cache.
    pub(crate) folder: &'static str,
    pub(crate) index: PackageIndex,
    pub(crate) sha256: &'static str,
    pub(crate) unpack: fn(archive: &Path, into: &Path) -> Result<(), TestbedError>,
}

/// A package index and the package to download. The settings of `pip` or `npm` have the address of the index.
pub(crate) enum PackageIndex {
    /// Arguments of `pip download`.
    Pip(&'static [&'static str]),
    /// Argument of `npm pack`.
    Npm(&'static str),
}

impl Package {
    /// Returns true if the package is in this cache.
    pub(crate) fn is_in(&self, cache: &Path) -> bool {
        cache.join(self.folder).is_dir()
    }

    /// Returns the directory with the unpacked package, which is fetched if it is not in the cache.
    pub(crate) fn provide(&self) -> Result<PathBuf, TestbedError> {
        self.provide_in(&cache::directory()?)
    }

    /// Like [`provide`](Self::provide), in another cache.
    pub(crate) fn provide_in(&self, cache: &Path) -> Result<PathBuf, TestbedError> {
        let fetch = |into: &Path| {
            let download = into.join("download");
            let archive = self.download(&download)?;
            (self.unpack)(&archive, into)?;
            fs::remove_dir_all(&download).map_err(|error| TestbedError::at(&download, &error))
        };
        cache::cached_in(cache, self.folder, fetch)
            .map_err(|error| error.during(format!("{} could not be fetched", self.folder)))
    }

    fn download(&self, into: &Path) -> Result<PathBuf, TestbedError> {
        cache::empty(into)?;
        self.index.download(into)?;
        let archive = only_file_of(into)?;
        check_sha256(&archive, self.sha256)?;
        Ok(archive)
    }
}

impl PackageIndex {
    fn download(&self, into: &Path) -> Result<(), TestbedError> {
        match self {
            Self::Pip(arguments) => {
                let mut pip = pip();
                // One retry, so that the report without network has the reason. The cache has further attempts.
                pip.args(["--disable-pip-version-check", "--retries=1"]);
                pip.args(["download", "--no-deps", "--dest"]);
                run(pip.arg(into).args(*arguments)).map_err(advise_on_pip)
            }
            Self::Npm(package) => {
                let mut npm = Command::new("npm");
                // That directory has no package.json or .npmrc of a project. The cache has the further attempts.
                npm.args(["pack", "--no-update-notifier", "--fetch-retries=0", package])
                    .current_dir(into);
                run(&mut npm).map_err(advise_on_npm)
            }
        }
    }
}

fn pip() -> Command {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip"]);
    pip
}

/// Adds advice that fits what `pip` has reported.
fn advise_on_pip(error: TestbedError) -> TestbedError {
    let report = error.to_string();
    if report.contains("is not installed") || report.contains("No module named pip") {
        return error.advise("install Python 3 with pip (apt-get install python3-pip)");
    }
    error.advise(
        "check that this machine reaches the Python package index, or what pip's own settings (PIP_INDEX_URL) \
         name in its place",
    )
}

/// Adds advice that fits what `npm` has reported.
fn advise_on_npm(error: TestbedError) -> TestbedError {
    if error.to_string().contains("is not installed") {
        return error.advise("install Node.js with npm (apt-get install npm)");
    }
    error.advise(
        "check that this machine reaches the npm registry, or what npm's own settings (npm_config_registry) name \
         in its place",
    )
}

/// Runs a program. If it fails, the error has the end of its standard error.
pub(crate) fn run(command: &mut Command) -> Result<(), TestbedError> {
    output_of(command).map(drop)
}

/// Runs a program and returns its standard output.
pub(crate) fn output_of(command: &mut Command) -> Result<String, TestbedError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => TestbedError::new(format!("{name} is not installed")),
        _ => TestbedError::io(format!("{name} cannot be run"), &error),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let summary = summary_of(&String::from_utf8_lossy(&output.stderr));
    Err(TestbedError::new(format!("{name} failed ({})", output.status)).because(summary))
}

/// Lines of a program's standard error with the reason of its failure.
fn summary_of(report: &str) -> String {
    // npm prints the reason first, and a stack trace after it.
    let of_npm = |line: &&str| line.starts_with("npm error") || line.starts_with("npm ERR!");
    let lines: Vec<&str> = report.trim().lines().collect();
    let npm: Vec<&str> = lines.iter().copied().filter(of_npm).take(4).collect();
    match npm.is_empty() {
        false => npm.join("\n"),
        // Other programs print retries and notices first.
        true => lines[lines.len().saturating_sub(5)..].join("\n"),
    }
}

pub(crate) fn only_file_of(dir: &Path) -> Result<PathBuf, TestbedError> {
    let entries = fs::read_dir(dir).map_err(|error| TestbedError::at(dir, &error))?;
    let files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    match files.as_slice() {
        [file] => Ok(file.clone()),
        _ => Err(TestbedError::new(format!("{} files were downloaded, not one", files.len()))),
    }
}

pub(crate) fn check_sha256(file: &Path, expected: &str) -> Result<(), TestbedError> {
    let actual = sha256_of(file)?;
    if actual == expected {
        return Ok(());
    }
    let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let message = format!("{file} has the SHA-256 {actual}, and {expected} was expected");
    Err(TestbedError::new(message))
}

fn sha256_of(file: &Path) -> Result<String, TestbedError> {
    const CHUNK_BYTES: usize = 1 << 16;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut hash = || {
        let mut content = File::open(file)?;
        loop {
            match content.read(&mut chunk)? {
                0 => return Ok(()),
                length => hasher.update(&chunk[..length]),
            }
        }
    };
    hash().map_err(|error: io::Error| TestbedError::at(file, &error))?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folders;

    #[test]
    fn sha256_matches_the_test_vector() {
        let file = folders::folder("tests").unwrap().join(format!("abc-{}", std::process::id()));
        fs::write(&file, "abc").unwrap();
        let hash = sha256_of(&file).unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn error_of_a_failed_program_has_its_standard_error() {
        let error = run(Command::new("sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("exit status: 3"));
        assert!(error.to_string().contains("broken"));
    }

    #[test]
    fn summary_has_the_reason() {
        let npm = "npm warn old\nnpm error code E404\nnpm error 404 Not Found\nnpm error at a\nnpm error at b\n\
                   npm error at c\n";
        let summary =
            "npm error code E404\nnpm error 404 Not Found\nnpm error at a\nnpm error at b";
        assert_eq!(summary_of(npm), summary);
        assert_eq!(summary_of("1\n2\n3\n4\n5\n6\n"), "2\n3\n4\n5\n6");
        assert_eq!(summary_of(""), "");
    }

    #[test]
    fn missing_program_is_an_error_that_advises_to_install_it() {
        let error = run(&mut Command::new("no-such-program")).unwrap_err();
        assert!(error.to_string().contains("no-such-program is not installed"), "{error}");
        let error = advise_on_pip(TestbedError::new("python3 is not installed"));
        assert!(error.to_string().contains("python3-pip"), "{error}");
        let error = advise_on_pip(TestbedError::new("python3 failed").because("no route"));
        assert!(error.to_string().contains("PIP_INDEX_URL"), "{error}");
    }
}
