//! Change streams.

use bson::Document;
use steadfast::{action::Watch, options::ChangeStreamOptions};

use super::{Arguments, CallResult, OperationResult};
use crate::unified::entities::HeldCursor;

/// Opens a change stream. The test reads it like a cursor.
pub(super) async fn create(watch: Watch<'_>, mut arguments: Arguments) -> CallResult {
    let session = arguments.session();
    let pipeline: Vec<Document> = arguments.optional("pipeline")?.unwrap_or_default();
    let options: ChangeStreamOptions = arguments.options()?;
    let watch = watch.pipeline(pipeline).with_options(options);
    Ok(OperationResult::Cursor(HeldCursor::shared(match session {
        None => HeldCursor::Stream(watch.await?.with_type()),
        Some(mut in_use) => {
            let stream = watch.session(in_use.session()).await?.with_type();
            HeldCursor::StreamInSession(stream, in_use.entity())
        }
    })))
}
