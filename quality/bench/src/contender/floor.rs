//! The limit: a socket, a request that is built once and patched in place, a reply that is read whole
//! and not looked into.

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
    workload::{NUMBERED, Workload, mixed},
};

/// A connection and what it sends.
pub(crate) struct Connection {
    stream: TcpStream,
    requests: Vec<Request>,
    /// The request for the next batch, for as long as there is one.
    more: Option<Request>,
    inbox: Vec<u8>,
    txn_number: i64,
    ids: u64,
}

/// A message, and the places in it that change from one time to the next.
#[derive(Default)]
struct Request {
    bytes: Vec<u8>,
    txn_number_at: Option<usize>,
    ids_at: Vec<usize>,
    cursor_at: Option<usize>,
}

impl Connection {
    pub(crate) async fn for_each_task(job: &Job) -> Result<Vec<Self>> {
        let mut connections = Vec::new();
        let tasks = usize::try_from(job.tasks.min(job.connections))?;
        for number in (0..NUMBERED).cycle().take(tasks) {
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
                inbox: Vec::with_capacity(64 * 1024),
                txn_number: 0,
                ids: 0,
            });
        }
        Ok(connections)
    }

    async fn exchange(&mut self, index: usize) -> Result<()> {
        let Self { stream, requests, inbox, txn_number, ids, .. } = self;
        let request = &mut requests[index];
        if let Some(at) = request.txn_number_at {
            *txn_number += 1;
            request.bytes[at..at + 8].copy_from_slice(&txn_number.to_le_bytes());
        }
        for &at in &request.ids_at {
            *ids += 1;
            request.bytes[at + 4..at + 12].copy_from_slice(&ids.to_be_bytes());
        }
        round_trip(stream, &request.bytes, inbox).await
    }

    /// Reads the batches that follow the first.
    async fn exhaust(&mut self) -> Result<()> {
        let Self { stream, more: Some(request), inbox, .. } = self else { return Ok(()) };
        loop {
            // The id stands behind the batch, close to the end.
            let at = op_msg::last_place_after(inbox, b"\x12id\0").ok_or("no cursor came")?;
            let cursor = inbox[at..at + 8].to_owned();
            if cursor == [0; 8] {
                return Ok(());
            }
            let place = request.cursor_at.ok_or("no place for the cursor")?;
            request.bytes[place..place + 8].copy_from_slice(&cursor);
            round_trip(stream, &request.bytes, inbox).await?;
        }
    }
}

impl Worker for Connection {
    async fn call(&mut self) -> Result<()> {
        for index in 0..self.requests.len() {
            self.exchange(index).await?;
        }
        self.exhaust().await
    }
}

/// Sends a request and reads the reply.
pub(crate) async fn round_trip(
    stream: &mut TcpStream,
    bytes: &[u8],
    inbox: &mut Vec<u8>,
) -> Result<()> {
    stream.write_all(bytes).await?;
    inbox.clear();
    loop {
        match op_msg::message_length(inbox) {
            Some(length) if inbox.len() == length => return Ok(()),
            Some(length) => inbox.reserve(length - inbox.len()),
            None => {}
        }
        if stream.read_buf(inbox).await? == 0 {
            return Err("the server hung up".into());
        }
    }
}

impl Request {
    fn new(
        mut body: RawDocumentBuf,
        session: Uuid,
        retryable: bool,
        beside: Option<(&str, &[RawDocumentBuf])>,
    ) -> Self {
        use bson::raw::cstr;
        body.append(cstr!("$db"), DATABASE);
        let id = bson::Binary { subtype: BinarySubtype::Uuid, bytes: session.bytes().to_vec() };
        body.append(cstr!("lsid"), rawdoc! { "id": id });
        if retryable {
            body.append(cstr!("txnNumber"), 0_i64);
        }
        let bytes = op_msg::message(&body, beside);
        let txn_number_at = op_msg::place_after(&bytes, b"\x12txnNumber\0");
        Self { bytes, txn_number_at, ..Self::default() }
    }

    /// The same, where each document beside the body gets another `_id` each time: four bytes of the
    /// session's, and a number.
    fn with_new_ids(mut self, session: Uuid) -> Self {
        let mut from = 0;
        while let Some(at) = op_msg::place_after(&self.bytes[from..], b"\x07_id\0") {
            let id = from + at;
            self.bytes[id..id + 4].copy_from_slice(&session.bytes()[..4]);
            self.ids_at.push(id);
            from = id + 12;
        }
        self
    }
}

fn get_more(collection: &str, session: Uuid) -> Request {
    let body = rawdoc! { "getMore": 0_i64, "collection": collection };
    let mut request = Request::new(body, session, false, None);
    request.cursor_at = op_msg::place_after(&request.bytes, b"\x12getMore\0");
    request
}

fn requests(job: &Job, number: i32, session: Uuid) -> Result<Vec<Request>> {
    let (workload, name) = (job.workload, job.collection());
    let insert = |documents: &[RawDocumentBuf]| {
        let body = rawdoc! { "insert": name, "ordered": true };
        let beside = Some(("documents", documents));
        Request::new(body, session, workload.retries(), beside).with_new_ids(session)
    };
    let find = |filter: RawDocumentBuf| {
        let body = rawdoc! { "find": name, "filter": filter, "limit": 1, "singleBatch": true };
        Request::new(body, session, false, None)
    };
    Ok(match workload {
        Workload::Ping => vec![Request::new(rawdoc! { "ping": 1 }, session, false, None)],
        Workload::InsertOne | Workload::InsertOnePlain => vec![insert(&[document::stored_book()?])],
        Workload::UpdateOne => {
            let update = rawdoc! { "q": { "_id": number }, "u": { "$inc": { "sold": 1 } } };
            let body = rawdoc! { "update": name, "ordered": true };
            vec![Request::new(body, session, true, Some(("updates", &[update])))]
        }
        Workload::FindOne => vec![find(rawdoc! { "_id": number })],
        Workload::InsertMany => vec![insert(&vec![document::stored_book()?; job.documents])],
        Workload::BulkWrite => mixed_writes(name, session)?,
        Workload::DrainDocuments | Workload::DrainStructs | Workload::DrainRaw => {
            let body = rawdoc! { "find": name, "filter": {} };
            vec![Request::new(body, session, false, None)]
        }
        Workload::InsertLarge => {
            let scan = bson::serialize_to_raw_document_buf(&Scan::new())?;
            vec![insert(&[document::with_id(ObjectId::new(), &scan)?])]
        }
        Workload::FindLarge => vec![find(rawdoc! { "_id": 1 })],
    })
}

/// A command of each kind that a bulk write consists of.
fn mixed_writes(name: &str, session: Uuid) -> Result<Vec<Request>> {
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
    let request = |body, beside| Request::new(body, session, true, Some(beside));
    Ok(vec![
        request(rawdoc! { "insert": name, "ordered": false }, ("documents", &inserts[..])),
        request(rawdoc! { "update": name, "ordered": false }, ("updates", &updates[..])),
        request(rawdoc! { "delete": name, "ordered": false }, ("deletes", &deletes[..])),
    ])
}
