//! What sessions do.

use bson::Bson;

use super::{Arguments, Done, Outcome};
use crate::unified::{entities::SessionEntity, stop::Stop};

pub(super) async fn call(entity: &SessionEntity, name: &str, arguments: Arguments) -> Done {
    match name {
        "endSession" => {
            arguments.done()?;
            entity.end().await;
            Ok(Outcome::Nothing)
        }
        "getSnapshotTime" => {
            arguments.done()?;
            let time = entity.take().await?.session().snapshot_time();
            Ok(Outcome::Value(time.map_or(Bson::Null, Bson::Timestamp)))
        }
        "startTransaction" | "commitTransaction" | "abortTransaction" | "withTransaction" => {
            Err(Stop::needs("transactions").into())
        }
        _ => Err(Stop::failed(format!("unknown operation {name} of a session")).into()),
    }
}
