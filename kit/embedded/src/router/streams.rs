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
    operation::Operation,
    shard::{Shard, unreachable, with_label},
};
use crate::{
    command::{self, About, Reading, Run},
    cursor::Owner,
    log::{Histories, History},
    namespace::Namespace,
    node::{Node, is_empty},
};
use blackpipe_base::codes;

/// Default wait of a `getMore`.
const AWAIT_DATA: Duration = Duration::from_secs(1);

/// Seconds after which an idle oplog gets a no-op entry, as `periodicNoopIntervalSecs` does on a
/// real server.
const BEHIND: u32 = 10;

/// Change streams of a `mongos`, by cursor id.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: BTreeMap<i64, Vec<Part>>,
}

/// Member of a shard whose oplog a change stream reads.
#[derive(Clone, Debug)]
struct Part {
    shard: Shard,
    node: Arc<Node>,
    process: ObjectId,
}

impl Part {
    /// Oplog of the member. `None` while it is frozen. Returns an error if its process has ended.
    fn history(&self) -> Result<Option<History>, Fault> {
        self.node.history(self.process).map_err(|_| unreachable(&self.node))
    }
}

/// Opens a change stream.
pub(super) async fn open(op: &Operation) -> Result<Document, Fault> {
    open_on_shards(op).await.map_err(|fault| labelled(op, fault))
}

async fn open_on_shards(op: &Operation) -> Result<Document, Fault> {
    let mut parts = Vec::new();
    for shard in op.cluster().shards() {
        let node = shard.select(&op.preference, op.deadline).await?;
        let process = node.process();
        parts.push(Part { shard: shard.clone(), node, process });
    }
    let seen = loop {
        match look(op.cluster(), &parts, false)? {
            Some(seen) => break seen,
            None if op.call.max_time.is_some() && Instant::now() >= op.deadline => {
                return Err(Fault::new(Code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit"));
            }
            None => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    // Later entries, through any mongos, have greater timestamps.
    op.note_time(seen.last());
    let reply = read(op, &seen)?;
    let id = reply.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).unwrap_or(0);
    let cursors = locked(&op.router.cursors);
    let mut streams = locked(&op.router.streams);
    streams.open.retain(|id, _| cursors.awaits_data(*id));
    if id != 0 {
        streams.open.insert(id, parts);
    }
    Ok(reply)
}

/// Opens the cursor, as a member of a replica set does on its own oplog.
fn read(op: &Operation, seen: &Histories) -> Result<Document, Fault> {
    let catalog = op.catalog();
    let home = op.home(&catalog);
    let home = catalog.shards().iter().position(|shard| *shard == home).unwrap_or(0);
    let store = seen.data(home).clone();
    let env = op.environment(None)?;
    let about = About { set_name: Some(String::new()), ..op.router.about.clone() };
    // A mongos returns an empty first batch.
    let mut call = op.call.clone();
    call.body.insert("cursor", doc! { "batchSize": 0 });
    let reading = Reading {
        call: &call,
        env: &env,
        store: &store,
        history: seen,
        cursors: &op.router.cursors,
        about: &about,
    };
    let run = command::find("aggregate").map(|command| (command.run)(&op.call.body));
    match run {
        Some(Run::Read(read)) => read(&reading),
        Some(Run::Write(_)) | None => Err(Fault::new(
            Code::ILLEGAL_OPERATION,
            "$out and $merge are not permitted in a $changeStream pipeline",
        )),
    }
}

/// Runs `getMore`: waits for events, up to `maxTimeMS`.
pub(super) async fn get_more(
    op: &Operation,
    id: i64,
    namespace: &Namespace,
    batch_size: Option<usize>,
) -> Result<Document, Fault> {
    let parts = locked(&op.router.streams).open.get(&id).cloned().unwrap_or_default();
    let more = next_batch(op, id, namespace, batch_size, &parts).await;
    if !locked(&op.router.cursors).awaits_data(id) {
        locked(&op.router.streams).open.remove(&id);
    }
    more.map_err(|fault| labelled(op, fault))
}

async fn next_batch(
    op: &Operation,
    id: i64,
    namespace: &Namespace,
    batch_size: Option<usize>,
    parts: &[Part],
) -> Result<Document, Fault> {
    let deadline = Instant::now() + op.call.max_time.unwrap_or(AWAIT_DATA);
    let mut watches: Vec<_> = parts.iter().map(|part| part.shard.set.shared().watch()).collect();
    let mut first = true;
    loop {
        watches.iter_mut().for_each(watch::Receiver::mark_unchanged);
        let seen = look(op.cluster(), parts, first).inspect_err(|_| {
            locked(&op.router.cursors).kill(&[id]);
        })?;
        first = false;
        let (reply, is_open) = {
            let mut cursors = locked(&op.router.cursors);
            if let Some(seen) = &seen {
                cursors.see(id, seen);
                op.note_time(seen.horizon());
            }
            let now = op.cluster().environment().now;
            let reply = cursors.more(id, namespace, &Owner::of(&op.call), batch_size, now)?;
            (reply, cursors.awaits_data(id))
        };
        if !is_empty(&reply) || !is_open {
            return Ok(reply);
        }
        tokio::select! {
            () = any_changed(&mut watches) => {}
            () = sleep_until(deadline) => return Ok(reply),
        }
    }
}

/// Reads the oplogs of all parts. `None` while a member is frozen. Writes no-op entries where an
/// oplog delays events, or with `all` wherever it is behind.
fn look(cluster: &Cluster, parts: &[Part], all: bool) -> Result<Option<Histories>, Fault> {
    let look = || -> Result<Option<Histories>, Fault> {
        let mut histories = Vec::new();
        for part in parts {
            let Some(history) = part.history()? else { return Ok(None) };
            histories.push(history);
        }
        Ok(Some(Histories::of_shards(histories, cluster.catalog())))
    };
    let Some(seen) = look()? else { return Ok(None) };
    let last = seen.last();
    let behind = all && last.time.saturating_sub(seen.horizon().time) >= BEHIND;
    let Some(time) = seen.held_up().or(behind.then_some(last)) else { return Ok(Some(seen)) };
    for part in parts {
        part.node.reach_time(time);
    }
    look()
}

/// Waits until one of the sets changes.
async fn any_changed(watches: &mut [watch::Receiver<u64>]) {
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
fn labelled(op: &Operation, fault: Fault) -> Fault {
    let code = fault.code.number;
    if matches!(code, 280 | 286) {
        return with_label(fault, "NonResumableChangeStreamError");
    }
    let tells = op.router.about.max_wire_version >= 9;
    if tells && codes::is_resumable(code) {
        return with_label(fault, "ResumableChangeStreamError");
    }
    fault
}
