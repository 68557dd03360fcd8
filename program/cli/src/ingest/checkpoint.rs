//! Checkpoint file: the position in each source up to which everything is written, where the next run continues.
//!
//! The file is replaced atomically: after a crash, it is the old one or the new one.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    source::{Format, Source},
    split::Position,
};
use crate::{notes::WrongArguments, save};

/// Version of the file format.
const VERSION: u32 = 1;

/// A checkpoint file.
#[derive(Debug)]
pub(super) struct Checkpoint {
    path: PathBuf,
    content: Content,
    /// Lock against other runs.
    _claim: Claim,
}

/// Content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Content {
    version: u32,
    collection: String,
    sources: Vec<Entry>,
}

/// Position in a source.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    source: String,
    /// Path of the source, if it is a file.
    path: Option<String>,
    /// Everything before this offset is acknowledged or rejected.
    offset: u64,
    lines: u64,
    head: String,
    tail: Option<String>,
}

impl Checkpoint {
    /// Reads the file if it exists, and checks that it can be written. Does not create it.
    pub(super) fn open(path: &Path, collection: &str) -> Result<Self, WrongArguments> {
        let wrong = |why: String| WrongArguments(format!("--checkpoint {}: {why}", path.display()));
        // A device or a pipe must not be replaced, and reading it may not end.
        if fs::metadata(path).is_ok_and(|it| !it.is_file()) {
            return Err(wrong("not a regular file".to_owned()));
        }
        let claim = Claim::on(path).map_err(|error| match error {
            TryLockError::WouldBlock => wrong(
                "another run is using this checkpoint; wait for its end, or use another file"
                    .to_owned(),
            ),
            TryLockError::Error(error) => wrong(format!("cannot be written: {error}")),
        })?;
        let content = match fs::read(path) {
            Ok(bytes) => serde_json::from_slice::<Content>(&bytes)
                .map_err(|error| wrong(format!("not a checkpoint of this program: {error}")))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Content { version: VERSION, collection: collection.to_owned(), sources: Vec::new() }
            }
            Err(error) => return Err(wrong(error.to_string())),
        };
        if content.version != VERSION {
            return Err(wrong(format!(
                "written by another version of this program (format {}, expected {VERSION})",
                content.version
            )));
        }
        if content.collection != collection {
            let other = &content.collection;
            return Err(wrong(format!(
                "belongs to {other}, not to {collection}; use one checkpoint per collection"
            )));
        }
        let checkpoint = Self { path: path.to_owned(), content, _claim: claim };
        let tried = checkpoint.write_new_file().and_then(fs::remove_file);
        tried.map_err(|error| wrong(format!("cannot be written: {error}")))?;
        Ok(checkpoint)
    }

    /// Returns the position where a source continues: its beginning without an entry.
    ///
    /// # Errors
    /// If the source has changed before that position.
    pub(super) fn position(&self, source: &Source) -> Result<Position, WrongArguments> {
        let entries = &self.content.sources;
        let by_name = entries.iter().find(|it| it.source == source.name);
        let by_path =
            || entries.iter().find(|it| it.path.is_some() && it.path == source.real_path());
        let Some(entry) = by_name.or_else(by_path) else { return Ok(Position::default()) };
        match self.change(entry, source) {
            None => Ok(Position { offset: entry.offset, lines: entry.lines }),
            Some(change) => Err(WrongArguments(format!(
                "{}: {change}; the checkpoint {} says that its first {} bytes are ingested. For another file, use \
                 another checkpoint or --source. If the file was changed, its records may exist with other keys; \
                 delete the checkpoint to ingest all of it",
                source.file,
                self.path.display(),
                entry.offset,
            ))),
        }
    }

    fn change(&self, entry: &Entry, source: &Source) -> Option<String> {
        if entry.offset == 0 {
            return None;
        }
        if entry.head != source.head {
            return Some("its beginning has changed".to_owned());
        }
        if entry.source != source.name {
            return Some(format!("its source name was {:?}", entry.source));
        }
        if let Some(size) = source.size.filter(|size| *size < entry.offset) {
            return Some(format!("it is shorter than before ({size} bytes)"));
        }
        if source.format == Format::Csv && source.line_continues_at(entry.offset).unwrap_or(false) {
            return Some(
                "its last record was ingested without a line end, and is longer now".to_owned(),
            );
        }
        match (&entry.tail, source.tail(entry.offset)) {
            (Some(before), Ok(Some(now))) if *before != now => {
                Some("it was changed other than by appending".to_owned())
            }
            (_, Err(error)) => Some(error.to_string()),
            (_, Ok(_)) => None,
        }
    }

    /// Stores the position in a source.
    pub(super) fn put(&mut self, source: &Source, position: Position) -> io::Result<()> {
        let entry = Entry {
            source: source.name.clone(),
            path: source.real_path(),
            offset: position.offset,
            lines: position.lines,
            head: source.head.clone(),
            tail: source.tail(position.offset)?,
        };
        match self.content.sources.iter_mut().find(|it| it.source == entry.source) {
            Some(old) => *old = entry,
            None => self.content.sources.push(entry),
        }
        Ok(())
    }

    /// Writes the file.
    pub(super) fn write(&self) -> io::Result<()> {
        let written = self.write_new_file().and_then(|new| fs::rename(new, &self.path));
        written.map_err(|error| {
            let path = self.path.display();
            io::Error::new(error.kind(), format!("--checkpoint {path}: cannot be written: {error}"))
        })?;
        save::sync_folder(&self.path)
    }

    /// Writes a new file in the same folder, durably. Its name is always the same: one that a killed program left is
    /// overwritten. After an error, it is deleted.
    fn write_new_file(&self) -> io::Result<PathBuf> {
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        let new = PathBuf::from(name);
        let mut file = File::create(&new)?;
        let written = serde_json::to_vec(&self.content)
            .map_err(io::Error::from)
            .and_then(|text| file.write_all(&text))
            .and_then(|()| file.write_all(b"\n"))
            .and_then(|()| file.sync_all());
        if let Err(error) = written {
            // The first error is reported.
            let _ = fs::remove_file(&new);
            return Err(error);
        }
        Ok(new)
    }
}

/// Lock on a checkpoint: two runs would replace each other's files and lose positions. The system releases it
/// however the program ends.
#[derive(Debug)]
struct Claim {
    path: PathBuf,
    _lock: File,
}

impl Claim {
    /// Locks a separate file: each write makes the checkpoint a new file.
    fn on(checkpoint: &Path) -> Result<Self, TryLockError> {
        let mut path = checkpoint.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let lock = File::options().create(true).write(true).truncate(false).open(&path);
        let lock = lock.map_err(TryLockError::Error)?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            // Some file systems do not support locks.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Self { path, _lock: lock }),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The next run reuses a file that is left.
        let _ = fs::remove_file(&self.path);
    }
}
