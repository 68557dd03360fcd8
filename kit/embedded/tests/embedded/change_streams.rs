//! Change streams on a replica set.

use bson::{Bson, Timestamp};

use super::*;

fn watch(options: Document) -> Document {
    doc! { "aggregate": "things", "pipeline": [{ "$changeStream": options }], "cursor": {}, "$db": "db" }
}

fn more(id: i64, wait: i64) -> Document {
    doc! { "getMore": id, "collection": "things", "maxTimeMS": wait, "$db": "db" }
}

fn cursor(reply: &Document) -> &Document {
    reply.get_document("cursor").unwrap_or_else(|_| panic!("no cursor: {reply}"))
}

fn id(reply: &Document) -> i64 {
    cursor(reply).get_i64("id").unwrap()
}

fn token(reply: &Document) -> Document {
    cursor(reply).get_document("postBatchResumeToken").unwrap().clone()
}

/// Operation types and document keys of a batch's events.
fn events(reply: &Document) -> Vec<(String, Bson)> {
    let cursor = cursor(reply);
    let batch = cursor.get_array("nextBatch").or(cursor.get_array("firstBatch")).unwrap();
    let event = |event: &Bson| {
        let event = event.as_document().unwrap();
        let key = event.get_document("documentKey").ok().and_then(|key| key.get("_id"));
        let kind = event.get_str("operationType").unwrap();
        (kind.to_owned(), key.cloned().unwrap_or(Bson::Null))
    };
    batch.iter().map(event).collect()
}

fn inserted(id: i32) -> (String, Bson) {
    ("insert".to_owned(), id.into())
}

#[tokio::test]
async fn write_wakes_waiting_get_more() {
    let set = Deployment::replica_set(3).start();
    let mut client = connect(&set, 0).await;
    let opened = client.run(watch(doc! {})).await;
    assert!(events(&opened).is_empty());
    let mut other = connect(&set, 0).await;
    let (reply, _) =
        tokio::join!(client.run(more(id(&opened), 30_000)), async { other.run(insert(1)).await });
    assert_eq!(events(&reply), [inserted(1)]);
    assert_eq!(id(&reply), id(&opened));
}

#[tokio::test]
async fn get_more_returns_empty_batch_after_max_time() {
    let set = Deployment::replica_set(1).start();
    let mut client = connect(&set, 0).await;
    let opened = client.run(watch(doc! {})).await;
    let reply = client.run(more(id(&opened), 20)).await;
    assert!(events(&reply).is_empty());
    assert_eq!(id(&reply), id(&opened));
    assert!(cursor(&reply).contains_key("postBatchResumeToken"));
}

#[tokio::test]
async fn stream_resumes_on_next_primary() {
    let set = Deployment::replica_set(3).election_timeout(Duration::from_millis(50)).start();
    let mut client = connect(&set, 0).await;
    let opened = client.run(watch(doc! {})).await;
    for number in 1..=2 {
        client.run(insert(number)).await;
    }
    let mut first = more(id(&opened), 1000);
    first.insert("batchSize", 1);
    let reply = client.run(first).await;
    assert_eq!(events(&reply), [inserted(1)]);
    set.faults().kill(0);
    set.wait_for_primary().await;
    let mut client = connect(&set, set.primary().unwrap()).await;
    let resumed = client.run(watch(doc! { "resumeAfter": token(&reply) })).await;
    assert_eq!(events(&resumed), [inserted(2)]);
}

#[tokio::test]
async fn killed_member_ends_waiting_get_more() {
    let set = Deployment::replica_set(3).start();
    let mut client = connect(&set, 0).await;
    let opened = client.run(watch(doc! {})).await;
    client.send(more(id(&opened), 600_000)).await;
    set.faults().kill(0);
    let (rest, _) = tokio::time::timeout(TEST_TIMEOUT, client.rest()).await.unwrap();
    assert!(rest.is_empty());
}

#[tokio::test]
async fn drop_closes_stream() {
    let set = Deployment::replica_set(1).start();
    let mut client = connect(&set, 0).await;
    client.run(insert(1)).await;
    let opened = client.run(watch(doc! {})).await;
    client.run(doc! { "drop": "things", "$db": "db" }).await;
    let reply = client.run(more(id(&opened), 1000)).await;
    let kinds: Vec<_> = events(&reply).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(
        (kinds.as_slice(), id(&reply)),
        (["drop", "invalidate"].map(String::from).as_slice(), 0)
    );
    let resumed = client.run(watch(doc! { "resumeAfter": token(&reply) })).await;
    assert_eq!(code(&resumed), 260);
    assert!(is_ok(&client.run(watch(doc! { "startAfter": token(&reply) })).await));
}

#[tokio::test]
async fn standalone_rejects_change_streams() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    assert_eq!(code(&client.run(watch(doc! {})).await), 40573);
}

#[tokio::test]
async fn resumable_errors_are_labelled() {
    let set = Deployment::replica_set(1).start();
    let mut client = connect(&set, 0).await;
    let opened = client.run(watch(doc! {})).await;
    let point = |name: &str, data: Document| {
        let mode = doc! { "times": 1 };
        doc! { "configureFailPoint": name, "mode": mode, "data": data, "$db": "admin" }
    };
    let get_more = point("failGetMoreAfterCursorCheckout", doc! { "errorCode": 189 });
    client.run(get_more).await;
    let reply = client.run(more(id(&opened), 10)).await;
    assert_eq!(labels(&reply), ["ResumableChangeStreamError"]);
    let aggregate = doc! { "failCommands": ["aggregate"], "errorCode": 189 };
    client.run(point("failCommand", aggregate)).await;
    assert_eq!(labels(&client.run(watch(doc! {})).await), ["ResumableChangeStreamError"]);
}

#[tokio::test]
async fn start_at_operation_time_starts_stream() {
    let set = Deployment::replica_set(1).start();
    let mut client = connect(&set, 0).await;
    client.run(insert(1)).await;
    let reply = client.run(insert(2)).await;
    let time: Timestamp = reply.get_timestamp("operationTime").unwrap();
    client.run(insert(3)).await;
    let opened = client.run(watch(doc! { "startAtOperationTime": time })).await;
    assert_eq!(events(&opened), [inserted(2), inserted(3)]);
}
