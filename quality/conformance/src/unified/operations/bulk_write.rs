//! Many writes at once, from the models that a test gives: of a collection, or of a client.

use bson::{Bson, Document};
use steadfast::{
    Client, Collection, Namespace,
    options::{
        BulkWriteOptions, DeleteManyModel, DeleteOneModel, InsertOneModel, ReplaceOneModel,
        UpdateManyModel, UpdateModifications, UpdateOneModel, WriteModel,
    },
};

use super::{Arguments, Done, Outcome, awaited, results};
use crate::unified::stop::{Step, Stop};

pub(super) async fn bulk_write(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> Done {
    let mut session = arguments.session();
    let requests: Vec<Document> = arguments.required("requests")?;
    let models = requests.into_iter().map(model).collect::<Step<Vec<_>>>()?;
    let options: BulkWriteOptions = arguments.options()?;
    Ok(awaited!(session, collection.bulk_write(models).with_options(options))?.into())
}

pub(super) async fn client_bulk_write(client: &Client, mut arguments: Arguments) -> Done {
    let mut session = arguments.session();
    let models: Vec<Document> = arguments.required("models")?;
    let models = models.into_iter().map(model).collect::<Step<Vec<_>>>()?;
    let verbose = arguments.optional::<bool>("verboseResults")?.unwrap_or(false);
    let options: BulkWriteOptions = arguments.options()?;
    let action = client.bulk_write(models).with_options(options);
    let result = if verbose {
        results::verbose(&awaited!(session, action.verbose_results())?)
    } else {
        results::summary(&awaited!(session, action)?)
    };
    Ok(Outcome::Value(result.into()))
}

/// A model from the document of one key that names its kind.
fn model(request: Document) -> Step<WriteModel> {
    let mut fields = request.into_iter();
    let (Some((kind, Bson::Document(content))), None) = (fields.next(), fields.next()) else {
        return Err(Stop::failed("a request has one key, and a document under it"));
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
            .collation(given.optional("collation")?)
            .hint(given.optional("hint")?)
            .into(),
        "deleteMany" => DeleteManyModel::new(given.required("filter")?)
            .namespace(at)
            .collation(given.optional("collation")?)
            .hint(given.optional("hint")?)
            .into(),
        other => return Err(Stop::failed(format!("unknown kind of write {other}"))),
    };
    given.done()?;
    Ok(model)
}

fn update_one(given: &mut Arguments) -> Step<UpdateOneModel> {
    let filter = given.required("filter")?;
    Ok(UpdateOneModel::new(filter, given.required::<UpdateModifications>("update")?)
        .array_filters(given.optional::<Vec<Document>>("arrayFilters")?)
        .collation(given.optional("collation")?)
        .hint(given.optional("hint")?)
        .sort(given.optional::<Document>("sort")?)
        .upsert(given.optional::<bool>("upsert")?))
}

fn update_many(given: &mut Arguments) -> Step<UpdateManyModel> {
    let filter = given.required("filter")?;
    Ok(UpdateManyModel::new(filter, given.required::<UpdateModifications>("update")?)
        .array_filters(given.optional::<Vec<Document>>("arrayFilters")?)
        .collation(given.optional("collation")?)
        .hint(given.optional("hint")?)
        .upsert(given.optional::<bool>("upsert")?))
}

fn replace_one(given: &mut Arguments) -> Step<ReplaceOneModel<Document>> {
    let filter = given.required("filter")?;
    Ok(ReplaceOneModel::new(filter, given.required("replacement")?)
        .collation(given.optional("collation")?)
        .hint(given.optional("hint")?)
        .sort(given.optional::<Document>("sort")?)
        .upsert(given.optional::<bool>("upsert")?))
}
