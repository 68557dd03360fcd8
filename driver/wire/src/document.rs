//! BSON documents that share the memory of the message they arrived in.

use std::{fmt, ops::Deref};

use bson::{RawDocument, RawDocumentBuf};
use bytes::Bytes;

use crate::validate::{DocumentFault, validate_document};

/// One structurally valid BSON document (see [`validate_document`]) that shares the memory of its
/// message.
///
/// It dereferences to [`RawDocument`]. `Debug` shows only its size, because a document on the wire
/// can contain credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct DocumentBytes(Bytes);

impl DocumentBytes {
    /// Validates `bytes` as one BSON document.
    ///
    /// # Errors
    ///
    /// Returns the first structural fault.
    pub fn parse(bytes: Bytes) -> Result<Self, DocumentFault> {
        validate_document(&bytes)?;
        Ok(Self(bytes))
    }

    /// Returns the document as a [`RawDocument`].
    pub fn as_raw(&self) -> &RawDocument {
        // `from_bytes` checks length and terminator, which `validate_document` has checked already.
        RawDocument::from_bytes(&self.0)
            .expect("a validated document has its length and terminator")
    }

    /// Returns the bytes of the document without copying them.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// Returns a document embedded in this one, such as an element of `cursor.firstBatch`, without
    /// copying it.
    ///
    /// Returns `None` if `inner` is not part of this document's memory. `inner` must come from
    /// walking this document: the payload of a binary value is not validated.
    ///
    /// ```
    /// use steadfast_wire::DocumentBytes;
    ///
    /// let reply = bson::rawdoc! { "cursor": { "id": 0_i64 } };
    /// let reply = DocumentBytes::parse(reply.into_bytes().into())?;
    /// let cursor = reply.subdocument(reply.get_document("cursor")?).unwrap();
    /// assert_eq!(cursor.get_i64("id")?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn subdocument(&self, inner: &RawDocument) -> Option<Self> {
        let offset = inner.as_bytes().as_ptr().addr().checked_sub(self.0.as_ptr().addr())?;
        let end = offset.checked_add(inner.as_bytes().len())?;
        (end <= self.0.len()).then(|| Self(self.0.slice(offset..end)))
    }
}

impl Deref for DocumentBytes {
    type Target = RawDocument;

    fn deref(&self) -> &RawDocument {
        self.as_raw()
    }
}

impl AsRef<RawDocument> for DocumentBytes {
    fn as_ref(&self) -> &RawDocument {
        self.as_raw()
    }
}

impl TryFrom<RawDocumentBuf> for DocumentBytes {
    type Error = DocumentFault;

    fn try_from(document: RawDocumentBuf) -> Result<Self, DocumentFault> {
        Self::parse(document.into_bytes().into())
    }
}

impl TryFrom<&RawDocument> for DocumentBytes {
    type Error = DocumentFault;

    /// Copies the document.
    fn try_from(document: &RawDocument) -> Result<Self, DocumentFault> {
        Self::parse(Bytes::copy_from_slice(document.as_bytes()))
    }
}

impl fmt::Debug for DocumentBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DocumentBytes({} bytes)", self.0.len())
    }
}

/// Structurally valid BSON documents without gaps between them, which share the memory of their
/// message.
///
/// The payload of a document sequence of OP_MSG and the end of OP_REPLY have this form. `Debug`
/// shows only the number of documents and bytes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct DocumentRun {
    bytes: Bytes,
    count: usize,
}

impl DocumentRun {
    /// Validates `bytes` as zero or more BSON documents.
    ///
    /// # Errors
    ///
    /// Returns the first structural fault.
    pub fn parse(bytes: Bytes) -> Result<Self, DocumentFault> {
        let mut rest: &[u8] = &bytes;
        let mut count = 0;
        while !rest.is_empty() {
            let (document, after) = split_document(rest)?;
            validate_document(document)?;
            rest = after;
            count += 1;
        }
        Ok(Self { bytes, count })
    }

    /// Copies documents into one buffer.
    ///
    /// # Errors
    ///
    /// Returns the first structural fault of a document.
    pub fn copy_from<I>(documents: I) -> Result<Self, DocumentFault>
    where
        I: IntoIterator<Item: AsRef<RawDocument>>,
    {
        let mut bytes = Vec::new();
        for document in documents {
            bytes.extend_from_slice(document.as_ref().as_bytes());
        }
        Self::parse(bytes.into())
    }

    /// Returns the number of documents.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns `true` if there are no documents.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the bytes of all documents.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Iterates over the documents in their order.
    pub fn iter(&self) -> DocumentIter<'_> {
        DocumentIter { rest: &self.bytes }
    }

    /// Iterates over the documents in their order. Each shares the memory of the message.
    pub fn shared(&self) -> impl Iterator<Item = DocumentBytes> + '_ {
        self.iter().map(|document| DocumentBytes(self.bytes.slice_ref(document.as_bytes())))
    }
}

impl<'a> IntoIterator for &'a DocumentRun {
    type Item = &'a RawDocument;
    type IntoIter = DocumentIter<'a>;

    fn into_iter(self) -> DocumentIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for DocumentRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DocumentRun({} documents, {} bytes)", self.count, self.bytes.len())
    }
}

/// Iterator over the documents of a [`DocumentRun`].
#[derive(Clone, Debug)]
pub struct DocumentIter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for DocumentIter<'a> {
    type Item = &'a RawDocument;

    fn next(&mut self) -> Option<&'a RawDocument> {
        let (document, rest) = split_document(self.rest).ok()?;
        self.rest = rest;
        RawDocument::from_bytes(document).ok()
    }
}

/// Splits off the first document by its length. The document itself is not validated.
pub(crate) fn split_document(bytes: &[u8]) -> Result<(&[u8], &[u8]), DocumentFault> {
    let left = bytes.len();
    let Some(length) = bytes.first_chunk().map(|length| i32::from_le_bytes(*length)) else {
        return Err(DocumentFault::Truncated { offset: 0, needed: 4, left });
    };
    match usize::try_from(length).ok().and_then(|length| bytes.split_at_checked(length)) {
        // A length below 5 would stop the iteration from advancing.
        Some((document, rest)) if document.len() >= 5 => Ok((document, rest)),
        Some(_) | None => Err(DocumentFault::Length { offset: 0, length, left }),
    }
}
