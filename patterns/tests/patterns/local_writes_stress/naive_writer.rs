//! Control: a writer that tries the next datacenter after any error, and records only the last datacenter. The
//! comparison must detect its other copies.

use std::{sync::Arc, time::Duration};

use steadfast::{
    Client, Collection,
    bson::{Document, doc, oid::ObjectId},
};

use super::{
    fault_injector::Datacenters,
    recorded_writes::{RecordedWrite, RecordedWrites},
    sharded::ShardedDatacenters,
};

/// Inserts the message. Returns the datacenter that acknowledged it. A datacenter that holds acknowledgements
/// is abandoned when it has the document.
async fn insert(
    cluster: &ShardedDatacenters,
    messages: &Collection<Document>,
    message: &Document,
    holding: Option<&str>,
) -> (String, ObjectId) {
    for datacenter in ["alfa", "bravo"] {
        let id = ObjectId::new();
        let mut copy = doc! { "_id": id, "datacenter": datacenter };
        copy.extend(message.clone());
        let inserted = messages.insert_one(copy).into_future();
        if holding != Some(datacenter) {
            inserted.await.unwrap();
            return (datacenter.to_owned(), id);
        }
        tokio::select! {
            ended = inserted => panic!("the held write was acknowledged: {ended:?}"),
            () = until_stored(cluster, datacenter, id) => {}
        }
    }
    panic!("bravo did not acknowledge the write");
}

async fn until_stored(cluster: &ShardedDatacenters, datacenter: &str, id: ObjectId) {
    while !cluster.primary_has(datacenter, id).await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_of_a_writer_without_receipts_are_detected() {
    let cluster = Arc::new(ShardedDatacenters::start(1).await);
    let uri = format!("{}?w=majority", cluster.uri());
    let client = Client::with_uri_str(uri).await.unwrap();
    let messages = client.database("app").collection::<Document>("messages");
    let mut recorded = RecordedWrites::default();
    for key in 0..6_i64 {
        if key == 2 {
            cluster.hold_acknowledgements("alfa");
        }
        let message = doc! { "message_id": key, "userid": key };
        let holding = [2, 3].contains(&key).then_some("alfa");
        let acknowledged = Some(insert(&cluster, &messages, &message, holding).await);
        recorded.record(key, RecordedWrite { acknowledged, ..RecordedWrite::default() });
        if key == 3 {
            cluster.release_acknowledgements("alfa");
        }
    }
    let comparison = recorded.compare(&cluster.stored_copies().await);
    assert!(comparison.lost.is_empty(), "{comparison:#?}");
    let unlisted: Vec<i64> = comparison.unlisted.iter().map(|(key, _)| *key).collect();
    assert_eq!(unlisted, [2, 3], "{comparison:#?}");
}
