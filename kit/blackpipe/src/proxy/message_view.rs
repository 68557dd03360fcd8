//! View of a wire message: the fields that the proxy needs, found without decoding the documents.

use std::ops::Deref;

use bson::RawDocument;
use bytes::Bytes;
use steadfast_wire::{
    Compressor, DEFAULT_MAX_MESSAGE_SIZE, Field, HEADER_LENGTH, Message, MsgFlags, OpCode, decode,
    fields, validate_document,
};

/// Returns `true` for arguments of write commands whose elements are statements. A `bulkWrite` has
/// other sequences, too (`nsInfo`).
fn is_statements(argument: &[u8]) -> bool {
    matches!(argument, b"documents" | b"updates" | b"deletes" | b"ops")
}

/// Bytes of a document: a slice of the message, or decompressed.
#[derive(Clone, Debug)]
pub(crate) enum BodyBytes<'m> {
    Part(&'m [u8]),
    Inflated(Bytes),
}

impl Deref for BodyBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Part(bytes) => bytes,
            Self::Inflated(bytes) => bytes,
        }
    }
}

/// Wire format of a message. A reply uses that of its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WireFormat {
    /// `true` for OP_QUERY and OP_REPLY.
    pub(crate) legacy: bool,
    pub(crate) compressor: Option<Compressor>,
}

/// View of a message. Fields are missing if the message is invalid.
#[derive(Clone, Debug)]
pub(crate) struct MessageView<'m> {
    pub(crate) request_id: i32,
    pub(crate) response_to: i32,
    pub(crate) form: WireFormat,
    pub(crate) more_to_come: bool,
    /// Command or reply. `None` if the message has neither.
    body: Option<BodyBytes<'m>>,
    /// Number of statements in document sequences.
    sequence_statements: usize,
    /// Database of an OP_QUERY.
    database: Option<String>,
}

impl<'m> MessageView<'m> {
    /// Parses a whole message of at least the length of a header.
    pub(crate) fn of(message: &'m [u8]) -> Self {
        let mut view = Self {
            request_id: int_at(message, 4),
            response_to: int_at(message, 8),
            form: WireFormat::default(),
            more_to_come: false,
            body: None,
            sequence_statements: 0,
            database: None,
        };
        let payload = message.get(HEADER_LENGTH..).unwrap_or_default();
        match OpCode::from_code(int_at(message, 12)) {
            Ok(OpCode::Msg) => view.parse_msg(payload),
            Ok(OpCode::Query) => view.parse_query(payload),
            Ok(OpCode::Reply) => view.parse_reply(payload),
            Ok(OpCode::Compressed) => view.inflate(message),
            // Legacy and unknown operations are forwarded unchanged.
            Ok(_) | Err(_) => {}
        }
        view
    }

    fn parse_msg(&mut self, payload: &'m [u8]) {
        let flags = int_at(payload, 0).cast_unsigned();
        self.more_to_come = flags & MsgFlags::MORE_TO_COME.bits() != 0;
        let checksum = if flags & MsgFlags::CHECKSUM_PRESENT.bits() != 0 { 4 } else { 0 };
        let end = payload.len().saturating_sub(checksum);
        let mut rest = payload.get(4..end).unwrap_or_default();
        // Sections of both kinds start with their length.
        while let Some((kind, section)) = rest.split_first() {
            let length = usize::try_from(int_at(section, 0)).unwrap_or(0);
            let Some((section, after)) = section.split_at_checked(length.max(5)) else { return };
            match kind {
                0 => self.body = Some(BodyBytes::Part(section)),
                1 => self.sequence_statements += count_documents(section),
                _ => return,
            }
            rest = after;
        }
    }

    fn parse_query(&mut self, payload: &'m [u8]) {
        self.form.legacy = true;
        // Flags, namespace, two integers, query.
        let rest = payload.get(4..).unwrap_or_default();
        let Some(end) = rest.iter().position(|byte| *byte == 0) else { return };
        let namespace = String::from_utf8_lossy(&rest[..end]);
        let Some(database) = namespace.strip_suffix(".$cmd") else { return };
        self.database = Some(database.to_owned());
        self.body = first_document(rest.get(end + 9..).unwrap_or_default());
    }

    fn parse_reply(&mut self, payload: &'m [u8]) {
        self.form.legacy = true;
        // Flags, cursor id, two integers, documents.
        self.body = first_document(payload.get(20..).unwrap_or_default());
    }

    fn inflate(&mut self, message: &[u8]) {
        let whole = decode(Bytes::copy_from_slice(message), DEFAULT_MAX_MESSAGE_SIZE);
        let Ok(incoming) = whole else { return };
        self.form.compressor = incoming.compressor;
        match incoming.message {
            Message::Msg(message) => {
                self.more_to_come = message.flags.contains(MsgFlags::MORE_TO_COME);
                let statements = message.sequences.iter().filter(|sequence_statements| {
                    is_statements(sequence_statements.identifier.as_bytes())
                });
                self.sequence_statements =
                    statements.map(|sequence_statements| sequence_statements.documents.len()).sum();
                self.body = Some(BodyBytes::Inflated(message.body.into_bytes()));
            }
            Message::Query(query) => {
                self.form.legacy = true;
                self.database = query.command_database().map(str::to_owned);
                self.body = Some(BodyBytes::Inflated(query.query.into_bytes()));
            }
            Message::Reply(reply) => {
                self.form.legacy = true;
                let reply = reply.command_reply().ok();
                self.body = reply.map(|reply| BodyBytes::Inflated(reply.into_bytes()));
            }
            _ => {}
        }
    }

    /// Returns the body: a command or a reply.
    pub(crate) fn document(&self) -> Option<&RawDocument> {
        RawDocument::from_bytes(self.body.as_deref()?).ok()
    }

    /// Returns the body if it is valid BSON within the nesting limit.
    pub(crate) fn validated_document(&self) -> Option<&RawDocument> {
        self.document().filter(|document| validate_document(document.as_bytes()).is_ok())
    }

    /// Parses the command of a request.
    pub(crate) fn command(&self) -> Option<CommandView<'_>> {
        let document = self.document()?;
        let mut walk = fields(document);
        let first = walk.next()?;
        let mut command = CommandView {
            name: std::str::from_utf8(first.key).ok()?,
            target: as_str(&first),
            database: self.database.as_deref().unwrap_or_default(),
            lsid: None,
            txn_number: None,
            in_transaction: false,
            ordered: true,
            statements: self.sequence_statements,
        };
        if command.name.eq_ignore_ascii_case("findAndModify") {
            command.statements = 1;
        }
        for field in walk {
            match field.key {
                b"$db" => command.database = as_str(&field).unwrap_or_default(),
                b"lsid" => command.lsid = session_id(&field),
                b"txnNumber" => command.txn_number = field.as_i64(),
                b"autocommit" => command.in_transaction = field.as_bool() == Some(false),
                b"ordered" => command.ordered = field.as_bool() != Some(false),
                key if is_statements(key) => command.statements += elements(&field),
                b"collection" if command.name == "getMore" => command.target = as_str(&field),
                _ => {}
            }
        }
        Some(command)
    }

    /// Summarizes a reply.
    pub(crate) fn outcome(&self) -> ReplySummary {
        let mut outcome = ReplySummary::default();
        let Some(document) = self.document() else { return outcome };
        let (mut modified, mut upserted) = (None, 0);
        for field in fields(document) {
            match field.key {
                b"nModified" => modified = field.as_i32().map(i64::from),
                // Reply of a `bulkWrite`.
                b"nInserted" | b"nUpserted" | b"nDeleted" => {
                    upserted += field.as_i32().map(i64::from).or(field.as_i64()).unwrap_or(0);
                }
                b"upserted" => upserted = i64::try_from(elements(&field)).unwrap_or(0),
                // Reply of a `findAndModify`.
                b"lastErrorObject" => outcome.n = count_within(&field),
                b"ok" => outcome.ok = number(&field).is_some_and(|ok| ok != 0.0),
                b"code" => outcome.code = field.as_i32(),
                b"n" => outcome.n = field.as_i32().map(i64::from).or(field.as_i64()),
                b"retriedStmtIds" => outcome.retried = elements(&field),
                b"retriedStmtId" => outcome.retried = 1,
                b"writeErrors" => {
                    outcome.write_errors = elements(&field);
                    outcome.first_write_error = first_write_error(&field);
                }
                b"writeConcernError" => outcome.write_concern_error = true,
                _ => {}
            }
        }
        outcome.changed = modified.map(|modified| modified + upserted).or(outcome.n);
        outcome
    }
}

/// View of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandView<'s> {
    pub(crate) name: &'s str,
    /// Collection, for commands with one.
    pub(crate) target: Option<&'s str>,
    pub(crate) database: &'s str,
    pub(crate) lsid: Option<[u8; 16]>,
    pub(crate) txn_number: Option<i64>,
    pub(crate) in_transaction: bool,
    pub(crate) ordered: bool,
    /// Number of statements: inserted documents, updates, deletes.
    pub(crate) statements: usize,
}

impl CommandView<'_> {
    pub(crate) fn namespace(&self) -> String {
        match self.target {
            Some(target) if !target.is_empty() => format!("{}.{target}", self.database),
            Some(_) | None => self.database.to_owned(),
        }
    }

    pub(crate) fn is_hello(&self) -> bool {
        self.name == "hello" || self.name.eq_ignore_ascii_case("ismaster")
    }

    /// Returns `true` for `commitTransaction` and `abortTransaction`.
    pub(crate) fn ends_transaction(&self) -> bool {
        matches!(self.name, "commitTransaction" | "abortTransaction")
    }
}

/// Summary of a server's reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplySummary {
    /// `true` if the command succeeded (`ok: 1`).
    pub ok: bool,
    /// Error code (`code`).
    pub code: Option<i32>,
    /// Field `n`.
    pub n: Option<i64>,
    /// Number of changed documents: inserted, modified, deleted.
    pub changed: Option<i64>,
    /// Number of statements replied to from the session record (`retriedStmtIds`), not executed.
    pub retried: usize,
    /// Number of failed statements (`writeErrors`).
    pub write_errors: usize,
    /// Index of the first failed statement.
    pub first_write_error: Option<usize>,
    /// `true` if the reply has a `writeConcernError`.
    pub write_concern_error: bool,
}

fn int_at(bytes: &[u8], at: usize) -> i32 {
    let four = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    four.map_or(0, |four| i32::from_le_bytes(*four))
}

fn first_document(bytes: &[u8]) -> Option<BodyBytes<'_>> {
    let length = usize::try_from(int_at(bytes, 0)).ok()?;
    bytes.get(..length).map(BodyBytes::Part)
}

/// Counts the statements of a document sequence: length, name, documents.
fn count_documents(section: &[u8]) -> usize {
    let name = section.get(4..).unwrap_or_default();
    let Some(end) = name.iter().position(|byte| *byte == 0) else { return 0 };
    if !is_statements(&name[..end]) {
        return 0;
    }
    let mut rest = &name[end + 1..];
    let mut count = 0;
    while let Some((_, after)) = usize::try_from(int_at(rest, 0))
        .ok()
        .and_then(|length| rest.split_at_checked(length.max(5)))
    {
        rest = after;
        count += 1;
    }
    count
}

fn as_str<'a>(field: &Field<'a>) -> Option<&'a str> {
    match field.element_type {
        0x02 => std::str::from_utf8(field.value.get(4..field.value.len().checked_sub(1)?)?).ok(),
        _ => None,
    }
}

fn number(field: &Field<'_>) -> Option<f64> {
    let integer = field.as_i32().map(f64::from);
    let truth = field.as_bool().map(|truth| if truth { 1.0 } else { 0.0 });
    // Only zero and non-zero are distinguished.
    let long = field.as_i64().map(|long| if long == 0 { 0.0 } else { 1.0 });
    field.as_f64().or(integer).or(truth).or(long)
}

fn within<'a>(field: &Field<'a>) -> Option<&'a RawDocument> {
    matches!(field.element_type, 0x03 | 0x04).then(|| RawDocument::from_bytes(field.value).ok())?
}

fn elements(field: &Field<'_>) -> usize {
    within(field).map_or(0, |array| fields(array).count())
}

fn count_within(field: &Field<'_>) -> Option<i64> {
    let count = fields(within(field)?).find(|field| field.key == b"n")?;
    count.as_i32().map(i64::from)
}

fn first_write_error(field: &Field<'_>) -> Option<usize> {
    let first = fields(within(field)?).next()?;
    let index = fields(within(&first)?).find(|field| field.key == b"index")?;
    usize::try_from(index.as_i32()?).ok()
}

fn session_id(field: &Field<'_>) -> Option<[u8; 16]> {
    let id = fields(within(field)?).find(|field| field.key == b"id")?;
    // Length and subtype precede the bytes of a binary.
    (id.element_type == 0x05).then(|| id.value.get(5..)?.first_chunk().copied())?
}

#[cfg(test)]
mod tests {
    use bson::{Binary, rawdoc, spec::BinarySubtype};
    use steadfast_wire::{DocumentBytes, DocumentRun, OpMsg, OpQuery, OpReply, compress};

    use super::*;

    fn insert() -> Vec<u8> {
        let id = Binary { subtype: BinarySubtype::Uuid, bytes: vec![7; 16] };
        let body = rawdoc! {
            "insert": "orders", "lsid": { "id": id }, "txnNumber": 5_i64, "$db": "shop",
            "ordered": false,
        };
        let documents = [rawdoc! { "a": 1 }, rawdoc! { "a": 2 }];
        let message = OpMsg::new(body.try_into().unwrap())
            .with_flags(MsgFlags::CHECKSUM_PRESENT)
            .with_sequence("documents", DocumentRun::copy_from(documents).unwrap());
        let mut bytes = Vec::new();
        message.encode(9, 0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn compressed_request_is_parsed_like_a_plain_one() {
        let plain = insert();
        let mut compressed = Vec::new();
        let compressor: Compressor = "zstd".parse().unwrap();
        compress(&plain, compressor, &mut compressed).unwrap();
        for (message, form) in [(&plain, None), (&compressed, Some(compressor))] {
            let view = MessageView::of(message);
            assert_eq!(view.request_id, 9);
            assert_eq!(view.form, WireFormat { legacy: false, compressor: form });
            let command = view.command().unwrap();
            assert_eq!((command.name, command.namespace().as_str()), ("insert", "shop.orders"));
            assert_eq!((command.lsid, command.txn_number), (Some([7; 16]), Some(5)));
            assert_eq!((command.statements, command.ordered), (2, false));
        }
    }

    #[test]
    fn legacy_hello_and_reply_are_parsed() {
        let command: DocumentBytes = rawdoc! { "isMaster": 1 }.try_into().unwrap();
        let mut bytes = Vec::new();
        OpQuery::hello(command).encode(1, &mut bytes).unwrap();
        let view = MessageView::of(&bytes);
        let command = view.command().unwrap();
        assert!(command.is_hello() && view.form.legacy);
        assert_eq!(command.namespace(), "admin");

        let reply: DocumentBytes = rawdoc! { "ok": 1.0, "me": "a:1" }.try_into().unwrap();
        let mut bytes = Vec::new();
        OpReply::to_command(&reply).unwrap().encode(2, 1, &mut bytes).unwrap();
        let view = MessageView::of(&bytes);
        assert!(view.outcome().ok);
        assert_eq!(view.document().unwrap().get_str("me").unwrap(), "a:1");
    }

    #[test]
    fn reply_summary_counts_retried_statements() {
        let body = rawdoc! {
            "n": 3, "retriedStmtIds": [0, 1], "writeErrors": [{ "index": 2, "code": 1 }], "ok": 1,
        };
        let mut bytes = Vec::new();
        OpMsg::new(body.try_into().unwrap()).encode(2, 1, &mut bytes).unwrap();
        let outcome = MessageView::of(&bytes).outcome();
        assert_eq!((outcome.ok, outcome.n, outcome.retried), (true, Some(3), 2));
        assert_eq!(outcome.changed, Some(3));
        assert_eq!((outcome.write_errors, outcome.first_write_error), (1, Some(2)));
    }

    #[test]
    fn bulk_write_counts_one_statement_per_operation() {
        let body = rawdoc! { "bulkWrite": 1, "$db": "admin" };
        let operations = [rawdoc! { "insert": 0 }, rawdoc! { "delete": 1 }];
        let message = OpMsg::new(body.try_into().unwrap())
            .with_sequence("nsInfo", DocumentRun::copy_from([rawdoc! { "ns": "a.b" }]).unwrap())
            .with_sequence("ops", DocumentRun::copy_from(operations).unwrap());
        let mut plain = Vec::new();
        message.encode(1, 0, &mut plain).unwrap();
        let mut compressed = Vec::new();
        compress(&plain, "zlib".parse().unwrap(), &mut compressed).unwrap();
        for message in [plain, compressed] {
            assert_eq!(MessageView::of(&message).command().unwrap().statements, 2);
        }
        let reply = rawdoc! { "nInserted": 1, "nModified": 0, "nDeleted": 1, "ok": 1 };
        let mut bytes = Vec::new();
        OpMsg::new(reply.try_into().unwrap()).encode(2, 1, &mut bytes).unwrap();
        assert_eq!(MessageView::of(&bytes).outcome().changed, Some(2));
    }

    #[test]
    fn parsing_corrupted_messages_does_not_panic() {
        let message = insert();
        for cut in HEADER_LENGTH..message.len() {
            let _ = MessageView::of(&message[..cut]).command();
        }
        for at in 0..message.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut wrong = message.clone();
                wrong[at] = byte;
                let view = MessageView::of(&wrong);
                let _ = view.command().map(|command| command.namespace());
                let _ = view.outcome();
            }
        }
    }
}
