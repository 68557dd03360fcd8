//! The embedded deployment as a client of the wire protocol sees it.

#![allow(missing_docs)]

mod change_streams;
#[path = "../../../blackpipe/tests/server/client.rs"]
#[allow(dead_code, reason = "what the tests of the scripted server need of it")]
mod client;
mod cluster_change_streams;
mod clusters;
mod extreme_input;
mod fail_points;
mod hello;
mod messages;
mod process_faults;
mod rate_limits;
mod runtimes;
mod users;
mod writes;

use std::{net::SocketAddr, time::Duration};

use bson::{Binary, Document, doc, spec::BinarySubtype};
use client::Client;
use steadfast_embedded::Deployment;
use tokio::net::TcpStream;

/// Longer than any step takes on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

async fn connect(deployment: &Deployment, member: usize) -> Client {
    connect_to(deployment.member(member).address()).await
}

async fn connect_to(address: SocketAddr) -> Client {
    Client::over(TcpStream::connect(address).await.unwrap())
}

fn insert(id: i32) -> Document {
    doc! { "insert": "things", "documents": [{ "_id": id }], "$db": "db" }
}

/// The insert as a retryable write.
fn retryable_insert(id: i32, number: i64) -> Document {
    let session = Binary { subtype: BinarySubtype::Uuid, bytes: vec![7; 16] };
    let mut command = insert(id);
    command.extend(doc! { "lsid": { "id": session }, "txnNumber": number });
    command
}

fn find() -> Document {
    doc! { "find": "things", "$db": "db", "$readPreference": { "mode": "secondaryPreferred" } }
}

fn hello() -> Document {
    doc! { "hello": 1, "$db": "admin" }
}

/// The `_id`s that a `find` returned.
fn ids(reply: &Document) -> Vec<i32> {
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    batch.iter().map(|it| it.as_document().unwrap().get_i32("_id").unwrap()).collect()
}

fn code(reply: &Document) -> i32 {
    reply.get_i32("code").unwrap_or_else(|_| panic!("no error: {reply}"))
}

fn labels(reply: &Document) -> Vec<&str> {
    let labels = reply.get_array("errorLabels").map(Vec::as_slice).unwrap_or_default();
    labels.iter().filter_map(|label| label.as_str()).collect()
}

fn is_ok(reply: &Document) -> bool {
    reply.get_f64("ok").is_ok_and(|ok| ok == 1.0)
}
