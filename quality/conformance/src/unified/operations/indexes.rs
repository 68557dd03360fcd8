//! Indexes and search indexes of collections: create, list, drop.

use bson::{Document, doc};
use steadfast::{
    Collection, IndexModel, SearchIndexModel,
    options::{
        AggregateOptions, CreateIndexOptions, DropIndexOptions, IndexOptions, ListIndexesOptions,
    },
};

use super::{Arguments, CallResult, OperationResult, awaited, collected, results};

pub(super) async fn create(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let mut session = arguments.session();
    let keys: Document = arguments.required("keys")?;
    let making: CreateIndexOptions = arguments.split_off(&["timeoutMS", "maxTimeMS"]).options()?;
    let options: IndexOptions = arguments.options()?;
    let index = IndexModel::builder().keys(keys).options(options).build();
    let created = awaited!(session, collection.create_index(index).with_options(making))?;
    Ok(created.index_name.into())
}

pub(super) async fn drop(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let mut session = arguments.session();
    let name: String = arguments.required("name")?;
    let options: DropIndexOptions = arguments.options()?;
    Ok(awaited!(session, collection.drop_index(name).with_options(options))?.into())
}

pub(super) async fn drop_all(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let mut session = arguments.session();
    let options: DropIndexOptions = arguments.options()?;
    Ok(awaited!(session, collection.drop_indexes().with_options(options))?.into())
}

pub(super) async fn list(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let mut session = arguments.session();
    let mode = arguments.timeout_mode()?;
    let mut options: ListIndexesOptions = arguments.options()?;
    options.timeout_mode = mode;
    let indexes = collected!(session, collection.list_indexes().with_options(options))?;
    let mut documents: Vec<Document> =
        indexes.iter().map(bson::serialize_to_document).collect::<Result<_, _>>()?;
    for (index, document) in indexes.iter().zip(&mut documents) {
        // Servers return this option, but it cannot be set.
        if let Some(clustered) = index.options.as_ref().and_then(IndexOptions::clustered) {
            document.insert("clustered", clustered);
        }
    }
    Ok(OperationResult::Documents(documents))
}

pub(super) async fn list_names(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let mut session = arguments.session();
    let mode = arguments.timeout_mode()?;
    let mut options: ListIndexesOptions = arguments.options()?;
    options.timeout_mode = mode;
    Ok(awaited!(session, collection.list_index_names().with_options(options))?.into())
}

pub(super) async fn create_search(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let model: SearchIndexModel = arguments.required("model")?;
    arguments.done()?;
    Ok(collection.create_search_index(model).await?.into())
}

pub(super) async fn create_searches(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let models: Vec<SearchIndexModel> = arguments.required("models")?;
    arguments.done()?;
    Ok(collection.create_search_indexes(models).await?.into())
}

pub(super) async fn update_search(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let name: String = arguments.required("name")?;
    let definition = arguments.required("definition")?;
    arguments.done()?;
    Ok(collection.update_search_index(name, definition).await?.into())
}

pub(super) async fn drop_search(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let name: String = arguments.required("name")?;
    arguments.done()?;
    Ok(collection.drop_search_index(name).await?.into())
}

pub(super) async fn list_search(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let name: Option<String> = arguments.optional("name")?;
    let aggregation: Document = arguments.optional("aggregationOptions")?.unwrap_or(doc! {});
    arguments.done()?;
    let options: AggregateOptions = Arguments::new("aggregationOptions", aggregation).options()?;
    let mut action = collection.list_search_indexes().aggregate_options(options);
    if let Some(name) = name {
        action = action.name(name);
    }
    Ok(results::items(action.await?).await?.into())
}
