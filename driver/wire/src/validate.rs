//! Whether bytes are the structure of one BSON document: every length, every terminator, every type, and no deeper than
//! [`MAX_NESTING`].
//!
//! [`decode`](crate::decode) runs this once over each document of a message, before anyone sees it. What it buys: code
//! that later walks or deserializes the document, recursion included, cannot be led out of bounds or out of stack by a
//! peer. What it leaves to whoever reads a value, because it would cost a look at every byte: whether strings are UTF-8,
//! whether the payload of an old-style binary or a decimal makes sense, and whether an array's keys count up.
//!
//! The walk is a loop with a fixed-size stack of the ends of the documents it is in: ten thousand levels cost it no more
//! than two hundred do.

use crate::terminator::find_nul;

/// How many documents and arrays may lie inside each other below the outermost document.
///
/// Servers refuse to store more than 180 levels, and a reply wraps a stored document in a few more.
pub const MAX_NESTING: usize = 200;

/// The shortest document: a length and a terminator.
const MIN_DOCUMENT: usize = 5;

/// What is wrong with the structure of a document, and at which byte of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentFault {
    /// A document's length is less than a document takes, or reaches past what holds it.
    #[error("the document at byte {offset} claims {length} bytes, {left} are there")]
    Length {
        /// Where the document begins.
        offset: usize,
        /// The length that it claims.
        length: i32,
        /// How many bytes there are.
        left: usize,
    },
    /// A document does not end where its length says.
    #[error("the document ending at byte {end} has its terminator at byte {offset}")]
    Terminator {
        /// Where a terminator stands, or should.
        offset: usize,
        /// Where the document's length says that it ends.
        end: usize,
    },
    /// A type that BSON does not have.
    #[error("the element at byte {offset} has unknown type {element_type:#04x}")]
    ElementType {
        /// Where the element begins.
        offset: usize,
        /// The type byte.
        element_type: u8,
    },
    /// A key, or one of the strings of a regular expression, is not terminated.
    #[error("the NUL-terminated string at byte {offset} does not end within its document")]
    Unterminated {
        /// Where the string begins.
        offset: usize,
    },
    /// A value takes more bytes than its document has left.
    #[error("the value at byte {offset} takes {needed} bytes, {left} are left in its document")]
    Truncated {
        /// Where the value begins.
        offset: usize,
        /// How many bytes it takes.
        needed: usize,
        /// How many bytes there are.
        left: usize,
    },
    /// A value's own length is impossible.
    #[error("the value at byte {offset} claims an impossible length of {length}")]
    ValueLength {
        /// Where the value begins.
        offset: usize,
        /// The length that it claims.
        length: i32,
    },
    /// A string does not end with a NUL.
    #[error("the string ending at byte {offset} does not end with a NUL")]
    StringEnd {
        /// Where the NUL should be.
        offset: usize,
    },
    /// A boolean is neither 0 nor 1.
    #[error("the boolean at byte {offset} is {value}")]
    Boolean {
        /// Where the value stands.
        offset: usize,
        /// The value.
        value: u8,
    },
    /// Documents lie inside each other more than [`MAX_NESTING`] deep.
    #[error("documents are nested more than {max} deep at byte {offset}", max = MAX_NESTING)]
    TooDeep {
        /// Where the document begins that is one too deep.
        offset: usize,
    },
}

/// Checks that `bytes` are exactly one document of sound structure, nested no deeper than [`MAX_NESTING`].
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
    let mut walk = Walk { end, outer: [0; MAX_NESTING], depth: 0 };
    let mut offset = 4;
    loop {
        // Within a document, `offset < end` holds: no key and no value passes the terminator's place.
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

/// Which documents the walk is in.
struct Walk {
    /// Where the innermost one ends, its terminator included.
    end: usize,
    /// The ends of the documents around that one; `depth` of them count.
    outer: [usize; MAX_NESTING],
    depth: usize,
}

impl Walk {
    /// Goes into the document at `offset`: where its first element is.
    #[inline]
    fn enter(&mut self, bytes: &[u8], offset: usize) -> Result<usize, DocumentFault> {
        if self.depth == MAX_NESTING {
            return Err(DocumentFault::TooDeep { offset });
        }
        // It leaves the terminator of the document around it alone.
        let end = document_end(bytes, offset, self.end - 1)?;
        self.outer[self.depth] = self.end;
        self.depth += 1;
        self.end = end;
        Ok(offset + 4)
    }

    /// Code with scope is a length over everything, a string, and a document that must end where the length says.
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

    /// Comes out of the document whose terminator is at `offset`: where the one around it goes on, if there is one.
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

// Each of these says where something ends that begins at `offset` and has to be over at `limit`.

/// Of the document, if its length can be believed.
#[inline]
fn document_end(bytes: &[u8], offset: usize, limit: usize) -> Result<usize, DocumentFault> {
    let length = int32(bytes, offset, limit)?;
    let left = limit - offset;
    match usize::try_from(length) {
        Ok(count) if (MIN_DOCUMENT..=left).contains(&count) => Ok(offset + count),
        Ok(_) | Err(_) => Err(DocumentFault::Length { offset, length, left }),
    }
}

/// Of the value of an element which itself begins at `element`.
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
        // A DBPointer: a namespace and an object id.
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

/// Of a key, or another string that a NUL ends: after that.
#[inline]
fn cstring_end(bytes: &[u8], offset: usize, limit: usize) -> Result<usize, DocumentFault> {
    // The search may look past the document, into what comes after it; what it finds there does not count.
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
        // The length counts the terminator.
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
    // The subtype comes between the length and what it counts.
    let payload = fixed_end(offset + 4, 1, limit)?;
    fixed_end(payload, count, limit)
}
