//! A chunk of a file as a document: written, and read with suspicion.

use bson::{Bson, RawDocument, oid::ObjectId, raw::RawBinaryRef};
use serde::Serialize;

use super::file::Layout;
use crate::{
    error::{GridFsErrorKind, Result},
    serde_helpers::number,
};

/// A chunk to be stored.
#[derive(Debug, Serialize)]
pub(super) struct Chunk<'a> {
    #[serde(rename = "_id")]
    pub(super) id: ObjectId,
    pub(super) files_id: &'a Bson,
    pub(super) n: i32,
    pub(super) data: RawBinaryRef<'a>,
}

/// What a chunk found at the end of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The one that was expected.
    Expected,
    /// One behind the last with nothing in it. Some drivers used to write such, and the
    /// specification allows to pass over it.
    Surplus,
}

/// Checks that a chunk is the one that was expected, and that it is as long as it must be.
pub(super) fn check(chunk: &RawDocument, expected: u32, layout: &Layout) -> Result<Found> {
    let found = number_of(chunk).ok_or_else(|| invalid(expected, "a chunk without a number"))?;
    let length = data(chunk).ok_or_else(|| invalid(expected, "a chunk without data"))?.len();
    if expected >= layout.count && length == 0 {
        return Ok(Found::Surplus);
    }
    if expected >= layout.count {
        let (actual_number, expected_number) = (layout.count.saturating_add(1), layout.count);
        return Err(GridFsErrorKind::WrongNumberOfChunks { actual_number, expected_number }.into());
    }
    if found > u64::from(expected) {
        return Err(GridFsErrorKind::MissingChunk { n: expected }.into());
    }
    if found < u64::from(expected) {
        return Err(invalid(expected, &format!("chunk {found} again")));
    }
    let expected_size = layout.length_of(expected);
    if u32::try_from(length) != Ok(expected_size) {
        let kind =
            GridFsErrorKind::WrongSizeChunk { actual_size: length, expected_size, n: expected };
        return Err(kind.into());
    }
    Ok(Found::Expected)
}

/// The bytes of the file that a chunk holds.
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

    fn refused(chunk: &RawDocument, expected: u32, length: u64) -> GridFsErrorKind {
        match *check(chunk, expected, &layout(length)).unwrap_err().kind {
            ErrorKind::GridFs(kind) => kind,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_expected_chunk_passes_whatever_the_type_of_its_number() {
        for n in [Bson::Int32(1), Bson::Int64(1), Bson::Double(1.0)] {
            assert_eq!(check(&chunk(n, 4), 1, &layout(10)).unwrap(), Found::Expected);
        }
        assert_eq!(check(&chunk(2, 2), 2, &layout(10)).unwrap(), Found::Expected);
        assert_eq!(data(&chunk(0, 3)), Some(&[7; 3][..]));
    }

    #[test]
    fn every_other_chunk_is_told_from_it() {
        use GridFsErrorKind as Kind;
        assert!(matches!(refused(&chunk(2, 2), 1, 10), Kind::MissingChunk { n: 1 }));
        assert!(matches!(refused(&chunk(0, 4), 1, 10), Kind::InvalidChunk { n: 1, .. }));
        assert!(matches!(refused(&chunk(-1, 4), 0, 10), Kind::InvalidChunk { n: 0, .. }));
        assert!(matches!(refused(&chunk("0", 4), 0, 10), Kind::InvalidChunk { n: 0, .. }));
        for wrong in [0, 3, 5] {
            let kind = refused(&chunk(1, wrong), 1, 10);
            assert!(matches!(kind, Kind::WrongSizeChunk { expected_size: 4, actual_size, n: 1 }
                    if actual_size == wrong));
        }
        assert!(matches!(
            refused(&chunk(3, 1), 3, 10),
            Kind::WrongNumberOfChunks { actual_number: 4, expected_number: 3 }
        ));
        let empty = RawDocumentBuf::try_from(&doc! { "n": 0, "data": "text" }).unwrap();
        assert!(matches!(refused(&empty, 0, 10), Kind::InvalidChunk { n: 0, .. }));
    }

    #[test]
    fn an_empty_chunk_behind_the_last_is_passed_over() {
        assert_eq!(check(&chunk(3, 0), 3, &layout(10)).unwrap(), Found::Surplus);
    }
}
