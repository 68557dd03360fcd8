//! The file that says up to where everything is written, so that the next run goes on there.
//!
//! It is replaced as a whole: whenever the program or the machine dies, there is the old one or the new one.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    source::{Format, Source},
    split::Place,
};
use crate::notes::WrongArguments;

/// The layout of the file. Another version of this program may have another.
const VERSION: u32 = 1;

/// A checkpoint file.
#[derive(Debug)]
pub(super) struct Checkpoint {
    path: PathBuf,
    said: Said,
    /// Nobody else writes it meanwhile.
    _claim: Claim,
}

/// What it says.
#[derive(Debug, Serialize, Deserialize)]
struct Said {
    version: u32,
    collection: String,
    sources: Vec<Entry>,
}

/// Of one source.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    source: String,
    /// Where the file is, if it is one.
    path: Option<String>,
    /// All before it is acknowledged or rejected.
    offset: u64,
    lines: u64,
    head: String,
    tail: Option<String>,
}

impl Checkpoint {
    /// Reads it if it is there, and makes sure that it can be written. It is not made yet.
    pub(super) fn open(path: &Path, collection: &str) -> Result<Self, WrongArguments> {
        let wrong = |why: String| WrongArguments(format!("--checkpoint {}: {why}", path.display()));
        // It is replaced, which is nothing to do to a device or a pipe; and there, reading may have no end.
        if fs::metadata(path).is_ok_and(|it| !it.is_file()) {
            return Err(wrong("it is not a file".to_owned()));
        }
        let claim = Claim::on(path).map_err(|error| match error {
            TryLockError::WouldBlock => wrong(
                "another run is at work with it; wait for its end, or give this one a checkpoint of its own"
                    .to_owned(),
            ),
            TryLockError::Error(error) => wrong(format!("it cannot be written: {error}")),
        })?;
        let said = match fs::read(path) {
            Ok(bytes) => serde_json::from_slice::<Said>(&bytes)
                .map_err(|error| wrong(format!("it is no checkpoint of this program: {error}")))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Said { version: VERSION, collection: collection.to_owned(), sources: Vec::new() }
            }
            Err(error) => return Err(wrong(error.to_string())),
        };
        if said.version != VERSION {
            return Err(wrong(format!(
                "another version of this program wrote it ({})",
                said.version
            )));
        }
        if said.collection != collection {
            let other = &said.collection;
            return Err(wrong(format!(
                "it is about {other}, not {collection}; give each collection a checkpoint of its own"
            )));
        }
        let checkpoint = Self { path: path.to_owned(), said, _claim: claim };
        let tried = checkpoint.write_beside().and_then(fs::remove_file);
        tried.map_err(|error| wrong(format!("it cannot be written: {error}")))?;
        Ok(checkpoint)
    }

    /// Where to go on with a source: at its beginning if nothing is known of it. Refuses one that is no
    /// longer what it was.
    pub(super) fn place(&self, source: &Source) -> Result<Place, WrongArguments> {
        let entries = &self.said.sources;
        let by_name = entries.iter().find(|it| it.source == source.name);
        let by_path =
            || entries.iter().find(|it| it.path.is_some() && it.path == source.real_path());
        let Some(entry) = by_name.or_else(by_path) else { return Ok(Place::default()) };
        match self.change(entry, source) {
            None => Ok(Place { offset: entry.offset, lines: entry.lines }),
            Some(change) => Err(WrongArguments(format!(
                "{}: {change}. By the checkpoint {}, the first {} bytes of it are ingested. If it is \
                 another file, give it another checkpoint, or another name with --source; if it was \
                 changed, its records may be there already by other keys: delete the checkpoint to ingest \
                 it all even so",
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
            return Some("it does not begin as it did".to_owned());
        }
        if entry.source != source.name {
            return Some(format!("its records were known by the name {:?}", entry.source));
        }
        if let Some(size) = source.size.filter(|size| *size < entry.offset) {
            return Some(format!("it is shorter than it was, {size} bytes"));
        }
        if source.format == Format::Csv && source.goes_on_at(entry.offset).unwrap_or(false) {
            return Some(
                "its last record was ingested before its line was at an end, and goes on now"
                    .to_owned(),
            );
        }
        match (&entry.tail, source.tail(entry.offset)) {
            (Some(before), Ok(Some(now))) if *before != now => {
                Some("it has changed, and did not only grow".to_owned())
            }
            (_, Err(error)) => Some(error.to_string()),
            (_, Ok(_)) => None,
        }
    }

    /// Puts down where all before is done.
    pub(super) fn put(&mut self, source: &Source, place: Place) -> io::Result<()> {
        let entry = Entry {
            source: source.name.clone(),
            path: source.real_path(),
            offset: place.offset,
            lines: place.lines,
            head: source.head.clone(),
            tail: source.tail(place.offset)?,
        };
        match self.said.sources.iter_mut().find(|it| it.source == entry.source) {
            Some(old) => *old = entry,
            None => self.said.sources.push(entry),
        }
        Ok(())
    }

    /// Replaces the file.
    pub(super) fn write(&self) -> io::Result<()> {
        let written = self.write_beside().and_then(|new| fs::rename(new, &self.path));
        written.map_err(|error| {
            let path = self.path.display();
            io::Error::new(
                error.kind(),
                format!("--checkpoint {path}: it cannot be written: {error}"),
            )
        })?;
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            Some(_) | None => Path::new("."),
        };
        // Where a folder cannot be synchronized, its system does it in its own way.
        File::open(folder).and_then(|folder| folder.sync_all()).or(Ok(()))
    }

    /// A new file beside it, on disk; nothing is left of it if that fails.
    fn write_beside(&self) -> io::Result<PathBuf> {
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        let new = PathBuf::from(name);
        let mut file = File::create(&new)?;
        let written = serde_json::to_vec(&self.said)
            .map_err(io::Error::from)
            .and_then(|text| file.write_all(&text))
            .and_then(|()| file.write_all(b"\n"))
            .and_then(|()| file.sync_all());
        if let Err(error) = written {
            // What went wrong first is what people are told.
            let _ = fs::remove_file(&new);
            return Err(error);
        }
        Ok(new)
    }
}

/// Holds a checkpoint for one run: two that replace it in turn would take each other's files away, and forget
/// what the other has done. The system lets go of it however the program ends.
#[derive(Debug)]
struct Claim {
    path: PathBuf,
    _lock: File,
}

impl Claim {
    /// The file that is locked lies beside it: the checkpoint itself is another file each time.
    fn on(checkpoint: &Path) -> Result<Self, TryLockError> {
        let mut path = checkpoint.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let lock = File::options().create(true).write(true).truncate(false).open(&path);
        let lock = lock.map_err(TryLockError::Error)?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            // Some file systems know no locks.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Self { path, _lock: lock }),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // If it stays, the next run takes it.
        let _ = fs::remove_file(&self.path);
    }
}
