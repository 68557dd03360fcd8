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
pub(super) struct Answer {
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
) -> Result<Answer> {
    match check {
        MonitorCheck::Connect => {
            let mut new = establisher.open(address).await?;
            new.id = next_monitor_connection();
            let began = Instant::now();
            let reply =
                new.run_hello(&establisher.hello(), establisher.speaks_modern_hello()).await?;
            *connection = Some(new);
            answer(&reply, began.elapsed(), false)
        }
        MonitorCheck::Poll => {
            let hello = hello(establisher, speaks_modern_hello(connection.as_ref()), None);
            ask(open(connection)?, &hello).await
        }
        MonitorCheck::Await { topology_version, max_await_time } => {
            let wait = Some((*topology_version, *max_await_time));
            let hello = hello(establisher, speaks_modern_hello(connection.as_ref()), wait);
            let connection = open(connection)?;
            let mut outgoing = Outgoing::new("hello", "admin", &hello);
            outgoing.exhaust_allowed = true;
            let request_id = connection.prepare(&outgoing)?;
            connection.send(request_id, true, None).await?;
            next(connection).await
        }
        MonitorCheck::ReadNext => next(open(connection)?).await,
        _ => Err(Error::new(ErrorKind::Internal { message: format!("unknown check {check:?}") })),
    }
}

/// Sends a `hello` with an immediate reply, for polling and for the round-trip time.
pub(super) async fn ask(connection: &mut Connection, hello: &RawDocument) -> Result<Answer> {
    let began = Instant::now();
    let request_id = connection.prepare(&Outgoing::new("hello", "admin", hello))?;
    let reply = connection.exchange(request_id, true, None).await?;
    answer(&reply, began.elapsed(), false)
}

async fn next(connection: &mut Connection) -> Result<Answer> {
    let began = Instant::now();
    let received = connection.receive().await?;
    let answer = answer(&received.body, began.elapsed(), received.more_to_come)?;
    connection.hello = Arc::new(answer.reply.clone());
    Ok(answer)
}

fn answer(reply: &Bytes, duration: Duration, more_to_come: bool) -> Result<Answer> {
    let document = RawDocument::from_bytes(reply)?.to_owned();
    Ok(Answer { reply: read_hello(reply)?, document, duration, more_to_come })
}

/// Returns the `hello` of a check after the first.
pub(super) fn hello(
    establisher: &Establisher,
    modern: bool,
    wait: Option<(TopologyVersion, Duration)>,
) -> RawDocumentBuf {
    let mut hello = RawDocumentBuf::new();
    if modern || establisher.speaks_modern_hello() {
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

fn speaks_modern_hello(connection: Option<&Connection>) -> bool {
    connection.is_some_and(|connection| connection.hello.hello_ok)
}

fn open(connection: &mut Option<Connection>) -> Result<&mut Connection> {
    connection.as_mut().ok_or_else(|| {
        Error::new(ErrorKind::Internal { message: "a check without a connection".to_owned() })
    })
}
