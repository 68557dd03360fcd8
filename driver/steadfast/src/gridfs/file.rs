//! Documents of files, and the layout of their chunks.

use bson::{Bson, DateTime, Document};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

use crate::{
    error::{Error, GridFsErrorKind, Result},
    serde_helpers::number,
};

/// Document of a file in the collection `<bucket>.files`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FilesCollectionDocument {
    /// Id of the file (`_id`).
    #[serde(rename = "_id")]
    pub id: Bson,
    /// Length in bytes (`length`).
    #[serde(deserialize_with = "number::required")]
    pub length: u64,
    /// Size of each chunk in bytes, except the last (`chunkSize`).
    #[serde(rename = "chunkSize", serialize_with = "as_int", deserialize_with = "size")]
    pub chunk_size_bytes: u32,
    /// Date of the end of the upload (`uploadDate`).
    pub upload_date: DateTime,
    /// Name (`filename`). It need not be unique. `None` in some files of old drivers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// User data (`metadata`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Document>,
}

/// The specification: `chunkSize` is stored as an `Int32`.
fn as_int<S: Serializer>(size: &u32, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_i32(i32::try_from(*size).map_err(ser::Error::custom)?)
}

/// The specification: existing files may have another numeric type.
fn size<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<u32, D::Error> {
    u32::try_from(number::required(deserializer)?).map_err(de::Error::custom)
}

/// Layout of the chunks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) length: u64,
    /// Size of a chunk. Not zero, unless there are no chunks.
    chunk_size: u32,
    /// Number of chunks.
    pub(super) count: u32,
}

impl Layout {
    /// Returns the layout of a file, or an error if its document is invalid.
    pub(super) fn of(file: &FilesCollectionDocument) -> Result<Self> {
        let FilesCollectionDocument { length, chunk_size_bytes: chunk_size, .. } = *file;
        if length == 0 {
            return Ok(Self { length, chunk_size, count: 0 });
        }
        if chunk_size == 0 {
            return Err(invalid(format!("length is {length}, but chunkSize is 0")));
        }
        let count = length.div_ceil(chunk_size.into());
        let count = i32::try_from(count).ok().and_then(|count| u32::try_from(count).ok());
        let count = count.ok_or_else(|| {
            invalid(format!("too many chunks: length is {length}, chunkSize is {chunk_size}"))
        })?;
        Ok(Self { length, chunk_size, count })
    }

    /// Returns the number of the chunk with the byte at `position`, and the offset in it. Past the
    /// end, the number after the last chunk.
    pub(super) fn locate(&self, position: u64) -> (u32, usize) {
        if position >= self.length {
            return (self.count, 0);
        }
        let size = u64::from(self.chunk_size);
        let place = (u32::try_from(position / size), usize::try_from(position % size));
        match place {
            (Ok(n), Ok(offset)) => (n, offset),
            _ => unreachable!("`of` has checked that chunk numbers fit"),
        }
    }

    /// Returns the required size of chunk `n`.
    pub(super) fn length_of(&self, n: u32) -> u32 {
        let before = u64::from(n) * u64::from(self.chunk_size);
        let left = self.length.saturating_sub(before);
        u32::try_from(left).map_or(self.chunk_size, |left| left.min(self.chunk_size))
    }
}

fn invalid(message: String) -> Error {
    GridFsErrorKind::InvalidFile { message }.into()
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn file(length: u64, chunk_size_bytes: u32) -> FilesCollectionDocument {
        FilesCollectionDocument {
            id: Bson::Int32(1),
            length,
            chunk_size_bytes,
            upload_date: DateTime::from_millis(0),
            filename: None,
            metadata: None,
        }
    }

    #[test]
    fn last_chunk_has_the_remaining_length() {
        for (length, lengths) in
            [(0, &[][..]), (1, &[1]), (4, &[4]), (5, &[4, 1]), (8, &[4, 4]), (10, &[4, 4, 2])]
        {
            let layout = Layout::of(&file(length, 4)).unwrap();
            let found: Vec<u32> = (0..layout.count).map(|n| layout.length_of(n)).collect();
            assert_eq!(found, lengths, "{length}");
        }
    }

    #[test]
    fn position_is_in_a_chunk_or_past_the_last() {
        let layout = Layout::of(&file(10, 4)).unwrap();
        assert_eq!(layout.locate(0), (0, 0));
        assert_eq!(layout.locate(7), (1, 3));
        assert_eq!(layout.locate(8), (2, 0));
        assert_eq!(layout.locate(10), (3, 0));
        assert_eq!(layout.locate(u64::MAX), (3, 0));
        assert_eq!(Layout::of(&file(0, 0)).unwrap().locate(0), (0, 0));
    }

    #[test]
    fn invalid_files_are_rejected() {
        assert!(Layout::of(&file(1, 0)).is_err());
        assert!(Layout::of(&file(u64::MAX, 1)).is_err());
        assert!(Layout::of(&file(u64::from(u32::MAX), 1)).is_err());
        assert!(Layout::of(&file(1 << 61, 1 << 31)).is_ok());
    }

    #[test]
    fn numbers_are_stored_as_specified_and_read_in_any_type() {
        let stored = bson::serialize_to_document(&file(7, 4)).unwrap();
        let expected = doc! {
            "_id": 1, "length": 7_i64, "chunkSize": 4, "uploadDate": DateTime::from_millis(0),
        };
        assert_eq!(stored, expected);
        for number in [Bson::Int32(4), Bson::Int64(4), Bson::Double(4.0)] {
            let mut old = expected.clone();
            old.extend(doc! { "length": number.clone(), "chunkSize": number, "md5": "x" });
            let read: FilesCollectionDocument = bson::deserialize_from_document(old).unwrap();
            assert_eq!(read, file(4, 4));
        }
    }
}
