//! Validation of the structure of one BSON document: lengths, terminators, types and nesting depth.
//!
//! [`decode`](crate::decode) validates each document of a message once. Code that walks or
//! deserializes the document later, recursively or not, can then neither read out of bounds nor
//! overflow the stack. Checks that would inspect every byte are left to the readers of values:
//! UTF-8 of strings, payloads of old binary subtypes and decimals, and keys of arrays.
//!
//! The walk is a loop with a stack of fixed size, so its cost does not depend on the nesting depth.

use crate::terminator::find_nul;

/// Maximum nesting depth of documents and arrays below the outermost document.
///
/// Servers store at most 180 levels, and a reply adds a few levels around a stored document.
pub const MAX_NESTING: usize = 200;

/// The shortest document: a length and a terminator.
const MIN_DOCUMENT: usize = 5;

/// A structural fault of a document, with its byte offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentFault {
    /// The length of a document is too small, or exceeds its container.
    #[error("the document at byte {offset} claims {length} bytes, but {left} are available")]
    Length {
        /// The offset of the document.
        offset: usize,
        /// The claimed length.
        length: i32,
        /// The number of bytes available.
        left: usize,
    },
    /// The terminator of a document is not where its length ends.
    #[error("the document that ends at byte {end} has its terminator at byte {offset}")]
    Terminator {
        /// The offset of the terminator, found or expected.
        offset: usize,
        /// The end of the document according to its length.
        end: usize,
    },
    /// An unknown element type.
    #[error("the element at byte {offset} has unknown type {element_type:#04x}")]
    ElementType {
        /// The offset of the element.
        offset: usize,
        /// The type byte.
        element_type: u8,
    },
    /// A key, or a string of a regular expression, has no terminating NUL.
    #[error("the NUL-terminated string at byte {offset} does not end within its document")]
    Unterminated {
        /// The offset of the string.
        offset: usize,
    },
    /// A value extends past the end of its document.
    #[error("the value at byte {offset} needs {needed} bytes, but {left} are left in its document")]
    Truncated {
        /// The offset of the value.
        offset: usize,
        /// The number of bytes it needs.
        needed: usize,
        /// The number of bytes left.
        left: usize,
    },
    /// The length of a value is impossible.
    #[error("the value at byte {offset} claims an impossible length of {length}")]
    ValueLength {
        /// The offset of the value.
        offset: usize,
        /// The claimed length.
        length: i32,
    },
    /// A string has no terminating NUL at its end.
    #[error("the string that ends at byte {offset} has no terminating NUL")]
    StringEnd {
        /// The expected offset of the NUL.
        offset: usize,
    },
    /// A boolean is neither 0 nor 1.
    #[error("the boolean at byte {offset} has the invalid value {value}")]
    Boolean {
        /// The offset of the value.
        offset: usize,
        /// The value.
        value: u8,
    },
    /// Documents are nested deeper than [`MAX_NESTING`].
    #[error("the document at byte {offset} exceeds the nesting limit of {max}", max = MAX_NESTING)]
    TooDeep {
        /// The offset of the first document beyond the limit.
        offset: usize,
    },
}

/// Validates that `bytes` are exactly one well-formed document, nested at most [`MAX_NESTING`]
/// levels.
///
/// # Errors
///
/// Returns the first fault with its offset.
///
/// ```
/// use steadfast_wire::{validate_document, DocumentFault};
///
/// let good = bson::rawdoc! { "ok": 1, "inner": { "list": [1, 2] } };
/// assert_eq!(validate_document(good.as_bytes()), Ok(()));
///
/// let fault = validate_document(&[8, 0, 0, 0, 0x42, b'a', 0, 0]).unwrap_err();
/// assert_eq!(fault, DocumentFault::ElementType { offset: 4, element_type: 0x42 });
/// ```
pub fn validate_document(bytes: &[u8]) -> Result<(), DocumentFault> {
    let end = document_end(bytes, 0, bytes.len())?;
    if end != bytes.len() {
        return Err(DocumentFault::Terminator { offset: end - 1, end: bytes.len() });
    }
    let mut walk = DocumentWalk { end, outer: [0; MAX_NESTING], depth: 0 };
    let mut offset = 4;
    loop {
        // Invariant: `offset < walk.end`, because no key and no value extends past the terminator.
        let element_type = bytes[offset];
        if element_type == 0 {
            match walk.leave(offset)? {
                Some(after) => offset = after,
                None => return Ok(()),
            }
            continue;
        }
        if offset + 1 == walk.end {
            return Err(DocumentFault::Terminator { offset, end: walk.end });
        }
        let limit = walk.end - 1;
        let value = cstring_end(bytes, offset + 1, limit)?;
        offset = match element_type {
            0x03 | 0x04 => walk.enter(bytes, value)?,
            0x0f => walk.enter_scope(bytes, value)?,
            _ => value_end(bytes, element_type, offset, value, limit)?,
        };
    }
}

/// The stack of open documents.
struct DocumentWalk {
    /// End of the innermost document, terminator included.
    end: usize,
    /// Ends of the enclosing documents; the first `depth` entries are in use.
    outer: [usize; MAX_NESTING],
    depth: usize,
}

impl DocumentWalk {
    /// Enters the document at `offset` and returns the offset of its first element.
    #[inline]
    fn enter(&mut self, bytes: &[u8], offset: usize) -> Result<usize, DocumentFault> {
        if self.depth == MAX_NESTING {
            return Err(DocumentFault::TooDeep { offset });
        }
        // The last byte of the enclosing document is its terminator.
        let end = document_end(bytes, offset, self.end - 1)?;
        self.outer[self.depth] = self.end;
        self.depth += 1;
        self.end = end;
        Ok(offset + 4)
    }

    /// Enters code with scope: a total length, a string, and a document that ends with the total
    /// length.
    fn enter_scope(&mut self, bytes: &[u8], offset: usize) -> Result<usize, DocumentFault> {
        let limit = self.end - 1;
        let length = int32(bytes, offset, limit)?;
        let scope = string_end(bytes, offset + 4, limit)?;
        let first = self.enter(bytes, scope)?;
        match usize::try_from(length) == Ok(self.end - offset) {
            true => Ok(first),
            false => Err(DocumentFault::ValueLength { offset, length }),
        }
    }

    /// Leaves the document whose terminator is at `offset`. Returns the next offset of the
    /// enclosing document, or `None` after the outermost.
    #[inline]
    fn leave(&mut self, offset: usize) -> Result<Option<usize>, DocumentFault> {
        if offset + 1 != self.end {
            return Err(DocumentFault::Terminator { offset, end: self.end });
        }
        let Some(depth) = self.depth.checked_sub(1) else { return Ok(None) };
        self.depth = depth;
        self.end = self.outer[depth];
        Ok(Some(offset + 1))
    }
}

// The following functions return the end of a structure that begins at `offset` and must not pass
// `limit`.

/// Returns the end of a document after checking its length.
#[inline]
fn document_end(bytes: &[u8], offset: usize, limit: usize) -> Result<usize, DocumentFault> {
    let length = int32(bytes, offset, limit)?;
    let left = limit - offset;
    match usize::try_from(length) {
        Ok(count) if (MIN_DOCUMENT..=left).contains(&count) => Ok(offset + count),
        Ok(_) | Err(_) => Err(DocumentFault::Length { offset, length, left }),
    }
}

/// Returns the end of the value of the element at `element`.
#[inline]
fn value_end(
    bytes: &[u8],
    element_type: u8,
    element: usize,
    offset: usize,
    limit: usize,
) -> Result<usize, DocumentFault> {
    match element_type {
        // Undefined, null, min key and max key.
        0x06 | 0x0a | 0x7f | 0xff => Ok(offset),
        0x08 => boolean_end(bytes, offset, limit),
        0x10 => fixed_end(offset, 4, limit),
        // Double, date, timestamp and int64.
        0x01 | 0x09 | 0x11 | 0x12 => fixed_end(offset, 8, limit),
        0x07 => fixed_end(offset, 12, limit),
        0x13 => fixed_end(offset, 16, limit),
        // String, code and symbol.
        0x02 | 0x0d | 0x0e => string_end(bytes, offset, limit),
        0x05 => binary_end(bytes, offset, limit),
        0x0b => {
            let options = cstring_end(bytes, offset, limit)?;
            cstring_end(bytes, options, limit)
        }
        // DBPointer: a namespace and an ObjectId.
        0x0c => {
            let id = string_end(bytes, offset, limit)?;
            fixed_end(id, 12, limit)
        }
        _ => Err(DocumentFault::ElementType { offset: element, element_type }),
    }
}

#[inline]
fn fixed_end(offset: usize, count: usize, limit: usize) -> Result<usize, DocumentFault> {
    let left = limit - offset;
    match count <= left {
        true => Ok(offset + count),
        false => Err(DocumentFault::Truncated { offset, needed: count, left }),
    }
}

/// Returns the offset after the NUL of a key or another NUL-terminated string.
#[inline]
fn cstring_end(bytes: &[u8], offset: usize, limit: usize) -> Result<usize, DocumentFault> {
    // The search can pass the limit; a NUL found there is ignored.
    match find_nul(&bytes[offset..]) {
        Some(length) if length < limit - offset => Ok(offset + length + 1),
        Some(_) | None => Err(DocumentFault::Unterminated { offset }),
    }
}

#[inline]
fn int32(bytes: &[u8], offset: usize, limit: usize) -> Result<i32, DocumentFault> {
    match bytes[offset..limit].first_chunk() {
        Some(bytes) => Ok(i32::from_le_bytes(*bytes)),
        None => Err(DocumentFault::Truncated { offset, needed: 4, left: limit - offset }),
    }
}

fn boolean_end(bytes: &[u8], offset: usize, limit: usize) -> Result<usize, DocumentFault> {
    let end = fixed_end(offset, 1, limit)?;
    match bytes[offset] {
        0 | 1 => Ok(end),
        value => Err(DocumentFault::Boolean { offset, value }),
    }
}

#[inline]
fn string_end(bytes: &[u8], offset: usize, limit: usize) -> Result<usize, DocumentFault> {
    let length = int32(bytes, offset, limit)?;
    let count = match usize::try_from(length) {
        // The length includes the terminator.
        Ok(count @ 1..) => count,
        Ok(0) | Err(_) => return Err(DocumentFault::ValueLength { offset, length }),
    };
    let end = fixed_end(offset + 4, count, limit)?;
    match bytes[end - 1] {
        0 => Ok(end),
        _ => Err(DocumentFault::StringEnd { offset: end - 1 }),
    }
}

fn binary_end(bytes: &[u8], offset: usize, limit: usize) -> Result<usize, DocumentFault> {
    let length = int32(bytes, offset, limit)?;
    let count =
        usize::try_from(length).map_err(|_| DocumentFault::ValueLength { offset, length })?;
    // The subtype follows the length and is not part of it.
    let payload = fixed_end(offset + 4, 1, limit)?;
    fixed_end(payload, count, limit)
}
