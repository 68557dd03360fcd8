//! Records that were not written: where they are, why, and what they were.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

use serde_json::{Value, json};

use super::split::Place;
use crate::notes::WrongArguments;

/// So many are shown if there is no file for them.
const SHOWN: u64 = 10;

/// A record that was not written.
#[derive(Debug)]
pub(super) struct Reject {
    pub(super) at: Place,
    pub(super) reason: String,
    pub(super) raw: Vec<u8>,
    /// Whether `raw` is its beginning only.
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

/// Where rejected records go.
#[derive(Debug)]
pub(super) struct Rejects {
    file: Option<File>,
    count: u64,
}

impl Rejects {
    /// They are appended to the file, if there is to be one.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, WrongArguments> {
        let file = path.map(open).transpose().map_err(|error| {
            let path = path.unwrap_or(Path::new("")).display();
            WrongArguments(format!("--rejects {path}: it cannot be written: {error}"))
        })?;
        Ok(Self { file, count: 0 })
    }

    /// Takes one down. Gives what to show of it, if it is not kept and one of the first.
    pub(super) fn add(&mut self, source: &str, reject: &Reject) -> io::Result<Option<String>> {
        self.count += 1;
        let Some(file) = &mut self.file else {
            let is_shown = self.count <= SHOWN;
            return Ok(is_shown.then(|| {
                let (line, reason) = (reject.at.lines + 1, &reject.reason);
                format!("{source}, line {line} (byte {}): {reason}", reject.at.offset)
            }));
        };
        let mut line = reject.to_json(source).to_string();
        line.push('\n');
        file.write_all(line.as_bytes())?;
        Ok(None)
    }

    /// They are on disk before a checkpoint says that they were dealt with.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }
}

/// Opens a file to append to. If the last line has no end, because the program died there, it gets one.
fn open(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_kept_too() {
        let at = Place { offset: 9, lines: 2 };
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
