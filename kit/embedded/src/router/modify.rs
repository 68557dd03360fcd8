//! `findAndModify` on a `mongos`.

use bson::Document;
use steadfast_query::Fault;

use super::{
    look,
    operation::{Operation, Purpose},
    reads::without_orphans,
    statements::{Way, modify_way},
    writes::refuse_config,
};

/// Runs `findAndModify`.
pub(super) async fn find_and_modify(op: &Operation) -> Result<Document, Fault> {
    let namespace = op.namespace()?;
    refuse_config(&namespace)?;
    let passed = op.pass(&namespace).await?;
    let home = op.cluster().database(&namespace.database)?;
    let catalog = op.catalog();
    let Some(sharded) = catalog.collections.get(&namespace) else {
        return op.forward(&home).await;
    };
    match modify_way(&op.call.body, sharded, op.cluster().config.max_wire_version)? {
        Way::One(shard) => {
            op.cluster().until_swept(&namespace, &shard, op.deadline).await?;
            let body = op.call.body.clone();
            let body = without_orphans(&catalog, &namespace, &shard, body, "query");
            op.ask(&shard, &body, Purpose::Do).await
        }
        Way::Many(_) | Way::Look(_) => {
            drop(passed);
            look::modify(op, &namespace).await
        }
    }
}
