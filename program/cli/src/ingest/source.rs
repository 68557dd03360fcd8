//! Sources of records: files and streams, their format, and their names in the keys of records.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Chain, Cursor, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use clap::ValueEnum;

use super::split::Position;
use crate::notes::WrongArguments;

/// Format of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A document of Extended JSON on each line
    Ndjson,
    /// Comma-separated values; the first line has the field names
    Csv,
}

/// Size of the read buffer.
const BUFFER: usize = 1 << 18;

/// Maximum length of the beginning for the fingerprint.
const BEGINNING: usize = 1 << 16;

/// Number of bytes before a position for the fingerprint that detects changes of the file.
const BEFORE: u64 = 4096;

/// A file or a stream.
pub(super) struct Source {
    /// Name in the keys of its records, the same in every run.
    pub(super) name: String,
    /// Name in messages.
    pub(super) file: String,
    pub(super) format: Format,
    /// Fingerprint of the first record.
    pub(super) head: String,
    /// Length of a file.
    pub(super) size: Option<u64>,
    path: Option<PathBuf>,
    /// Input of a stream, including the bytes that were read already.
    stream: Mutex<Option<Stream>>,
}

type Stream = Chain<Cursor<Vec<u8>>, SourceReader>;

type SourceReader = BufReader<Box<dyn Read + Send>>;

/// Options of all sources.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourceOptions<'a> {
    pub(super) format: Option<Format>,
    pub(super) name: Option<&'a str>,
    /// `true` if records have their own keys, so that the source needs no lasting name.
    pub(super) keys_are_given: bool,
}

impl Source {
    /// Opens a source and reads its beginning.
    pub(super) fn open(path: &Path, asked: SourceOptions<'_>) -> Result<Self, WrongArguments> {
        let is_stdin = path.as_os_str() == "-";
        let shown = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
        let wrong = |why: String| WrongArguments(format!("{shown}: {why}"));
        let (input, size) = open(path, is_stdin).map_err(|error| wrong(error.to_string()))?;
        let format = format_of(path, asked.format).map_err(wrong)?;
        let mut input: SourceReader = BufReader::with_capacity(BUFFER, input);
        let read = beginning(&mut input, format).map_err(|error| wrong(error.to_string()))?;
        let head = fingerprint(without_end(&read));
        let file_name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let name = match (asked.name, size) {
            (Some(name), _) => name.to_owned(),
            (None, Some(_)) => format!("{file_name}-{head}"),
            (None, None) if asked.keys_are_given => "stream".to_owned(),
            (None, None) => {
                return Err(wrong(
                    "a stream has no name for the _ids of its records; set a name with --source, or the field \
                     with the key with --id"
                        .to_owned(),
                ));
            }
        };
        let file = if is_stdin { shown } else { file_name.into_owned() };
        let stream = Mutex::new(size.is_none().then(|| Cursor::new(read).chain(input)));
        let path = size.is_some().then(|| path.to_owned());
        Ok(Self { name, file, format, head, size, path, stream })
    }

    /// Returns a reader from a position on. A stream can be read only once, from its beginning.
    pub(super) fn reader(&self, from: Position) -> io::Result<Box<dyn BufRead + Send>> {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(stream) = stream {
            return Ok(Box::new(stream));
        }
        let mut file = self.reopened()?;
        file.seek(SeekFrom::Start(from.offset))?;
        Ok(Box::new(BufReader::with_capacity(BUFFER, file)))
    }

    /// Returns `true` if reading can begin at any position.
    pub(super) fn is_file(&self) -> bool {
        self.size.is_some()
    }

    /// Returns the canonical path of a file.
    pub(super) fn real_path(&self) -> Option<String> {
        let path = self.path.as_deref()?;
        Some(path.canonicalize().ok()?.to_string_lossy().into_owned())
    }

    /// Returns a fingerprint of the bytes before a position of a file. It most likely differs after a change other
    /// than appending.
    pub(super) fn tail(&self, offset: u64) -> io::Result<Option<String>> {
        if !self.is_file() {
            return Ok(None);
        }
        let start = offset.saturating_sub(BEFORE);
        let mut file = self.reopened()?;
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(offset - start).read_to_end(&mut bytes)?;
        Ok(Some(fingerprint(&bytes)))
    }

    /// Returns `true` if a line continues across a position.
    pub(super) fn line_continues_at(&self, offset: u64) -> io::Result<bool> {
        if !self.is_file() || offset == 0 {
            return Ok(false);
        }
        let mut file = self.reopened()?;
        file.seek(SeekFrom::Start(offset - 1))?;
        let mut around = Vec::new();
        file.take(2).read_to_end(&mut around)?;
        Ok(matches!(around[..], [last, next] if last != b'\n' && !matches!(next, b'\n' | b'\r')))
    }

    fn reopened(&self) -> io::Result<File> {
        let path = self.path.as_deref().ok_or(io::ErrorKind::NotFound)?;
        File::open(path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }
}

fn format_of(path: &Path, asked: Option<Format>) -> Result<Format, String> {
    let extension = path.extension().map(|it| it.to_string_lossy().to_ascii_lowercase());
    match (asked, extension.as_deref()) {
        (Some(format), _) => Ok(format),
        (None, Some("ndjson" | "jsonl" | "json")) => Ok(Format::Ndjson),
        (None, Some("csv")) => Ok(Format::Csv),
        (None, _) => {
            Err("unknown file name extension; use --format ndjson or --format csv".to_owned())
        }
    }
}

/// Opens a file or standard input. Returns its length if known.
fn open(path: &Path, is_stdin: bool) -> io::Result<(Box<dyn Read + Send>, Option<u64>)> {
    if is_stdin {
        return Ok((Box::new(io::stdin()), None));
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::other("this is a folder; name a file in it"));
    }
    let size = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(file), size))
}

/// Reads the first line, or the first two of CSV: files of one kind have the same header.
fn beginning(input: &mut SourceReader, format: Format) -> io::Result<Vec<u8>> {
    let lines = match format {
        Format::Ndjson => 1,
        Format::Csv => 2,
    };
    let mut read = Vec::new();
    for _ in 0..lines {
        let room = BEGINNING.saturating_sub(read.len()) as u64;
        input.take(room).read_until(b'\n', &mut read)?;
    }
    Ok(read)
}

/// Removes the line end, which a growing file may get later.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Computes the 64-bit FNV-1a hash, which must be the same in all versions of this program.
fn fingerprint(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_is_the_fnv_1a_hash() {
        assert_eq!(fingerprint(b""), "cbf29ce484222325");
        assert_eq!(fingerprint(b"foobar"), "85944171f73967e8");
    }

    #[test]
    fn format_is_derived_from_the_extension() {
        let of = |path: &str| format_of(Path::new(path), None);
        assert_eq!(of("a.NDJSON"), Ok(Format::Ndjson));
        assert_eq!(of("b/a.jsonl"), Ok(Format::Ndjson));
        assert_eq!(of("a.csv"), Ok(Format::Csv));
        assert!(of("a.gz").unwrap_err().contains("--format"));
        assert_eq!(format_of(Path::new("-"), Some(Format::Csv)), Ok(Format::Csv));
    }
}
