//! Atomic writes of files: a reader finds the old text or the new one, never a part.

use std::{
    ffi::OsString,
    fs::{self, File, Metadata},
    io::{self, Write},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

use crate::notes::WrongArguments;

/// Checks that the file of an option can be written, before long work. An existing file is not changed.
pub(crate) fn check(option: &str, path: &Path) -> Result<(), WrongArguments> {
    let wrong = |why: &str| WrongArguments(format!("{option} {}: {why}", path.display()));
    if path.as_os_str() == "-" {
        return Err(wrong("write it to a file; for standard output, use --json"));
    }
    let checked = || match SaveTarget::of(path)? {
        // Opening a pipe can block until it has a reader.
        SaveTarget::Device => Ok(()),
        SaveTarget::File { path, .. } => draft(&path).map(drop),
    };
    checked().map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => wrong("this is not the name of a file"),
        io::ErrorKind::IsADirectory => wrong("this is a folder; name a file in it"),
        io::ErrorKind::NotFound => wrong("the folder does not exist; create it first"),
        _ => wrong(&format!("cannot write a file there: {error}")),
    })
}

/// Writes a file, or replaces it. After an error, an existing file is unchanged and nothing else is left. The error
/// begins with the name of the file.
pub(crate) fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let target = SaveTarget::of(path);
    let is_there = matches!(target, Ok(SaveTarget::File { before: Some(_), .. }));
    let written = target.and_then(|target| match target {
        SaveTarget::Device => {
            let mut device = File::options().write(true).open(path)?;
            device.write_all(text.as_bytes())?;
            device.flush()
        }
        SaveTarget::File { path, before } => replace(&path, before, text),
    });
    written.map_err(|error| {
        let old = if is_there { "; the existing file is unchanged" } else { "" };
        io::Error::new(error.kind(), format!("{}: {error}{old}", path.display()))
    })
}

fn replace(path: &Path, before: Option<Metadata>, text: &str) -> io::Result<()> {
    let mut draft = draft(path)?;
    draft.as_file_mut().write_all(text.as_bytes())?;
    if let Some(before) = before {
        draft.as_file().set_permissions(before.permissions())?;
    }
    draft.as_file().sync_all()?;
    draft.persist(path)?;
    sync_folder(path)
}

/// Returns an empty file in the same folder, which is deleted when it is dropped.
fn draft(path: &Path) -> io::Result<NamedTempFile> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    // With permissions like those of any new file, and errors that do not name the draft.
    tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".new")
        .make_in(folder(path), |draft| File::create_new(draft))
}

/// Makes a renamed file durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    // Some systems cannot synchronize a folder, and do not need it.
    File::open(folder(path)).and_then(|folder| folder.sync_all()).or(Ok(()))
}

/// Target of a write.
enum SaveTarget {
    /// A file that exists or not, with symbolic links resolved.
    File { path: PathBuf, before: Option<Metadata> },
    /// A device or a pipe, such as `/dev/stdout`, which is not replaced.
    Device,
}

impl SaveTarget {
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
        // A write-protected file could be replaced, but must not be.
        File::options().append(true).open(path)?;
        Ok(Self::File { path: path.canonicalize()?, before: Some(before) })
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
    use tempfile::TempDir;

    use super::*;

    fn temp_dir() -> TempDir {
        tempfile::tempdir().unwrap()
    }

    fn names(folder: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn file_is_written_and_replaced_without_leftovers() {
        let folder = temp_dir();
        let path = folder.path().join("report.html");
        check("--report", &path).unwrap();
        assert_eq!(names(&folder), [""; 0], "a check leaves nothing behind");
        for text in ["one", "", "three"] {
            write_file(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            check("--report", &path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text, "a check changes nothing");
        }
        assert_eq!(names(&folder), ["report.html"]);
    }

    #[test]
    fn check_and_write_report_unusable_paths() {
        let folder = temp_dir();
        for (name, reason) in [
            (".", "this is a folder; name a file in it"),
            ("a/b", "the folder does not exist; create it first"),
            ("new/", "this is not the name of a file"),
        ] {
            let path = folder.path().join(name);
            let before = check("--report", &path).unwrap_err().to_string();
            assert_eq!(before, format!("--report {}: {reason}", path.display()));
            let after = write_file(&path, "text").unwrap_err().to_string();
            assert!(after.starts_with(&format!("{}: ", path.display())), "{after}");
        }
        let standard = check("--svg", Path::new("-")).unwrap_err().to_string();
        assert!(standard.starts_with("--svg -: write it to a file"), "{standard}");
        assert_eq!(names(&folder), [""; 0]);
    }

    #[cfg(unix)]
    #[test]
    fn target_of_a_link_is_replaced_and_keeps_its_permissions() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = temp_dir();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        symlink("file", &link).unwrap();
        write_file(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(names(&folder), ["file", "link"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_are_written_and_not_replaced() {
        use std::os::unix::fs::FileTypeExt;
        write_file(Path::new("/dev/null"), "text").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        let full = write_file(Path::new("/dev/full"), "text").unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert!(full.to_string().starts_with("/dev/full: "), "{full}");
    }
}
