//! Operations under test.

use std::pin::Pin;

use steadfast::{
    Collection, IndexModel,
    bson::{Document, doc},
    error::Result,
    options::{
        DeleteManyModel, DeleteOneModel, InsertOneModel, ReplaceOneModel, UpdateManyModel,
        UpdateOneModel, WriteModel,
    },
};

pub(crate) type BookCollection = Collection<Document>;
pub(crate) type RunOperation =
    fn(BookCollection) -> Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Operation under test.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// Name of its first command.
    pub(crate) command: &'static str,
    /// Number of statements in that command.
    pub(crate) statements: usize,
    pub(crate) run: RunOperation,
}

macro_rules! operation {
    ($name:literal, $command:literal, $statements:literal, |$books:ident| $action:expr) => {
        Operation {
            name: $name,
            command: $command,
            statements: $statements,
            run: |$books| Box::pin(async move { $action.await.map(drop) }),
        }
    };
    ($name:literal, $command:literal, $statements:literal, database |$database:ident| $action:expr) => {
        Operation {
            name: $name,
            command: $command,
            statements: $statements,
            run: |books| {
                Box::pin(async move {
                    let $database = books.client().database("db");
                    $action.await.map(drop)
                })
            },
        }
    };
}

fn one() -> Document {
    doc! { "_id": 1 }
}

fn more() -> Document {
    doc! { "$inc": { "x": 1 } }
}

fn models() -> Vec<WriteModel> {
    vec![
        UpdateOneModel::new(one(), more()).into(),
        ReplaceOneModel::new(doc! { "_id": 2 }, doc! { "x": 2 }).into(),
        DeleteOneModel::new(doc! { "_id": 3 }).into(),
        InsertOneModel::new(doc! { "_id": 4 }).into(),
    ]
}

/// Returns all retryable writes.
pub(crate) fn retryable_writes() -> Vec<Operation> {
    vec![
        operation!("insert_one", "insert", 1, |books| books.insert_one(one())),
        operation!("insert_many", "insert", 3, |books| books.insert_many([
            one(),
            doc! { "_id": 2 },
            doc! { "_id": 3 }
        ])),
        operation!("update_one", "update", 1, |books| books.update_one(one(), more())),
        operation!("replace_one", "update", 1, |books| books.replace_one(one(), doc! { "x": 2 })),
        operation!("delete_one", "delete", 1, |books| books.delete_one(one())),
        operation!("find_one_and_update", "findAndModify", 1, |books| books
            .find_one_and_update(one(), more())),
        operation!("find_one_and_replace", "findAndModify", 1, |books| books
            .find_one_and_replace(one(), doc! { "x": 2 })),
        operation!("find_one_and_delete", "findAndModify", 1, |books| books
            .find_one_and_delete(one())),
        operation!("bulk_write", "update", 2, |books| books.bulk_write(models())),
        operation!("unordered bulk_write of inserts", "insert", 2, |books| books
            .bulk_write([
                InsertOneModel::new(one()).into(),
                InsertOneModel::new(doc! { "_id": 2 }).into(),
            ])
            .ordered(false)),
    ]
}

/// Returns all writes that are not retryable.
pub(crate) fn other_writes() -> Vec<Operation> {
    vec![
        operation!("update_many", "update", 1, |books| books.update_many(doc! {}, more())),
        operation!("delete_many", "delete", 1, |books| books.delete_many(doc! {})),
        operation!("bulk_write with update_many", "update", 2, |books| {
            let many = UpdateManyModel::new(doc! {}, more()).into();
            books.bulk_write([UpdateOneModel::new(one(), more()).into(), many])
        }),
        operation!("bulk_write with delete_many", "delete", 1, |books| {
            books.bulk_write([DeleteManyModel::new(doc! {}).into()])
        }),
        operation!("aggregate with $out", "aggregate", 0, |books| {
            books.aggregate([doc! { "$match": {} }, doc! { "$out": "copies" }])
        }),
        operation!("aggregate with $merge", "aggregate", 0, |books| {
            books.aggregate([doc! { "$merge": "copies" }])
        }),
        operation!(
            "run_command",
            "insert",
            1,
            database | database | {
                database.run_command(doc! { "insert": "books", "documents": [one()] })
            }
        ),
        operation!(
            "create_collection",
            "create",
            0,
            database | database | { database.create_collection("copies") }
        ),
        operation!("drop", "drop", 0, |books| books.drop()),
        operation!("drop of a database", "dropDatabase", 0, database | database | database.drop()),
        operation!("create_index", "createIndexes", 0, |books| {
            books.create_index(IndexModel::builder().keys(doc! { "x": 1 }).build())
        }),
        operation!("drop_indexes", "dropIndexes", 0, |books| books.drop_indexes()),
    ]
}

/// Returns all reads.
pub(crate) fn reads() -> Vec<Operation> {
    vec![
        operation!("find", "find", 0, |books| books.find(doc! {})),
        operation!("find_one", "find", 0, |books| books.find_one(doc! {})),
        operation!("aggregate", "aggregate", 0, |books| books.aggregate([doc! { "$match": {} }])),
        operation!("count_documents", "aggregate", 0, |books| books.count_documents(doc! {})),
        operation!("estimated_document_count", "count", 0, |books| {
            books.estimated_document_count()
        }),
        operation!("distinct", "distinct", 0, |books| books.distinct("x", doc! {})),
        operation!("list_indexes", "listIndexes", 0, |books| books.list_indexes()),
        operation!("list_index_names", "listIndexes", 0, |books| books.list_index_names()),
        operation!(
            "list_collections",
            "listCollections",
            0,
            database | database | { database.list_collections() }
        ),
        operation!(
            "list_collection_names",
            "listCollections",
            0,
            database | database | { database.list_collection_names() }
        ),
        operation!("list_databases", "listDatabases", 0, |books| books.client().list_databases()),
        operation!("list_database_names", "listDatabases", 0, |books| {
            books.client().list_database_names()
        }),
    ]
}

/// Returns the write with this name.
pub(crate) fn write(name: &str) -> Operation {
    let mut all = retryable_writes().into_iter().chain(other_writes());
    all.find(|operation| operation.name == name).expect("a known operation")
}
