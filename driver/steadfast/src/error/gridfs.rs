//! GridFS errors.

use std::{fmt, io, sync::Arc};

use bson::Bson;
use steadfast_core::retry::Outcome;

use super::{Error, ErrorKind};

/// Kind of a GridFS error that is not a server error.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GridFsErrorKind {
    /// The file does not exist.
    #[error("file not found: {identifier}")]
    #[non_exhaustive]
    FileNotFound {
        /// Name or id of the file.
        identifier: GridFsFileIdentifier,
    },
    /// The file exists, but not in this revision.
    #[error("revision {revision} of the file not found")]
    #[non_exhaustive]
    RevisionNotFound {
        /// Requested revision.
        revision: i32,
    },
    /// The document in the files collection is invalid.
    #[error("the file is corrupt: {message}")]
    #[non_exhaustive]
    InvalidFile {
        /// Reason.
        message: String,
    },
    /// A chunk is missing.
    #[error("the file is corrupt: chunk {n} is missing")]
    #[non_exhaustive]
    MissingChunk {
        /// Number of the chunk, from 0.
        n: u32,
    },
    /// A chunk is a duplicate or malformed.
    #[error("the file is corrupt: expected chunk {n}, found {found}")]
    #[non_exhaustive]
    InvalidChunk {
        /// Number of the expected chunk, from 0.
        n: u32,
        /// Description of the found chunk.
        found: String,
    },
    /// A chunk has the wrong size.
    #[error("the file is corrupt: chunk {n} has {actual_size} bytes, expected {expected_size}")]
    #[non_exhaustive]
    WrongSizeChunk {
        /// Size in bytes.
        actual_size: usize,
        /// Expected size in bytes.
        expected_size: u32,
        /// Number of the chunk, from 0.
        n: u32,
    },
    /// The file has too many chunks.
    #[error(
        "the file is corrupt: it has at least {actual_number} chunks, expected {expected_number}"
    )]
    #[non_exhaustive]
    WrongNumberOfChunks {
        /// Minimum number of chunks found.
        actual_number: u32,
        /// Expected number of chunks.
        expected_number: u32,
    },
    /// The upload stream is closed or aborted.
    #[error("the upload stream is closed or aborted; open a new one")]
    UploadStreamClosed,
    /// The upload stream was closed while a write was in progress. Not returned: closing waits for
    /// the write.
    #[error("a write of the upload stream is in progress; wait for it before closing")]
    WriteInProgress,
    /// The upload could not be aborted. Chunks may remain.
    #[error("cannot abort the upload: {delete_error}; its chunks may remain")]
    #[non_exhaustive]
    AbortError {
        /// Error of the upload before the abort, if any.
        original_error: Option<Error>,
        /// Error of the removal of the chunks.
        delete_error: Error,
    },
    /// The application's source or destination stream failed.
    #[error("source or destination stream failed: {0}")]
    Stream(Arc<io::Error>),
}

/// Identifier of a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GridFsFileIdentifier {
    /// Name (`filename`), which need not be unique.
    Filename(String),
    /// Id (`_id`).
    Id(Bson),
}

impl fmt::Display for GridFsFileIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filename(name) => write!(f, "name {name:?}"),
            Self::Id(id) => write!(f, "id {id}"),
        }
    }
}

impl GridFsErrorKind {
    /// Returns the outcome of the call.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::AbortError { delete_error, .. } => delete_error.outcome(),
            Self::FileNotFound { .. }
            | Self::RevisionNotFound { .. }
            | Self::InvalidFile { .. }
            | Self::MissingChunk { .. }
            | Self::InvalidChunk { .. }
            | Self::WrongSizeChunk { .. }
            | Self::WrongNumberOfChunks { .. }
            | Self::UploadStreamClosed
            | Self::WriteInProgress
            | Self::Stream(_) => Outcome::NotApplied,
        }
    }
}

impl From<GridFsErrorKind> for ErrorKind {
    fn from(error: GridFsErrorKind) -> Self {
        Self::GridFs(error)
    }
}

/// Wraps the error, for streams. [`get_ref`](io::Error::get_ref) returns it, and `?` in a function
/// that returns [`Error`] unwraps it.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &*error.kind {
            ErrorKind::Io(inner) => inner.kind(),
            ErrorKind::InvalidArgument { .. } => io::ErrorKind::InvalidInput,
            ErrorKind::GridFs(GridFsErrorKind::FileNotFound { .. }) => io::ErrorKind::NotFound,
            ErrorKind::GridFs(GridFsErrorKind::UploadStreamClosed) => io::ErrorKind::BrokenPipe,
            ErrorKind::GridFs(
                GridFsErrorKind::InvalidFile { .. }
                | GridFsErrorKind::MissingChunk { .. }
                | GridFsErrorKind::InvalidChunk { .. }
                | GridFsErrorKind::WrongSizeChunk { .. }
                | GridFsErrorKind::WrongNumberOfChunks { .. },
            ) => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

impl Error {
    /// Returns the driver's error inside an [`io::Error`] that passed through a stream.
    pub(super) fn unwrapped(self) -> Self {
        let inner = match &*self.kind {
            ErrorKind::Io(error) => error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()),
            _ => None,
        };
        inner.cloned().unwrap_or(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_survive_conversion_to_io_errors() {
        let mut error = Error::from(GridFsErrorKind::MissingChunk { n: 3 });
        error.add_label("Special");
        let through = io::Error::from(error);
        assert_eq!(through.kind(), io::ErrorKind::InvalidData);
        let back = Error::from(through);
        assert!(back.contains_label("Special") && !back.is_network_error());
        let n = match &*back.kind {
            ErrorKind::GridFs(GridFsErrorKind::MissingChunk { n }) => *n,
            other => panic!("{other:?}"),
        };
        assert_eq!(n, 3);
    }

    #[test]
    fn foreign_io_errors_stay_io_errors() {
        let error = Error::from(io::Error::other("the disk is full"));
        assert!(matches!(&*error.kind, ErrorKind::Io(_)));
    }
}
