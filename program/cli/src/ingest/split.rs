//! Splits a stream into records, which are lines or CSV records, with their offsets. Memory is bounded: only the
//! beginning of a record that is too long is kept.

use std::io::{self, BufRead};

use super::{csv::CsvState, source::Format};

/// Maximum length of a record in bytes: twice that of a document, because JSON is longer than BSON.
pub(super) const LONGEST: usize = 32 << 20;

/// Bytes that are kept of a record that is too long.
const BEGINNING: usize = 1024;

/// Position in a stream: the beginning of a record, or the point where reading continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// Bytes before it.
    pub(super) offset: u64,
    /// Lines before it.
    pub(super) lines: u64,
}

/// A record that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) at: Position,
    /// Number of bytes that were kept, without the line end.
    pub(super) length: usize,
    pub(super) is_too_long: bool,
    /// True if its end was read. Otherwise the stream ended there, and may be growing.
    pub(super) is_ended: bool,
}

/// Splits a stream into records.
#[derive(Debug)]
pub(super) struct Splitter<R> {
    input: R,
    format: Format,
    position: Position,
    longest: usize,
}

impl<R: BufRead> Splitter<R> {
    /// Reads from `input`, which is at `position`, the beginning of a record.
    pub(super) fn new(input: R, format: Format, position: Position) -> Self {
        Self { input, format, position, longest: LONGEST }
    }

    /// Returns the position after the last record that was read.
    pub(super) fn position(&self) -> Position {
        self.position
    }

    pub(super) fn input(&self) -> &R {
        &self.input
    }

    /// Appends the next record to `text`.
    pub(super) fn next(&mut self, text: &mut Vec<u8>) -> io::Result<Option<Piece>> {
        let (at, start) = (self.position, text.len());
        let mut state = CsvState::FieldStart;
        let (mut length, mut is_ended) = (0, false);
        while !is_ended {
            let buffer = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
            };
            if buffer.is_empty() {
                break;
            }
            let end = match self.format {
                Format::Ndjson => buffer.iter().position(|byte| *byte == b'\n'),
                Format::Csv => buffer.iter().position(|byte| {
                    let before = state;
                    state = before.after(*byte);
                    *byte == b'\n' && before != CsvState::Quoted
                }),
            };
            is_ended = end.is_some();
            let taken = &buffer[..end.map_or(buffer.len(), |end| end + 1)];
            let room = self.longest.saturating_sub(length).min(taken.len());
            text.extend_from_slice(&taken[..room]);
            length += taken.len();
            self.position.lines += match self.format {
                Format::Ndjson => u64::from(is_ended),
                Format::Csv => taken.iter().filter(|byte| **byte == b'\n').count() as u64,
            };
            self.position.offset += taken.len() as u64;
            let taken = taken.len();
            self.input.consume(taken);
        }
        if length == 0 {
            return Ok(None);
        }
        let is_too_long = length > self.longest;
        if is_too_long {
            text.truncate(start + BEGINNING.min(self.longest));
        } else {
            while text.len() > start && matches!(text.last(), Some(b'\n' | b'\r')) {
                text.pop();
            }
        }
        Ok(Some(Piece { at, length: text.len() - start, is_too_long, is_ended }))
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    /// Splits with several buffer sizes, and returns the records with their offsets and lines.
    fn split(format: Format, input: &str) -> Vec<(u64, u64, String)> {
        let all = [1, 2, 3, 1000].map(|capacity| {
            let input = BufReader::with_capacity(capacity, input.as_bytes());
            let mut splitter = Splitter::new(input, format, Position::default());
            let (mut text, mut records) = (Vec::new(), Vec::new());
            while let Some(piece) = splitter.next(&mut text).unwrap() {
                let record = String::from_utf8(std::mem::take(&mut text)).unwrap();
                records.push((piece.at.offset, piece.at.lines, record));
            }
            records
        });
        assert!(all.windows(2).all(|two| two[0] == two[1]), "{all:?}");
        all[0].clone()
    }

    #[test]
    fn lines_end_with_lf_or_crlf_or_the_file() {
        let expected = [(0, 0, "{}"), (4, 1, ""), (5, 2, "{ }"), (9, 3, "{")];
        let expected = expected.map(|(offset, line, text)| (offset, line, text.to_owned()));
        assert_eq!(split(Format::Ndjson, "{}\r\n\n{ }\n{"), expected);
        assert_eq!(split(Format::Ndjson, ""), []);
    }

    #[test]
    fn quoted_field_can_contain_newlines() {
        let expected =
            [(0, 0, "a,b"), (4, 1, "1,\"x\ny\"\"\n\""), (15, 4, "5\" pipe,2"), (25, 5, "3")];
        let expected = expected.map(|(offset, line, text)| (offset, line, text.to_owned()));
        assert_eq!(split(Format::Csv, "a,b\n1,\"x\ny\"\"\n\"\n5\" pipe,2\n3\n"), expected);
    }

    #[test]
    fn beginning_of_a_too_long_record_is_kept() {
        let input = format!("{}\n{{}}", "x".repeat(100));
        let mut splitter = Splitter::new(input.as_bytes(), Format::Ndjson, Position::default());
        splitter.longest = 10;
        let mut text = Vec::new();
        let piece = splitter.next(&mut text).unwrap().unwrap();
        assert!(piece.is_too_long && piece.is_ended);
        assert_eq!((piece.length, text.as_slice()), (10, &b"xxxxxxxxxx"[..]));
        let piece = splitter.next(&mut text).unwrap().unwrap();
        assert_eq!((piece.at.offset, piece.at.lines), (101, 1));
        assert!(!piece.is_too_long && !piece.is_ended);
        assert_eq!(splitter.next(&mut text).unwrap(), None);
    }
}
