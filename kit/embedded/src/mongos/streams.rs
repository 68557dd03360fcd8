//! Change streams on a `mongos`: merges the events of all shards in the order of `clusterTime`.
//!
//! The `mongos` reads the oplog of one member per shard. It shows an event when it has read the
//! oplogs of all shards up to its time. An idle shard writes a no-op entry, so that it does not
//! delay the others.

use std::{
    collections::BTreeMap, future::poll_fn, pin::Pin, sync::Arc, task::Poll, time::Duration,
};

use bson::{Document, doc, oid::ObjectId};
use steadfast_query::{Code, Fault};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    cluster::{Cluster, locked},
    operation::MongosCommand,
    shard::{ShardClient, unreachable, with_label},
};
use crate::{
    command::{self, Handler, ReadContext, ServerInfo},
    cursor::CursorOwner,
    namespace::Namespace,
    node::{Node, is_empty},
    oplog::{MemberHistory, StreamHistory},
};
use blackpipe_base::codes;

/// Default wait of a `getMore`.
const AWAIT_DATA: Duration = Duration::from_secs(1);

/// Seconds after which an idle oplog gets a no-op entry, as `periodicNoopIntervalSecs` does on a
/// real server.
const MAX_IDLE_SECONDS: u32 = 10;

/// Change streams of a `mongos`, by cursor id.
#[derive(Debug, Default)]
pub(super) struct ChangeStreams {
    open: BTreeMap<i64, Vec<ShardOplog>>,
}

/// Member of a shard whose oplog a change stream reads.
#[derive(Clone, Debug)]
struct ShardOplog {
    shard: ShardClient,
    node: Arc<Node>,
    process: ObjectId,
}

impl ShardOplog {
    /// Oplog of the member. `None` while it is frozen. Returns an error if its process has ended.
    fn history(&self) -> Result<Option<MemberHistory>, Fault> {
        self.node.history(self.process).map_err(|_| unreachable(&self.node))
    }
}

/// Opens a change stream.
pub(super) async fn open(op: &MongosCommand) -> Result<Document, Fault> {
    open_on_shards(op).await.map_err(|fault| labelled(op, fault))
}

async fn open_on_shards(op: &MongosCommand) -> Result<Document, Fault> {
    let mut parts = Vec::new();
    for shard in op.cluster().shards() {
        let node = shard.select(&op.preference, op.deadline).await?;
        let process = node.process();
        parts.push(ShardOplog { shard: shard.clone(), node, process });
    }
    let seen = loop {
        match read_oplogs(op.cluster(), &parts, false)? {
            Some(seen) => break seen,
            None if op.call.max_time.is_some() && Instant::now() >= op.deadline => {
                return Err(Fault::new(Code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit"));
            }
            None => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    // Later entries, through any mongos, have greater timestamps.
    op.record_time(seen.last());
    let reply = read(op, &seen)?;
    let id = reply.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).unwrap_or(0);
    let cursors = locked(&op.mongos.cursors);
    let mut streams = locked(&op.mongos.streams);
    streams.open.retain(|id, _| cursors.awaits_data(*id));
    if id != 0 {
        streams.open.insert(id, parts);
    }
    Ok(reply)
}

/// Opens the cursor, as a member of a replica set does on its own oplog.
fn read(op: &MongosCommand, seen: &StreamHistory) -> Result<Document, Fault> {
    let catalog = op.catalog();
    let primary_shard = op.primary_shard(&catalog);
    let primary_shard =
        catalog.shards().iter().position(|shard| *shard == primary_shard).unwrap_or(0);
    let store = seen.data(primary_shard).clone();
    let env = op.environment(None)?;
    let server_info = ServerInfo { set_name: Some(String::new()), ..op.mongos.server_info.clone() };
    // A mongos returns an empty first batch.
    let mut call = op.call.clone();
    call.body.insert("cursor", doc! { "batchSize": 0 });
    let reading = ReadContext {
        call: &call,
        env: &env,
        store: &store,
        history: seen,
        cursors: &op.mongos.cursors,
        server_info: &server_info,
    };
    let run = command::find("aggregate").map(|command| (command.run)(&op.call.body));
    match run {
        Some(Handler::Read(read)) => read(&reading),
        Some(Handler::Write(_)) | None => Err(Fault::new(
            Code::ILLEGAL_OPERATION,
            "$out and $merge are not permitted in a $changeStream pipeline",
        )),
    }
}

/// Runs `getMore`: waits for events, up to `maxTimeMS`.
pub(super) async fn get_more(
    op: &MongosCommand,
    id: i64,
    namespace: &Namespace,
    batch_size: Option<usize>,
) -> Result<Document, Fault> {
    let parts = locked(&op.mongos.streams).open.get(&id).cloned().unwrap_or_default();
    let more = next_batch(op, id, namespace, batch_size, &parts).await;
    if !locked(&op.mongos.cursors).awaits_data(id) {
        locked(&op.mongos.streams).open.remove(&id);
    }
    more.map_err(|fault| labelled(op, fault))
}

async fn next_batch(
    op: &MongosCommand,
    id: i64,
    namespace: &Namespace,
    batch_size: Option<usize>,
    parts: &[ShardOplog],
) -> Result<Document, Fault> {
    let deadline = Instant::now() + op.call.max_time.unwrap_or(AWAIT_DATA);
    let mut watches: Vec<_> = parts.iter().map(|part| part.shard.set.shared().watch()).collect();
    let mut first = true;
    loop {
        watches.iter_mut().for_each(watch::Receiver::mark_unchanged);
        let seen = read_oplogs(op.cluster(), parts, first).inspect_err(|_| {
            locked(&op.mongos.cursors).kill(&[id]);
        })?;
        first = false;
        let (reply, is_open) = {
            let mut cursors = locked(&op.mongos.cursors);
            if let Some(seen) = &seen {
                cursors.set_history(id, seen);
                op.record_time(seen.horizon());
            }
            let now = op.cluster().environment().now;
            let reply =
                cursors.get_more(id, namespace, &CursorOwner::of(&op.call), batch_size, now)?;
            (reply, cursors.awaits_data(id))
        };
        if !is_empty(&reply) || !is_open {
            return Ok(reply);
        }
        tokio::select! {
            () = wait_for_change(&mut watches) => {}
            () = sleep_until(deadline) => return Ok(reply),
        }
    }
}

/// Reads the oplogs of all parts. `None` while a member is frozen. Writes no-op entries where an
/// oplog delays events, or with `all` wherever it is behind.
fn read_oplogs(
    cluster: &Cluster,
    parts: &[ShardOplog],
    all: bool,
) -> Result<Option<StreamHistory>, Fault> {
    let read_oplogs = || -> Result<Option<StreamHistory>, Fault> {
        let mut histories = Vec::new();
        for part in parts {
            let Some(history) = part.history()? else { return Ok(None) };
            histories.push(history);
        }
        Ok(Some(StreamHistory::of_shards(histories, cluster.catalog())))
    };
    let Some(seen) = read_oplogs()? else { return Ok(None) };
    let last = seen.last();
    let behind = all && last.time.saturating_sub(seen.horizon().time) >= MAX_IDLE_SECONDS;
    let Some(time) = seen.delayed_until().or(behind.then_some(last)) else { return Ok(Some(seen)) };
    for part in parts {
        part.node.advance_oplog_to(time);
    }
    read_oplogs()
}

/// Waits until one of the sets changes.
async fn wait_for_change(watches: &mut [watch::Receiver<u64>]) {
    // The sets hold the senders, so one of them can change.
    let mut changes: Vec<Pin<Box<_>>> =
        watches.iter_mut().map(|watch| Box::pin(watch.changed())).collect();
    poll_fn(|context| {
        let changed = changes.iter_mut().any(|change| change.as_mut().poll(context).is_ready());
        if changed { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Adds the label of errors after which a client can resume, or must not.
fn labelled(op: &MongosCommand, fault: Fault) -> Fault {
    let code = fault.code.number;
    if matches!(code, 280 | 286) {
        return with_label(fault, "NonResumableChangeStreamError");
    }
    let has_error_labels = op.mongos.server_info.max_wire_version >= 9;
    if has_error_labels && codes::is_resumable(code) {
        return with_label(fault, "ResumableChangeStreamError");
    }
    fault
}
