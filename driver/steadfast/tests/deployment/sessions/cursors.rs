//! Cursors in explicit sessions.

use futures_util::{StreamExt, TryStreamExt};
use serde::Deserialize;
use steadfast::{
    IndexModel,
    bson::{Document, doc},
};

use super::{assert_invalid_argument, collection};

#[derive(Debug, PartialEq, Deserialize)]
struct Number {
    #[serde(rename = "_id")]
    id: i32,
}

#[tokio::test]
async fn a_session_cursor_returns_documents_by_every_method() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, log) = collection("cursor_ways", 7).await;
    let mut session = client.start_session().await.unwrap();
    let find = numbers.find(doc! {}).sort(doc! { "_id": 1 }).batch_size(2);
    let mut cursor = find.session(&mut session).await.unwrap().with_type::<Number>();

    assert!(cursor.has_next());
    assert_eq!(cursor.next(&mut session).await.unwrap().unwrap(), Number { id: 0 });
    // The session can be used between two documents.
    numbers.insert_one(doc! { "_id": 100 }).session(&mut session).await.unwrap();
    assert!(cursor.advance(&mut session).await.unwrap());
    assert_eq!(cursor.current().get_i32("_id").unwrap(), 1);
    assert_eq!(cursor.deserialize_current().unwrap(), Number { id: 1 });
    assert!(cursor.try_advance(&mut session).await.unwrap());
    assert_eq!(cursor.stream(&mut session).try_next().await.unwrap(), Some(Number { id: 3 }));
    let rest: Vec<_> = cursor.stream(&mut session).try_collect().await.unwrap();
    assert_eq!(rest, [4, 5, 6, 100].map(|id| Number { id }));
    assert!(!cursor.advance(&mut session).await.unwrap() && !cursor.has_next());
    assert!(cursor.next(&mut session).await.is_none());

    assert!(log.named("getMore").len() >= 3);
    assert_eq!(log.sessions(), [session.id().clone()]);
}

#[tokio::test]
async fn a_cursor_rejects_another_session_and_keeps_its_position() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, log) = collection("cursor_foreign", 4).await;
    let mut session = client.start_session().await.unwrap();
    let mut other = client.start_session().await.unwrap();
    let find = numbers.find(doc! {}).sort(doc! { "_id": 1 }).batch_size(2);
    let mut cursor = find.session(&mut session).await.unwrap();
    assert!(cursor.advance(&mut session).await.unwrap());

    assert_invalid_argument(&cursor.advance(&mut other).await.unwrap_err());
    assert_invalid_argument(&cursor.try_advance(&mut other).await.unwrap_err());
    assert_invalid_argument(&cursor.next(&mut other).await.unwrap().unwrap_err());
    // The stream returns the error once and then ends, so that a loop over it ends.
    let told: Vec<_> = cursor.stream(&mut other).collect().await;
    assert_eq!(told.len(), 1);
    assert_invalid_argument(told[0].as_ref().unwrap_err());

    assert!(log.named("getMore").is_empty());
    assert_eq!(cursor.current().get_i32("_id").unwrap(), 0);
    let rest: Vec<_> = cursor.stream(&mut session).try_collect().await.unwrap();
    assert_eq!(rest, [1, 2, 3].map(|id| doc! { "_id": id }));

    // Also if the session of the cursor was dropped and another session has its id.
    let id = session.id().clone();
    let mut cursor = numbers.find(doc! {}).session(&mut session).await.unwrap();
    drop(session);
    let mut successor = client.start_session().await.unwrap();
    assert_eq!(successor.id(), &id);
    assert_invalid_argument(&cursor.advance(&mut successor).await.unwrap_err());
}

#[tokio::test]
async fn every_cursor_can_be_read_in_a_session() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, log) = collection("cursor_kinds", 5).await;
    let database = client.database("sessions");
    let by_x = IndexModel::builder().keys(doc! { "x": 1 }).build();
    numbers.create_index(by_x).await.unwrap();
    let mut session = client.start_session().await.unwrap();
    log.clear();

    let matching = numbers.aggregate([doc! { "$match": { "_id": { "$gt": 0 } } }]).batch_size(2);
    let mut matching = matching.with_type::<Number>().session(&mut session).await.unwrap();
    let matching: Vec<Number> = matching.stream(&mut session).try_collect().await.unwrap();
    assert_eq!(matching.len(), 4);

    let documents = [doc! { "$documents": [{ "x": 1 }, { "x": 2 }, { "x": 3 }] }];
    let documents = database.aggregate(documents).session(&mut session).batch_size(1);
    let mut documents = documents.await.unwrap();
    let documents: Vec<Document> = documents.stream(&mut session).try_collect().await.unwrap();
    assert_eq!(documents.len(), 3);

    let mut indexes = numbers.list_indexes().session(&mut session).batch_size(1).await.unwrap();
    let indexes: Vec<IndexModel> = indexes.stream(&mut session).try_collect().await.unwrap();
    assert_eq!(indexes.len(), 2);
    let names = numbers.list_index_names().session(&mut session).batch_size(1).await.unwrap();
    assert_eq!(names, ["_id_", "x_1"]);

    let only = doc! { "name": "cursor_kinds" };
    let collections = database.list_collections().filter(only.clone()).session(&mut session);
    let mut collections = collections.await.unwrap();
    assert_eq!(collections.next(&mut session).await.unwrap().unwrap().name, "cursor_kinds");
    let names = database.list_collection_names().session(&mut session).filter(only).await.unwrap();
    assert_eq!(names, ["cursor_kinds"]);

    let find = doc! { "find": "cursor_kinds", "batchSize": 2 };
    let mut found = database.run_cursor_command(find).session(&mut session).await.unwrap();
    let found: Vec<Document> = found.stream(&mut session).try_collect().await.unwrap();
    assert_eq!(found.len(), 5);

    assert!(log.named("getMore").len() >= 5);
    assert_eq!(log.sessions(), [session.id().clone()]);
}

#[tokio::test]
async fn a_dropped_session_cursor_is_killed_in_its_session_which_stays_clean() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, log) = collection("cursor_killed", 5).await;
    let mut session = client.start_session().await.unwrap();
    let id = session.id().clone();
    let find = numbers.find(doc! {}).batch_size(2).session(&mut session);
    drop(find.await.unwrap());
    // The session can be used while the cursor is killed in the background.
    for _ in 0..5 {
        numbers.find_one(doc! {}).session(&mut session).await.unwrap();
    }
    log.wait_for("killCursors", 1).await;
    assert_eq!(log.last("killCursors").get_document("lsid").unwrap(), &id);
    drop(session);
    client.shutdown().await;
    assert_eq!(log.last("endSessions").get_array("endSessions").unwrap(), &[id.into()]);
}

#[tokio::test]
async fn batches_are_whole_replies_and_end_with_the_cursor() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, log) = collection("cursor_batches", 7).await;
    let counts = |batches: &[steadfast::raw_batch_cursor::RawBatch]| -> Vec<usize> {
        batches.iter().map(|batch| batch.doc_slices().unwrap().into_iter().count()).collect()
    };
    let find = || numbers.find(doc! {}).batch_size(3);
    let batches: Vec<_> = find().batch().await.unwrap().try_collect().await.unwrap();
    assert_eq!(counts(&batches), [3, 3, 1]);
    // The server leaves a cursor open at its limit.
    let limited: Vec<_> = find().limit(5).batch().await.unwrap().try_collect().await.unwrap();
    assert_eq!(counts(&limited), [3, 2]);
    let aggregated = numbers.aggregate([doc! { "$match": { "_id": { "$lt": 2 } } }]);
    let batches: Vec<_> = aggregated.batch().await.unwrap().try_collect().await.unwrap();
    assert_eq!(counts(&batches), [2]);

    let mut session = client.start_session().await.unwrap();
    let mut other = client.start_session().await.unwrap();
    let mut cursor = find().session(&mut session).batch().await.unwrap();
    assert_invalid_argument(&cursor.stream(&mut other).try_next().await.unwrap_err());
    let batches: Vec<_> = cursor.stream(&mut session).try_collect().await.unwrap();
    assert_eq!(counts(&batches), [3, 3, 1]);
    assert!(cursor.stream(&mut session).next().await.is_none());
    assert_eq!(log.named("getMore").len(), 2 + 1 + 2);
}
