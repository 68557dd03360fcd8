//! Batches of records, made by the reading thread.

use std::{
    io::{self, BufRead},
    ops::Range,
    sync::Arc,
};

use steadfast::bson::RawDocumentBuf;
use tokio::sync::{mpsc, watch};

use super::{
    csv,
    record::{Origin, Shape, without_mark},
    rejects::Reject,
    source::{Format, Source},
    split::{LONGEST, Position, Splitter},
};

/// Size in bytes at which a batch is complete.
const BYTES: usize = 4 << 20;

/// Consecutive records of a source.
#[derive(Debug)]
pub(super) struct Batch {
    /// Number of the batch in this run.
    pub(super) sequence: u64,
    /// Index of the source.
    pub(super) source: usize,
    /// Field names of CSV.
    pub(super) header: Arc<[String]>,
    pub(super) text: Vec<u8>,
    pub(super) records: Vec<RecordSlice>,
    /// Position after the last record.
    pub(super) end: Position,
    /// Number of bytes in the source.
    pub(super) bytes: u64,
}

/// A record of a batch.
#[derive(Debug)]
pub(super) struct RecordSlice {
    pub(super) at: Position,
    pub(super) range: Range<usize>,
    pub(super) is_too_long: bool,
    pub(super) is_ended: bool,
}

/// A batch parsed into documents.
#[derive(Debug)]
pub(super) struct ParsedBatch {
    pub(super) batch: Batch,
    /// Position after the last record that need not be read again.
    pub(super) end: Position,
    pub(super) documents: Vec<RawDocumentBuf>,
    /// Index of the record of each document.
    pub(super) record_indexes: Vec<usize>,
    pub(super) rejects: Vec<Reject>,
}

impl Batch {
    fn parse(self, source: &Source, shape: &Shape) -> ParsedBatch {
        let (mut documents, mut record_indexes) = (Vec::new(), Vec::new());
        let mut rejects = Vec::new();
        let mut end = self.end;
        for (index, record) in self.records.iter().enumerate() {
            let origin = Origin {
                source: &source.name,
                format: source.format,
                header: &self.header,
                offset: record.at.offset,
            };
            let document = if record.is_too_long {
                Err(format!("the record is longer than {LONGEST} bytes"))
            } else {
                shape.document(&self.text[record.range.clone()], origin)
            };
            match document {
                Ok(Some(document)) => {
                    documents.push(document);
                    record_indexes.push(index);
                }
                Ok(None) => {}
                Err(reason) => {
                    rejects.push(self.reject(index, reason));
                    // The rest of the line may be appended to the file later.
                    if !record.is_ended {
                        end = record.at;
                    }
                }
            }
        }
        ParsedBatch { batch: self, end, documents, record_indexes, rejects }
    }

    pub(super) fn reject(&self, index: usize, reason: String) -> Reject {
        let record = &self.records[index];
        let raw = self.text[record.range.clone()].to_vec();
        Reject { at: record.at, reason, raw, is_cut: record.is_too_long }
    }
}

/// Reads sources from the given positions, and sends batches until it is stopped. Blocks while the channel is full.
pub(super) struct BatchReader {
    pub(super) sources: Arc<Vec<Source>>,
    pub(super) from: Vec<Position>,
    pub(super) shape: Shape,
    pub(super) batch: usize,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) send: mpsc::Sender<Result<ParsedBatch, String>>,
}

impl BatchReader {
    pub(super) fn run(self) {
        let mut sequence = 0;
        for (index, source) in self.sources.iter().enumerate() {
            match self.read(source, index, &mut sequence) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    // Without a receiver, the run has ended already.
                    let _ = self.send.blocking_send(Err(format!("{}: {error}", source.file)));
                    return;
                }
            }
        }
    }

    /// Reads a source. Returns `false` if the run has ended.
    fn read(&self, source: &Source, index: usize, sequence: &mut u64) -> io::Result<bool> {
        let from = self.from[index];
        let (mut records, header) = begin(source, from)?;
        let header: Arc<[String]> = header.into();
        let mut start = records.position().offset;
        let mut is_over = false;
        while !is_over {
            let (mut text, mut slices) = (Vec::new(), Vec::new());
            while slices.len() < self.batch && text.len() < BYTES {
                let begin = text.len();
                let Some(piece) = records.next(&mut text)? else {
                    is_over = true;
                    break;
                };
                slices.push(RecordSlice {
                    at: piece.at,
                    range: begin..begin + piece.length,
                    is_too_long: piece.is_too_long,
                    is_ended: piece.is_ended,
                });
                // The next bytes of a stream may come much later.
                if !source.is_file() && records.input().is_drained() {
                    break;
                }
                if *self.stop.borrow() {
                    return Ok(false);
                }
            }
            if slices.is_empty() {
                continue;
            }
            let end = records.position();
            let (header, bytes) = (Arc::clone(&header), end.offset - start);
            start = end.offset;
            let batch = Batch {
                sequence: *sequence,
                source: index,
                header,
                text,
                records: slices,
                end,
                bytes,
            };
            *sequence += 1;
            let batch = batch.parse(source, &self.shape);
            if *self.stop.borrow() || self.send.blocking_send(Ok(batch)).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

type Records = Splitter<RecordInput>;

/// Returns the records from a position on, and the field names.
fn begin(source: &Source, from: Position) -> io::Result<(Records, Vec<String>)> {
    let at = |position| -> io::Result<Records> {
        Ok(Splitter::new(RecordInput::new(source.reader(position)?), source.format, position))
    };
    let mut records = at(Position::default())?;
    let mut text = Vec::new();
    let mut header = Vec::new();
    if source.format == Format::Csv && records.next(&mut text)?.is_some() {
        header = parse_header(&text).map_err(io::Error::other)?;
    }
    if from.offset <= records.position().offset {
        return Ok((records, header));
    }
    if source.is_file() {
        return Ok((at(from)?, header));
    }
    while records.position().offset < from.offset {
        text.clear();
        if records.next(&mut text)?.is_none() {
            let ends = records.position().offset;
            return Err(io::Error::other(format!(
                "the stream ends after {ends} bytes, but the checkpoint has {} ingested bytes; it is another \
                 stream or incomplete",
                from.offset
            )));
        }
    }
    Ok((records, header))
}

fn parse_header(record: &[u8]) -> Result<Vec<String>, String> {
    let text = std::str::from_utf8(record).map_err(|_| "the header is not UTF-8".to_owned())?;
    csv::header(without_mark(text, 0))
}

/// Buffered input that shows whether the next read needs a system call.
struct RecordInput {
    input: Box<dyn BufRead + Send>,
    /// Number of bytes that are buffered and not consumed.
    ahead: usize,
}

impl RecordInput {
    fn new(input: Box<dyn BufRead + Send>) -> Self {
        Self { input, ahead: 0 }
    }

    fn is_drained(&self) -> bool {
        self.ahead == 0
    }
}

impl io::Read for RecordInput {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for RecordInput {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let bytes = self.input.fill_buf()?;
        self.ahead = bytes.len();
        Ok(bytes)
    }

    fn consume(&mut self, count: usize) {
        self.ahead -= count.min(self.ahead);
        self.input.consume(count);
    }
}
