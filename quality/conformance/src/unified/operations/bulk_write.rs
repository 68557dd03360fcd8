//! Bulk writes of a collection or a client, from the models of a test.

use bson::{Array, Bson, Document};
use steadfast::{
    Client, Collection, Namespace,
    options::{
        BulkWriteOptions, DeleteManyModel, DeleteOneModel, InsertOneModel, ReplaceOneModel,
        UpdateManyModel, UpdateModifications, UpdateOneModel, WriteModel,
    },
};

use super::{Arguments, CallResult, OperationResult, awaited, results};
use crate::unified::test_error::{TestError, TestResult};

pub(super) async fn bulk_write(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let mut session = arguments.session();
    let requests: Vec<Document> = arguments.required("requests")?;
    let models = requests.into_iter().map(model).collect::<TestResult<Vec<_>>>()?;
    let options: BulkWriteOptions = arguments.options()?;
    Ok(awaited!(session, collection.bulk_write(models).with_options(options))?.into())
}

pub(super) async fn client_bulk_write(client: &Client, mut arguments: Arguments) -> CallResult {
    let mut session = arguments.session();
    let models: Vec<Document> = arguments.required("models")?;
    let models = models.into_iter().map(model).collect::<TestResult<Vec<_>>>()?;
    let verbose = arguments.optional::<bool>("verboseResults")?.unwrap_or(false);
    let options: BulkWriteOptions = arguments.options()?;
    let action = client.bulk_write(models).with_options(options);
    let result = if verbose {
        results::verbose(&awaited!(session, action.verbose_results())?)
    } else {
        results::summary(&awaited!(session, action)?)
    };
    Ok(OperationResult::Value(result.into()))
}

/// Converts a model. The only key of the document is the kind of write.
fn model(request: Document) -> TestResult<WriteModel> {
    let mut fields = request.into_iter();
    let (Some((kind, Bson::Document(content))), None) = (fields.next(), fields.next()) else {
        return Err(TestError::failed(
            "a request is a document with one key and a document as its value",
        ));
    };
    let mut given = Arguments::new(&kind, content);
    let at = given.optional::<Namespace>("namespace")?;
    let model = match kind.as_str() {
        "insertOne" => InsertOneModel::new(given.required("document")?).namespace(at).into(),
        "updateOne" => update_one(&mut given)?.namespace(at).into(),
        "updateMany" => update_many(&mut given)?.namespace(at).into(),
        "replaceOne" => replace_one(&mut given)?.namespace(at).into(),
        "deleteOne" => DeleteOneModel::new(given.required("filter")?)
            .namespace(at)
            .collation(given.optional::<Document>("collation")?)
            .hint(given.optional::<Bson>("hint")?)
            .into(),
        "deleteMany" => DeleteManyModel::new(given.required("filter")?)
            .namespace(at)
            .collation(given.optional::<Document>("collation")?)
            .hint(given.optional::<Bson>("hint")?)
            .into(),
        other => return Err(TestError::failed(format!("unknown kind of write {other}"))),
    };
    given.done()?;
    Ok(model)
}

fn update_one(given: &mut Arguments) -> TestResult<UpdateOneModel> {
    let filter = given.required("filter")?;
    Ok(UpdateOneModel::new(filter, given.required::<UpdateModifications>("update")?)
        .array_filters(given.optional::<Array>("arrayFilters")?)
        .collation(given.optional::<Document>("collation")?)
        .hint(given.optional::<Bson>("hint")?)
        .sort(given.optional::<Document>("sort")?)
        .upsert(given.optional::<bool>("upsert")?))
}

fn update_many(given: &mut Arguments) -> TestResult<UpdateManyModel> {
    let filter = given.required("filter")?;
    Ok(UpdateManyModel::new(filter, given.required::<UpdateModifications>("update")?)
        .array_filters(given.optional::<Array>("arrayFilters")?)
        .collation(given.optional::<Document>("collation")?)
        .hint(given.optional::<Bson>("hint")?)
        .upsert(given.optional::<bool>("upsert")?))
}

fn replace_one(given: &mut Arguments) -> TestResult<ReplaceOneModel<Document>> {
    let filter = given.required("filter")?;
    Ok(ReplaceOneModel::new(filter, given.required("replacement")?)
        .collation(given.optional::<Document>("collation")?)
        .hint(given.optional::<Bson>("hint")?)
        .sort(given.optional::<Document>("sort")?)
        .upsert(given.optional::<bool>("upsert")?))
}
