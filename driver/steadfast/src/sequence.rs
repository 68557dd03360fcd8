//! The documents that travel sequence a command's body: the documents of an insert, the statements of
//! an update or a delete, the operations of a bulk write and the collections that they are about.

use std::{fmt, ops::Range};

use bson::{RawDocument, raw::CStr};

use crate::error::{Error, Result};

/// Documents that a command owns.
#[derive(Debug)]
pub(crate) struct DocumentSequence {
    /// The field whose array they are: `documents`, `updates`, `deletes`.
    pub(crate) identifier: &'static CStr,
    /// The documents, one after the other.
    pub(crate) documents: Vec<u8>,
    /// Those that go in front of them.
    pub(crate) ns_info: Option<NsInfoSequence>,
}

/// Documents of another field, few and small, that are copied into the message in front of the others.
#[derive(Clone, Debug)]
pub(crate) struct NsInfoSequence {
    /// The field whose array they are: `nsInfo`.
    pub(crate) identifier: &'static CStr,
    /// The documents, one after the other.
    pub(crate) documents: Vec<u8>,
}

impl DocumentSequence {
    /// The same, lent.
    pub(crate) fn as_sequence_ref(&self) -> DocumentSequenceRef<'_> {
        let Self { identifier, documents, ns_info } = self;
        DocumentSequenceRef {
            identifier,
            documents: Documents::Whole(documents),
            ns_info: ns_info.as_ref(),
        }
    }
}

/// Documents that somebody lends for as long as the command is under way, its retries included.
#[derive(Clone, Debug)]
pub(crate) struct DocumentSequenceRef<'a> {
    /// The field whose array they are.
    pub(crate) identifier: &'static CStr,
    pub(crate) documents: Documents<'a>,
    /// Those that go in front of them.
    pub(crate) ns_info: Option<&'a NsInfoSequence>,
}

/// Where documents are, and how many bytes.
#[derive(Clone)]
pub(crate) enum Documents<'a> {
    /// One after the other in memory, as they are sent.
    Whole(&'a [u8]),
    /// Anywhere: they are written one after the other while they are sent.
    Scattered { source: &'a dyn Source, positions: Range<usize>, bytes: usize },
}

/// Somebody who can write documents as they are to be sent, and the same each time.
pub(crate) trait Source: Sync {
    /// Appends the documents at `positions` until `out` is `enough` bytes long, and takes their
    /// positions away.
    fn append(&self, positions: &mut Range<usize>, out: &mut Vec<u8>, enough: usize) -> Result<()>;
}

impl Documents<'_> {
    /// How many bytes they are.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Whole(documents) => documents.len(),
            Self::Scattered { bytes, .. } => *bytes,
        }
    }

    /// Whether it is one document, found without walking over all of them.
    pub(crate) fn is_single(&self) -> bool {
        match self {
            Self::Whole(documents) => documents.first_chunk().is_some_and(|length| {
                usize::try_from(i32::from_le_bytes(*length)) == Ok(documents.len())
            }),
            Self::Scattered { positions, .. } => positions.len() == 1,
        }
    }

    /// The documents one after the other, copied.
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

    /// Shows each document.
    pub(crate) fn for_each(&self, mut show: impl FnMut(&RawDocument)) -> Result<()> {
        match self {
            Self::Whole(documents) => split(documents, &mut show),
            Self::Scattered { source, positions, .. } => {
                let (mut positions, mut piece) = (positions.clone(), Vec::new());
                while !positions.is_empty() {
                    source.append(&mut positions, &mut piece, 1)?;
                    split(&piece, &mut show)?;
                    piece.clear();
                }
                Ok(())
            }
        }
    }
}

/// Shows each of the documents that lie one after the other.
fn split(mut documents: &[u8], show: &mut impl FnMut(&RawDocument)) -> Result<()> {
    while !documents.is_empty() {
        let length = documents.first_chunk().map(|length| i32::from_le_bytes(*length));
        let length = length.and_then(|length| usize::try_from(length).ok());
        let (document, others) = length
            .and_then(|length| documents.split_at_checked(length))
            .ok_or_else(|| Error::invalid_argument("the lengths of documents do not add up"))?;
        show(RawDocument::from_bytes(document)?);
        documents = others;
    }
    Ok(())
}

impl fmt::Debug for Documents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes())
    }
}
