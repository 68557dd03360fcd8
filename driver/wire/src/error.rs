//! Errors of decoding and encoding messages.

use crate::{compressor::Compressor, validate::DocumentFault};

/// An error of decoding or encoding a message.
///
/// After an error while reading, the beginning of the next message is unknown: close the
/// connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The message length in a header is negative or smaller than the header itself.
    #[error("invalid message length {length}: the header alone has 16 bytes")]
    LengthTooSmall {
        /// The `messageLength` in the header.
        length: i32,
    },
    /// The message length in a header exceeds the limit of the reader.
    #[error("message length {length} exceeds the limit of {max} bytes")]
    LengthTooLarge {
        /// The `messageLength` in the header.
        length: usize,
        /// The limit given to the reader.
        max: usize,
    },
    /// The first bytes belong to another protocol.
    #[error(
        "the peer does not speak the MongoDB wire protocol: it sent {protocol}; check host and port"
    )]
    OtherProtocol {
        /// The protocol that the bytes look like.
        protocol: &'static str,
    },
    /// The header has an operation code that this crate does not support.
    #[error(
        "unknown operation code {op_code}; expected 1 (OP_REPLY), 2004 (OP_QUERY), \
         2012 (OP_COMPRESSED) or 2013 (OP_MSG)"
    )]
    UnknownOpCode {
        /// The `opCode` in the header.
        op_code: i32,
    },
    /// The bytes to decode are not exactly one message.
    #[error("the header claims {claimed} bytes, but {actual} bytes were given to decode")]
    LengthMismatch {
        /// The `messageLength` in the header.
        claimed: usize,
        /// The number of bytes given.
        actual: usize,
    },
    /// A field extends past the end of its container.
    #[error("{what} needs {needed} bytes, but only {left} are left")]
    Truncated {
        /// The field.
        what: &'static str,
        /// The number of bytes it needs.
        needed: usize,
        /// The number of bytes left.
        left: usize,
    },
    /// A NUL-terminated string has no NUL before the end of its container.
    #[error("{what} has no terminating NUL in the remaining {left} bytes")]
    Unterminated {
        /// The string.
        what: &'static str,
        /// The number of bytes searched.
        left: usize,
    },
    /// A string is not UTF-8.
    #[error("{what} is not UTF-8: invalid at byte {valid_up_to}")]
    NotUtf8 {
        /// The string.
        what: &'static str,
        /// The number of valid bytes before the first invalid one.
        valid_up_to: usize,
    },
    /// Bytes remain after the last field.
    #[error("{count} unexpected bytes after {what}")]
    TrailingBytes {
        /// The structure that ended before the bytes.
        what: &'static str,
        /// The number of bytes after it.
        count: usize,
    },
    /// A document is not well-formed BSON, or is nested too deeply.
    #[error("{what} is not a valid BSON document: {fault}")]
    Document {
        /// The document.
        what: &'static str,
        /// The fault of the document.
        fault: DocumentFault,
    },
    /// OP_MSG: an unknown required flag (one of the low 16 bits) is set.
    #[error("unknown required flag bits {bits:#06x} in an OP_MSG")]
    UnknownFlags {
        /// The unknown bits.
        bits: u32,
    },
    /// OP_MSG: a section is neither a body (kind 0) nor a document sequence (kind 1).
    #[error("unknown section kind {kind} in an OP_MSG")]
    UnknownSectionKind {
        /// The section kind in the message.
        kind: u8,
    },
    /// OP_MSG: there is no body (section of kind 0).
    #[error("an OP_MSG has no body section (kind 0)")]
    MissingBody,
    /// OP_MSG: there is more than one body (section of kind 0).
    #[error("an OP_MSG has more than one body section (kind 0)")]
    DuplicateBody,
    /// OP_MSG: a document sequence has an impossible size.
    #[error("a document sequence claims {size} bytes, but {left} are left in the message")]
    SequenceSize {
        /// The size in the section.
        size: i32,
        /// The number of bytes left.
        left: usize,
    },
    /// OP_MSG: two document sequences have the same identifier.
    #[error("an OP_MSG has two document sequences named {identifier:?}")]
    DuplicateSequence {
        /// The repeated identifier.
        identifier: String,
    },
    /// OP_MSG: the checksum does not match the message.
    #[error(
        "checksum mismatch: the message claims {claimed:#010x}, its bytes give {computed:#010x}"
    )]
    ChecksumMismatch {
        /// The checksum in the message.
        claimed: u32,
        /// The checksum computed from the message.
        computed: u32,
    },
    /// OP_MSG: a checksum was requested for a message whose last documents are sent separately.
    #[error("a message whose last documents follow separately cannot have a checksum")]
    ChecksumOfPartialMessage,
    /// OP_REPLY: the number of documents differs from `numberReturned`.
    #[error("an OP_REPLY claims {claimed} documents, but contains {counted}")]
    DocumentCount {
        /// The `numberReturned` in the message.
        claimed: i32,
        /// The number of documents in the message.
        counted: usize,
    },
    /// OP_COMPRESSED: the compressor id is not assigned.
    #[error("unknown compressor id {id}")]
    UnknownCompressorId {
        /// The `compressorId` in the message.
        id: u8,
    },
    /// The name is not a compressor's.
    #[error("unknown compressor {name:?}; expected noop, snappy, zlib or zstd")]
    UnknownCompressorName {
        /// The name given.
        name: String,
    },
    /// The compressor is not part of this build.
    #[error(
        "compressor {} is not built in: enable the feature `{}`", compressor.name(), compressor.name()
    )]
    CompressorNotBuiltIn {
        /// The required compressor.
        compressor: Compressor,
    },
    /// OP_COMPRESSED: the message uses a compressor that was not negotiated.
    #[error("the message is compressed with {compressor}, which was not negotiated")]
    CompressorNotNegotiated {
        /// The compressor of the message.
        compressor: Compressor,
    },
    /// A zlib level outside of -1 to 9.
    #[error("zlib compression level {level} is out of range; expected -1 to 9")]
    ZlibLevel {
        /// The level given.
        level: i32,
    },
    /// A zstd level outside of -131072 to 22.
    #[error("zstd compression level {level} is out of range; expected -131072 to 22")]
    ZstdLevel {
        /// The level given.
        level: i32,
    },
    /// OP_COMPRESSED: the uncompressed size is negative or exceeds the limit of the reader.
    #[error("uncompressed size {claimed} of a compressed message exceeds the limit of {max} bytes")]
    UncompressedSize {
        /// The `uncompressedSize` in the message.
        claimed: i32,
        /// The limit without the header.
        max: usize,
    },
    /// OP_COMPRESSED: the decompressed size differs from `uncompressedSize`.
    ///
    /// Decompression stops one byte after the claimed size. `actual` is therefore at most `claimed`
    /// + 1, unless the compressed data states its own size.
    #[error("a compressed message claims {claimed} bytes, but contains {actual}")]
    UncompressedSizeMismatch {
        /// The `uncompressedSize` in the message.
        claimed: usize,
        /// The number of decompressed bytes.
        actual: usize,
    },
    /// OP_COMPRESSED: the data is not valid for the compressor.
    #[error("cannot decompress {} data: {reason}", compressor.name())]
    Decompress {
        /// The compressor of the message.
        compressor: Compressor,
        /// The compressor's error.
        reason: String,
    },
    /// The compressor failed.
    #[error("cannot compress a message with {}: {reason}", compressor.name())]
    Compress {
        /// The compressor.
        compressor: Compressor,
        /// The compressor's error.
        reason: String,
    },
    /// An OP_COMPRESSED inside an OP_COMPRESSED.
    #[error("a compressed message contains another compressed message")]
    NestedCompression,
    /// The command must not be compressed: it carries credentials or opens a connection.
    #[error("{command} must not be compressed")]
    MustNotCompress {
        /// The command name.
        command: String,
    },
    /// A NUL byte inside a NUL-terminated string.
    #[error("{what} contains a NUL byte at position {position}")]
    NulInString {
        /// The string.
        what: &'static str,
        /// The position of the NUL.
        position: usize,
    },
    /// A length does not fit into the 32-bit length fields of the protocol.
    #[error("{what} is too long: {length} bytes do not fit into a 32-bit length")]
    TooLongToWrite {
        /// The structure.
        what: &'static str,
        /// Its length in bytes.
        length: usize,
    },
}
