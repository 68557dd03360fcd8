//! Rejected records: position, reason and content.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::split::Position;
use crate::notes::WrongArguments;

/// Number of rejected records that are printed if there is no file.
const SHOWN: u64 = 10;

/// A rejected record.
#[derive(Debug)]
pub(super) struct Reject {
    pub(super) at: Position,
    pub(super) reason: String,
    pub(super) raw: Vec<u8>,
    /// `true` if `raw` is only the beginning.
    pub(super) is_cut: bool,
}

impl Reject {
    fn to_json(&self, source: &str) -> Value {
        let mut line = json!({
            "source": source,
            "offset": self.at.offset,
            "line": self.at.lines + 1,
            "reason": self.reason,
        });
        match std::str::from_utf8(&self.raw) {
            Ok(text) => line["raw"] = text.into(),
            Err(_) => line["rawHex"] = hex(&self.raw).into(),
        }
        if self.is_cut {
            line["cut"] = true.into();
        }
        line
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Destination of rejected records.
#[derive(Debug)]
pub(super) struct Rejects {
    path: Option<PathBuf>,
    /// Created for the first rejected record.
    file: Option<RejectsFile>,
    count: u64,
}

impl Rejects {
    /// Returns the destination. Checks that the file can be appended to, if there is one.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, WrongArguments> {
        let mut rejects = Self { path: path.map(Path::to_owned), file: None, count: 0 };
        let Some(path) = path else { return Ok(rejects) };
        let tried = if path.exists() {
            RejectsFile::open(path).map(|file| rejects.file = Some(file))
        } else {
            File::create_new(path).and_then(|_| fs::remove_file(path))
        };
        tried.map_err(|error| WrongArguments(write_error(path, &error)))?;
        Ok(rejects)
    }

    /// Stores a rejected record. Without a file, returns a message for each of the first ones.
    pub(super) fn add(&mut self, source: &str, reject: &Reject) -> io::Result<Option<String>> {
        self.count += 1;
        let Some(path) = &self.path else {
            let is_shown = self.count <= SHOWN;
            return Ok(is_shown.then(|| {
                let (line, reason) = (reject.at.lines + 1, &reject.reason);
                format!("{source}, line {line} (byte {}): {reason}", reject.at.offset)
            }));
        };
        let mut line = reject.to_json(source).to_string();
        line.push('\n');
        let file = match self.file.take() {
            Some(file) => Ok(file),
            None => RejectsFile::open(path),
        };
        let added = file.and_then(|file| self.file.insert(file).append(line.as_bytes()));
        added.map_err(|error| io::Error::new(error.kind(), write_error(path, &error)))?;
        Ok(None)
    }

    /// Synchronizes the file, before a checkpoint skips its records.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), RejectsFile::sync)
    }
}

fn write_error(path: &Path, error: &io::Error) -> String {
    format!("--rejects {}: cannot be written: {error}", path.display())
}

/// File of rejected records.
#[derive(Debug)]
struct RejectsFile {
    file: File,
    /// Length, unless it is a device or a pipe.
    length: Option<u64>,
}

impl RejectsFile {
    /// Opens the file for appending. Adds the line end that is missing after a crash.
    fn open(path: &Path) -> io::Result<Self> {
        let is_device = fs::metadata(path).is_ok_and(|it| !it.is_file() && !it.is_dir());
        if is_device {
            let file = OpenOptions::new().append(true).open(path)?;
            return Ok(Self { file, length: None });
        }
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let length = file.metadata()?.len();
        let mut kept = Self { length: Some(length), file };
        if length > 0 {
            kept.file.seek(SeekFrom::End(-1))?;
            let mut last = [0];
            kept.file.read_exact(&mut last)?;
            if last != *b"\n" {
                kept.append(b"\n")?;
            }
        }
        Ok(kept)
    }

    /// Appends a line completely or not at all.
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(line);
        match (&written, &mut self.length) {
            (Ok(()), Some(length)) => *length += line.len() as u64,
            // The first error is reported.
            (Err(_), Some(length)) => drop(self.file.set_len(*length)),
            (_, None) => {}
        }
        written
    }

    fn sync(&self) -> io::Result<()> {
        self.length.map_or(Ok(()), |_| self.file.sync_data())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf8_is_stored_as_hex() {
        let at = Position { offset: 9, lines: 2 };
        let mut reject =
            Reject { at, reason: "no".to_owned(), raw: b"\"\xff".to_vec(), is_cut: false };
        let line =
            json!({ "source": "s", "offset": 9, "line": 3, "reason": "no", "rawHex": "22ff" });
        assert_eq!(reject.to_json("s"), line);
        reject.raw = b"{".to_vec();
        reject.is_cut = true;
        assert_eq!(reject.to_json("s")["raw"], "{");
        assert_eq!(reject.to_json("s")["cut"], true);
    }
}
