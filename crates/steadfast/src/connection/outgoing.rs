//! A request as it goes out: the command, and what is added to it for each attempt.

use bson::RawDocument;
use steadfast_core::{read_preference::ReadPreference, server_api::ServerApi};
use steadfast_wire::{Compressor, MessageWriter, MsgFlags, WireError, compress, may_compress};

use crate::{
    command::{Beside, Documents},
    error::{Error, Result},
};

/// Documents of more bytes are not copied into the message, but follow it.
const MOST_COPIED: usize = 8 * 1024;

/// A request about to be written. What it borrows outlives all its attempts.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    /// The command's name.
    pub(crate) name: &'a str,
    /// The database it runs on.
    pub(crate) database: &'a str,
    /// Its fields.
    pub(crate) body: &'a RawDocument,
    /// The documents beside the body.
    pub(crate) beside: Option<Beside<'a>>,
    /// What to tell the server of the read preference.
    pub(crate) read_preference: Option<&'a ReadPreference>,
    /// The session it runs in.
    pub(crate) lsid: Option<&'a RawDocument>,
    /// The number that, with the session, names the write.
    pub(crate) txn_number: Option<i64>,
    /// How many milliseconds the server may take.
    pub(crate) max_time: Option<i64>,
    /// Whether that number is a transaction's, which the command is part of.
    pub(crate) in_transaction: bool,
    /// Whether it is the first of the transaction.
    pub(crate) starts_transaction: bool,
    /// The deployment's own time, to be passed on.
    pub(crate) cluster_time: Option<&'a RawDocument>,
    /// The version of the interface to hold the server to.
    pub(crate) server_api: Option<&'a ServerApi>,
    /// False if the server is not to reply.
    pub(crate) acknowledged: bool,
    /// Whether the server may go on replying of its own accord.
    pub(crate) exhaust_allowed: bool,
}

impl<'a> Outgoing<'a> {
    /// A plain command to be answered once.
    pub(crate) fn new(name: &'a str, database: &'a str, body: &'a RawDocument) -> Self {
        Self {
            name,
            database,
            body,
            beside: None,
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

    /// Appends the message to `out`, but for documents that are better sent from where they are.
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
        self.write_plain(out, request_id, flags, MOST_COPIED)
    }

    fn write_plain(
        &self,
        out: &mut Vec<u8>,
        request_id: i32,
        flags: MsgFlags,
        most_copied: usize,
    ) -> Result<Written> {
        let mut message = MessageWriter::request(out, request_id, flags);
        let mut body = message.body();
        body.append_elements_of(self.body);
        self.append_extras(&mut body).map_err(cannot_be_sent)?;
        let Some(beside) = &self.beside else {
            let length = message.finish().map_err(cannot_be_sent)?;
            return Ok(Written { length, to_follow: 0 });
        };
        let identifier = beside.identifier.as_str();
        let sequence = match beside.ahead {
            None => message.start_sequence(identifier),
            Some(ahead) => message.start_sequence(ahead.identifier.as_str()).and_then(|mut few| {
                few.push_encoded(&ahead.documents)?;
                few.start_sequence(identifier)
            }),
        };
        let mut sequence = sequence.map_err(cannot_be_sent)?;
        let bytes = beside.documents.bytes();
        let to_follow = if bytes > most_copied { bytes } else { 0 };
        match &beside.documents {
            _ if to_follow > 0 => {}
            Documents::Whole(documents) => {
                sequence.push_encoded(documents).map_err(cannot_be_sent)?;
            }
            scattered @ Documents::Scattered { .. } => {
                scattered.for_each(|document| sequence.push(document))?;
            }
        }
        let length = sequence.finish_before(to_follow).map_err(cannot_be_sent)?;
        Ok(Written { length, to_follow })
    }

    /// Appends what is not the command's own.
    fn append_extras(
        &self,
        body: &mut steadfast_wire::Elements<'_>,
    ) -> std::result::Result<(), WireError> {
        body.append_str("$db", self.database)?;
        if let Some(lsid) = self.lsid {
            body.append_document("lsid", lsid)?;
        }
        if let Some(number) = self.txn_number {
            body.append_i64("txnNumber", number)?;
        }
        if let Some(millis) = self.max_time {
            body.append_i64("maxTimeMS", millis)?;
        }
        if self.starts_transaction {
            body.append_bool("startTransaction", true)?;
        }
        if self.in_transaction {
            body.append_bool("autocommit", false)?;
        }
        if let Some(time) = self.cluster_time {
            body.append_document("$clusterTime", time)?;
        }
        if let Some(preference) = self.read_preference {
            let document = bson::RawDocumentBuf::try_from(&preference.to_document())
                .expect("a read preference has no NUL in its keys");
            body.append_document("$readPreference", &document)?;
        }
        if let Some(api) = self.server_api {
            body.append_str("apiVersion", api.version.as_str())?;
            if let Some(strict) = api.strict {
                body.append_bool("apiStrict", strict)?;
            }
            if let Some(errors) = api.deprecation_errors {
                body.append_bool("apiDeprecationErrors", errors)?;
            }
        }
        Ok(())
    }
}

/// What was written of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// How long the message is, before compression and with what is to follow.
    pub(crate) length: usize,
    /// How many bytes of documents are to follow.
    pub(crate) to_follow: usize,
}

fn cannot_be_sent(error: WireError) -> Error {
    Error::invalid_argument(format!("cannot be sent: {error}"))
}
