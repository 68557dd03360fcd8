//! Where records come from: files and streams, their format, and the names that their records are known by.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Chain, Cursor, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use clap::ValueEnum;

use super::split::Position;
use crate::notes::WrongArguments;

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A document of Extended JSON on each line
    Ndjson,
    /// Values with commas between them; the first line names the fields
    Csv,
}

/// Reads this much at a time.
const BUFFER: usize = 1 << 18;

/// So much of a beginning is looked at.
const BEGINNING: usize = 1 << 16;

/// So much before a position is looked at, to see whether the file is still the same.
const BEFORE: u64 = 4096;

/// A file or a stream.
pub(super) struct Source {
    /// What its records are known by, in every run.
    pub(super) name: String,
    /// The name that it was given by.
    pub(super) file: String,
    pub(super) format: Format,
    /// Of the first record: a file that is another has another, most likely.
    pub(super) head: String,
    /// How long it is, if it is a file.
    pub(super) size: Option<u64>,
    path: Option<PathBuf>,
    /// Of a stream: what of it was read already.
    stream: Mutex<Option<Stream>>,
}

type Stream = Chain<Cursor<Vec<u8>>, SourceReader>;

type SourceReader = BufReader<Box<dyn Read + Send>>;

/// How sources are named and read.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourceOptions<'a> {
    pub(super) format: Option<Format>,
    pub(super) name: Option<&'a str>,
    /// Whether records bring their own keys, so that the source need not have a name that lasts.
    pub(super) keys_are_given: bool,
}

impl Source {
    /// Opens it, and looks at its beginning.
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
                    "a stream has no name by which its records could be known in another run; give \
                     it one with --source, or name the field that holds each record's key with --id"
                        .to_owned(),
                ));
            }
        };
        let file = if is_stdin { shown } else { file_name.into_owned() };
        let stream = Mutex::new(size.is_none().then(|| Cursor::new(read).chain(input)));
        let path = size.is_some().then(|| path.to_owned());
        Ok(Self { name, file, format, head, size, path, stream })
    }

    /// What follows `from`; of a stream, all of it, and once.
    pub(super) fn reader(&self, from: Position) -> io::Result<Box<dyn BufRead + Send>> {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(stream) = stream {
            return Ok(Box::new(stream));
        }
        let mut file = self.reopened()?;
        file.seek(SeekFrom::Start(from.offset))?;
        Ok(Box::new(BufReader::with_capacity(BUFFER, file)))
    }

    /// Whether reading can begin in the midst of it.
    pub(super) fn is_file(&self) -> bool {
        self.size.is_some()
    }

    /// Where it is, however it was named, if it is a file.
    pub(super) fn real_path(&self) -> Option<String> {
        let path = self.path.as_deref()?;
        Some(path.canonicalize().ok()?.to_string_lossy().into_owned())
    }

    /// A fingerprint of what is before a position, if it is a file. If the file was changed and did not only
    /// grow, it is most likely another.
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

    /// Whether the line before a position was not at an end there, and goes on after it.
    pub(super) fn goes_on_at(&self, offset: u64) -> io::Result<bool> {
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
            Err("its name does not tell how its records are written; say --format ndjson or \
                          --format csv"
                .to_owned())
        }
    }
}

/// What to read, and how long it is if that is known.
fn open(path: &Path, is_stdin: bool) -> io::Result<(Box<dyn Read + Send>, Option<u64>)> {
    if is_stdin {
        return Ok((Box::new(io::stdin()), None));
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::other("it is a folder"));
    }
    let size = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(file), size))
}

/// The first line; of CSV the first two, because files of one kind have the same header.
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

/// A file that grows may get the end of its last line later.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// FNV-1a, 64 bits: the same in all versions of this program.
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
    fn the_fingerprint_is_the_known_one() {
        assert_eq!(fingerprint(b""), "cbf29ce484222325");
        assert_eq!(fingerprint(b"foobar"), "85944171f73967e8");
    }

    #[test]
    fn the_format_is_guessed_by_the_extension() {
        let of = |path: &str| format_of(Path::new(path), None);
        assert_eq!(of("a.NDJSON"), Ok(Format::Ndjson));
        assert_eq!(of("b/a.jsonl"), Ok(Format::Ndjson));
        assert_eq!(of("a.csv"), Ok(Format::Csv));
        assert!(of("a.gz").unwrap_err().contains("--format"));
        assert_eq!(format_of(Path::new("-"), Some(Format::Csv)), Ok(Format::Csv));
    }
}
