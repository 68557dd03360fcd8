//! Outcomes of commands that fail during execution on a real server, with error codes that usually precede
//! execution.

use std::sync::atomic::{AtomicU32, Ordering};

use steadfast::{
    Client, Collection, Database,
    bson::{Document, doc},
    error::{Error, Outcome},
};

/// `FailedToParse`, which `$dateAdd` raises for an unknown unit.
const FAILED_TO_PARSE: i32 = 9;

struct Collections {
    database: Database,
    source: Collection<Document>,
    target: Collection<Document>,
}

/// Creates forty documents to merge into forty others. One has an unknown unit.
async fn create_collections() -> Collections {
    create_collections_on(&testbed::shared::uri().expect("a deployment")).await
}

async fn create_collections_on(uri: &str) -> Collections {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let client = Client::with_uri_str(uri).await.expect("a client");
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let database = client.database(&format!("outcomes_{number}"));
    database.drop().await.expect("no database");
    let (source, target) = (database.collection("source"), database.collection("target"));
    let unit = |id| if id == 30 { "fortnight" } else { "day" };
    source.insert_many((0..40).map(|id| doc! { "_id": id, "unit": unit(id) })).await.unwrap();
    target.insert_many((0..40).map(|id| doc! { "_id": id })).await.unwrap();
    Collections { database, source, target }
}

/// Stage that adds a field to each document of the target.
fn merge() -> Document {
    let date = doc! { "$dateAdd": { "startDate": "$$NOW", "unit": "$$new.unit", "amount": 1 } };
    doc! { "$merge": { "into": "target", "whenMatched": [{ "$set": { "date": date } }] } }
}

fn pipeline() -> Vec<Document> {
    vec![doc! { "$sort": { "_id": 1 } }, merge()]
}

#[track_caller]
fn assert_maybe_applied(error: &Error) {
    assert_eq!(error.code(), Some(FAILED_TO_PARSE), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
}

impl Collections {
    async fn merged(&self) -> u64 {
        self.target.count_documents(doc! { "date": { "$exists": true } }).await.unwrap()
    }
}

#[tokio::test]
async fn merge_that_fails_half_way_is_maybe_applied() {
    testbed::require!(testbed::shared::servers());
    let it = create_collections().await;
    let error = it.source.aggregate(pipeline()).await.unwrap_err();
    assert_eq!(it.merged().await, 39);
    assert_maybe_applied(&error);
}

#[tokio::test]
async fn run_command_that_fails_half_way_is_maybe_applied() {
    testbed::require!(testbed::shared::servers());
    let it = create_collections().await;
    let command = doc! { "aggregate": "source", "pipeline": pipeline(), "cursor": {} };
    let error = it.database.run_command(command).await.unwrap_err();
    assert_eq!(it.merged().await, 39);
    assert_maybe_applied(&error);
}

#[tokio::test]
async fn get_more_that_merges_and_fails_half_way_is_maybe_applied() {
    testbed::require!(testbed::shared::servers());
    let it = create_collections().await;
    // With an empty first batch, the first `getMore` executes the pipeline.
    let cursor = doc! { "batchSize": 0 };
    let command = doc! { "aggregate": "source", "pipeline": pipeline(), "cursor": cursor };
    let mut cursor = it.database.run_cursor_command(command).await.unwrap();
    assert_eq!(it.merged().await, 0);
    let error = cursor.advance().await.unwrap_err();
    assert_eq!(it.merged().await, 39);
    assert_maybe_applied(&error);
}

#[tokio::test]
async fn apply_ops_that_fails_half_way_is_maybe_applied() {
    testbed::require!(V6_0);
    // `applyOps` locks the whole server, so it uses a separate server.
    let it = create_collections_on(&testbed::shared::standalone().expect("a server").uri()).await;
    let insert = doc! { "op": "i", "ns": it.target.namespace().to_string(), "o": { "_id": 100 } };
    let commands = format!("{}.$cmd", it.database.name());
    let admin = it.database.client().database("admin");
    for (code, second) in [
        (73, doc! { "create": "a$b" }),             // InvalidNamespace
        (72, doc! { "create": "c", "unknown": 1 }), // InvalidOptions
        (40415, doc! { "collMod": "target", "unknown": 1 }), // an unknown field
    ] {
        it.target.delete_one(doc! { "_id": 100 }).await.unwrap();
        let second = doc! { "op": "c", "ns": &commands, "o": second };
        let operations = vec![insert.clone(), second];
        let error = admin.run_command(doc! { "applyOps": operations }).await.unwrap_err();
        assert_eq!(error.code(), Some(code), "{error:?}");
        assert_eq!(it.target.count_documents(doc! { "_id": 100 }).await.unwrap(), 1);
        assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
    }
}

#[tokio::test]
async fn update_of_one_document_that_fails_is_not_applied() {
    testbed::require!(testbed::shared::servers());
    let it = create_collections().await;
    let date = doc! { "$dateAdd": { "startDate": "$$NOW", "unit": "$unit", "amount": 1 } };
    let update = vec![doc! { "$set": { "date": date } }];
    let error = it.source.update_one(doc! { "_id": 30 }, update.clone()).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Some(FAILED_TO_PARSE), Outcome::NotApplied));
    // In an update of many documents, the same error may follow applied updates.
    let error = it.source.update_many(doc! {}, update).await.unwrap_err();
    assert_maybe_applied(&error);
}
