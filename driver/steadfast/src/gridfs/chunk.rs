//! Chunks of a file: serialization and checks.

use bson::{Bson, RawDocument, oid::ObjectId, raw::RawBinaryRef};
use serde::Serialize;

use super::file::Layout;
use crate::{
    error::{GridFsErrorKind, Result},
    serde_helpers::number,
};

/// Chunk to store.
#[derive(Debug, Serialize)]
pub(super) struct Chunk<'a> {
    #[serde(rename = "_id")]
    pub(super) id: ObjectId,
    pub(super) files_id: &'a Bson,
    pub(super) n: i32,
    pub(super) data: RawBinaryRef<'a>,
}

/// Kind of a chunk that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkKind {
    /// The expected chunk.
    Expected,
    /// An empty chunk after the last. Some drivers wrote it, and the specification allows to ignore
    /// it.
    Surplus,
}

/// Checks the number and the size of a chunk.
pub(super) fn check(chunk: &RawDocument, expected: u32, layout: &Layout) -> Result<ChunkKind> {
    let found = number_of(chunk).ok_or_else(|| invalid(expected, "a chunk without n"))?;
    let length = data(chunk).ok_or_else(|| invalid(expected, "a chunk without data"))?.len();
    if expected >= layout.count && length == 0 {
        return Ok(ChunkKind::Surplus);
    }
    if expected >= layout.count {
        let (actual_number, expected_number) = (layout.count.saturating_add(1), layout.count);
        return Err(GridFsErrorKind::WrongNumberOfChunks { actual_number, expected_number }.into());
    }
    if found > u64::from(expected) {
        return Err(GridFsErrorKind::MissingChunk { n: expected }.into());
    }
    if found < u64::from(expected) {
        return Err(invalid(expected, &format!("chunk {found}")));
    }
    let expected_size = layout.length_of(expected);
    if u32::try_from(length) != Ok(expected_size) {
        let kind =
            GridFsErrorKind::WrongSizeChunk { actual_size: length, expected_size, n: expected };
        return Err(kind.into());
    }
    Ok(ChunkKind::Expected)
}

/// Returns the contents of a chunk.
pub(super) fn data(chunk: &RawDocument) -> Option<&[u8]> {
    chunk.get_binary("data").ok().map(|binary| binary.bytes)
}

fn number_of(chunk: &RawDocument) -> Option<u64> {
    let n = chunk.get("n").ok()??;
    number::whole(&Bson::try_from(n).ok()?)
}

fn invalid(n: u32, found: &str) -> crate::error::Error {
    GridFsErrorKind::InvalidChunk { n, found: found.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use bson::{Binary, DateTime, RawDocumentBuf, doc, spec::BinarySubtype};

    use super::*;
    use crate::{error::ErrorKind, gridfs::FilesCollectionDocument};

    fn layout(length: u64) -> Layout {
        Layout::of(&FilesCollectionDocument {
            id: Bson::Int32(1),
            length,
            chunk_size_bytes: 4,
            upload_date: DateTime::from_millis(0),
            filename: None,
            metadata: None,
        })
        .unwrap()
    }

    fn chunk(n: impl Into<Bson>, length: usize) -> RawDocumentBuf {
        let data = Binary { subtype: BinarySubtype::Generic, bytes: vec![7; length] };
        RawDocumentBuf::try_from(&doc! { "_id": 1, "files_id": 1, "n": n.into(), "data": data })
            .unwrap()
    }

    fn check_error(chunk: &RawDocument, expected: u32, length: u64) -> GridFsErrorKind {
        match *check(chunk, expected, &layout(length)).unwrap_err().kind {
            ErrorKind::GridFs(kind) => kind,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn expected_chunk_passes_with_any_numeric_type() {
        for n in [Bson::Int32(1), Bson::Int64(1), Bson::Double(1.0)] {
            assert_eq!(check(&chunk(n, 4), 1, &layout(10)).unwrap(), ChunkKind::Expected);
        }
        assert_eq!(check(&chunk(2, 2), 2, &layout(10)).unwrap(), ChunkKind::Expected);
        assert_eq!(data(&chunk(0, 3)), Some(&[7; 3][..]));
    }

    #[test]
    fn unexpected_chunks_are_errors() {
        use GridFsErrorKind as Kind;
        assert!(matches!(check_error(&chunk(2, 2), 1, 10), Kind::MissingChunk { n: 1 }));
        assert!(matches!(check_error(&chunk(0, 4), 1, 10), Kind::InvalidChunk { n: 1, .. }));
        assert!(matches!(check_error(&chunk(-1, 4), 0, 10), Kind::InvalidChunk { n: 0, .. }));
        assert!(matches!(check_error(&chunk("0", 4), 0, 10), Kind::InvalidChunk { n: 0, .. }));
        for wrong in [0, 3, 5] {
            let kind = check_error(&chunk(1, wrong), 1, 10);
            assert!(matches!(kind, Kind::WrongSizeChunk { expected_size: 4, actual_size, n: 1 }
                    if actual_size == wrong));
        }
        assert!(matches!(
            check_error(&chunk(3, 1), 3, 10),
            Kind::WrongNumberOfChunks { actual_number: 4, expected_number: 3 }
        ));
        let empty = RawDocumentBuf::try_from(&doc! { "n": 0, "data": "text" }).unwrap();
        assert!(matches!(check_error(&empty, 0, 10), Kind::InvalidChunk { n: 0, .. }));
    }

    #[test]
    fn empty_chunk_after_the_last_is_ignored() {
        assert_eq!(check(&chunk(3, 0), 3, &layout(10)).unwrap(), ChunkKind::Surplus);
    }
}
