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

use crate::nul::find_nul;

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
    let mut walk = Walk { bytes, offset: 0, end: bytes.len(), outer: [0; MAX_NESTING], depth: 0 };
    walk.end = walk.document_end()?;
    if walk.end != bytes.len() {
        return Err(DocumentFault::Terminator { offset: walk.end - 1, end: bytes.len() });
    }
    walk.offset = 4;
    while walk.step()? {}
    Ok(())
}

/// Where the walk stands.
struct Walk<'a> {
    bytes: &'a [u8],
    offset: usize,
    /// Where the document that the walk is in ends, its terminator included.
    end: usize,
    /// The ends of the documents around that one; `depth` of them count.
    outer: [usize; MAX_NESTING],
    depth: usize,
}

impl Walk<'_> {
    /// Goes over one element or one terminator; false after the last terminator.
    fn step(&mut self) -> Result<bool, DocumentFault> {
        let start = self.offset;
        // While inside a document, `offset < end` holds: `advance` and `cstring` never pass the terminator's place.
        let element_type = self.bytes[start];
        self.offset += 1;
        if element_type == 0 {
            return self.leave(start);
        }
        if self.offset == self.end {
            return Err(DocumentFault::Terminator { offset: start, end: self.end });
        }
        self.cstring()?;
        self.value(element_type, start)?;
        Ok(true)
    }

    fn value(&mut self, element_type: u8, start: usize) -> Result<(), DocumentFault> {
        match element_type {
            // Undefined, null, min key and max key.
            0x06 | 0x0a | 0x7f | 0xff => Ok(()),
            0x08 => self.boolean(),
            0x10 => self.advance(4),
            // Double, date, timestamp and int64.
            0x01 | 0x09 | 0x11 | 0x12 => self.advance(8),
            0x07 => self.advance(12),
            0x13 => self.advance(16),
            // String, code and symbol.
            0x02 | 0x0d | 0x0e => self.string(),
            0x03 | 0x04 => self.enter(),
            0x05 => self.binary(),
            0x0b => {
                self.cstring()?;
                self.cstring()
            }
            // A DBPointer: a namespace and an object id.
            0x0c => {
                self.string()?;
                self.advance(12)
            }
            0x0f => self.code_with_scope(),
            _ => Err(DocumentFault::ElementType { offset: start, element_type }),
        }
    }

    /// How many bytes a value may take: all but the terminator of the document that it is in.
    fn left(&self) -> usize {
        self.end - 1 - self.offset
    }

    fn advance(&mut self, count: usize) -> Result<(), DocumentFault> {
        let left = self.left();
        if count > left {
            return Err(DocumentFault::Truncated { offset: self.offset, needed: count, left });
        }
        self.offset += count;
        Ok(())
    }

    fn cstring(&mut self) -> Result<(), DocumentFault> {
        let searched = &self.bytes[self.offset..self.end - 1];
        let Some(length) = find_nul(searched) else {
            return Err(DocumentFault::Unterminated { offset: self.offset });
        };
        self.offset += length + 1;
        Ok(())
    }

    fn i32(&mut self) -> Result<i32, DocumentFault> {
        let value = self.peek_i32(self.left())?;
        self.offset += 4;
        Ok(value)
    }

    fn peek_i32(&self, left: usize) -> Result<i32, DocumentFault> {
        match self.bytes[self.offset..self.offset + left].first_chunk() {
            Some(bytes) => Ok(i32::from_le_bytes(*bytes)),
            None => Err(DocumentFault::Truncated { offset: self.offset, needed: 4, left }),
        }
    }

    fn boolean(&mut self) -> Result<(), DocumentFault> {
        let offset = self.offset;
        self.advance(1)?;
        match self.bytes[offset] {
            0 | 1 => Ok(()),
            value => Err(DocumentFault::Boolean { offset, value }),
        }
    }

    fn string(&mut self) -> Result<(), DocumentFault> {
        let offset = self.offset;
        let length = self.i32()?;
        let count = match usize::try_from(length) {
            // The length counts the terminator.
            Ok(count @ 1..) => count,
            Ok(0) | Err(_) => return Err(DocumentFault::ValueLength { offset, length }),
        };
        self.advance(count)?;
        match self.bytes[self.offset - 1] {
            0 => Ok(()),
            _ => Err(DocumentFault::StringEnd { offset: self.offset - 1 }),
        }
    }

    fn binary(&mut self) -> Result<(), DocumentFault> {
        let offset = self.offset;
        let length = self.i32()?;
        let count =
            usize::try_from(length).map_err(|_| DocumentFault::ValueLength { offset, length })?;
        // The subtype comes between the length and what it counts.
        self.advance(1)?;
        self.advance(count)
    }

    /// Code with scope is a length over everything, a string, and a document that must end where the length says.
    fn code_with_scope(&mut self) -> Result<(), DocumentFault> {
        let offset = self.offset;
        let length = self.i32()?;
        self.string()?;
        self.enter()?;
        if usize::try_from(length) == Ok(self.end - offset) {
            Ok(())
        } else {
            Err(DocumentFault::ValueLength { offset, length })
        }
    }

    /// Goes into the document that begins here.
    fn enter(&mut self) -> Result<(), DocumentFault> {
        if self.depth == MAX_NESTING {
            return Err(DocumentFault::TooDeep { offset: self.offset });
        }
        let inner_end = self.document_end()?;
        self.outer[self.depth] = self.end;
        self.depth += 1;
        self.end = inner_end;
        self.offset += 4;
        Ok(())
    }

    /// Comes out of the document whose terminator was met at `terminator`; false if it was the outermost.
    fn leave(&mut self, terminator: usize) -> Result<bool, DocumentFault> {
        if self.offset != self.end {
            return Err(DocumentFault::Terminator { offset: terminator, end: self.end });
        }
        if self.depth == 0 {
            return Ok(false);
        }
        self.depth -= 1;
        self.end = self.outer[self.depth];
        Ok(true)
    }

    /// Where the document that begins here ends, if its length can be believed.
    fn document_end(&self) -> Result<usize, DocumentFault> {
        let offset = self.offset;
        // The outermost document may use all bytes; an inner one leaves its parent's terminator alone.
        let left = if offset == 0 { self.end } else { self.left() };
        let length = self.peek_i32(left)?;
        match usize::try_from(length) {
            Ok(count) if (MIN_DOCUMENT..=left).contains(&count) => Ok(offset + count),
            Ok(_) | Err(_) => Err(DocumentFault::Length { offset, length, left }),
        }
    }
}
