//! Options of writes: `insert`, `update`, `delete`, `findAndModify` and bulk writes.

use std::time::Duration;

use bson::{Bson, Document};
use serde::{Deserialize, Serialize};
use steadfast_core::concern::WriteConcern;

use super::{Collation, Hint};

options! {
    /// Options of [`insert_one`](crate::Collection::insert_one). See the
    /// [`insert`](https://www.mongodb.com/docs/manual/reference/command/insert/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::{InsertOneOptions, WriteConcern}};
    ///
    /// let options = InsertOneOptions::builder().write_concern(WriteConcern::majority()).build();
    /// books.insert_one(doc! { "title": "1984" }).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct InsertOneOptions, InsertOneOptionsBuilder, with timeout {
        /// Skips schema validation (`bypassDocumentValidation`) if `true`. Defaults to `false`.
        bypass_document_validation: bool,
        /// Write concern (`writeConcern`). Defaults to the write concern of the collection. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
    }
}

options! {
    /// Options of [`insert_many`](crate::Collection::insert_many). See the
    /// [`insert`](https://www.mongodb.com/docs/manual/reference/command/insert/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::InsertManyOptions};
    ///
    /// let options = InsertManyOptions::builder().ordered(false).build();
    /// books.insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }]).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct InsertManyOptions, InsertManyOptionsBuilder, with timeout {
        /// Skips schema validation (`bypassDocumentValidation`) if `true`. Defaults to `false`.
        bypass_document_validation: bool,
        /// Stops after the first write error (`ordered`) if `true`, otherwise continues with the
        /// remaining documents. Defaults to `true`.
        ordered: bool,
        /// Write concern (`writeConcern`). Defaults to the write concern of the collection. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
    }
}

/// Update to apply to a document: update operators or an aggregation pipeline. See
/// [updates with a pipeline](https://www.mongodb.com/docs/manual/tutorial/update-documents-with-aggregation-pipeline/).
///
/// [`Document`] and `Vec<Document>` convert into it, so that methods accept either:
///
/// ```no_run
/// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::bson::doc;
///
/// books.update_one(doc! { "_id": 1 }, doc! { "$inc": { "copies": 1 } }).await?;
/// books.update_one(doc! { "_id": 1 }, vec![doc! { "$set": { "sold": "$copies" } }]).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum UpdateModifications {
    /// Update operators, such as `{ "$set": { "x": 1 } }`.
    Document(Document),
    /// Stages of an aggregation pipeline. Requires MongoDB 4.2 or later.
    Pipeline(Vec<Document>),
}

impl From<Document> for UpdateModifications {
    fn from(operators: Document) -> Self {
        Self::Document(operators)
    }
}

impl From<Vec<Document>> for UpdateModifications {
    fn from(stages: Vec<Document>) -> Self {
        Self::Pipeline(stages)
    }
}

options! {
    /// Options of [`update_one`](crate::Collection::update_one) and
    /// [`update_many`](crate::Collection::update_many). See the
    /// [`update`](https://www.mongodb.com/docs/manual/reference/command/update/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::UpdateOptions};
    ///
    /// let options = UpdateOptions::builder().upsert(true).build();
    /// let update = doc! { "$inc": { "copies": 1 } };
    /// books.update_one(doc! { "title": "1984" }, update).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct UpdateOptions, UpdateOptionsBuilder, with timeout {
        /// Filters for array elements (`arrayFilters`): each names the elements that a `$[name]` in
        /// the update modifies. See
        /// [`$[<identifier>]`](https://www.mongodb.com/docs/manual/reference/operator/update/positional-filtered/).
        /// Defaults to none.
        array_filters: Vec<Document>,
        /// Skips schema validation (`bypassDocumentValidation`) if `true`. Defaults to `false`.
        bypass_document_validation: bool,
        /// Inserts a document if no document matches (`upsert`) and this is `true`. Defaults to
        /// `false`.
        upsert: bool,
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Collation,
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        hint: Hint,
        /// Write concern (`writeConcern`). Defaults to the write concern of the collection. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// Variables (`let`) for the filter and for an update pipeline, used there as `$$name`.
        /// Defaults to none.
        #[serde(rename = "let")]
        let_vars: Document,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
        /// Sort order (`sort`). The first matching document in this order is updated. For
        /// `update_one` only. Requires MongoDB 8.0 or later. Defaults to the natural order.
        sort: Document,
    }
}

options! {
    /// Options of [`replace_one`](crate::Collection::replace_one). See the
    /// [`update`](https://www.mongodb.com/docs/manual/reference/command/update/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::ReplaceOptions};
    ///
    /// let options = ReplaceOptions::builder().upsert(true).build();
    /// let book = doc! { "title": "1984", "copies": 2 };
    /// books.replace_one(doc! { "title": "1984" }, book).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct ReplaceOptions, ReplaceOptionsBuilder, with timeout {
        /// Skips schema validation (`bypassDocumentValidation`) if `true`. Defaults to `false`.
        bypass_document_validation: bool,
        /// Inserts the replacement if no document matches (`upsert`) and this is `true`. Defaults
        /// to `false`.
        upsert: bool,
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Collation,
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        hint: Hint,
        /// Write concern (`writeConcern`). Defaults to the write concern of the collection. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// Variables (`let`) for the filter, used there as `$$name`. Defaults to none.
        #[serde(rename = "let")]
        let_vars: Document,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
        /// Sort order (`sort`). The first matching document in this order is replaced. Requires
        /// MongoDB 8.0 or later. Defaults to the natural order.
        sort: Document,
    }
}

impl From<ReplaceOptions> for UpdateOptions {
    fn from(replace: ReplaceOptions) -> Self {
        Self {
            array_filters: None,
            bypass_document_validation: replace.bypass_document_validation,
            upsert: replace.upsert,
            collation: replace.collation,
            hint: replace.hint,
            write_concern: replace.write_concern,
            let_vars: replace.let_vars,
            comment: replace.comment,
            sort: replace.sort,
            timeout: replace.timeout,
        }
    }
}

options! {
    /// Options of [`delete_one`](crate::Collection::delete_one) and
    /// [`delete_many`](crate::Collection::delete_many). See the
    /// [`delete`](https://www.mongodb.com/docs/manual/reference/command/delete/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::{DeleteOptions, Hint}};
    ///
    /// let options = DeleteOptions::builder().hint(Hint::Name("year_1".to_owned())).build();
    /// books.delete_many(doc! { "year": { "$lt": 1900 } }).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct DeleteOptions, DeleteOptionsBuilder, with timeout {
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Collation,
        /// Write concern (`writeConcern`). Defaults to the write concern of the collection. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        /// Requires MongoDB 4.4 or later.
        hint: Hint,
        /// Variables (`let`) for the filter, used there as `$$name`. Defaults to none.
        #[serde(rename = "let")]
        let_vars: Document,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
    }
}

/// Version of the document that a `find_one_and_update` or `find_one_and_replace` returns
/// (`returnDocument`, sent as `new`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ReturnDocument {
    /// Document before the change. The default.
    #[default]
    #[serde(rename = "before", alias = "Before")]
    Before,
    /// Document after the change.
    #[serde(rename = "after", alias = "After")]
    After,
}

options! {
    /// Options of [`find_one_and_update`](crate::Collection::find_one_and_update). See the
    /// [`findAndModify`](https://www.mongodb.com/docs/manual/reference/command/findAndModify/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::{FindOneAndUpdateOptions, ReturnDocument}};
    ///
    /// let options = FindOneAndUpdateOptions::builder().return_document(ReturnDocument::After).build();
    /// let update = doc! { "$inc": { "copies": -1 } };
    /// let book = books.find_one_and_update(doc! { "_id": 1 }, update).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct FindOneAndUpdateOptions, FindOneAndUpdateOptionsBuilder, with timeout {
        /// Filters for array elements (`arrayFilters`): each names the elements that a `$[name]` in
        /// the update modifies. See
        /// [`$[<identifier>]`](https://www.mongodb.com/docs/manual/reference/operator/update/positional-filtered/).
        /// Defaults to none.
        array_filters: Vec<Document>,
        /// Skips schema validation (`bypassDocumentValidation`) if `true`. Defaults to `false`.
        bypass_document_validation: bool,
        /// Limit on the server's processing time (`maxTimeMS`). Ignored if a `timeout`
        /// (`timeoutMS`) applies. Defaults to no limit.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Fields to include or exclude (`projection`, sent as `fields`). Defaults to all fields.
        projection: Document,
        /// Returned version of the document (`returnDocument`, sent as `new`): before the change,
        /// which is the default, or after it.
        return_document: ReturnDocument,
        /// Sort order (`sort`). The first matching document in this order is updated.
        /// Defaults to the natural order.
        sort: Document,
        /// Inserts a document if no document matches (`upsert`) and this is `true`. Defaults to
        /// `false`.
        upsert: bool,
        /// Write concern (`writeConcern`). Defaults to the write concern of the collection. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Collation,
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        /// Requires MongoDB 4.4 or later.
        hint: Hint,
        /// Variables (`let`) for the filter and for an update pipeline, used there as `$$name`.
        /// Defaults to none.
        #[serde(rename = "let")]
        let_vars: Document,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
    }
}

options! {
    /// Options of [`find_one_and_replace`](crate::Collection::find_one_and_replace). See the
    /// [`findAndModify`](https://www.mongodb.com/docs/manual/reference/command/findAndModify/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::FindOneAndReplaceOptions};
    ///
    /// let options = FindOneAndReplaceOptions::builder().upsert(true).build();
    /// let book = doc! { "title": "1984" };
    /// let old = books.find_one_and_replace(doc! { "_id": 1 }, book).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct FindOneAndReplaceOptions, FindOneAndReplaceOptionsBuilder, with timeout {
        /// Skips schema validation (`bypassDocumentValidation`) if `true`. Defaults to `false`.
        bypass_document_validation: bool,
        /// Limit on the server's processing time (`maxTimeMS`). Ignored if a `timeout`
        /// (`timeoutMS`) applies. Defaults to no limit.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Fields to include or exclude (`projection`, sent as `fields`). Defaults to all fields.
        projection: Document,
        /// Returned version of the document (`returnDocument`, sent as `new`): before the change,
        /// which is the default, or after it.
        return_document: ReturnDocument,
        /// Sort order (`sort`). The first matching document in this order is replaced.
        /// Defaults to the natural order.
        sort: Document,
        /// Inserts the replacement if no document matches (`upsert`) and this is `true`. Defaults
        /// to `false`.
        upsert: bool,
        /// Write concern (`writeConcern`). Defaults to the write concern of the collection. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Collation,
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        /// Requires MongoDB 4.4 or later.
        hint: Hint,
        /// Variables (`let`) for the filter, used there as `$$name`. Defaults to none.
        #[serde(rename = "let")]
        let_vars: Document,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
    }
}

options! {
    /// Options of [`find_one_and_delete`](crate::Collection::find_one_and_delete). See the
    /// [`findAndModify`](https://www.mongodb.com/docs/manual/reference/command/findAndModify/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::FindOneAndDeleteOptions};
    ///
    /// let options = FindOneAndDeleteOptions::builder().sort(doc! { "year": 1 }).build();
    /// let oldest = books.find_one_and_delete(doc! {}).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct FindOneAndDeleteOptions, FindOneAndDeleteOptionsBuilder, with timeout {
        /// Limit on the server's processing time (`maxTimeMS`). Ignored if a `timeout`
        /// (`timeoutMS`) applies. Defaults to no limit.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Fields to include or exclude (`projection`, sent as `fields`). Defaults to all fields.
        projection: Document,
        /// Sort order (`sort`). The first matching document in this order is deleted.
        /// Defaults to the natural order.
        sort: Document,
        /// Write concern (`writeConcern`). Defaults to the write concern of the collection. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Collation,
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        /// Requires MongoDB 4.4 or later.
        hint: Hint,
        /// Variables (`let`) for the filter, used there as `$$name`. Defaults to none.
        #[serde(rename = "let")]
        let_vars: Document,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
    }
}

options! {
    /// Options of [`Collection::bulk_write`](crate::Collection::bulk_write) and
    /// [`Client::bulk_write`](crate::Client::bulk_write). See
    /// [bulk write](https://github.com/mongodb/specifications/blob/master/source/crud/bulk-write.md).
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::{BulkWriteOptions, InsertOneModel}};
    ///
    /// let options = BulkWriteOptions::builder().ordered(false).build();
    /// let models = [InsertOneModel::new(doc! { "_id": 1 }).into()];
    /// books.bulk_write(models).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct BulkWriteOptions, BulkWriteOptionsBuilder, with timeout {
        /// Executes the writes in order and stops after the first write error (`ordered`) if
        /// `true`. If `false`, executes all of them in any order. Defaults to `true`.
        ordered: bool,
        /// Skips schema validation (`bypassDocumentValidation`) if `true`. Defaults to `false`.
        bypass_document_validation: bool,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
        /// Variables (`let`) for filters and update pipelines, used there as `$$name`.
        /// Defaults to none.
        #[serde(rename = "let")]
        let_vars: Document,
        /// Write concern (`writeConcern`). Defaults to the write concern of the collection or
        /// client. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
    }
}
