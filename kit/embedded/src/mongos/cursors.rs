//! Cursors of a `mongos`: those on a shard, under ids of the `mongos`, and those with documents
//! merged by the `mongos`.

use std::{collections::BTreeMap, sync::Arc};

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault};

use super::{
    cluster::locked,
    operation::{MongosCommand, ShardCommandPurpose},
    reads::number,
    shard::{read_reply, run_on_member},
    streams,
};
use crate::{
    command::{GetMore, cursors_to_kill, not_awaiting},
    cursor::CursorOwner,
    node::Node,
};

/// A cursor on a member of a shard.
#[derive(Clone, Debug)]
pub(super) struct ShardCursor {
    shard: String,
    node: Arc<Node>,
    id: i64,
    namespace: String,
    owner: CursorOwner,
}

/// Cursors on shards, by the ids that clients use.
#[derive(Debug, Default)]
pub(super) struct ShardCursors {
    open: BTreeMap<i64, ShardCursor>,
}

/// Runs a command on one shard. A cursor that it opens gets an id of the `mongos`.
pub(super) async fn run_and_register(
    op: &MongosCommand,
    shard: &str,
    body: &Document,
) -> Result<Document, Fault> {
    let shard_command = op.shard_command(shard, body, ShardCommandPurpose::Execute)?;
    let (node, reply) = match op.cluster().shard(shard)?.run_with_member(shard_command).await {
        Ok((node, reply)) => (node, op.process_reply(Ok(reply))?),
        Err(fault) => return op.process_reply(Err(fault)),
    };
    Ok(register_cursor(op, shard, node, reply))
}

fn register_cursor(
    op: &MongosCommand,
    shard: &str,
    node: Arc<Node>,
    mut reply: Document,
) -> Document {
    if let Ok(cursor) = reply.get_document_mut("cursor")
        && let id = number(cursor, "id")
        && id != 0
    {
        let mut shard_cursors = locked(&op.mongos.shard_cursors);
        let env = op.cluster().environment();
        let known = loop {
            let known = (env.next_random() >> 1).cast_signed();
            if known != 0 && !shard_cursors.open.contains_key(&known) {
                break known;
            }
        };
        let namespace = cursor.get_str("ns").unwrap_or_default().to_owned();
        let owner = CursorOwner::of(&op.call);
        let remote = ShardCursor { shard: shard.to_owned(), node, id, namespace, owner };
        shard_cursors.open.insert(known, remote);
        cursor.insert("id", known);
    }
    reply
}

/// Runs `getMore`.
pub(super) async fn get_more(op: &MongosCommand) -> Result<Document, Fault> {
    let GetMore { id, namespace, batch_size } = GetMore::read(&op.call)?;
    let remote = locked(&op.mongos.shard_cursors).open.get(&id).cloned();
    let Some(remote) = remote else {
        if locked(&op.mongos.cursors).awaits_data(id) {
            return streams::get_more(op, id, &namespace, batch_size).await;
        }
        if op.call.max_time.is_some() && locked(&op.mongos.cursors).is_materialized(id) {
            return Err(not_awaiting());
        }
        let now = op.cluster().environment().now;
        let owner = CursorOwner::of(&op.call);
        let more = locked(&op.mongos.cursors).get_more(id, &namespace, &owner, batch_size, now);
        return more.map_err(with_mongos_code);
    };
    if remote.namespace == namespace.to_string() {
        remote.owner.check(id, &CursorOwner::of(&op.call)).map_err(with_mongos_code)?;
    } else {
        let message = format!(
            "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace"
        );
        return Err(Fault::new(Code::UNAUTHORIZED, message));
    }
    if op.call.max_time.is_some() {
        // A mongos closes the cursor after this error.
        locked(&op.mongos.shard_cursors).open.remove(&id);
        return Err(not_awaiting());
    }
    let mut body = op.call.body.clone();
    body.insert("getMore", remote.id);
    let shard_command = op.shard_command(&remote.shard, &body, ShardCommandPurpose::Execute)?;
    let far = shard_command.deadline + std::time::Duration::from_secs(600);
    let answer = run_on_member(&remote.node, shard_command.call, far).await.and_then(read_reply);
    let answer = op.process_reply(answer);
    let ended = match &answer {
        Ok(reply) => reply.get_document("cursor").is_ok_and(|cursor| number(cursor, "id") == 0),
        Err(_) => true,
    };
    if ended {
        locked(&op.mongos.shard_cursors).open.remove(&id);
    }
    let mut reply = answer?;
    if let (false, Ok(cursor)) = (ended, reply.get_document_mut("cursor")) {
        cursor.insert("id", id);
    }
    Ok(reply)
}

/// Runs `killCursors`.
pub(super) async fn kill(op: &MongosCommand) -> Result<Document, Fault> {
    let ids = cursors_to_kill(&op.call)?;
    let mut killed = Vec::new();
    let mut own = Vec::new();
    for id in ids {
        let remote = locked(&op.mongos.shard_cursors).open.remove(&id);
        let Some(remote) = remote else {
            own.push(id);
            continue;
        };
        let mut body = op.call.body.clone();
        body.insert("cursors", vec![remote.id]);
        let shard_command = op.shard_command(&remote.shard, &body, ShardCommandPurpose::Execute)?;
        // The cursor is closed for clients of this `mongos`, whatever the member replies.
        let answer = run_on_member(&remote.node, shard_command.call, shard_command.deadline).await;
        let _ = op.process_reply(answer.and_then(read_reply));
        killed.push(Bson::Int64(id));
    }
    let mut reply = locked(&op.mongos.cursors).kill(&own);
    if let Ok(list) = reply.get_array_mut("cursorsKilled") {
        list.extend(killed);
    }
    Ok(reply)
}

/// Error codes of a mongos for a `getMore` in another session or transaction.
fn with_mongos_code(mut fault: Fault) -> Fault {
    if (50736..=50741).contains(&fault.code.number) {
        fault.code = Fault::location(fault.code.number + 63, "").code;
    }
    fault
}

/// Error of a command that would need a cursor on each of several shards.
pub(super) fn unsupported_over_shards(what: &str) -> Fault {
    Fault::new(Code::COMMAND_NOT_SUPPORTED, format!("{what} is not known over several shards"))
}

/// Reply of a command with a complete list of documents.
pub(super) fn cursor_reply(namespace: &str, documents: Vec<Document>) -> Document {
    doc! { "cursor": { "firstBatch": documents, "id": 0_i64, "ns": namespace } }
}
