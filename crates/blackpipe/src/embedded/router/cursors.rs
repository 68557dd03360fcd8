//! Cursors that a router has open for its clients: those that a shard keeps, under ids of the router's
//! own, and those whose documents the router keeps itself.

use std::{collections::BTreeMap, sync::Arc};

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault};

use super::{
    cluster::locked,
    operation::{Operation, Purpose},
    reads::number,
    shard::{ask, read_reply},
    streams,
};
use crate::embedded::{cursor::Owner, namespace::Namespace, node::Node};

/// A cursor that a member of a shard keeps.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    shard: String,
    node: Arc<Node>,
    id: i64,
}

/// The cursors that shards keep, by the ids that clients know.
#[derive(Debug, Default)]
pub(super) struct Remotes {
    open: BTreeMap<i64, Remote>,
}

/// Runs a command on one shard. If it leaves a cursor there, the client gets to know it by another id.
pub(super) async fn remember(
    op: &Operation,
    shard: &str,
    body: &Document,
) -> Result<Document, Fault> {
    let errand = op.errand(shard, body, Purpose::Do)?;
    let (node, reply) = match op.cluster().shard(shard)?.run_on_one(errand).await {
        Ok((node, reply)) => (node, op.hear(Ok(reply))?),
        Err(fault) => return op.hear(Err(fault)),
    };
    Ok(adopt(op, shard, node, reply))
}

fn adopt(op: &Operation, shard: &str, node: Arc<Node>, mut reply: Document) -> Document {
    if let Ok(cursor) = reply.get_document_mut("cursor")
        && let id = number(cursor, "id")
        && id != 0
    {
        let mut remotes = locked(&op.router.remotes);
        let env = op.cluster().environment();
        let known = loop {
            let known = (env.roll() >> 1).cast_signed();
            if known != 0 && !remotes.open.contains_key(&known) {
                break known;
            }
        };
        remotes.open.insert(known, Remote { shard: shard.to_owned(), node, id });
        cursor.insert("id", known);
    }
    reply
}

/// `getMore`.
pub(super) async fn get_more(op: &Operation) -> Result<Document, Fault> {
    let body = &op.call.body;
    let id = match body.get("getMore") {
        Some(Bson::Int64(id)) => *id,
        _ => {
            return Err(Fault::type_mismatch(
                "BSON field 'getMore.getMore' is the wrong type, expected type 'long'",
            ));
        }
    };
    let remote = locked(&op.router.remotes).open.get(&id).cloned();
    let Some(remote) = remote else {
        let namespace = Namespace::of_command(&op.call.database, body.get("collection"))?;
        let batch_size = body.get("batchSize").map(|_| number(body, "batchSize"));
        let batch_size = batch_size.and_then(|it| usize::try_from(it).ok()).filter(|it| *it > 0);
        if locked(&op.router.cursors).awaits_data(id) {
            return streams::get_more(op, id, &namespace, batch_size).await;
        }
        let now = op.cluster().environment().now;
        let owner = Owner::of(&op.call);
        return locked(&op.router.cursors).more(id, &namespace, &owner, batch_size, now);
    };
    let mut body = op.call.body.clone();
    body.insert("getMore", remote.id);
    let mut errand = op.errand(&remote.shard, &body, Purpose::Do)?;
    if let Some(wait) = op.call.body.get("maxTimeMS") {
        // Of a cursor that waits for documents, it says how long.
        errand.call.body.insert("maxTimeMS", wait.clone());
        errand.call.max_time = op.call.max_time;
    }
    let far = errand.deadline + std::time::Duration::from_secs(600);
    let answer = ask(&remote.node, errand.call, far).await.and_then(read_reply);
    let answer = op.hear(answer);
    let ended = match &answer {
        Ok(reply) => reply.get_document("cursor").is_ok_and(|cursor| number(cursor, "id") == 0),
        Err(_) => true,
    };
    if ended {
        locked(&op.router.remotes).open.remove(&id);
    }
    let mut reply = answer?;
    if let (false, Ok(cursor)) = (ended, reply.get_document_mut("cursor")) {
        cursor.insert("id", id);
    }
    Ok(reply)
}

/// `killCursors`.
pub(super) async fn kill(op: &Operation) -> Result<Document, Fault> {
    let Ok(ids) = op.call.body.get_array("cursors") else {
        return Err(Fault::location(
            40414,
            "BSON field 'killCursors.cursors' is missing but a required field",
        ));
    };
    let ids: Vec<i64> = ids.iter().filter_map(Bson::as_i64).collect();
    let mut killed = Vec::new();
    let mut own = Vec::new();
    for id in ids {
        let remote = locked(&op.router.remotes).open.remove(&id);
        let Some(remote) = remote else {
            own.push(id);
            continue;
        };
        let mut body = op.call.body.clone();
        body.insert("cursors", vec![remote.id]);
        let errand = op.errand(&remote.shard, &body, Purpose::Do)?;
        // Whatever the member says, the cursor is gone for clients of this router.
        let answer = ask(&remote.node, errand.call, errand.deadline).await;
        let _ = op.hear(answer.and_then(read_reply));
        killed.push(Bson::Int64(id));
    }
    let mut reply = locked(&op.router.cursors).kill(&own);
    if let Ok(list) = reply.get_array_mut("cursorsKilled") {
        list.extend(killed);
    }
    Ok(reply)
}

/// What is refused where several shards would have to keep a cursor each.
pub(super) fn refused(what: &str) -> Fault {
    Fault::new(Code::COMMAND_NOT_SUPPORTED, format!("{what} is not known over several shards"))
}

/// The reply of a command whose list is at hand.
pub(super) fn list(namespace: &str, documents: Vec<Document>) -> Document {
    doc! { "cursor": { "firstBatch": documents, "id": 0_i64, "ns": namespace } }
}
