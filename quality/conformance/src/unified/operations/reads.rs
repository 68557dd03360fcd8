//! Reads of collections.

use bson::{Bson, Document, doc};
use steadfast::{
    Collection,
    options::{
        AggregateOptions, CountOptions, DistinctOptions, EstimatedDocumentCountOptions,
        FindOneOptions, FindOptions,
    },
};

use super::{Arguments, CallResult, OperationResult, awaited, collected, results};
use crate::unified::entities::HeldCursor;

pub(super) async fn find(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let mut session = arguments.session();
    let filter = arguments.required("filter")?;
    let mode = arguments.timeout_mode()?;
    let mut options: FindOptions = arguments.options()?;
    options.timeout_mode = mode;
    Ok(collected!(session, collection.find(filter).with_options(options))?.into())
}

pub(super) async fn create_find_cursor(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let session = arguments.session();
    let filter = arguments.required("filter")?;
    let mode = arguments.timeout_mode()?;
    let mut options: FindOptions = arguments.options()?;
    options.timeout_mode = mode;
    let action = collection.find(filter).with_options(options);
    Ok(OperationResult::Cursor(HeldCursor::shared(match session {
        None => HeldCursor::Alone(action.await?),
        Some(mut in_use) => {
            HeldCursor::InSession(action.session(in_use.session()).await?, in_use.entity())
        }
    })))
}

pub(super) async fn find_one(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let mut session = arguments.session();
    let filter = arguments.required("filter")?;
    let options: FindOneOptions = arguments.options()?;
    Ok(awaited!(session, collection.find_one(filter).with_options(options))?.into())
}

pub(super) async fn aggregate(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let mut session = arguments.session();
    let pipeline: Vec<Document> = arguments.required("pipeline")?;
    let mode = arguments.timeout_mode()?;
    let mut options: AggregateOptions = arguments.options()?;
    options.timeout_mode = mode;
    Ok(collected!(session, collection.aggregate(pipeline).with_options(options))?.into())
}

pub(super) async fn count_documents(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let mut session = arguments.session();
    let filter = arguments.required("filter")?;
    let options: CountOptions = arguments.options()?;
    Ok(awaited!(session, collection.count_documents(filter).with_options(options))?.into())
}

pub(super) async fn estimated_document_count(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let mut session = arguments.session();
    let options: EstimatedDocumentCountOptions = arguments.options()?;
    Ok(awaited!(session, collection.estimated_document_count().with_options(options))?.into())
}

pub(super) async fn distinct(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let mut session = arguments.session();
    let field: String = arguments.required("fieldName")?;
    let filter = arguments.required("filter")?;
    let options: DistinctOptions = arguments.options()?;
    Ok(awaited!(session, collection.distinct(field, filter).with_options(options))?.into())
}

/// Runs `mapReduce`: the driver has no method for it. The specification forbids retries, and `run_command` has none.
pub(super) async fn map_reduce(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let mut session = arguments.session();
    let namespace = collection.namespace();
    let mut command = doc! { "mapReduce": namespace.coll };
    for part in ["map", "reduce", "out"] {
        command.insert(part, arguments.required::<Bson>(part)?);
    }
    arguments.done()?;
    let database = collection.client().database(&namespace.db);
    let mut reply = awaited!(session, database.run_command(command))?;
    Ok(match reply.remove("results") {
        Some(results) => bson::deserialize_from_bson::<Vec<Document>>(results)?.into(),
        None => OperationResult::Value(reply.into()),
    })
}
