//! Files that are written whole or not at all: whoever reads one finds the old text or the new, never a part.

use std::{
    fs::{self, File, Metadata},
    io::{self, Write},
    path::{Path, PathBuf},
    process,
};

use crate::notes::WrongArguments;

/// Whether a file could be written where an option says, for those who would have worked long for nothing. What
/// is there stays as it is.
pub(crate) fn check(option: &str, path: &Path) -> Result<(), WrongArguments> {
    let wrong = |why: &str| WrongArguments(format!("{option} {}: {why}", path.display()));
    if path.as_os_str() == "-" {
        return Err(wrong("it is written to a file; on standard output there is --json"));
    }
    let checked = || match Place::of(path)? {
        // To open a pipe could take until somebody reads.
        Place::Device => Ok(()),
        Place::File { path, .. } => Draft::beside(&path).map(drop),
    };
    checked().map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => wrong("that names no file"),
        io::ErrorKind::IsADirectory => wrong("that is a folder; name a file in it"),
        io::ErrorKind::NotFound => wrong("the folder is not there; make it first"),
        _ => wrong(&format!("no file can be written there: {error}")),
    })
}

/// Writes a file, or replaces it. If it fails, what was there before is still there, and nothing else; the
/// error begins with the name of the file.
pub(crate) fn whole(path: &Path, text: &str) -> io::Result<()> {
    let place = Place::of(path);
    let is_there = matches!(place, Ok(Place::File { before: Some(_), .. }));
    let written = place.and_then(|place| match place {
        Place::Device => {
            let mut device = File::options().write(true).open(path)?;
            device.write_all(text.as_bytes())?;
            device.flush()
        }
        Place::File { path, before } => replace(&path, before, text),
    });
    written.map_err(|error| {
        let old = if is_there { "; the file that was there before is as it was" } else { "" };
        io::Error::new(error.kind(), format!("{}: {error}{old}", path.display()))
    })
}

fn replace(path: &Path, before: Option<Metadata>, text: &str) -> io::Result<()> {
    let mut draft = Draft::beside(path)?;
    draft.file.write_all(text.as_bytes())?;
    if let Some(before) = before {
        draft.file.set_permissions(before.permissions())?;
    }
    draft.file.sync_all()?;
    fs::rename(&draft.path, path)?;
    draft.is_placed = true;
    // Where a folder cannot be synchronized, its system does it in its own way.
    File::open(folder(path)).and_then(|folder| folder.sync_all()).or(Ok(()))
}

/// What there is to write to.
enum Place {
    /// A file, perhaps one that is not there yet. Where a link leads is already found out.
    File { path: PathBuf, before: Option<Metadata> },
    /// A device or a pipe, such as `/dev/stdout`: it is written to and not replaced.
    Device,
}

impl Place {
    fn of(path: &Path) -> io::Result<Self> {
        let name = path.as_os_str().as_encoded_bytes();
        if name.is_empty() || name.ends_with(b"/") {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let before = match fs::metadata(path) {
            Ok(before) => before,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self::File { path: path.to_owned(), before: None });
            }
            Err(error) => return Err(error),
        };
        if before.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !before.is_file() {
            return Ok(Self::Device);
        }
        // It could be replaced even so, but who protected it does not want that.
        File::options().append(true).open(path)?;
        Ok(Self::File { path: path.canonicalize()?, before: Some(before) })
    }
}

/// The new text, in a file of its own until it is whole. It is gone with this value unless it was put in its
/// place.
struct Draft {
    path: PathBuf,
    file: File,
    is_placed: bool,
}

impl Draft {
    fn beside(path: &Path) -> io::Result<Self> {
        let Some(name) = path.file_name() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let folder = folder(path);
        for number in 0..100 {
            let mut draft = std::ffi::OsString::from(".");
            draft.push(name);
            draft.push(format!(".{}-{number}.new", process::id()));
            let path = folder.join(draft);
            match File::create_new(&path) {
                Ok(file) => return Ok(Self { path, file, is_placed: false }),
                // Somebody with the same number was killed while writing.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many drafts of it are left there"))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_placed {
            // Nothing can be done about it if this fails.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is gone with this value.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("steadfast-{name}-{}", process::id()));
            // A process that had the same number may have left it.
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            let mut names: Vec<_> =
                entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_is_written_and_replaced_and_nothing_else_stays() {
        let folder = Folder::new("save");
        let path = folder.0.join("report.html");
        check("--report", &path).unwrap();
        assert_eq!(folder.names(), [""; 0], "a check leaves nothing behind");
        for text in ["one", "", "three"] {
            whole(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            check("--report", &path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text, "a check changes nothing");
        }
        assert_eq!(folder.names(), ["report.html"]);
    }

    #[test]
    fn where_nothing_can_be_written_is_said_before_and_after() {
        let folder = Folder::new("nowhere");
        for (name, said) in [
            (".", "that is a folder; name a file in it"),
            ("a/b", "the folder is not there; make it first"),
            ("new/", "that names no file"),
        ] {
            let path = folder.0.join(name);
            let before = check("--report", &path).unwrap_err().to_string();
            assert_eq!(before, format!("--report {}: {said}", path.display()));
            let after = whole(&path, "text").unwrap_err().to_string();
            assert!(after.starts_with(&format!("{}: ", path.display())), "{after}");
        }
        let standard = check("--svg", Path::new("-")).unwrap_err().to_string();
        assert!(standard.starts_with("--svg -: it is written to a file"), "{standard}");
        assert_eq!(folder.names(), [""; 0]);
    }

    #[cfg(unix)]
    #[test]
    fn what_a_link_leads_to_is_replaced_and_keeps_its_permissions() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = Folder::new("link");
        let (file, link) = (folder.0.join("file"), folder.0.join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        symlink("file", &link).unwrap();
        whole(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(folder.names(), ["file", "link"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_are_written_to_and_stay_what_they_are() {
        use std::os::unix::fs::FileTypeExt;
        whole(Path::new("/dev/null"), "text").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        // The disk that is always full.
        let full = whole(Path::new("/dev/full"), "text").unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert!(full.to_string().starts_with("/dev/full: "), "{full}");
    }
}
