//! `findAndModify` on a `mongos`.

use bson::Document;
use steadfast_query::Fault;

use super::{
    operation::{MongosCommand, ShardCommandPurpose},
    reads::without_orphans,
    statements::{StatementTarget, find_and_modify_target},
    write_without_shard_key,
    writes::reject_catalog_write,
};

/// Runs `findAndModify`.
pub(super) async fn find_and_modify(op: &MongosCommand) -> Result<Document, Fault> {
    let namespace = op.namespace()?;
    reject_catalog_write(&namespace)?;
    let passed = op.lock_shared(&namespace).await?;
    let primary_shard = op.cluster().database(&namespace.database)?;
    let catalog = op.catalog();
    let Some(sharded) = catalog.collections.get(&namespace) else {
        return op.forward(&primary_shard).await;
    };
    match find_and_modify_target(&op.call.body, sharded, op.cluster().config.max_wire_version)? {
        StatementTarget::OneShard(shard) => {
            op.cluster().wait_for_orphan_deletion(&namespace, &shard, op.deadline).await?;
            let body = op.call.body.clone();
            let body = without_orphans(&catalog, &namespace, &shard, body, "query");
            op.run_on_shard(&shard, &body, ShardCommandPurpose::Execute).await
        }
        StatementTarget::Broadcast(_) | StatementTarget::ReadFirst(_) => {
            drop(passed);
            write_without_shard_key::modify(op, &namespace).await
        }
    }
}
