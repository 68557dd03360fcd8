//! The floor: a socket with prebuilt requests that are patched in place. Replies are read completely and not parsed.

use bson::{RawDocumentBuf, Uuid, oid::ObjectId, rawdoc, spec::BinarySubtype};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{DATABASE, Job, Worker};
use crate::{
    Result,
    document::{self, Book, Numbered, Scan},
    op_msg,
    workload::{NUMBERED_DOCUMENTS, Workload, mixed},
};

/// A connection and its prebuilt requests.
pub(crate) struct Connection {
    stream: TcpStream,
    requests: Vec<PreparedRequest>,
    /// The `getMore`, for workloads with a cursor.
    more: Option<PreparedRequest>,
    buffer: Vec<u8>,
    txn_number: i64,
    ids: u64,
}

/// A message, and the offsets that are patched before each attempt.
#[derive(Default)]
struct PreparedRequest {
    bytes: Vec<u8>,
    txn_number_at: Option<usize>,
    ids_at: Vec<usize>,
    cursor_at: Option<usize>,
}

impl Connection {
    pub(crate) async fn for_each_task(job: &Job) -> Result<Vec<Self>> {
        let mut connections = Vec::new();
        let tasks = usize::try_from(job.tasks.min(job.connections))?;
        for number in (0..NUMBERED_DOCUMENTS).cycle().take(tasks) {
            let stream = TcpStream::connect(job.address).await?;
            stream.set_nodelay(true)?;
            let id = Uuid::new();
            connections.push(Self {
                stream,
                requests: requests(job, number, id)?,
                more: match job.workload {
                    Workload::DrainDocuments | Workload::DrainStructs | Workload::DrainRaw => {
                        Some(get_more(job.collection(), id))
                    }
                    _ => None,
                },
                buffer: Vec::with_capacity(64 * 1024),
                txn_number: 0,
                ids: 0,
            });
        }
        Ok(connections)
    }

    async fn exchange(&mut self, index: usize) -> Result<()> {
        let Self { stream, requests, buffer, txn_number, ids, .. } = self;
        let request = &mut requests[index];
        if let Some(at) = request.txn_number_at {
            *txn_number += 1;
            request.bytes[at..at + 8].copy_from_slice(&txn_number.to_le_bytes());
        }
        for &at in &request.ids_at {
            *ids += 1;
            request.bytes[at + 4..at + 12].copy_from_slice(&ids.to_be_bytes());
        }
        round_trip(stream, &request.bytes, buffer).await
    }

    /// Reads the remaining batches of the cursor.
    async fn drain(&mut self) -> Result<()> {
        let Self { stream, more: Some(request), buffer, .. } = self else { return Ok(()) };
        loop {
            // The cursor id follows the batch, close to the end.
            let at =
                op_msg::last_offset_after(buffer, b"\x12id\0").ok_or("the reply has no cursor")?;
            let cursor = buffer[at..at + 8].to_owned();
            if cursor == [0; 8] {
                return Ok(());
            }
            let at_cursor = request.cursor_at.ok_or("the getMore has no cursor id")?;
            request.bytes[at_cursor..at_cursor + 8].copy_from_slice(&cursor);
            round_trip(stream, &request.bytes, buffer).await?;
        }
    }
}

impl Worker for Connection {
    async fn call(&mut self) -> Result<()> {
        for index in 0..self.requests.len() {
            self.exchange(index).await?;
        }
        self.drain().await
    }
}

/// Sends a request and reads the reply.
pub(crate) async fn round_trip(
    stream: &mut TcpStream,
    bytes: &[u8],
    buffer: &mut Vec<u8>,
) -> Result<()> {
    stream.write_all(bytes).await?;
    buffer.clear();
    loop {
        match op_msg::message_length(buffer) {
            Some(length) if buffer.len() == length => return Ok(()),
            Some(length) => buffer.reserve(length - buffer.len()),
            None => {}
        }
        if stream.read_buf(buffer).await? == 0 {
            return Err("the server closed the connection".into());
        }
    }
}

impl PreparedRequest {
    fn new(
        mut body: RawDocumentBuf,
        session: Uuid,
        retryable: bool,
        sequence: Option<(&str, &[RawDocumentBuf])>,
    ) -> Self {
        use bson::raw::cstr;
        body.append(cstr!("$db"), DATABASE);
        let id = bson::Binary { subtype: BinarySubtype::Uuid, bytes: session.bytes().to_vec() };
        body.append(cstr!("lsid"), rawdoc! { "id": id });
        if retryable {
            body.append(cstr!("txnNumber"), 0_i64);
        }
        let bytes = op_msg::message(&body, sequence);
        let txn_number_at = op_msg::offset_after(&bytes, b"\x12txnNumber\0");
        Self { bytes, txn_number_at, ..Self::default() }
    }

    /// Gives each document of the sequence a new `_id` for each attempt: four bytes of the session id, and a counter.
    fn with_new_ids(mut self, session: Uuid) -> Self {
        let mut from = 0;
        while let Some(at) = op_msg::offset_after(&self.bytes[from..], b"\x07_id\0") {
            let id = from + at;
            self.bytes[id..id + 4].copy_from_slice(&session.bytes()[..4]);
            self.ids_at.push(id);
            from = id + 12;
        }
        self
    }
}

fn get_more(collection: &str, session: Uuid) -> PreparedRequest {
    let body = rawdoc! { "getMore": 0_i64, "collection": collection };
    let mut request = PreparedRequest::new(body, session, false, None);
    request.cursor_at = op_msg::offset_after(&request.bytes, b"\x12getMore\0");
    request
}

fn requests(job: &Job, number: i32, session: Uuid) -> Result<Vec<PreparedRequest>> {
    let (workload, name) = (job.workload, job.collection());
    let insert = |documents: &[RawDocumentBuf]| {
        let body = rawdoc! { "insert": name, "ordered": true };
        let sequence = Some(("documents", documents));
        PreparedRequest::new(body, session, workload.has_retryable_writes(), sequence)
            .with_new_ids(session)
    };
    let find = |filter: RawDocumentBuf| {
        let body = rawdoc! { "find": name, "filter": filter, "limit": 1, "singleBatch": true };
        PreparedRequest::new(body, session, false, None)
    };
    Ok(match workload {
        Workload::Ping => vec![PreparedRequest::new(rawdoc! { "ping": 1 }, session, false, None)],
        Workload::InsertOne | Workload::InsertOnePlain => vec![insert(&[document::stored_book()?])],
        Workload::UpdateOne => {
            let update = rawdoc! { "q": { "_id": number }, "u": { "$inc": { "sold": 1 } } };
            let body = rawdoc! { "update": name, "ordered": true };
            vec![PreparedRequest::new(body, session, true, Some(("updates", &[update])))]
        }
        Workload::FindOne => vec![find(rawdoc! { "_id": number })],
        Workload::InsertMany => vec![insert(&vec![document::stored_book()?; job.documents])],
        Workload::BulkWrite => mixed_writes(name, session)?,
        Workload::DrainDocuments | Workload::DrainStructs | Workload::DrainRaw => {
            let body = rawdoc! { "find": name, "filter": {} };
            vec![PreparedRequest::new(body, session, false, None)]
        }
        Workload::InsertLarge => {
            let scan = bson::serialize_to_raw_document_buf(&Scan::new())?;
            vec![insert(&[document::with_id(ObjectId::new(), &scan)?])]
        }
        Workload::FindLarge => vec![find(rawdoc! { "_id": 1 })],
    })
}

/// Builds the insert, the update and the delete of a bulk write.
fn mixed_writes(name: &str, session: Uuid) -> Result<Vec<PreparedRequest>> {
    let book = &Book::new();
    let numbered = |id| bson::serialize_to_raw_document_buf(&Numbered { id, book });
    let inserts = mixed::INSERTED.map(numbered).collect::<bson::error::Result<Vec<_>>>()?;
    let mut updates: Vec<_> = mixed::UPDATED
        .map(|id| rawdoc! { "q": { "_id": id }, "u": { "$inc": { "sold": 1 } } })
        .collect();
    for id in mixed::REPLACED {
        updates.push(rawdoc! { "q": { "_id": id }, "u": numbered(id)? });
    }
    let deletes: Vec<_> =
        mixed::DELETED.map(|id| rawdoc! { "q": { "_id": id }, "limit": 1 }).collect();
    let request = |body, sequence| PreparedRequest::new(body, session, true, Some(sequence));
    Ok(vec![
        request(rawdoc! { "insert": name, "ordered": false }, ("documents", &inserts[..])),
        request(rawdoc! { "update": name, "ordered": false }, ("updates", &updates[..])),
        request(rawdoc! { "delete": name, "ordered": false }, ("deletes", &deletes[..])),
    ])
}
