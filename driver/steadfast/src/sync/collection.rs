//! Handle of a collection.

use std::{borrow::Borrow, fmt, time::Duration};

use bson::Document;
use serde::{Serialize, de::DeserializeOwned};
use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use super::Client;
use crate::{
    IndexModel, Namespace, SearchIndexModel,
    action::{
        Aggregate, CollectionBulkWrite, CountDocuments, CreateIndex, CreateSearchIndex, Delete,
        Distinct, DropCollection, DropIndex, DropSearchIndex, EstimatedDocumentCount, Find,
        FindOne, FindOneAndDelete, FindOneAndReplace, FindOneAndUpdate, InsertMany, InsertOne,
        ListIndexes, ListNames, ListSearchIndexes, Multiple, ReplaceOne, Single, Update,
        UpdateSearchIndex, Watch,
    },
    error::Result,
    options::{InsertOneModel, ReplaceOneModel, UpdateModifications, WriteModel},
};

/// Handle of a collection whose documents are serialized and deserialized as `T`, with a blocking API. See the async
/// [`Collection`](crate::Collection).
///
/// ```no_run
/// # fn run(database: steadfast::sync::Database) -> steadfast::error::Result<()> {
/// use serde::{Deserialize, Serialize};
/// use steadfast::{bson::doc, sync::Collection};
///
/// #[derive(Serialize, Deserialize)]
/// struct Book {
///     title: String,
/// }
///
/// let books: Collection<Book> = database.collection("books");
/// books.insert_one(Book { title: "1984".to_owned() }).run()?;
/// assert!(books.find_one(doc! { "title": "1984" }).run()?.is_some());
/// # Ok(()) }
/// ```
pub struct Collection<T: Send + Sync> {
    inner: crate::Collection<T>,
}

impl<T: Send + Sync> Collection<T> {
    pub(super) fn new(inner: crate::Collection<T>) -> Self {
        Self { inner }
    }

    /// Returns a handle of the same collection with another document type. See
    /// [`Collection::clone_with_type`](crate::Collection::clone_with_type).
    pub fn clone_with_type<U: Send + Sync>(&self) -> Collection<U> {
        Collection::new(self.inner.clone_with_type())
    }

    /// Returns the client. See [`Collection::client`](crate::Collection::client).
    pub fn client(&self) -> Client {
        self.inner.client().clone().into()
    }

    /// Returns the name. See [`Collection::name`](crate::Collection::name).
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// Returns the namespace. See [`Collection::namespace`](crate::Collection::namespace).
    pub fn namespace(&self) -> Namespace {
        self.inner.namespace()
    }

    /// Returns the default time-out of a whole call. See [`Collection::timeout`](crate::Collection::timeout).
    pub fn timeout(&self) -> Option<Duration> {
        self.inner.timeout()
    }

    /// Returns the read preference, or predicate that selects servers. See
    /// [`Collection::selection_criteria`](crate::Collection::selection_criteria).
    pub fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.inner.selection_criteria()
    }

    /// Returns the read concern. See [`Collection::read_concern`](crate::Collection::read_concern).
    pub fn read_concern(&self) -> Option<&ReadConcern> {
        self.inner.read_concern()
    }

    /// Returns the write concern. See [`Collection::write_concern`](crate::Collection::write_concern).
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.inner.write_concern()
    }

    /// Runs an aggregation pipeline. See [`Collection::aggregate`](crate::Collection::aggregate).
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate<'_> {
        self.inner.aggregate(pipeline)
    }

    /// Estimates the number of documents. See
    /// [`Collection::estimated_document_count`](crate::Collection::estimated_document_count).
    pub fn estimated_document_count(&self) -> EstimatedDocumentCount<'_> {
        self.inner.estimated_document_count()
    }

    /// Counts the matching documents. See [`Collection::count_documents`](crate::Collection::count_documents).
    pub fn count_documents(&self, filter: Document) -> CountDocuments<'_> {
        self.inner.count_documents(filter)
    }

    /// Creates an index. See [`Collection::create_index`](crate::Collection::create_index).
    pub fn create_index(&self, index: IndexModel) -> CreateIndex<'_> {
        self.inner.create_index(index)
    }

    /// Creates several indexes. See [`Collection::create_indexes`](crate::Collection::create_indexes).
    pub fn create_indexes(
        &self,
        indexes: impl IntoIterator<Item = IndexModel>,
    ) -> CreateIndex<'_, Multiple> {
        self.inner.create_indexes(indexes)
    }

    /// Deletes the first matching document. See [`Collection::delete_one`](crate::Collection::delete_one).
    pub fn delete_one(&self, query: Document) -> Delete<'_> {
        self.inner.delete_one(query)
    }

    /// Deletes all matching documents. See [`Collection::delete_many`](crate::Collection::delete_many).
    pub fn delete_many(&self, query: Document) -> Delete<'_> {
        self.inner.delete_many(query)
    }

    /// Finds the distinct values of a field. See [`Collection::distinct`](crate::Collection::distinct).
    pub fn distinct(&self, field_name: impl AsRef<str>, filter: Document) -> Distinct<'_> {
        self.inner.distinct(field_name, filter)
    }

    /// Drops the collection. See [`Collection::drop`](crate::Collection::drop).
    pub fn drop(&self) -> DropCollection<'_> {
        self.inner.drop()
    }

    /// Drops an index. See [`Collection::drop_index`](crate::Collection::drop_index).
    pub fn drop_index(&self, name: impl AsRef<str>) -> DropIndex<'_> {
        self.inner.drop_index(name)
    }

    /// Drops all indexes except that on `_id`. See [`Collection::drop_indexes`](crate::Collection::drop_indexes).
    pub fn drop_indexes(&self) -> DropIndex<'_> {
        self.inner.drop_indexes()
    }

    /// Finds the matching documents. See [`Collection::find`](crate::Collection::find).
    pub fn find(&self, filter: Document) -> Find<'_, T> {
        self.inner.find(filter)
    }

    /// Lists the indexes. See [`Collection::list_indexes`](crate::Collection::list_indexes).
    pub fn list_indexes(&self) -> ListIndexes<'_> {
        self.inner.list_indexes()
    }

    /// Lists the names of the indexes. See [`Collection::list_index_names`](crate::Collection::list_index_names).
    pub fn list_index_names(&self) -> ListIndexes<'_, ListNames> {
        self.inner.list_index_names()
    }

    /// Updates the first matching document. See [`Collection::update_one`](crate::Collection::update_one).
    pub fn update_one(
        &self,
        query: Document,
        update: impl Into<UpdateModifications>,
    ) -> Update<'_> {
        self.inner.update_one(query, update)
    }

    /// Updates all matching documents. See [`Collection::update_many`](crate::Collection::update_many).
    pub fn update_many(
        &self,
        query: Document,
        update: impl Into<UpdateModifications>,
    ) -> Update<'_> {
        self.inner.update_many(query, update)
    }

    /// Opens a change stream on the collection. See [`Collection::watch`](crate::Collection::watch).
    pub fn watch(&self) -> Watch<'_, T> {
        self.inner.watch()
    }

    /// Requests the creation of a search index. See
    /// [`Collection::create_search_index`](crate::Collection::create_search_index).
    pub fn create_search_index(&self, model: SearchIndexModel) -> CreateSearchIndex<'_, Single> {
        self.inner.create_search_index(model)
    }

    /// Requests the creation of several search indexes. See
    /// [`Collection::create_search_indexes`](crate::Collection::create_search_indexes).
    pub fn create_search_indexes(
        &self,
        models: impl IntoIterator<Item = SearchIndexModel>,
    ) -> CreateSearchIndex<'_, Multiple> {
        self.inner.create_search_indexes(models)
    }

    /// Updates the definition of a search index. See
    /// [`Collection::update_search_index`](crate::Collection::update_search_index).
    pub fn update_search_index(
        &self,
        name: impl Into<String>,
        definition: Document,
    ) -> UpdateSearchIndex<'_> {
        self.inner.update_search_index(name, definition)
    }

    /// Drops a search index. See [`Collection::drop_search_index`](crate::Collection::drop_search_index).
    pub fn drop_search_index(&self, name: impl Into<String>) -> DropSearchIndex<'_> {
        self.inner.drop_search_index(name)
    }

    /// Lists the search indexes. See [`Collection::list_search_indexes`](crate::Collection::list_search_indexes).
    pub fn list_search_indexes(&self) -> ListSearchIndexes<'_> {
        self.inner.list_search_indexes()
    }
}

impl<T: DeserializeOwned + Send + Sync> Collection<T> {
    /// Finds the first matching document. See [`Collection::find_one`](crate::Collection::find_one).
    pub fn find_one(&self, filter: Document) -> FindOne<'_, T> {
        self.inner.find_one(filter)
    }

    /// Finds and deletes a document. See [`Collection::find_one_and_delete`](crate::Collection::find_one_and_delete).
    pub fn find_one_and_delete(&self, filter: Document) -> FindOneAndDelete<'_, T> {
        self.inner.find_one_and_delete(filter)
    }

    /// Finds and updates a document. See [`Collection::find_one_and_update`](crate::Collection::find_one_and_update).
    pub fn find_one_and_update(
        &self,
        filter: Document,
        update: impl Into<UpdateModifications>,
    ) -> FindOneAndUpdate<'_, T> {
        self.inner.find_one_and_update(filter, update)
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync> Collection<T> {
    /// Finds and replaces a document. See
    /// [`Collection::find_one_and_replace`](crate::Collection::find_one_and_replace).
    pub fn find_one_and_replace(
        &self,
        filter: Document,
        replacement: impl Borrow<T>,
    ) -> FindOneAndReplace<'_, T> {
        self.inner.find_one_and_replace(filter, replacement)
    }
}

impl<T: Serialize + Send + Sync> Collection<T> {
    /// Executes write models on the collection. See [`Collection::bulk_write`](crate::Collection::bulk_write).
    pub fn bulk_write(
        &self,
        models: impl IntoIterator<Item = WriteModel<T>>,
    ) -> CollectionBulkWrite<'_> {
        self.inner.bulk_write(models)
    }

    /// Creates a model that inserts a document. See
    /// [`Collection::insert_one_model`](crate::Collection::insert_one_model).
    pub fn insert_one_model(&self, document: impl Borrow<T>) -> Result<InsertOneModel> {
        self.inner.insert_one_model(document)
    }

    /// Creates a model that replaces a document. See
    /// [`Collection::replace_one_model`](crate::Collection::replace_one_model).
    pub fn replace_one_model(
        &self,
        filter: Document,
        replacement: impl Borrow<T>,
    ) -> Result<ReplaceOneModel> {
        self.inner.replace_one_model(filter, replacement)
    }

    /// Inserts documents. See [`Collection::insert_many`](crate::Collection::insert_many).
    pub fn insert_many<'a>(
        &'a self,
        documents: impl IntoIterator<Item = impl Borrow<T> + Send + Sync + 'a>,
    ) -> InsertMany<'a> {
        self.inner.insert_many(documents)
    }

    /// Inserts a document. See [`Collection::insert_one`](crate::Collection::insert_one).
    pub fn insert_one(&self, document: impl Borrow<T>) -> InsertOne<'_> {
        self.inner.insert_one(document)
    }

    /// Replaces the first matching document. See [`Collection::replace_one`](crate::Collection::replace_one).
    pub fn replace_one(&self, query: Document, replacement: impl Borrow<T>) -> ReplaceOne<'_> {
        self.inner.replace_one(query, replacement)
    }
}

impl<T: Send + Sync> Clone for Collection<T> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}

impl<T: Send + Sync> fmt::Debug for Collection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
