//! What can go wrong with files.

use std::{fmt, io, sync::Arc};

use bson::Bson;
use steadfast_core::retry::Outcome;

use super::{Error, ErrorKind};

/// A failure of GridFS that no server reported.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GridFsErrorKind {
    /// There is no such file.
    #[error("there is no file with the {identifier}")]
    #[non_exhaustive]
    FileNotFound {
        /// What was looked for.
        identifier: GridFsFileIdentifier,
    },
    /// There are files of this name, but not that many.
    #[error("there is no revision {revision} of the file")]
    #[non_exhaustive]
    RevisionNotFound {
        /// The revision that was looked for.
        revision: i32,
    },
    /// What the bucket says of a file cannot be.
    #[error("the file is corrupt: {message}")]
    #[non_exhaustive]
    InvalidFile {
        /// What is wrong with it.
        message: String,
    },
    /// A chunk of the file is not there.
    #[error("the file is corrupt: chunk {n} is missing")]
    #[non_exhaustive]
    MissingChunk {
        /// Which, counted from 0.
        n: u32,
    },
    /// A chunk came twice, or is not what a chunk must be.
    #[error("the file is corrupt: where chunk {n} was expected there is {found}")]
    #[non_exhaustive]
    InvalidChunk {
        /// Which chunk was expected, counted from 0.
        n: u32,
        /// What was found instead.
        found: String,
    },
    /// A chunk has more bytes than it must have, or fewer.
    #[error(
        "the file is corrupt: chunk {n} has {actual_size} bytes, but must have {expected_size}"
    )]
    #[non_exhaustive]
    WrongSizeChunk {
        /// How many bytes it has.
        actual_size: usize,
        /// How many it must have.
        expected_size: u32,
        /// Which chunk, counted from 0.
        n: u32,
    },
    /// There are chunks behind the one that must be the last.
    #[error(
        "the file is corrupt: it has at least {actual_number} chunks, but must have \
         {expected_number}"
    )]
    #[non_exhaustive]
    WrongNumberOfChunks {
        /// How many there are at least.
        actual_number: u32,
        /// How many there must be.
        expected_number: u32,
    },
    /// The upload was closed or aborted before.
    #[error("the upload has been closed or aborted")]
    UploadStreamClosed,
    /// An upload could not be aborted: chunks of it may be left.
    #[error("the upload could not be aborted: {delete_error}")]
    #[non_exhaustive]
    AbortError {
        /// The error that the upload had failed with before, if it had.
        original_error: Option<Error>,
        /// Why its chunks could not be deleted.
        delete_error: Error,
    },
    /// The application's own stream, from which a file is uploaded or to which it is downloaded,
    /// failed.
    #[error("the application's stream failed: {0}")]
    Stream(Arc<io::Error>),
}

/// What a file was looked for by.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GridFsFileIdentifier {
    /// Its name, which other files may have, too.
    Filename(String),
    /// Its `_id`.
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
    /// What became of the write.
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
            | Self::Stream(_) => Outcome::NotApplied,
        }
    }
}

impl From<GridFsErrorKind> for ErrorKind {
    fn from(error: GridFsErrorKind) -> Self {
        Self::GridFs(error)
    }
}

/// For streams: the error is found again in what [`get_ref`](io::Error::get_ref) gives, and `?`
/// turns it back into what it was where an [`Error`] is expected.
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
    /// An error of the driver that came through a stream as an [`io::Error`], as it was before.
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
    fn an_error_comes_back_whole_from_a_stream() {
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
    fn an_error_of_a_stream_of_another_kind_stays_what_it_is() {
        let error = Error::from(io::Error::other("the disk is full"));
        assert!(matches!(&*error.kind, ErrorKind::Io(_)));
    }
}
