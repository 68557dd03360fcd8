//! Document sequences of OP_MSG (section kind 1): the documents of an insert, the statements of an update or
//! a delete, the operations of a bulk write and their namespaces.

use std::{fmt, ops::Range};

use bson::{RawDocument, raw::CStr};

use crate::error::{Error, Result};

/// Document sequence that a command owns.
#[derive(Debug)]
pub(crate) struct DocumentSequence {
    /// Field of the command: `documents`, `updates`, `deletes`.
    pub(crate) identifier: &'static CStr,
    /// Encoded documents, one after the other.
    pub(crate) documents: Vec<u8>,
    /// Sequence `nsInfo` before this one.
    pub(crate) ns_info: Option<NsInfoSequence>,
}

/// The sequence `nsInfo` of a client bulk write: small, and copied into the message before the operations.
#[derive(Clone, Debug)]
pub(crate) struct NsInfoSequence {
    /// Field of the command: `nsInfo`.
    pub(crate) identifier: &'static CStr,
    /// Encoded documents, one after the other.
    pub(crate) documents: Vec<u8>,
}

impl DocumentSequence {
    /// Borrows the sequence.
    pub(crate) fn as_sequence_ref(&self) -> DocumentSequenceRef<'_> {
        let Self { identifier, documents, ns_info } = self;
        DocumentSequenceRef {
            identifier,
            documents: Documents::Whole(documents),
            ns_info: ns_info.as_ref(),
        }
    }
}

/// Document sequence borrowed for the duration of a command, including its retries.
#[derive(Clone, Debug)]
pub(crate) struct DocumentSequenceRef<'a> {
    /// Field of the command.
    pub(crate) identifier: &'static CStr,
    pub(crate) documents: Documents<'a>,
    /// Sequence `nsInfo` before this one.
    pub(crate) ns_info: Option<&'a NsInfoSequence>,
}

/// Documents of a sequence, and their size.
#[derive(Clone)]
pub(crate) enum Documents<'a> {
    /// Contiguous, as they are sent.
    Whole(&'a [u8]),
    /// Written one after the other while they are sent.
    Scattered { source: &'a dyn DocumentSource, positions: Range<usize>, bytes: usize },
}

/// Writer of scattered documents. Every attempt writes the same bytes.
pub(crate) trait DocumentSource: Sync {
    /// Appends the documents at `positions` until `out` has `enough` bytes, and removes their
    /// positions.
    fn append(&self, positions: &mut Range<usize>, out: &mut Vec<u8>, enough: usize) -> Result<()>;
}

impl Documents<'_> {
    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Whole(documents) => documents.len(),
            Self::Scattered { bytes, .. } => *bytes,
        }
    }

    /// Returns `true` for a single document, without walking over all documents.
    pub(crate) fn is_single(&self) -> bool {
        match self {
            Self::Whole(documents) => documents.first_chunk().is_some_and(|length| {
                usize::try_from(i32::from_le_bytes(*length)) == Ok(documents.len())
            }),
            Self::Scattered { positions, .. } => positions.len() == 1,
        }
    }

    /// Copies the documents, one after the other.
    pub(crate) fn to_vec(&self) -> Result<Vec<u8>> {
        match self {
            Self::Whole(documents) => Ok(documents.to_vec()),
            Self::Scattered { source, positions, bytes } => {
                let mut out = Vec::with_capacity(*bytes);
                source.append(&mut positions.clone(), &mut out, usize::MAX)?;
                Ok(out)
            }
        }
    }

    /// Calls `visit` with each document.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&RawDocument)) -> Result<()> {
        match self {
            Self::Whole(documents) => split(documents, &mut visit),
            Self::Scattered { source, positions, .. } => {
                let (mut positions, mut piece) = (positions.clone(), Vec::new());
                while !positions.is_empty() {
                    source.append(&mut positions, &mut piece, 1)?;
                    split(&piece, &mut visit)?;
                    piece.clear();
                }
                Ok(())
            }
        }
    }
}

/// Calls `visit` with each document of a buffer.
fn split(mut documents: &[u8], visit: &mut impl FnMut(&RawDocument)) -> Result<()> {
    while !documents.is_empty() {
        let length = documents.first_chunk().map(|length| i32::from_le_bytes(*length));
        let length = length.and_then(|length| usize::try_from(length).ok());
        let (document, others) = length
            .and_then(|length| documents.split_at_checked(length))
            .ok_or_else(|| Error::invalid_argument("the lengths of documents do not add up"))?;
        visit(RawDocument::from_bytes(document)?);
        documents = others;
    }
    Ok(())
}

impl fmt::Debug for Documents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes())
    }
}
