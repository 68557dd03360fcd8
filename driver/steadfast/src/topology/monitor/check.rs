//! Check of a server: `hello`, in the form that is due.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bson::{RawDocument, RawDocumentBuf, raw::cstr};
use bytes::Bytes;
use steadfast_core::{
    address::ServerAddress, description::TopologyVersion, hello::HelloReply, monitor::MonitorCheck,
};

use super::next_monitor_connection;
use crate::{
    connection::{Connection, Establisher, Outgoing, append_api, read_hello},
    error::{Error, ErrorKind, Result},
};

/// Reply of a server to a check.
pub(super) struct CheckReply {
    pub(super) reply: HelloReply,
    pub(super) document: RawDocumentBuf,
    /// Round-trip time, without connection establishment.
    pub(super) duration: Duration,
    pub(super) more_to_come: bool,
}

/// Performs a check. After an error the connection must be closed.
pub(super) async fn perform(
    check: &MonitorCheck,
    connection: &mut Option<Connection>,
    address: &ServerAddress,
    establisher: &Establisher,
) -> Result<CheckReply> {
    match check {
        MonitorCheck::Connect => {
            let mut new = establisher.open(address).await?;
            new.id = next_monitor_connection();
            let began = Instant::now();
            let reply =
                new.run_hello(&establisher.hello(), establisher.uses_modern_hello()).await?;
            *connection = Some(new);
            check_reply(&reply, began.elapsed(), false)
        }
        MonitorCheck::Poll => {
            let hello = hello(establisher, uses_modern_hello(connection.as_ref()), None);
            poll_hello(open(connection)?, &hello).await
        }
        MonitorCheck::Await { topology_version, max_await_time } => {
            let wait = Some((*topology_version, *max_await_time));
            let hello = hello(establisher, uses_modern_hello(connection.as_ref()), wait);
            let connection = open(connection)?;
            let mut outgoing = Outgoing::new("hello", "admin", &hello);
            outgoing.exhaust_allowed = true;
            let request_id = connection.prepare(&outgoing)?;
            connection.send(request_id, true, None).await?;
            receive_check_reply(connection).await
        }
        MonitorCheck::ReadNext => receive_check_reply(open(connection)?).await,
        _ => Err(Error::new(ErrorKind::Internal { message: format!("unknown check {check:?}") })),
    }
}

/// Sends a `hello` with an immediate reply, for polling and for the round-trip time.
pub(super) async fn poll_hello(
    connection: &mut Connection,
    hello: &RawDocument,
) -> Result<CheckReply> {
    let began = Instant::now();
    let request_id = connection.prepare(&Outgoing::new("hello", "admin", hello))?;
    let reply = connection.exchange(request_id, true, None).await?;
    check_reply(&reply, began.elapsed(), false)
}

async fn receive_check_reply(connection: &mut Connection) -> Result<CheckReply> {
    let began = Instant::now();
    let received = connection.receive().await?;
    let answer = check_reply(&received.body, began.elapsed(), received.more_to_come)?;
    connection.hello = Arc::new(answer.reply.clone());
    Ok(answer)
}

fn check_reply(reply: &Bytes, duration: Duration, more_to_come: bool) -> Result<CheckReply> {
    let document = RawDocument::from_bytes(reply)?.to_owned();
    Ok(CheckReply { reply: read_hello(reply)?, document, duration, more_to_come })
}

/// Returns the `hello` of a check after the first.
pub(super) fn hello(
    establisher: &Establisher,
    modern: bool,
    wait: Option<(TopologyVersion, Duration)>,
) -> RawDocumentBuf {
    let mut hello = RawDocumentBuf::new();
    if modern || establisher.uses_modern_hello() {
        hello.append(cstr!("hello"), 1);
    } else {
        hello.append(cstr!("isMaster"), 1);
        hello.append(cstr!("helloOk"), true);
    }
    if let Some((version, max_await_time)) = wait {
        let mut topology_version = RawDocumentBuf::new();
        topology_version.append(cstr!("processId"), version.process_id);
        topology_version.append(cstr!("counter"), version.counter);
        hello.append(cstr!("topologyVersion"), topology_version);
        let millis = i64::try_from(max_await_time.as_millis()).unwrap_or(i64::MAX);
        hello.append(cstr!("maxAwaitTimeMS"), millis);
    }
    if let Some(api) = &establisher.server_api {
        append_api(&mut hello, api);
    }
    hello
}

fn uses_modern_hello(connection: Option<&Connection>) -> bool {
    connection.is_some_and(|connection| connection.hello.hello_ok)
}

fn open(connection: &mut Option<Connection>) -> Result<&mut Connection> {
    connection.as_mut().ok_or_else(|| {
        Error::new(ErrorKind::Internal { message: "a check has no connection".to_owned() })
    })
}
