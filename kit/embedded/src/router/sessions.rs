//! Session commands on a `mongos`, which has state of its own and informs the shards.

use std::collections::BTreeSet;

use bson::{Bson, Document, Uuid, doc};
use steadfast_query::Fault;

use super::{
    operation::{Operation, Purpose},
    shard::is_absence,
};
use crate::call::read_session;

/// Runs a session command.
pub(super) async fn run(op: &Operation) -> Result<Document, Fault> {
    let name = op.call.name.as_str();
    if name == "startSession" {
        return Ok(start(op));
    }
    let shards: BTreeSet<String> =
        op.cluster().shards().iter().map(|shard| shard.name.clone()).collect();
    if name == "appendOplogNote" {
        op.ask_each(&shards, &op.arguments(), Purpose::Do).await?;
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
            op.router.transactions.end(op.cluster(), &session);
        }
    }
    if name.starts_with("killAll") && sessions.is_empty() {
        op.router.transactions.forget_all(op.cluster());
    }
    // Unreachable shards expire the sessions later.
    let questions = shards.into_iter().map(|shard| (shard, op.arguments())).collect();
    for (_, answer) in op.ask_all(questions, Purpose::Do).await? {
        match answer {
            Err(fault) if !is_absence(&fault) => {
                return Err(fault);
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(Document::new())
}

fn start(op: &Operation) -> Document {
    let env = op.cluster().environment();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&env.roll().to_be_bytes());
    bytes[8..].copy_from_slice(&env.roll().to_be_bytes());
    // A UUID of version 4.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    doc! { "id": { "id": Uuid::from_bytes(bytes) }, "timeoutMinutes": 30 }
}
