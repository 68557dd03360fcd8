//! Writes to a real replica set: every write method, large batches, failing bulk writes and unacknowledged writes.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use steadfast::{
    Client, Collection,
    bson::{Bson, Document, RawDocumentBuf, doc, rawdoc},
    error::{BulkWriteError, Error, ErrorKind, InsertManyError, Result, WriteFailure},
    event::{EventHandler, command::CommandEvent},
    options::{
        ClientOptions, Collation, CollationStrength, DeleteManyModel, DeleteOneModel, Hint,
        InsertOneModel, ReplaceOneModel, ReturnDocument, UpdateManyModel, UpdateOneModel,
        WriteConcern, WriteModel,
    },
};

/// Commands that a client sent, with their operation ids.
type SentOperations = Arc<Mutex<Vec<(Option<i64>, Document)>>>;

async fn client() -> (Client, SentOperations) {
    let uri = testbed::shared::uri().expect("a deployment");
    let mut options = ClientOptions::parse(&uri).await.expect("a valid connection string");
    let sent = SentOperations::default();
    let log = Arc::clone(&sent);
    options.command_event_handler = Some(EventHandler::callback(move |event| {
        if let CommandEvent::Started(event) = event {
            let command = summary(event.command);
            log.lock().unwrap().push((Some(event.operation_id), command));
        }
    }));
    (Client::with_options(options).expect("a client"), sent)
}

/// Returns a command with the number of its documents instead of the documents.
fn summary(mut command: Document) -> Document {
    for field in ["documents", "updates", "deletes"] {
        if let Some(Bson::Array(statements)) = command.remove(field) {
            command.insert(field, i64::try_from(statements.len()).unwrap());
        }
    }
    command
}

/// Creates an empty collection of the test, and records the commands of its client.
async fn fresh<T: Send + Sync>() -> (Collection<T>, SentOperations) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (client, sent) = client().await;
    let name = format!("c{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let collection = client.database("writes").collection(&name);
    collection.delete_many(doc! {}).await.expect("an empty collection");
    sent.lock().unwrap().clear();
    (collection, sent)
}

async fn seeded(
    documents: impl IntoIterator<Item = Document>,
) -> (Collection<Document>, SentOperations) {
    let (collection, sent) = fresh::<Document>().await;
    collection.insert_many(documents).await.expect("the documents are inserted");
    sent.lock().unwrap().clear();
    (collection, sent)
}

fn bulk_error(error: &Error) -> &BulkWriteError {
    match &*error.kind {
        ErrorKind::BulkWrite(error) => error,
        other => panic!("{other:?}"),
    }
}

fn insert_many_error(error: &Error) -> &InsertManyError {
    match &*error.kind {
        ErrorKind::InsertMany(error) => error,
        other => panic!("{other:?}"),
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct TypedBook {
    #[serde(rename = "_id")]
    id: i32,
    title: String,
}

fn book(id: i32) -> TypedBook {
    TypedBook { id, title: format!("title {id}") }
}

#[tokio::test]
async fn insert_one_returns_the_id_that_is_stored() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (books, _) = fresh::<Document>().await;
    let generated = books.insert_one(doc! { "x": 1 }).await?.inserted_id;
    assert!(generated.as_object_id().is_some());
    let stored = books.find_one(doc! { "_id": generated.clone() }).await?;
    assert_eq!(stored, Some(doc! { "_id": generated, "x": 1 }));
    let given = books.insert_one(doc! { "x": 2, "_id": "mine" }).comment("note").await?;
    assert_eq!(given.inserted_id, Bson::from("mine"));

    let error = books.insert_one(doc! { "_id": "mine" }).await.unwrap_err();
    assert!(error.is_duplicate_key_error());
    assert!(matches!(&*error.kind, ErrorKind::Write(WriteFailure::WriteError(_))), "{error:?}");
    assert!(error.server_address().is_some());
    Ok(())
}

#[tokio::test]
async fn typed_documents_are_written_and_read_back() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (books, _) = fresh::<TypedBook>().await;
    books.insert_one(book(1)).await?;
    books.insert_many([book(2), book(3)]).await?;
    books.insert_many(&[book(4)]).await?;
    let other = TypedBook { id: 2, title: "other".to_owned() };
    assert_eq!(books.replace_one(doc! { "_id": 2 }, &other).await?.modified_count, 1);
    assert_eq!(books.find_one(doc! { "_id": 2 }).await?, Some(other.clone()));
    assert_eq!(books.find_one_and_delete(doc! { "_id": 2 }).await?, Some(other));
    assert_eq!(books.count_documents(doc! {}).await?, 3);
    Ok(())
}

#[tokio::test]
async fn an_unmet_write_concern_is_an_error_of_an_applied_write() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    // pitfall 11
    let (books, _) = fresh::<Document>().await;
    let impossible = WriteConcern::nodes(50).with_w_timeout(Duration::from_millis(10));
    let error =
        books.insert_one(doc! { "_id": 1 }).write_concern(impossible.clone()).await.unwrap_err();
    assert!(
        matches!(&*error.kind, ErrorKind::Write(WriteFailure::WriteConcernError(_))),
        "{error:?}"
    );
    assert_eq!(books.count_documents(doc! {}).await?, 1);

    let documents = [doc! { "_id": 2 }, doc! { "_id": 3 }];
    let error = books.insert_many(documents).write_concern(impossible).await.unwrap_err();
    let failed = insert_many_error(&error);
    assert!(failed.write_concern_error.is_some());
    assert_eq!(failed.inserted_ids.len(), 2);
    Ok(())
}

#[tokio::test]
async fn insert_many_error_lists_the_inserted_ids() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    for (ordered, expected) in [(true, vec![0, 1]), (false, vec![0, 1, 3])] {
        let (books, _) = fresh::<Document>().await;
        let documents = [1, 2, 1, 3].map(|id| doc! { "_id": id });
        let error = books.insert_many(documents).ordered(ordered).await.unwrap_err();
        assert!(error.is_duplicate_key_error());
        let failed = insert_many_error(&error);
        assert_eq!(failed.write_errors.as_ref().unwrap()[0].index, 2);
        let mut inserted: Vec<_> = failed.inserted_ids.keys().copied().collect();
        inserted.sort_unstable();
        assert_eq!(inserted, expected);
        assert_eq!(books.count_documents(doc! {}).await?, expected.len() as u64);
    }
    Ok(())
}

#[tokio::test]
async fn insert_many_splits_by_max_write_batch_size() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (books, sent) = fresh::<RawDocumentBuf>().await;
    let documents = (0..100_050).map(|id| rawdoc! { "_id": id });
    let result = books.insert_many(documents).await?;
    assert_eq!(result.inserted_ids.len(), 100_050);
    assert_eq!(result.inserted_ids[&100_049], Bson::Int32(100_049));
    let sent = sent.lock().unwrap().clone();
    let sizes: Vec<_> = sent.iter().map(|(_, sent)| sent.get_i64("documents").unwrap()).collect();
    assert_eq!(sizes, [100_000, 50]);
    assert_eq!(sent[0].0, sent[1].0, "one operation, one number");
    assert_eq!(books.estimated_document_count().await?, 100_050);

    // The failing write is in the second command. Its index is that of the document in the call.
    let documents =
        (100_050..200_100).map(|id| rawdoc! { "_id": if id == 200_099 { 0 } else { id } });
    let error = books.insert_many(documents).await.unwrap_err();
    let failed = insert_many_error(&error);
    assert_eq!(failed.write_errors.as_ref().unwrap()[0].index, 100_049);
    assert_eq!(failed.inserted_ids.len(), 100_049);
    Ok(())
}

#[tokio::test]
async fn insert_many_splits_by_max_message_size_bytes() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (books, sent) = fresh::<RawDocumentBuf>().await;
    let text = "x".repeat(4 << 20);
    let documents: Vec<_> = (0..14).map(|id| rawdoc! { "_id": id, "s": text.as_str() }).collect();
    let result = books.insert_many(&documents).await?;
    assert_eq!(result.inserted_ids.len(), 14);
    let sizes: Vec<_> =
        sent.lock().unwrap().iter().map(|(_, sent)| sent.get_i64("documents").unwrap()).collect();
    assert_eq!(sizes, [11, 3]);
    assert_eq!(books.count_documents(doc! {}).await?, 14);
    books.drop().await
}

#[tokio::test]
async fn documents_above_max_bson_object_size_are_rejected() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (books, sent) = fresh::<RawDocumentBuf>().await;
    let of_size = |id: i32, size: usize| {
        let text = "x".repeat(size - 22);
        rawdoc! { "_id": id, "s": text }
    };
    books.insert_many([of_size(1, 16 << 20)]).await?;
    sent.lock().unwrap().clear();
    let error = books.insert_many([of_size(2, 100), of_size(3, (16 << 20) + 1)]).await.unwrap_err();
    assert!(error.is_invalid_argument(), "{error}");
    assert!(sent.lock().unwrap().is_empty(), "nothing is sent");
    books.drop().await
}

#[tokio::test]
async fn empty_insert_many_and_bulk_write_are_errors() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (books, _) = fresh::<Document>().await;
    assert!(books.insert_many(Vec::<Document>::new()).await.unwrap_err().is_invalid_argument());
    assert!(books.bulk_write([]).await.unwrap_err().is_invalid_argument());
    Ok(())
}

#[tokio::test]
async fn update_one_and_update_many_return_their_counts() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (books, _) = seeded((0..5).map(|id| doc! { "_id": id, "x": 1 })).await;
    let one = books.update_one(doc! { "x": 1 }, doc! { "$set": { "x": 2 } }).await?;
    assert_eq!((one.matched_count, one.modified_count, one.upserted_id), (1, 1, None));
    let many = books.update_many(doc! {}, doc! { "$set": { "x": 2 } }).await?;
    assert_eq!((many.matched_count, many.modified_count), (5, 4));
    let pipeline = vec![doc! { "$set": { "y": { "$add": ["$x", "$$more"] } } }];
    let piped = books.update_many(doc! {}, pipeline).let_vars(doc! { "more": 40 }).await?;
    assert_eq!(piped.modified_count, 5);
    assert_eq!(books.count_documents(doc! { "y": 42 }).await?, 5);
    let upserted =
        books.update_one(doc! { "_id": "new" }, doc! { "$set": { "x": 1 } }).upsert(true).await?;
    assert_eq!((upserted.matched_count, upserted.upserted_id), (0, Some(Bson::from("new"))));
    Ok(())
}

#[tokio::test]
async fn update_one_applies_its_options() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (books, _) = seeded([doc! { "_id": "A", "n": [1, 5, 9] }]).await;
    let insensitive =
        Collation::builder().locale("en").strength(CollationStrength::Primary).build();
    let result = books
        .update_one(doc! { "_id": "a" }, doc! { "$set": { "n.$[big]": 0 } })
        .array_filters(vec![doc! { "big": { "$gt": 4 } }])
        .collation(insensitive)
        .hint(Hint::Keys(doc! { "_id": 1 }))
        .comment(Bson::from("note"))
        .bypass_document_validation(true)
        .await?;
    assert_eq!(result.modified_count, 1);
    let stored = books.find_one(doc! {}).await?.unwrap();
    assert_eq!(stored, doc! { "_id": "A", "n": [1, 0, 0] });
    let error =
        books.update_one(doc! {}, doc! { "$set": { "x": 1 } }).hint(Hint::Name("no".into())).await;
    assert!(error.is_err());
    Ok(())
}

#[tokio::test]
async fn replace_one_replaces_and_upserts() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (books, _) = seeded([doc! { "_id": 1, "x": 1 }]).await;
    let replaced = books.replace_one(doc! { "x": 1 }, doc! { "y": 2 }).await?;
    assert_eq!((replaced.matched_count, replaced.modified_count), (1, 1));
    assert_eq!(books.find_one(doc! {}).await?, Some(doc! { "_id": 1, "y": 2 }));
    let upserted = books.replace_one(doc! { "_id": 2 }, doc! { "z": 1 }).upsert(true).await?;
    assert_eq!(upserted.upserted_id, Some(Bson::from(2)));
    let error = books.replace_one(doc! {}, doc! { "$set": { "x": 1 } }).await.unwrap_err();
    assert!(error.is_invalid_argument());
    Ok(())
}

#[tokio::test]
async fn delete_one_and_delete_many_return_their_counts() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (books, _) = seeded((0..5).map(|id| doc! { "_id": id, "x": 1 })).await;
    assert_eq!(books.delete_one(doc! { "x": 1 }).await?.deleted_count, 1);
    let hinted = books.delete_many(doc! { "_id": { "$lt": 3 } }).hint(Hint::Name("_id_".into()));
    assert_eq!(hinted.await?.deleted_count, 2);
    assert_eq!(books.delete_many(doc! {}).await?.deleted_count, 2);
    assert_eq!(books.delete_one(doc! {}).await?.deleted_count, 0);
    Ok(())
}

#[tokio::test]
async fn find_one_and_update_replace_and_delete_return_the_document() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (books, _) = seeded((0..3).map(|id| doc! { "_id": id, "x": id })).await;
    let increment = doc! { "$inc": { "x": 10 } };
    let before = books.find_one_and_update(doc! {}, increment.clone()).sort(doc! { "_id": -1 });
    assert_eq!(before.await?, Some(doc! { "_id": 2, "x": 2 }));
    let after = books
        .find_one_and_update(doc! { "_id": 2 }, increment)
        .return_document(ReturnDocument::After)
        .projection(doc! { "_id": 0 })
        .max_time(Duration::from_secs(10));
    assert_eq!(after.await?, Some(doc! { "x": 22 }));
    let replaced = books
        .find_one_and_replace(doc! { "_id": 9 }, doc! { "new": true })
        .upsert(true)
        .return_document(ReturnDocument::After);
    assert_eq!(replaced.await?, Some(doc! { "_id": 9, "new": true }));
    let gone = books.find_one_and_delete(doc! { "_id": 9 });
    assert_eq!(gone.await?, Some(doc! { "_id": 9, "new": true }));
    assert_eq!(books.find_one_and_delete(doc! { "_id": 9 }).await?, None);
    Ok(())
}

#[tokio::test]
async fn bulk_write_executes_every_write_model() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    for ordered in [true, false] {
        let (books, sent) = seeded((0..6).map(|id| doc! { "_id": id, "x": 0 })).await;
        let set = doc! { "$set": { "x": 1 } };
        let models: [WriteModel<Document>; 8] = [
            InsertOneModel::new(doc! { "_id": 10 }).into(),
            UpdateOneModel::new(doc! { "_id": 0 }, set.clone()).into(),
            UpdateManyModel::new(doc! { "_id": { "$in": [1, 2] } }, set.clone()).into(),
            UpdateOneModel::new(doc! { "_id": 11 }, set).upsert(true).into(),
            ReplaceOneModel::new(doc! { "_id": 3 }, doc! { "y": 1 }).into(),
            DeleteOneModel::new(doc! { "_id": 4 }).into(),
            DeleteManyModel::new(doc! { "_id": 5 }).into(),
            InsertOneModel::new(doc! { "_id": 12 }).into(),
        ];
        let result = books.bulk_write(models).ordered(ordered).await?;
        assert_eq!((result.inserted_count, result.deleted_count), (2, 2));
        assert_eq!((result.matched_count, result.modified_count), (4, 4));
        assert_eq!(result.inserted_ids, [(0, Bson::from(10)), (7, Bson::from(12))].into());
        assert_eq!(result.upserted_count, 1);
        assert_eq!(result.upserted_ids, [(3, Bson::from(11))].into());
        assert_eq!(books.count_documents(doc! {}).await?, 7);
        let sent = sent.lock().unwrap();
        let writes: Vec<_> = sent.iter().filter(|(_, sent)| sent.contains_key("ordered")).collect();
        assert_eq!(writes.len(), if ordered { 4 } else { 3 });
        assert!(writes.iter().all(|(operation, _)| *operation == writes[0].0));
    }
    Ok(())
}

/// Returns two inserts, the second with a duplicate key, between an update and a delete.
fn failing() -> [WriteModel<Document>; 5] {
    [
        UpdateOneModel::new(doc! { "_id": 0 }, doc! { "$set": { "x": 1 } }).into(),
        InsertOneModel::new(doc! { "_id": 1 }).into(),
        InsertOneModel::new(doc! { "_id": 0 }).into(),
        InsertOneModel::new(doc! { "_id": 2 }).into(),
        DeleteOneModel::new(doc! { "_id": 0 }).into(),
    ]
}

#[tokio::test]
async fn ordered_bulk_write_stops_at_the_first_write_error() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (books, _) = seeded([doc! { "_id": 0 }]).await;
    let error = books.bulk_write(failing()).await.unwrap_err();
    let failed = bulk_error(&error);
    assert_eq!(failed.write_errors.keys().copied().collect::<Vec<_>>(), [2]);
    assert_eq!(failed.write_errors[&2].code, 11000);
    let partial = failed.partial_collection_result.as_ref().unwrap();
    assert_eq!((partial.matched_count, partial.inserted_count, partial.deleted_count), (1, 1, 0));
    assert_eq!(partial.inserted_ids, [(1, Bson::from(1))].into());
    assert_eq!(books.count_documents(doc! {}).await?, 2);
    Ok(())
}

#[tokio::test]
async fn an_unordered_bulk_write_continues_after_a_write_error() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (books, _) = seeded([doc! { "_id": 0 }]).await;
    let error = books.bulk_write(failing()).ordered(false).await.unwrap_err();
    let failed = bulk_error(&error);
    assert_eq!(failed.write_errors.keys().copied().collect::<Vec<_>>(), [2]);
    let partial = failed.partial_collection_result.as_ref().unwrap();
    assert_eq!((partial.matched_count, partial.inserted_count, partial.deleted_count), (1, 2, 1));
    assert_eq!(partial.inserted_ids.keys().copied().collect::<Vec<_>>(), [1, 3]);
    assert_eq!(books.count_documents(doc! {}).await?, 2);
    Ok(())
}

#[tokio::test]
async fn every_batch_of_a_bulk_write_reports_its_write_concern_error() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    // pitfall 3
    let (books, _) = seeded([doc! { "_id": 0 }]).await;
    let models: [WriteModel<Document>; 2] = [
        InsertOneModel::new(doc! { "_id": 1 }).into(),
        DeleteOneModel::new(doc! { "_id": 0 }).into(),
    ];
    let impossible = WriteConcern::nodes(50).with_w_timeout(Duration::from_millis(10));
    let error = books.bulk_write(models).write_concern(impossible).await.unwrap_err();
    let failed = bulk_error(&error);
    assert_eq!(failed.write_concern_errors.len(), 2);
    assert!(failed.write_errors.is_empty());
    let partial = failed.partial_collection_result.as_ref().unwrap();
    assert_eq!((partial.inserted_count, partial.deleted_count), (1, 1));
    Ok(())
}

#[tokio::test]
async fn bulk_write_error_has_the_partial_result_before_a_network_error() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    // pitfall 36
    const NAME: &str = "a bulk write that breaks";
    let uri = testbed::shared::uri().expect("a deployment");
    let mut options = ClientOptions::parse(&uri).await?;
    options.app_name = Some(NAME.to_owned());
    options.retry_writes = Some(false);
    let client = Client::with_options(options)?;
    let books = client.database("writes").collection::<Document>("broken");
    books.drop().await?;
    let admin = client.database("admin");
    let _point = crate::FAIL_POINT.lock().await;
    let failpoint = doc! {
        "configureFailPoint": "failCommand", "mode": { "times": 1 },
        "data": { "failCommands": ["delete"], "closeConnection": true, "appName": NAME },
    };
    admin.run_command(failpoint).await?;

    let models: [WriteModel<Document>; 3] = [
        InsertOneModel::new(doc! { "_id": 1 }).into(),
        DeleteOneModel::new(doc! { "_id": 1 }).into(),
        InsertOneModel::new(doc! { "_id": 2 }).into(),
    ];
    let error = books.bulk_write(models).await.unwrap_err();
    let failed = bulk_error(&error);
    assert!(failed.write_errors.is_empty());
    let partial = failed.partial_collection_result.as_ref().unwrap();
    assert_eq!((partial.inserted_count, partial.deleted_count), (1, 0));
    assert_eq!(partial.inserted_ids, [(0, Bson::from(1))].into());
    let source = std::error::Error::source(&error).unwrap().downcast_ref::<Error>().unwrap();
    assert!(source.is_network_error(), "{source:?}");
    assert_eq!(error.server_address(), source.server_address());
    assert_eq!(books.count_documents(doc! {}).await?, 1);
    Ok(())
}

/// Waits until the collection has `count` documents, because an unacknowledged write has no reply.
async fn wait_for_count(collection: &Collection<Document>, count: u64) {
    let reached = async {
        while collection.count_documents(doc! {}).await.expect("a count") != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, reached).await.expect("the writes arrive");
}

#[tokio::test]
async fn unacknowledged_writes_are_applied_and_return_no_counts() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (books, _) = fresh::<Document>().await;
    let none = WriteConcern::nodes(0);
    let inserted = books.insert_one(doc! { "_id": 1 }).write_concern(none.clone()).await?;
    assert_eq!(inserted.inserted_id, Bson::from(1));
    let documents = [doc! { "_id": 2 }, doc! { "_id": 3 }];
    let inserted = books.insert_many(documents).write_concern(none.clone()).await?;
    assert_eq!(inserted.inserted_ids.len(), 2);
    wait_for_count(&books, 3).await;

    // The write fails on the server; no reply reports it.
    books.insert_one(doc! { "_id": 1 }).write_concern(none.clone()).await?;
    let updated = books
        .update_one(doc! { "_id": 9 }, doc! { "$set": { "x": 1 } })
        .upsert(true)
        .write_concern(none.clone())
        .await?;
    assert_eq!((updated.matched_count, updated.upserted_id), (0, None));
    wait_for_count(&books, 4).await;
    let found = books.find_one_and_delete(doc! { "_id": 9 }).write_concern(none.clone()).await?;
    assert_eq!(found, None);
    wait_for_count(&books, 3).await;
    let hint = Hint::Keys(doc! { "_id": 1 });
    let deleted = books.delete_many(doc! {}).hint(hint).write_concern(none).await?;
    assert_eq!(deleted.deleted_count, 0);
    wait_for_count(&books, 0).await;
    Ok(())
}

#[tokio::test]
async fn an_unacknowledged_bulk_write_keeps_its_order() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (books, sent) = seeded([doc! { "_id": 0 }]).await;
    let models: [WriteModel<Document>; 3] = [
        InsertOneModel::new(doc! { "_id": 1 }).into(),
        UpdateOneModel::new(doc! { "_id": 1 }, doc! { "$set": { "_id": 1, "x": 1 } }).into(),
        DeleteManyModel::new(doc! { "x": 1 }).into(),
    ];
    let result = books.bulk_write(models).write_concern(WriteConcern::nodes(0)).await?;
    assert_eq!(result.inserted_ids, [(0, Bson::from(1))].into());
    let concerns: Vec<_> = sent
        .lock()
        .unwrap()
        .iter()
        .map(|(_, sent)| sent.get_document("writeConcern").unwrap().get_i32("w").unwrap())
        .collect();
    assert_eq!(concerns, [1, 1, 0]);
    wait_for_count(&books, 1).await;
    Ok(())
}
