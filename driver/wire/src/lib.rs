//! The MongoDB wire protocol as bytes and messages, without runtime, sockets or clock.
//!
//! Both ends of a connection use this crate, and neither trusts the other: the driver writes
//! requests and reads replies, a test server does the reverse. Without I/O, every kind of malformed
//! input can be tested by passing bytes.
//!
//! Guarantees:
//!
//! - **Every length is checked before use**: of the message, its sections and its documents. The
//!   claimed size of a compressed message is checked against the limit before memory is allocated,
//!   and against the output during decompression.
//! - **Reading does not copy.** [`decode`] takes [`bytes::Bytes`] and returns slices of them
//!   ([`DocumentBytes`]). Each document is validated once ([`validate_document`]) and is nested at
//!   most [`MAX_NESTING`] levels.
//! - **Writing copies once**, into the send buffer ([`MessageWriter`]). A failed write leaves the
//!   buffer unchanged.
//! - **Commands with credentials are never compressed**: [`compress`] inspects the command itself.
//! - **Strings are never truncated**: a NUL inside a NUL-terminated string is an error.
//!
//! # Example
//!
//! ```
//! use bytes::Bytes;
//! use steadfast_wire::{decode, frame, Framing, Message, MessageWriter, MsgFlags, DEFAULT_MAX_MESSAGE_SIZE};
//!
//! // A client writes a command.
//! let mut buffer = Vec::new();
//! let mut message = MessageWriter::request(&mut buffer, 1, MsgFlags::empty());
//! message.body().append_i32("ping", 1)?.append_str("$db", "admin")?;
//! message.finish()?;
//!
//! // The server finds the end of the message and decodes it.
//! let Framing::Complete { length } = frame(&buffer, DEFAULT_MAX_MESSAGE_SIZE)? else {
//!     panic!("all bytes are there");
//! };
//! buffer.truncate(length);
//! let incoming = decode(Bytes::from(buffer), DEFAULT_MAX_MESSAGE_SIZE)?;
//! assert_eq!(incoming.header.request_id, 1);
//! let Message::Msg(message) = incoming.message else { panic!("an OP_MSG was sent") };
//! assert_eq!(message.body.get_str("$db")?, "admin");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! `snappy`, `zlib` and `zstd` enable one compressor each. None is enabled by default. Without its
//! feature, a [`Compressor`] can still be named; using it returns
//! [`WireError::CompressorNotBuiltIn`].
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod checksum;
mod compressor;
mod document;
mod draft;
mod elements;
mod error;
mod fields;
mod header;
mod message;
mod op_compressed;
mod op_msg;
mod op_query;
mod op_reply;
mod reader;
mod terminator;
mod validate;

pub use self::{
    compressor::{Compressor, CompressorSet, ZlibLevel, ZstdLevel},
    document::{DocumentBytes, DocumentIter, DocumentRun},
    elements::ElementWriter,
    error::WireError,
    fields::{Field, Fields, field, fields},
    header::{DEFAULT_MAX_MESSAGE_SIZE, Framing, HEADER_LENGTH, Header, OpCode, frame},
    message::{IncomingMessage, Message, decode, decode_negotiated},
    op_compressed::{compress, may_compress},
    op_msg::{DocumentSequence, MessageWriter, MsgFlags, OpMsg, SequenceWriter},
    op_query::{OpQuery, write_legacy_hello},
    op_reply::OpReply,
    validate::{DocumentFault, MAX_NESTING, validate_document},
};
