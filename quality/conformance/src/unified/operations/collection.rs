//! Operations of collections.

use bson::Document;
use steadfast::Collection;

use super::{
    Arguments, CallResult, bulk_write, change_streams, find_one_and, indexes, reads, unknown,
    writes,
};

pub(super) async fn call(
    collection: &Collection<Document>,
    name: &str,
    arguments: Arguments,
) -> CallResult {
    match name {
        "find" => reads::find(collection, arguments).await,
        "createFindCursor" => reads::create_find_cursor(collection, arguments).await,
        "createChangeStream" => change_streams::create(collection.watch(), arguments).await,
        "findOne" => reads::find_one(collection, arguments).await,
        "aggregate" => reads::aggregate(collection, arguments).await,
        "countDocuments" => reads::count_documents(collection, arguments).await,
        "estimatedDocumentCount" => reads::estimated_document_count(collection, arguments).await,
        "distinct" => reads::distinct(collection, arguments).await,
        "mapReduce" => reads::map_reduce(collection, arguments).await,

        "insertOne" => writes::insert_one(collection, arguments).await,
        "insertMany" => writes::insert_many(collection, arguments).await,
        "updateOne" => writes::update_one(collection, arguments).await,
        "updateMany" => writes::update_many(collection, arguments).await,
        "replaceOne" => writes::replace_one(collection, arguments).await,
        "deleteOne" => writes::delete_one(collection, arguments).await,
        "deleteMany" => writes::delete_many(collection, arguments).await,
        "bulkWrite" => bulk_write::bulk_write(collection, arguments).await,
        "findOneAndUpdate" => find_one_and::update(collection, arguments).await,
        "findOneAndReplace" => find_one_and::replace(collection, arguments).await,
        "findOneAndDelete" => find_one_and::delete(collection, arguments).await,
        "rename" => writes::rename(collection, arguments).await,
        "drop" => writes::drop(collection, arguments).await,

        "createIndex" => indexes::create(collection, arguments).await,
        "dropIndex" => indexes::drop(collection, arguments).await,
        "dropIndexes" => indexes::drop_all(collection, arguments).await,
        "listIndexes" => indexes::list(collection, arguments).await,
        "listIndexNames" => indexes::list_names(collection, arguments).await,
        "createSearchIndex" => indexes::create_search(collection, arguments).await,
        "createSearchIndexes" => indexes::create_searches(collection, arguments).await,
        "updateSearchIndex" => indexes::update_search(collection, arguments).await,
        "dropSearchIndex" => indexes::drop_search(collection, arguments).await,
        "listSearchIndexes" => indexes::list_search(collection, arguments).await,
        _ => Err(unknown("collection", name)),
    }
}
