//! OpenSSL 1.1 from Debian 11, for servers that link it on systems without it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Result, TestbedError, cache,
    fetch::{check_sha256, only_file_of, output_of, run},
};

/// Name of the directory in the cache.
const FOLDER: &str = "openssl-1.1.1w";
/// Version in the last point release of Debian 11. It does not change, so that it can be pinned by its hash. The versions
/// in Debian's security archive replace each other.
const PACKAGE: &str = "libssl1.1=1.1.1w-0+deb11u1";
const SHA256: &str = "aadf8b4b197335645b230c2839b4517aa444fd2e8f434e5438c48a18857988f7";
const LIBRARIES: [&str; 2] = ["libssl.so.1.1", "libcrypto.so.1.1"];
const UNPACKED_FOLDER: &str = "usr/lib/x86_64-linux-gnu";

/// Returns a directory of this cache with the libraries of OpenSSL 1.1, which are fetched if they are not there.
/// Returns `None` if the system has them.
pub(crate) fn libraries_for(program: &Path, cache: &Path) -> Result<Option<PathBuf>> {
    let cached = cache.join(FOLDER);
    if cached.is_dir() {
        return Ok(Some(cached));
    }
    if !lacks_openssl(program) {
        return Ok(None);
    }
    cache::cached_in(cache, FOLDER, fetch).map(Some).map_err(|error| {
        error
            .during("OpenSSL 1.1 could not be fetched from Debian 11")
            .advise("check that apt-get is configured with a reachable Debian mirror")
    })
}

fn lacks_openssl(program: &Path) -> bool {
    // Without ldd, the libraries are fetched in any case.
    output_of(Command::new("ldd").arg(program))
        .map_or(true, |libraries| libraries.lines().any(|line| line.contains("1.1 => not found")))
}

/// Copies the two libraries into `into`. Nothing is installed: `apt-get` uses its own directory.
fn fetch(into: &Path) -> Result<()> {
    cache::make_readable(into)?;
    let folder = into.join("apt");
    let archive = download(&folder)?;
    check_sha256(&archive, SHA256)?;
    let unpacked = folder.join("unpacked");
    run(Command::new("dpkg-deb").arg("--extract").arg(&archive).arg(&unpacked))?;
    for library in LIBRARIES {
        let file = into.join(library);
        fs::copy(unpacked.join(UNPACKED_FOLDER).join(library), &file)
            .map_err(|error| TestbedError::at(&file, &error))?;
    }
    fs::remove_dir_all(&folder).map_err(|error| TestbedError::at(&folder, &error))
}

/// Downloads the package from the first mirror that has it.
fn download(folder: &Path) -> Result<PathBuf> {
    let mut last = TestbedError::new("apt-get has no configured mirror");
    for mirror in mirrors(&output_of(Command::new("apt-get").args(["--print-uris", "update"]))?) {
        let apt = Apt { folder };
        match apt.update(&mirror).and_then(|()| apt.download(PACKAGE)) {
            Ok(archive) => return Ok(archive),
            Err(error) => last = error.during(format!("{mirror} does not have {PACKAGE}")),
        }
    }
    Err(last)
}

/// Configured repositories of apt with a component `main`, from the addresses of their indexes. Those named `debian` come
/// first.
fn mirrors(index_uris: &str) -> Vec<String> {
    let repository = |line: &str| {
        let uri = line.strip_prefix('\'')?.split('\'').next()?;
        let (repository, index) = uri.split_once("/dists/")?;
        let is_main = index.split('/').nth(1) == Some("main");
        is_main.then(|| format!("{repository}/"))
    };
    let repositories: BTreeSet<String> = index_uris.lines().filter_map(repository).collect();
    let (mut mirrors, others): (Vec<_>, Vec<_>) =
        repositories.into_iter().partition(|uri| uri.ends_with("/debian/"));
    mirrors.extend(others);
    mirrors
}

/// `apt-get` with its own lists and cache.
struct Apt<'a> {
    folder: &'a Path,
}

impl Apt<'_> {
    /// Fetches the list of Debian 11's packages from this mirror. Its signature is checked.
    fn update(&self, mirror: &str) -> Result<()> {
        const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
        for part in ["lists/partial", "cache/archives/partial"] {
            cache::empty(&self.folder.join(part))?;
        }
        let sources = self.folder.join("sources.list");
        let source = format!("deb [signed-by={KEYRING} arch=amd64] {mirror} bullseye main\n");
        fs::write(&sources, source).map_err(|error| TestbedError::at(&sources, &error))?;
        run(self.command().arg("update"))
    }

    fn download(&self, package: &str) -> Result<PathBuf> {
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
            // The date of the signature has expired; the signature itself is checked.
            "Acquire::Check-Valid-Until=false".to_owned(),
            // The cache has the further attempts. Without this mode, an update without network succeeds.
            "Acquire::Retries=0".to_owned(),
            "APT::Update::Error-Mode=any".to_owned(),
            // apt's own user may be unable to enter the folder.
            "APT::Sandbox::User=root".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_parsed_from_index_addresses() {
        let uris = "'http://other.example/apt/dists/bookworm/main/binary-amd64/Packages.xz' a 0\n\
                    'http://mirror.example/debian/dists/bookworm/InRelease' b 0\n\
                    'http://mirror.example/debian/dists/bookworm/main/binary-amd64/Packages.xz' c 0\n\
                    'http://mirror.example/debian/dists/bookworm/main/dep11/Components-all.yml.xz' d 0\n\
                    'http://third.example/debian/dists/bookworm/stable/binary-amd64/Packages' e 0\n\
                    Reading package lists...\n";
        assert_eq!(mirrors(uris), ["http://mirror.example/debian/", "http://other.example/apt/"]);
        assert_eq!(mirrors(""), [""; 0]);
    }
}
