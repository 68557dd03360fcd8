//! Errors of a real server that are caused by the document.

use steadfast::{IndexModel, options::IndexOptions};
use steadfast_patterns::local_writes::LocalWriteError;

use super::*;

/// Returns a collection of a real replica set with a validator and indexes.
async fn with_rules() -> Collection<Document> {
    let client = Client::with_uri_str(testbed::shared::replica_set().unwrap().uri()).await.unwrap();
    let database = client.database("local_writing");
    database.drop().await.unwrap();
    let validator = doc! { "age": { "$not": { "$lt": 0 } } };
    database.create_collection("messages").validator(validator).await.unwrap();
    let messages = database.collection("messages");
    let unique = IndexOptions::builder().unique(true).build();
    let index = |keys| IndexModel::builder().keys(keys).build();
    let unique = IndexModel::builder().keys(doc! { "message_id": 1 }).options(unique).build();
    let indexes = [unique, index(doc! { "place": "2dsphere" }), index(doc! { "a": 1, "b": 1 })];
    messages.create_indexes(indexes).await.unwrap();
    messages
}

/// Returns nested documents.
fn nested(levels: usize) -> Document {
    (0..levels).fold(doc! {}, |inner, _| doc! { "of": inner })
}

#[tokio::test]
async fn unparsable_document_does_not_fail_the_others_of_its_batch() {
    testbed::require!(V6_0);
    let client = Client::with_uri_str(testbed::shared::replica_set().unwrap().uri()).await.unwrap();
    let messages = client.database("local_writing_deep").collection::<Document>("messages");
    messages.drop().await.unwrap();
    let writer = LocalWriter::builder()
        .datacenter("alfa", &messages)
        .acknowledged_within(TEST_TIMEOUT)
        .build()
        .unwrap();
    let mut documents: Vec<_> = (0..20).map(message).collect();
    for deep in [3, 4, 19] {
        documents[deep].insert("of", nested(200));
    }
    let results = writer.insert_many(&documents).await;
    assert_eq!(results.len(), 20);
    for (nth, result) in results.iter().enumerate() {
        if [3, 4, 19].contains(&nth) {
            assert!(matches!(result, Err(LocalWriteError::Rejected { .. })), "{nth}: {result:?}");
            continue;
        }
        let id = result.as_ref().unwrap().id();
        let found = messages.find_one(doc! { "_id": id }).await.unwrap().expect("it is there");
        assert_eq!(found.get("message_id"), documents[nth].get("message_id"));
    }
    assert_eq!(messages.count_documents(doc! {}).await.unwrap(), 17);
    assert_eq!(up(&writer), [true]);
    let metrics = writer.metrics();
    assert_eq!((metrics.rejected, metrics.datacenters[0].written), (3, 17));
}

#[tokio::test]
async fn rejected_document_does_not_mark_a_real_server_down() {
    testbed::require!(V6_0);
    let bravo = Deployment::replica_set(1).start();
    let (at_alfa, at_bravo) = (with_rules().await, messages(&bravo).await);
    let writer = LocalWriter::builder()
        .datacenter("alfa", &at_alfa)
        .datacenter("bravo", &at_bravo)
        .acknowledged_within(TEST_TIMEOUT)
        .build()
        .unwrap();
    writer.insert(&message(1)).await.unwrap();
    let assert_build_error = [
        ("a duplicate key", message(1)),
        ("a validator", doc! { "message_id": 2, "age": -1 }),
        ("no place on earth", doc! { "message_id": 3, "place": "nowhere" }),
        ("two arrays in an index", doc! { "message_id": 4, "a": [1, 2], "b": [1, 2] }),
        ("too large", doc! { "message_id": 5, "text": "x".repeat(17 << 20) }),
        ("too deep", doc! { "message_id": 7, "of": nested(200) }),
    ];
    for (rule, document) in &assert_build_error {
        let error = writer.insert(document).await.unwrap_err();
        let LocalWriteError::Rejected { attempts, .. } = error else { panic!("{rule}: {error}") };
        let [rejection] = &attempts[..] else { panic!("{rule}: {attempts:?}") };
        assert_eq!(rejection.datacenter, "alfa");
        assert!(!rejection.may_have_left_a_copy(), "{rule}: {rejection:?}");
    }
    let mut documents: Vec<_> =
        assert_build_error.iter().map(|(_, document)| document.clone()).collect();
    documents.push(message(6));
    let mut results = writer.insert_many(documents).await;
    assert_eq!(results.pop().unwrap().unwrap().datacenter(), "alfa");
    for ((rule, _), result) in assert_build_error.iter().zip(results) {
        let error = result.unwrap_err();
        assert!(matches!(error, LocalWriteError::Rejected { .. }), "{rule}: {error}");
        assert_eq!(error.may_be_in().count(), 0, "{rule}: {error:?}");
    }
    assert_eq!(up(&writer), [true, true]);
    assert_eq!(at_alfa.count_documents(doc! {}).await.unwrap(), 2);
    assert_eq!(at_bravo.count_documents(doc! {}).await.unwrap(), 0);
}
