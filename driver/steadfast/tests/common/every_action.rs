//! Macro that runs every action that sends a command, for options that all actions have.

/// Runs every action that sends a command, with the tokens after the client appended to each, and returns names and
/// results. `in "name"` selects the database.
macro_rules! every_action {
    (in $name:expr, $client:expr, $($run:tt)*) => {{
        use steadfast::{
            IndexModel, SearchIndexModel,
            bson::{Document, doc, rawdoc},
            options::InsertOneModel,
        };
        let client = &$client;
        let database = client.database($name);
        let c = database.collection::<Document>("every_action");
        let other = client.database(&format!("{}_dropped", $name));
        let model = SearchIndexModel::builder().definition(doc! {}).build();
        let index = |key: &str| IndexModel::builder().keys(doc! { key: 1 }).build();
        let set = doc! { "$set": { "x": 1 } };
        let bulk = [InsertOneModel::new(doc! {}).into()];
        let cursor = doc! { "find": "every_action" };
        let raw_cursor = rawdoc! { "find": "every_action" };
        vec![
            ("list_databases", client.list_databases() $($run)*.await.map(drop)),
            ("list_database_names", client.list_database_names() $($run)*.await.map(drop)),
            ("Database::drop", other.drop() $($run)*.await),
            ("Collection::drop", c.drop() $($run)*.await),
            ("create_collection", database.create_collection("every_action") $($run)*.await),
            ("list_collections", database.list_collections() $($run)*.await.map(drop)),
            ("list_collection_names", database.list_collection_names() $($run)*.await.map(drop)),
            ("run_command", database.run_command(doc! { "ping": 1 }) $($run)*.await.map(drop)),
            ("run_raw", database.run_raw_command(rawdoc! { "ping": 1 }) $($run)*.await.map(drop)),
            ("run_cursor_command", database.run_cursor_command(cursor) $($run)*.await.map(drop)),
            ("run_raw_cursor", database.run_raw_cursor_command(raw_cursor) $($run)*.await.map(drop)),
            ("Database::aggregate", database.aggregate([doc! { "$documents": [] }]) $($run)*.await.map(drop)),
            ("insert_one", c.insert_one(doc! { "_id": 1 }) $($run)*.await.map(drop)),
            ("insert_many", c.insert_many([doc! {}, doc! {}]) $($run)*.await.map(drop)),
            ("bulk_write", c.bulk_write(bulk) $($run)*.await.map(drop)),
            ("update_one", c.update_one(doc! {}, set.clone()) $($run)*.await.map(drop)),
            ("update_many", c.update_many(doc! {}, set.clone()) $($run)*.await.map(drop)),
            ("replace_one", c.replace_one(doc! {}, doc! {}) $($run)*.await.map(drop)),
            ("find_one_and_update", c.find_one_and_update(doc! {}, set) $($run)*.await.map(drop)),
            ("find_one_and_replace", c.find_one_and_replace(doc! {}, doc! {}) $($run)*.await.map(drop)),
            ("find_one_and_delete", c.find_one_and_delete(doc! {}) $($run)*.await.map(drop)),
            ("find", c.find(doc! {}) $($run)*.await.map(drop)),
            ("find_one", c.find_one(doc! {}) $($run)*.await.map(drop)),
            ("aggregate", c.aggregate([doc! { "$match": {} }]) $($run)*.await.map(drop)),
            ("distinct", c.distinct("x", doc! {}) $($run)*.await.map(drop)),
            ("count_documents", c.count_documents(doc! {}) $($run)*.await.map(drop)),
            ("estimated_document_count", c.estimated_document_count() $($run)*.await.map(drop)),
            ("delete_one", c.delete_one(doc! {}) $($run)*.await.map(drop)),
            ("delete_many", c.delete_many(doc! {}) $($run)*.await.map(drop)),
            ("create_index", c.create_index(index("x")) $($run)*.await.map(drop)),
            ("create_indexes", c.create_indexes([index("y")]) $($run)*.await.map(drop)),
            ("list_indexes", c.list_indexes() $($run)*.await.map(drop)),
            ("list_index_names", c.list_index_names() $($run)*.await.map(drop)),
            ("drop_index", c.drop_index("x_1") $($run)*.await),
            ("drop_indexes", c.drop_indexes() $($run)*.await),
            ("create_search_index", c.create_search_index(model.clone()) $($run)*.await.map(drop)),
            ("create_search_indexes", c.create_search_indexes([model]) $($run)*.await.map(drop)),
            ("update_search_index", c.update_search_index("i", doc! {}) $($run)*.await),
            ("drop_search_index", c.drop_search_index("i") $($run)*.await),
            ("list_search_indexes", c.list_search_indexes() $($run)*.await.map(drop)),
        ]
    }};
    ($client:expr, $($run:tt)*) => {
        every_action!(in "actions", $client, $($run)*)
    };
}
pub(crate) use every_action;
