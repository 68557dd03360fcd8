//! A request as it goes out: the command, and what is added to it for each attempt.

use bson::RawDocument;
use steadfast_core::{read_preference::ReadPreference, server_api::ServerApi};
use steadfast_wire::{Compressor, MessageWriter, MsgFlags, WireError, compress, may_compress};

use crate::command::Sequence;

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
    pub(crate) sequence: Option<&'a Sequence>,
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

    /// Appends the message to `out`, and returns how long it is before compression.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        request_id: i32,
        compressor: Option<Compressor>,
    ) -> Result<usize, WireError> {
        let flags = if !self.acknowledged {
            MsgFlags::MORE_TO_COME
        } else if self.exhaust_allowed {
            MsgFlags::EXHAUST_ALLOWED
        } else {
            MsgFlags::empty()
        };
        if let Some(compressor) = compressor.filter(|_| may_compress(self.name)) {
            let mut plain = Vec::new();
            let length = self.write_plain(&mut plain, request_id, flags)?;
            return compress(&plain, compressor, out).map(|_| length);
        }
        self.write_plain(out, request_id, flags)
    }

    fn write_plain(
        &self,
        out: &mut Vec<u8>,
        request_id: i32,
        flags: MsgFlags,
    ) -> Result<usize, WireError> {
        let mut message = MessageWriter::request(out, request_id, flags);
        let mut body = message.body();
        body.append_elements_of(self.body);
        self.append_extras(&mut body)?;
        match self.sequence {
            None => message.finish(),
            Some(sequence) => {
                let mut documents = message.start_sequence(sequence.identifier.as_str())?;
                documents.push_encoded(&sequence.documents)?;
                documents.finish()
            }
        }
    }

    /// Appends what is not the command's own.
    fn append_extras(&self, body: &mut steadfast_wire::Elements<'_>) -> Result<(), WireError> {
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
