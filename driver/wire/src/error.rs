//! What can be wrong with bytes from the wire, or with a message about to be written to it.

use crate::{compressor::Compressor, validate::DocumentFault};

/// Why bytes are not a message, or why a message cannot be written.
///
/// A connection that produced one of these while reading is out of step with its peer and must be closed: there is no
/// telling where the next message begins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The message length in a header is negative or smaller than the header itself.
    #[error("a message claims to be {length} bytes long, but its header alone takes 16")]
    LengthTooSmall {
        /// The length as it stood in the header.
        length: i32,
    },
    /// The message length in a header passes the limit of the reader.
    #[error("a message claims to be {length} bytes long, the limit is {max}")]
    LengthTooLarge {
        /// The length as it stood in the header.
        length: usize,
        /// The limit that the reader set.
        max: usize,
    },
    /// The first bytes belong to another protocol.
    #[error("the peer does not speak the MongoDB wire protocol: its first bytes are {protocol}")]
    OtherProtocol {
        /// The protocol that the bytes look like.
        protocol: &'static str,
    },
    /// The header names an operation that this crate does not know.
    #[error("the message has operation code {op_code}, which is not one of 1, 2004, 2012 and 2013")]
    UnknownOpCode {
        /// The code as it stood in the header.
        op_code: i32,
    },
    /// The bytes given to be decoded are not exactly one message.
    #[error("the header says {claimed} bytes, but {actual} bytes were given to be decoded")]
    LengthMismatch {
        /// The length in the header.
        claimed: usize,
        /// How many bytes there are.
        actual: usize,
    },
    /// A field reaches past the end of what holds it.
    #[error("{what} takes {needed} bytes, but only {left} are left")]
    Truncated {
        /// The field.
        what: &'static str,
        /// How many bytes it takes.
        needed: usize,
        /// How many bytes there are.
        left: usize,
    },
    /// A NUL-terminated string has no NUL before the end of what holds it.
    #[error("{what} has no terminating NUL in the {left} bytes that are left")]
    Unterminated {
        /// The string.
        what: &'static str,
        /// How many bytes were searched.
        left: usize,
    },
    /// A string is not UTF-8.
    #[error("{what} is not UTF-8 (from byte {valid_up_to} on)")]
    NotUtf8 {
        /// The string.
        what: &'static str,
        /// How many of its bytes are good.
        valid_up_to: usize,
    },
    /// Bytes are left over after the last field.
    #[error("{count} bytes are left over after {what}")]
    TrailingBytes {
        /// What ended too early.
        what: &'static str,
        /// How many bytes follow it.
        count: usize,
    },
    /// A document is not well-formed BSON, or nests too deeply.
    #[error("{what} is not a valid document: {fault}")]
    Document {
        /// Which document.
        what: &'static str,
        /// What is wrong with it.
        fault: DocumentFault,
    },
    /// OP_MSG: a required flag (one of the low 16 bits) is set that this crate does not know.
    #[error("unknown required flags {bits:#06x} are set in an OP_MSG")]
    UnknownFlags {
        /// The unknown bits.
        bits: u32,
    },
    /// OP_MSG: a section is neither a body (0) nor a document sequence (1).
    #[error("an OP_MSG has a section of unknown kind {kind}")]
    UnknownSectionKind {
        /// The kind as it stood in the message.
        kind: u8,
    },
    /// OP_MSG: no section of kind 0.
    #[error("an OP_MSG has no body section")]
    NoBody,
    /// OP_MSG: more than one section of kind 0.
    #[error("an OP_MSG has more than one body section")]
    SecondBody,
    /// OP_MSG: a document sequence claims a size that cannot be.
    #[error("a document sequence claims {size} bytes, but {left} are left in the message")]
    SequenceSize {
        /// The size as it stood in the section.
        size: i32,
        /// How many bytes there are.
        left: usize,
    },
    /// OP_MSG: two document sequences have the same identifier.
    #[error("an OP_MSG has two document sequences called {identifier:?}")]
    DuplicateSequence {
        /// The identifier that comes twice.
        identifier: String,
    },
    /// OP_MSG: the checksum does not fit the bytes.
    #[error("the message's checksum is {claimed:#010x}, but its bytes give {computed:#010x}")]
    ChecksumMismatch {
        /// The checksum in the message.
        claimed: u32,
        /// The checksum of the bytes that came.
        computed: u32,
    },
    /// OP_MSG: a message with a checksum was to be finished before all of it was written.
    #[error("a message of which more is to follow cannot have a checksum")]
    ChecksumOfUnseen,
    /// OP_REPLY: the number of documents is not the number claimed.
    #[error("an OP_REPLY claims {claimed} documents and holds {counted}")]
    DocumentCount {
        /// The number in the message.
        claimed: i32,
        /// The number of documents that came.
        counted: usize,
    },
    /// OP_COMPRESSED: a compressor id that is not assigned.
    #[error("compressor id {id} is not assigned")]
    UnknownCompressorId {
        /// The id as it stood in the message.
        id: u8,
    },
    /// A name that no compressor has.
    #[error("there is no compressor called {name:?}")]
    UnknownCompressorName {
        /// The name that was given.
        name: String,
    },
    /// The compressor is known, but this build does not contain it.
    #[error(
        "compressor {} is not built in: enable the feature `{}`", compressor.name(), compressor.name()
    )]
    CompressorNotBuiltIn {
        /// The compressor that is needed.
        compressor: Compressor,
    },
    /// A message is compressed by a compressor that the reader does not accept.
    #[error("a message is compressed by {compressor}, which was not negotiated")]
    CompressorNotNegotiated {
        /// The compressor as it stood in the message.
        compressor: Compressor,
    },
    /// A zlib level outside -1 to 9.
    #[error("zlib compression level {level} is not between -1 and 9")]
    ZlibLevel {
        /// The level that was given.
        level: i32,
    },
    /// OP_COMPRESSED: the claimed size is negative or the message would pass the reader's limit.
    #[error("a compressed message claims to hold {claimed} bytes, the limit is {max}")]
    UncompressedSize {
        /// The claim in the message.
        claimed: i32,
        /// What the limit leaves for it.
        max: usize,
    },
    /// OP_COMPRESSED: what came out is not as long as claimed. Inflating stops as soon as the claim is passed, so
    /// `actual` is never more than one byte above `claimed`, unless the compressed data itself says how long it is.
    #[error("a compressed message claims to hold {claimed} bytes, but it holds {actual}")]
    UncompressedSizeMismatch {
        /// The claim in the message.
        claimed: usize,
        /// How many bytes came out.
        actual: usize,
    },
    /// OP_COMPRESSED: the data is not what the compressor writes.
    #[error("{} data cannot be decompressed: {reason}", compressor.name())]
    Decompress {
        /// The compressor that the message names.
        compressor: Compressor,
        /// What the compressor said.
        reason: String,
    },
    /// The compressor failed on good input.
    #[error("a message cannot be compressed with {}: {reason}", compressor.name())]
    Compress {
        /// The compressor in use.
        compressor: Compressor,
        /// What the compressor said.
        reason: String,
    },
    /// OP_COMPRESSED inside OP_COMPRESSED.
    #[error("a compressed message holds another compressed message")]
    NestedCompression,
    /// A command that carries secrets, or opens a connection, was about to be compressed.
    #[error("{command} must not be compressed")]
    MustNotCompress {
        /// The command's name.
        command: String,
    },
    /// A NUL byte inside a string that the protocol ends with a NUL.
    #[error("{what} contains a NUL byte at position {position}")]
    NulInString {
        /// The string.
        what: &'static str,
        /// Where the NUL stands.
        position: usize,
    },
    /// Something to be written is longer than the protocol's 32-bit lengths can say.
    #[error("{what} is {length} bytes long, a 32-bit length cannot say that")]
    TooLongToWrite {
        /// What was to be written.
        what: &'static str,
        /// How long it is.
        length: usize,
    },
}
