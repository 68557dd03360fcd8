//! Requests: a command with the fields that are added for each attempt.

use bson::{Bson, Document, RawDocument, RawDocumentBuf, ToStr};
use steadfast_core::{read_preference::ReadPreference, server_api::ServerApi};
use steadfast_wire::{
    Compressor, ElementWriter, MessageWriter, MsgFlags, WireError, compress, may_compress,
};

use crate::{
    error::{Error, Result},
    sequence::{DocumentSequenceRef, Documents},
};

/// Maximum size of a document sequence that is copied into the message; a larger one is sent from
/// its own buffer.
const MAX_COPIED: usize = 8 * 1024;

/// Request to be written. It borrows from the command, which outlives all attempts.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    /// Name of the command.
    pub(crate) name: &'a str,
    /// Database that the command runs on (`$db`).
    pub(crate) database: &'a str,
    /// Fields of the command.
    pub(crate) body: &'a RawDocument,
    /// Document sequence next to the body.
    pub(crate) sequence: Option<DocumentSequenceRef<'a>>,
    /// Value of `$readPreference`.
    pub(crate) read_preference: Option<&'a ReadPreference>,
    /// Logical session id (`lsid`).
    pub(crate) lsid: Option<&'a RawDocument>,
    /// Transaction number of the session (`txnNumber`).
    pub(crate) txn_number: Option<i64>,
    /// Value of `maxTimeMS`.
    pub(crate) max_time: Option<i64>,
    /// `true` if `txnNumber` is that of a transaction.
    pub(crate) in_transaction: bool,
    /// `true` for the first command of the transaction (`startTransaction`).
    pub(crate) starts_transaction: bool,
    /// Gossiped cluster time (`$clusterTime`).
    pub(crate) cluster_time: Option<&'a RawDocument>,
    /// Declared API version (`apiVersion`).
    pub(crate) server_api: Option<&'a ServerApi>,
    /// `false` if no reply is expected (`moreToCome`).
    pub(crate) acknowledged: bool,
    /// Allows the server to stream replies (`exhaustAllowed`).
    pub(crate) exhaust_allowed: bool,
}

impl<'a> Outgoing<'a> {
    /// Creates a request with only the command's own fields and one reply.
    pub(crate) fn new(name: &'a str, database: &'a str, body: &'a RawDocument) -> Self {
        Self {
            name,
            database,
            body,
            sequence: None,
            read_preference: None,
            lsid: None,
            txn_number: None,
            max_time: None,
            in_transaction: false,
            starts_transaction: false,
            cluster_time: None,
            server_api: None,
            acknowledged: true,
            exhaust_allowed: false,
        }
    }

    /// Appends the message to `out`, without a large document sequence, which follows it.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        request_id: i32,
        compressor: Option<Compressor>,
    ) -> Result<Written> {
        let flags = if !self.acknowledged {
            MsgFlags::MORE_TO_COME
        } else if self.exhaust_allowed {
            MsgFlags::EXHAUST_ALLOWED
        } else {
            MsgFlags::empty()
        };
        if let Some(compressor) = compressor.filter(|_| may_compress(self.name)) {
            let mut plain = Vec::new();
            let written = self.write_plain(&mut plain, request_id, flags, usize::MAX)?;
            compress(&plain, compressor, out).map_err(cannot_be_sent)?;
            return Ok(written);
        }
        self.write_plain(out, request_id, flags, MAX_COPIED)
    }

    fn write_plain(
        &self,
        out: &mut Vec<u8>,
        request_id: i32,
        flags: MsgFlags,
        max_copied: usize,
    ) -> Result<Written> {
        let mut message = MessageWriter::request(out, request_id, flags);
        let mut body = message.body();
        body.append_elements_of(self.body);
        self.append_extras(&mut body).map_err(cannot_be_sent)?;
        let Some(sequence) = &self.sequence else {
            let length = message.finish().map_err(cannot_be_sent)?;
            return Ok(Written { length, unbuffered_bytes: 0 });
        };
        let identifier = sequence.identifier.to_str();
        let writer = match sequence.ns_info {
            None => message.start_sequence(identifier),
            Some(ns_info) => {
                message.start_sequence(ns_info.identifier.to_str()).and_then(|mut few| {
                    few.push_encoded(&ns_info.documents)?;
                    few.start_sequence(identifier)
                })
            }
        };
        let mut writer = writer.map_err(cannot_be_sent)?;
        let bytes = sequence.documents.bytes();
        let unbuffered_bytes = if bytes > max_copied { bytes } else { 0 };
        match &sequence.documents {
            _ if unbuffered_bytes > 0 => {}
            Documents::Whole(documents) => {
                writer.push_encoded(documents).map_err(cannot_be_sent)?;
            }
            scattered @ Documents::Scattered { .. } => {
                scattered.for_each(|document| writer.push(document))?;
            }
        }
        let length = writer.finish_before(unbuffered_bytes).map_err(cannot_be_sent)?;
        Ok(Written { length, unbuffered_bytes })
    }

    /// Returns the command for events: with the fields of the attempt, and with the document sequence
    /// as the array of its field.
    pub(crate) fn to_document(&self) -> Document {
        let mut document = Document::try_from(self.body).unwrap_or_default();
        if let Some(sequence) = &self.sequence {
            document.insert(sequence.identifier.to_str(), array(&sequence.documents));
            if let Some(ns_info) = sequence.ns_info {
                let documents = Documents::Whole(&ns_info.documents);
                document.insert(ns_info.identifier.to_str(), array(&documents));
            }
        }
        let added = self.append_extras(&mut document);
        debug_assert!(added.is_ok(), "{added:?}");
        document
    }

    /// Appends the fields of the attempt, to the message or to the document for events.
    fn append_extras<S: FieldSink>(&self, body: &mut S) -> std::result::Result<(), S::Error> {
        body.str("$db", self.database)?;
        if let Some(lsid) = self.lsid {
            body.document("lsid", lsid)?;
        }
        if let Some(number) = self.txn_number {
            body.i64("txnNumber", number)?;
        }
        if let Some(millis) = self.max_time {
            body.i64("maxTimeMS", millis)?;
        }
        if self.starts_transaction {
            body.bool("startTransaction", true)?;
        }
        if self.in_transaction {
            body.bool("autocommit", false)?;
        }
        if let Some(time) = self.cluster_time {
            body.document("$clusterTime", time)?;
        }
        if let Some(preference) = self.read_preference {
            let document = bson::to_raw_document(&preference.to_document())
                .expect("a read preference has no NUL in its keys");
            body.document("$readPreference", &document)?;
        }
        if let Some(api) = self.server_api {
            append_api_fields(body, api)?;
        }
        Ok(())
    }
}

fn append_api_fields<S: FieldSink>(
    body: &mut S,
    api: &ServerApi,
) -> std::result::Result<(), S::Error> {
    body.str("apiVersion", api.version.as_str())?;
    if let Some(strict) = api.strict {
        body.bool("apiStrict", strict)?;
    }
    if let Some(errors) = api.deprecation_errors {
        body.bool("apiDeprecationErrors", errors)?;
    }
    Ok(())
}

/// Appends the declared API version to a `hello` command.
pub(crate) fn append_api(hello: &mut RawDocumentBuf, api: &ServerApi) {
    append_api_fields(hello, api).expect("names of API fields contain no NUL");
}

/// Destination for fields of a command: the message, or the document for events.
trait FieldSink {
    type Error: std::fmt::Debug;

    fn str(&mut self, key: &str, value: &str) -> std::result::Result<(), Self::Error>;
    fn i64(&mut self, key: &str, value: i64) -> std::result::Result<(), Self::Error>;
    fn bool(&mut self, key: &str, value: bool) -> std::result::Result<(), Self::Error>;
    fn document(&mut self, key: &str, value: &RawDocument) -> std::result::Result<(), Self::Error>;
}

impl FieldSink for ElementWriter<'_> {
    type Error = WireError;

    fn str(&mut self, key: &str, value: &str) -> std::result::Result<(), WireError> {
        self.append_str(key, value).map(drop)
    }

    fn i64(&mut self, key: &str, value: i64) -> std::result::Result<(), WireError> {
        self.append_i64(key, value).map(drop)
    }

    fn bool(&mut self, key: &str, value: bool) -> std::result::Result<(), WireError> {
        self.append_bool(key, value).map(drop)
    }

    fn document(&mut self, key: &str, value: &RawDocument) -> std::result::Result<(), WireError> {
        self.append_document(key, value).map(drop)
    }
}

impl FieldSink for Document {
    type Error = bson::error::Error;

    fn str(&mut self, key: &str, value: &str) -> std::result::Result<(), Self::Error> {
        self.insert(key, value);
        Ok(())
    }

    fn i64(&mut self, key: &str, value: i64) -> std::result::Result<(), Self::Error> {
        self.insert(key, value);
        Ok(())
    }

    fn bool(&mut self, key: &str, value: bool) -> std::result::Result<(), Self::Error> {
        self.insert(key, value);
        Ok(())
    }

    fn document(&mut self, key: &str, value: &RawDocument) -> std::result::Result<(), Self::Error> {
        self.insert(key, Document::try_from(value)?);
        Ok(())
    }
}

impl FieldSink for RawDocumentBuf {
    type Error = bson::error::Error;

    fn str(&mut self, key: &str, value: &str) -> std::result::Result<(), Self::Error> {
        self.append(bson::to_cstring(key)?, value);
        Ok(())
    }

    fn i64(&mut self, key: &str, value: i64) -> std::result::Result<(), Self::Error> {
        self.append(bson::to_cstring(key)?, value);
        Ok(())
    }

    fn bool(&mut self, key: &str, value: bool) -> std::result::Result<(), Self::Error> {
        self.append(bson::to_cstring(key)?, value);
        Ok(())
    }

    fn document(&mut self, key: &str, value: &RawDocument) -> std::result::Result<(), Self::Error> {
        self.append(bson::to_cstring(key)?, value.to_owned());
        Ok(())
    }
}

/// Returns the documents of a document sequence as an array.
fn array(documents: &Documents<'_>) -> Vec<Bson> {
    let mut array = Vec::new();
    let shown = documents.for_each(|document| {
        array.push(Bson::Document(Document::try_from(document).unwrap_or_default()));
    });
    debug_assert!(shown.is_ok(), "{shown:?}");
    array
}

/// Result of writing a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// Length of the message before compression, including the documents to follow.
    pub(crate) length: usize,
    /// Number of bytes of documents to follow.
    pub(crate) unbuffered_bytes: usize,
}

fn cannot_be_sent(error: WireError) -> Error {
    Error::invalid_argument(format!("cannot encode the command: {error}"))
}

#[cfg(test)]
mod tests {
    use blackpipe::message::Request;
    use bson::rawdoc;
    use steadfast_core::server_api::ServerApiVersion;

    use super::*;
    use crate::sequence::NsInfoSequence;

    /// Encodes documents like the buffer of a document sequence.
    fn encoded(documents: &[Document]) -> Vec<u8> {
        documents.iter().flat_map(|it| bson::document_to_vec(it).unwrap()).collect()
    }

    #[test]
    fn events_contain_the_command_as_sent_for_any_fields() {
        let (body, lsid) = (rawdoc! { "insert": "people", "ordered": true }, rawdoc! { "id": 1 });
        let time = rawdoc! { "clusterTime": 7 };
        let preference = ReadPreference::nearest(None);
        let mut api = ServerApi::from(ServerApiVersion::V1);
        api.deprecation_errors = Some(true);
        let documents = encoded(&[bson::doc! { "_id": 1 }, bson::doc! { "_id": 2 }]);
        let namespaces = NsInfoSequence {
            identifier: bson::raw::cstr!("nsInfo"),
            documents: encoded(&[bson::doc! { "ns": "db.people" }]),
        };
        // Each bit adds a field.
        for bits in 0..1_u32 << 10 {
            let has = |bit: u32| bits & (1 << bit) != 0;
            api.strict = has(9).then_some(false);
            let mut outgoing = Outgoing::new("insert", "db", &body);
            outgoing.lsid = has(0).then_some(&lsid);
            outgoing.txn_number = has(1).then_some(7);
            outgoing.max_time = has(2).then_some(100);
            outgoing.in_transaction = has(3);
            outgoing.starts_transaction = has(4);
            outgoing.cluster_time = has(5).then_some(&time);
            outgoing.read_preference = has(6).then_some(&preference);
            outgoing.server_api = has(7).then_some(&api);
            outgoing.sequence = has(8).then(|| DocumentSequenceRef {
                identifier: bson::raw::cstr!("documents"),
                documents: Documents::Whole(&documents),
                ns_info: has(9).then_some(&namespaces),
            });
            let mut bytes = Vec::new();
            outgoing.write(&mut bytes, 1, None).unwrap();
            let sent = Request::decode(bytes.into(), 1).unwrap();
            assert!(!sent.has_duplicate_fields);
            assert_eq!(outgoing.to_document(), sent.body, "{bits:b}");
            // Always: `insert`, `ordered` and `$db`. The API adds `apiDeprecationErrors` and, with
            // bit 9, `apiStrict`; a sequence adds `nsInfo` with bit 9.
            let strict = usize::from(has(7)) * (1 + usize::from(has(9)));
            let names = usize::from(has(8) && has(9));
            let fields = 3 + (bits & 0x1ff).count_ones() as usize + strict + names;
            assert_eq!(sent.body.len(), fields, "{bits:b}");
        }
    }
}
