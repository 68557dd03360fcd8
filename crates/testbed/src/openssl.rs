//! OpenSSL 1.1 for servers that link it, from Debian 11, beside the OpenSSL of the system.

use std::{fs, path::Path, process::Command};

use crate::{
    Result, TestbedError, cache,
    fetch::{check_sha256, only_file_of, output_of, run},
};

/// Version in the last point release of Debian 11. The release gets no further ones, so that the package
/// can be pinned by its hash; the newer versions of Debian's security archive replace each other.
const PACKAGE: &str = "libssl1.1=1.1.1w-0+deb11u1";
const SHA256: &str = "aadf8b4b197335645b230c2839b4517aa444fd2e8f434e5438c48a18857988f7";
const LIBRARIES: [&str; 2] = ["libssl.so.1.1", "libcrypto.so.1.1"];
const UNPACKED_FOLDER: &str = "usr/lib/x86_64-linux-gnu";

/// Puts the two libraries of OpenSSL 1.1 into `into`, by `apt-get`, from the Debian mirror that it is set up
/// with. Nothing is installed: `apt-get` works in directories of its own.
pub(crate) fn fetch(into: &Path) -> Result<()> {
    fetch_by_apt(into).map_err(|error| {
        error
            .during("OpenSSL 1.1 could not be fetched from Debian 11")
            .advise("check that apt-get is set up with a Debian mirror that this machine reaches")
    })
}

fn fetch_by_apt(into: &Path) -> Result<()> {
    let apt = Apt::new(into.join("apt"))?;
    let archive = apt.download(PACKAGE)?;
    check_sha256(&archive, SHA256)?;
    let unpacked = apt.folder.join("unpacked");
    run(Command::new("dpkg-deb").arg("--extract").arg(&archive).arg(&unpacked))?;
    for library in LIBRARIES {
        let file = into.join(library);
        fs::copy(unpacked.join(UNPACKED_FOLDER).join(library), &file)
            .map_err(|error| TestbedError::at(&file, &error))?;
    }
    fs::remove_dir_all(&apt.folder).map_err(|error| TestbedError::at(&apt.folder, &error))
}

/// `apt-get` with lists and a cache of its own, for Debian 11 only.
struct Apt {
    folder: std::path::PathBuf,
}

impl Apt {
    fn new(folder: std::path::PathBuf) -> Result<Self> {
        for part in ["lists/partial", "cache/archives/partial"] {
            cache::empty(&folder.join(part))?;
        }
        let uris =
            output_of(Command::new("apt-get").args(["indextargets", "--format", "$(REPO_URI)"]))?;
        let sources = folder.join("sources.list");
        fs::write(&sources, debian_11_sources(&uris)?)
            .map_err(|error| TestbedError::at(&sources, &error))?;
        let apt = Self { folder };
        run(apt.command().arg("update"))?;
        Ok(apt)
    }

    fn download(&self, package: &str) -> Result<std::path::PathBuf> {
        let into = self.folder.join("download");
        cache::empty(&into)?;
        run(self.command().args(["download", package]).current_dir(&into))?;
        only_file_of(&into)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("apt-get");
        command.arg("-qq");
        let folder = self.folder.display();
        for option in [
            format!("Dir::Etc::SourceList={folder}/sources.list"),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            format!("Dir::State::Lists={folder}/lists"),
            format!("Dir::Cache={folder}/cache"),
            // The signature is checked, its date is not: this release is not signed anew any more.
            "Acquire::Check-Valid-Until=false".to_owned(),
            // apt's own user may be unable to enter the folder.
            "APT::Sandbox::User=root".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        command
    }
}

/// Sources of Debian 11 on the mirrors that have the packages of this system.
fn debian_11_sources(repository_uris: &str) -> Result<String> {
    const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let uris: std::collections::BTreeSet<&str> = repository_uris
        .lines()
        .map(str::trim)
        .filter(|uri| uri.trim_end_matches('/').ends_with("/debian"))
        .collect();
    if uris.is_empty() {
        return Err(TestbedError::new("apt-get is not set up with a Debian mirror"));
    }
    let source = |uri| format!("deb [signed-by={KEYRING} arch=amd64] {uri} bullseye main\n");
    Ok(uris.into_iter().map(source).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_come_from_the_mirror_of_the_system() {
        let uris = "http://mirror.example/debian/\nhttp://mirror.example/debian-security/\n\
                    http://mirror.example/debian/\nhttps://other.example/node\n";
        let sources = debian_11_sources(uris).unwrap();
        assert_eq!(sources.lines().count(), 1, "{sources}");
        assert!(sources.contains(" http://mirror.example/debian/ bullseye main"), "{sources}");
        let error = debian_11_sources("http://mirror.example/ubuntu/\n").unwrap_err();
        assert!(error.to_string().contains("not set up with a Debian mirror"), "{error}");
    }
}
