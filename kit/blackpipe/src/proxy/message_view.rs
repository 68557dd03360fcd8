//! What a message says, seen by walking over it: a proxy in a hurry does not decode what it passes on.

use std::ops::Deref;

use bson::RawDocument;
use bytes::Bytes;
use steadfast_wire::{
    Compressor, DEFAULT_MAX_MESSAGE_SIZE, Field, HEADER_LENGTH, Message, MsgFlags, OpCode, decode,
    fields, validate_document,
};

/// The arguments of writes whose elements are statements. A `bulkWrite` has others beside them.
fn is_statements(argument: &[u8]) -> bool {
    matches!(argument, b"documents" | b"updates" | b"deletes" | b"ops")
}

/// A document's bytes: a part of the message, or of what it held in compressed form.
#[derive(Clone, Debug)]
pub(crate) enum Body<'m> {
    Part(&'m [u8]),
    Inflated(Bytes),
}

impl Deref for Body<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Part(bytes) => bytes,
            Self::Inflated(bytes) => bytes,
        }
    }
}

/// In which form a message came, and so in which its answer goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    /// An OP_QUERY, or the OP_REPLY to one.
    pub(crate) legacy: bool,
    pub(crate) compressor: Option<Compressor>,
}

/// A message as far as it can be made sense of.
#[derive(Clone, Debug)]
pub(crate) struct Sight<'m> {
    pub(crate) request_id: i32,
    pub(crate) response_to: i32,
    pub(crate) form: Form,
    pub(crate) more_to_come: bool,
    /// The command or the reply; nothing, if this is neither, or garbage.
    body: Option<Body<'m>>,
    /// How many documents travel beside the body as the arguments of a write.
    beside: usize,
    /// What a legacy query is addressed to.
    database: Option<String>,
}

impl<'m> Sight<'m> {
    /// Looks at a whole message, which is at least as long as a header.
    pub(crate) fn of(message: &'m [u8]) -> Self {
        let mut sight = Self {
            request_id: int_at(message, 4),
            response_to: int_at(message, 8),
            form: Form::default(),
            more_to_come: false,
            body: None,
            beside: 0,
            database: None,
        };
        let payload = message.get(HEADER_LENGTH..).unwrap_or_default();
        match OpCode::from_code(int_at(message, 12)) {
            Ok(OpCode::Msg) => sight.look_at_msg(payload),
            Ok(OpCode::Query) => sight.look_at_query(payload),
            Ok(OpCode::Reply) => sight.look_at_reply(payload),
            Ok(OpCode::Compressed) => sight.inflate(message),
            // Operations of another age pass as they are. So does what is none.
            Ok(_) | Err(_) => {}
        }
        sight
    }

    fn look_at_msg(&mut self, payload: &'m [u8]) {
        let flags = int_at(payload, 0).cast_unsigned();
        self.more_to_come = flags & MsgFlags::MORE_TO_COME.bits() != 0;
        let checksum = if flags & MsgFlags::CHECKSUM_PRESENT.bits() != 0 { 4 } else { 0 };
        let end = payload.len().saturating_sub(checksum);
        let mut rest = payload.get(4..end).unwrap_or_default();
        // Both kinds of sections begin with the number of their bytes.
        while let Some((kind, section)) = rest.split_first() {
            let length = usize::try_from(int_at(section, 0)).unwrap_or(0);
            let Some((section, after)) = section.split_at_checked(length.max(5)) else { return };
            match kind {
                0 => self.body = Some(Body::Part(section)),
                1 => self.beside += count_documents(section),
                _ => return,
            }
            rest = after;
        }
    }

    fn look_at_query(&mut self, payload: &'m [u8]) {
        self.form.legacy = true;
        // Flags, the namespace, two numbers, the query.
        let rest = payload.get(4..).unwrap_or_default();
        let Some(end) = rest.iter().position(|byte| *byte == 0) else { return };
        let namespace = String::from_utf8_lossy(&rest[..end]);
        let Some(database) = namespace.strip_suffix(".$cmd") else { return };
        self.database = Some(database.to_owned());
        self.body = first_document(rest.get(end + 9..).unwrap_or_default());
    }

    fn look_at_reply(&mut self, payload: &'m [u8]) {
        self.form.legacy = true;
        // Flags, a cursor, two numbers, the documents.
        self.body = first_document(payload.get(20..).unwrap_or_default());
    }

    fn inflate(&mut self, message: &[u8]) {
        let whole = decode(Bytes::copy_from_slice(message), DEFAULT_MAX_MESSAGE_SIZE);
        let Ok(incoming) = whole else { return };
        self.form.compressor = incoming.compressor;
        match incoming.message {
            Message::Msg(message) => {
                self.more_to_come = message.flags.contains(MsgFlags::MORE_TO_COME);
                let statements = message
                    .sequences
                    .iter()
                    .filter(|beside| is_statements(beside.identifier.as_bytes()));
                self.beside = statements.map(|beside| beside.documents.len()).sum();
                self.body = Some(Body::Inflated(message.body.into_bytes()));
            }
            Message::Query(query) => {
                self.form.legacy = true;
                self.database = query.command_database().map(str::to_owned);
                self.body = Some(Body::Inflated(query.query.into_bytes()));
            }
            Message::Reply(reply) => {
                self.form.legacy = true;
                let reply = reply.command_reply().ok();
                self.body = reply.map(|reply| Body::Inflated(reply.into_bytes()));
            }
            _ => {}
        }
    }

    /// The command or the reply.
    pub(crate) fn document(&self) -> Option<&RawDocument> {
        RawDocument::from_bytes(self.body.as_deref()?).ok()
    }

    /// The same if it is sound and not nested too deeply, so that it can be read without care.
    pub(crate) fn sound_document(&self) -> Option<&RawDocument> {
        self.document().filter(|document| validate_document(document.as_bytes()).is_ok())
    }

    /// What a request is about.
    pub(crate) fn command(&self) -> Option<Command<'_>> {
        let document = self.document()?;
        let mut walk = fields(document);
        let first = walk.next()?;
        let mut command = Command {
            name: std::str::from_utf8(first.key).ok()?,
            target: as_str(&first),
            database: self.database.as_deref().unwrap_or_default(),
            lsid: None,
            txn_number: None,
            in_transaction: false,
            ordered: true,
            statements: self.beside,
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

    /// What a reply came to.
    pub(crate) fn outcome(&self) -> Outcome {
        let mut outcome = Outcome::default();
        let Some(document) = self.document() else { return outcome };
        let (mut modified, mut upserted) = (None, 0);
        for field in fields(document) {
            match field.key {
                b"nModified" => modified = field.as_i32().map(i64::from),
                // Of a bulkWrite, beside `nModified`.
                b"nInserted" | b"nUpserted" | b"nDeleted" => {
                    upserted += field.as_i32().map(i64::from).or(field.as_i64()).unwrap_or(0);
                }
                b"upserted" => upserted = i64::try_from(elements(&field)).unwrap_or(0),
                // Of a findAndModify.
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

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Command<'s> {
    pub(crate) name: &'s str,
    /// The collection, of commands that have one.
    pub(crate) target: Option<&'s str>,
    pub(crate) database: &'s str,
    pub(crate) lsid: Option<[u8; 16]>,
    pub(crate) txn_number: Option<i64>,
    pub(crate) in_transaction: bool,
    pub(crate) ordered: bool,
    /// How many documents are inserted, or updates or deletes done.
    pub(crate) statements: usize,
}

impl Command<'_> {
    pub(crate) fn namespace(&self) -> String {
        match self.target {
            Some(target) if !target.is_empty() => format!("{}.{target}", self.database),
            Some(_) | None => self.database.to_owned(),
        }
    }

    pub(crate) fn is_hello(&self) -> bool {
        self.name == "hello" || self.name.eq_ignore_ascii_case("ismaster")
    }

    /// Whether this ends a transaction.
    pub(crate) fn ends_transaction(&self) -> bool {
        matches!(self.name, "commitTransaction" | "abortTransaction")
    }
}

/// What a reply came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// Whether the command as a whole succeeded.
    pub ok: bool,
    /// The number of the error, if it did not.
    pub code: Option<i32>,
    /// The `n` of the reply.
    pub n: Option<i64>,
    /// How many documents were changed: inserted, modified or deleted.
    pub changed: Option<i64>,
    /// How many statements the server did not execute because its record says that it did before.
    pub retried: usize,
    /// How many statements failed.
    pub write_errors: usize,
    /// Which statement failed first.
    pub first_write_error: Option<usize>,
    /// Whether there was a write concern error.
    pub write_concern_error: bool,
}

fn int_at(bytes: &[u8], at: usize) -> i32 {
    let four = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    four.map_or(0, |four| i32::from_le_bytes(*four))
}

fn first_document(bytes: &[u8]) -> Option<Body<'_>> {
    let length = usize::try_from(int_at(bytes, 0)).ok()?;
    bytes.get(..length).map(Body::Part)
}

/// The statements of a sequence, whose bytes begin with their number and its name.
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
    // Of an int64, only whether it is 0 matters.
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
    // A binary's bytes come after its length and its subtype.
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
    fn a_request_is_seen_alike_whether_it_is_compressed_or_not() {
        let plain = insert();
        let mut compressed = Vec::new();
        let compressor: Compressor = "zstd".parse().unwrap();
        compress(&plain, compressor, &mut compressed).unwrap();
        for (message, form) in [(&plain, None), (&compressed, Some(compressor))] {
            let sight = Sight::of(message);
            assert_eq!(sight.request_id, 9);
            assert_eq!(sight.form, Form { legacy: false, compressor: form });
            let command = sight.command().unwrap();
            assert_eq!((command.name, command.namespace().as_str()), ("insert", "shop.orders"));
            assert_eq!((command.lsid, command.txn_number), (Some([7; 16]), Some(5)));
            assert_eq!((command.statements, command.ordered), (2, false));
        }
    }

    #[test]
    fn a_legacy_hello_and_its_reply_are_seen() {
        let command: DocumentBytes = rawdoc! { "isMaster": 1 }.try_into().unwrap();
        let mut bytes = Vec::new();
        OpQuery::hello(command).encode(1, &mut bytes).unwrap();
        let sight = Sight::of(&bytes);
        let command = sight.command().unwrap();
        assert!(command.is_hello() && sight.form.legacy);
        assert_eq!(command.namespace(), "admin");

        let reply: DocumentBytes = rawdoc! { "ok": 1.0, "me": "a:1" }.try_into().unwrap();
        let mut bytes = Vec::new();
        OpReply::to_command(&reply).unwrap().encode(2, 1, &mut bytes).unwrap();
        let sight = Sight::of(&bytes);
        assert!(sight.outcome().ok);
        assert_eq!(sight.document().unwrap().get_str("me").unwrap(), "a:1");
    }

    #[test]
    fn a_reply_tells_what_the_server_did_before() {
        let body = rawdoc! {
            "n": 3, "retriedStmtIds": [0, 1], "writeErrors": [{ "index": 2, "code": 1 }], "ok": 1,
        };
        let mut bytes = Vec::new();
        OpMsg::new(body.try_into().unwrap()).encode(2, 1, &mut bytes).unwrap();
        let outcome = Sight::of(&bytes).outcome();
        assert_eq!((outcome.ok, outcome.n, outcome.retried), (true, Some(3), 2));
        assert_eq!(outcome.changed, Some(3));
        assert_eq!((outcome.write_errors, outcome.first_write_error), (1, Some(2)));
    }

    #[test]
    fn a_bulk_write_has_as_many_statements_as_operations() {
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
            assert_eq!(Sight::of(&message).command().unwrap().statements, 2);
        }
        let reply = rawdoc! { "nInserted": 1, "nModified": 0, "nDeleted": 1, "ok": 1 };
        let mut bytes = Vec::new();
        OpMsg::new(reply.try_into().unwrap()).encode(2, 1, &mut bytes).unwrap();
        assert_eq!(Sight::of(&bytes).outcome().changed, Some(2));
    }

    #[test]
    fn any_bytes_can_be_looked_at() {
        let message = insert();
        for cut in HEADER_LENGTH..message.len() {
            let _ = Sight::of(&message[..cut]).command();
        }
        for at in 0..message.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut wrong = message.clone();
                wrong[at] = byte;
                let sight = Sight::of(&wrong);
                let _ = sight.command().map(|command| command.namespace());
                let _ = sight.outcome();
            }
        }
    }
}
