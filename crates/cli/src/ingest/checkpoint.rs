//! The file that says up to where everything is written, so that the next run goes on there.
//!
//! It is replaced as a whole: whenever the program or the machine dies, there is the old one or the new one.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{source::Source, split::Place};
use crate::notes::WrongArguments;

/// The layout of the file. Another version of this program may have another.
const VERSION: u32 = 1;

/// A checkpoint file.
#[derive(Debug)]
pub(super) struct Checkpoint {
    path: PathBuf,
    said: Said,
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
    /// Reads it if it is there, and makes sure that it can be written.
    pub(super) fn open(path: &Path, collection: &str) -> Result<Self, WrongArguments> {
        let wrong = |why: String| WrongArguments(format!("--checkpoint {}: {why}", path.display()));
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
        let checkpoint = Self { path: path.to_owned(), said };
        checkpoint.write().map_err(|error| wrong(format!("it cannot be written: {error}")))?;
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
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        let new = PathBuf::from(name);
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(&self.said)?)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            Some(_) | None => Path::new("."),
        };
        // Where a folder cannot be synchronized, its system does it in its own way.
        File::open(folder).and_then(|folder| folder.sync_all()).or(Ok(()))
    }
}
