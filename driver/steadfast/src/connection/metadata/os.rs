//! Operating system, from the target of the build and `os-release`.

use std::{env::consts, fs, sync::OnceLock};

use bson::{RawDocumentBuf, raw::cstr};

/// Operating system.
#[derive(Clone, Debug)]
pub(super) struct Os {
    kind: &'static str,
    name: Option<String>,
    version: Option<String>,
}

impl Os {
    /// Returns the operating system of this machine, determined once.
    pub(super) fn of_this_machine() -> &'static Self {
        static THIS: OnceLock<Os> = OnceLock::new();
        THIS.get_or_init(|| {
            let release = ["/etc/os-release", "/usr/lib/os-release"]
                .iter()
                .filter(|_| consts::OS == "linux")
                .find_map(|path| fs::read_to_string(path).ok());
            Self::detect(consts::OS, release.as_deref())
        })
    }

    /// Determines the operating system from [`std::env::consts::OS`] and, on Linux, the text of
    /// `os-release`.
    pub(super) fn detect(os: &str, release: Option<&str>) -> Self {
        let (kind, name) = match os {
            "linux" => ("Linux", None),
            "macos" => ("Darwin", Some("macOS")),
            "ios" => ("Darwin", Some("iOS")),
            "windows" => ("Windows", Some("Windows")),
            "android" => ("Linux", Some("Android")),
            "freebsd" => ("BSD", Some("FreeBSD")),
            "openbsd" => ("BSD", Some("OpenBSD")),
            "netbsd" => ("BSD", Some("NetBSD")),
            "dragonfly" => ("BSD", Some("DragonFly BSD")),
            "solaris" | "illumos" | "aix" | "haiku" | "hurd" => ("Unix", None),
            _ => ("unknown", None),
        };
        let field = |key| release.and_then(|text| release_field(text, key));
        Self {
            kind,
            name: name.map(str::to_owned).or_else(|| field("PRETTY_NAME")),
            version: field("VERSION_ID"),
        }
    }

    /// Returns the document `os`, or only its type.
    pub(super) fn document(&self, in_full: bool) -> RawDocumentBuf {
        let mut os = RawDocumentBuf::new();
        os.append(cstr!("type"), self.kind);
        if !in_full {
            return os;
        }
        if let Some(name) = &self.name {
            os.append(cstr!("name"), name.as_str());
        }
        os.append(cstr!("architecture"), consts::ARCH);
        if let Some(version) = &self.version {
            os.append(cstr!("version"), version.as_str());
        }
        os
    }
}

/// Returns a field of `os-release(5)`: lines of `KEY=value`, quoted or not.
fn release_field(release: &str, key: &str) -> Option<String> {
    let value =
        release.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='))?;
    let value = value.trim_matches(['"', '\'']);
    (!value.is_empty()).then(|| value.to_owned())
}
