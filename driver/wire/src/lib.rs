//! The MongoDB wire protocol as bytes and messages, and nothing else: no runtime, no sockets, no clock.
//!
//! It exists as a crate of its own because both ends need it and neither may trust the other: the driver writes requests
//! and reads what a server, or whatever else listens on that port, sends back; a test server does the reverse. Keeping it
//! free of I/O means that every way in which bytes can be wrong is tested by handing it bytes.
//!
//! What it promises:
//!
//! - **No length is believed before it is checked**: not the message's, not a section's, not a document's, and not the
//!   claim of a compressed message, which is held against the limit before memory is set aside for it and against the
//!   output while that is made.
//! - **Reading copies nothing.** [`decode`] takes [`bytes::Bytes`] and gives slices of them ([`DocumentBytes`]), each
//!   validated once ([`validate_document`]) and never nested deeper than [`MAX_NESTING`].
//! - **Writing copies once**, into the send buffer ([`MessageWriter`]), and leaves the buffer untouched if it fails.
//! - **What must not be compressed is not**: [`compress`] looks at the command itself.
//! - **No string is cut short**: a NUL where the protocol ends a string with one is an error.
//!
//! # Both ways
//!
//! ```
//! use bytes::Bytes;
//! use steadfast_wire::{decode, frame, Framing, Message, MessageWriter, MsgFlags, DEFAULT_MAX_MESSAGE_SIZE};
//!
//! // A client writes a command …
//! let mut buffer = Vec::new();
//! let mut message = MessageWriter::request(&mut buffer, 1, MsgFlags::empty());
//! message.body().append_i32("ping", 1)?.append_str("$db", "admin")?;
//! message.finish()?;
//!
//! // … and the other side reads it: first where it ends, then what it says.
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
//! `snappy`, `zlib` and `zstd` each add a compressor. None is on by default, and none changes anything but whether its
//! compressor works: without it, [`Compressor`] still names it and using it is
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
    compressor::{Compressor, CompressorSet, ZlibLevel},
    document::{DocumentBytes, DocumentIter, DocumentRun},
    elements::Elements,
    error::WireError,
    fields::{Field, Fields, field, fields},
    header::{DEFAULT_MAX_MESSAGE_SIZE, Framing, HEADER_LENGTH, Header, OpCode, frame},
    message::{Incoming, Message, decode, decode_negotiated},
    op_compressed::{compress, may_compress},
    op_msg::{DocumentSequence, MessageWriter, MsgFlags, OpMsg, SequenceWriter},
    op_query::{OpQuery, write_legacy_hello},
    op_reply::OpReply,
    validate::{DocumentFault, MAX_NESTING, validate_document},
};
