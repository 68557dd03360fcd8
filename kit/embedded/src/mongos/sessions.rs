//! Session commands on a `mongos`, which has state of its own and informs the shards.

use std::collections::BTreeSet;

use bson::{Bson, Document, Uuid, doc};
use steadfast_query::Fault;

use super::{
    operation::{MongosCommand, ShardCommandPurpose},
    shard::is_unreachable,
};
use crate::call::read_session;

/// Runs a session command.
pub(super) async fn run(op: &MongosCommand) -> Result<Document, Fault> {
    let name = op.call.name.as_str();
    if name == "startSession" {
        return Ok(start(op));
    }
    let shards: BTreeSet<String> =
        op.cluster().shards().iter().map(|shard| shard.name.clone()).collect();
    if name == "appendOplogNote" {
        op.run_on_each(&shards, &op.arguments(), ShardCommandPurpose::Execute).await?;
        return Ok(Document::new());
    }
    let sessions = match op.call.body.get(name) {
        Some(Bson::Array(sessions)) => sessions.clone(),
        _ => Vec::new(),
    };
    if name == "killSessions" {
        for session in sessions.iter().filter_map(Bson::as_document) {
            let mut session = read_session(session, &format!("{name}.{name}"))?;
            if let Some(own) = &op.call.session {
                session.user.clone_from(&own.user);
            }
            op.mongos.transactions.end(op.cluster(), &session);
        }
    }
    if name.starts_with("killAll") && sessions.is_empty() {
        op.mongos.transactions.clear(op.cluster());
    }
    // Unreachable shards expire the sessions later.
    let questions = shards.into_iter().map(|shard| (shard, op.arguments())).collect();
    for (_, answer) in op.run_on_shards(questions, ShardCommandPurpose::Execute).await? {
        match answer {
            Err(fault) if !is_unreachable(&fault) => {
                return Err(fault);
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(Document::new())
}

fn start(op: &MongosCommand) -> Document {
    let env = op.cluster().environment();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&env.next_random().to_be_bytes());
    bytes[8..].copy_from_slice(&env.next_random().to_be_bytes());
    // A UUID of version 4.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    doc! { "id": { "id": Uuid::from_bytes(bytes) }, "timeoutMinutes": 30 }
}
