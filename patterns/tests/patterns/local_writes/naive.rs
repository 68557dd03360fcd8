//! The control: a writer that switches datacenters on any error, as a first try at it would, and remembers
//! only where the document went in the end. What it leaves behind must be found out.

use std::{sync::Arc, time::Duration};

use steadfast::{
    Client, Collection,
    bson::{Document, doc, oid::ObjectId},
};

use super::{
    books::{Books, Told},
    cluster::Cluster,
    weather::Datacenters,
};

/// Where the document went in the end. A datacenter that holds its acknowledgements back is given up when it
/// has the document.
async fn insert(
    cluster: &Cluster,
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
            ended = inserted => panic!("nobody acknowledges it: {ended:?}"),
            () = until_there(cluster, datacenter, id) => {}
        }
    }
    panic!("bravo acknowledges what it has");
}

async fn until_there(cluster: &Cluster, datacenter: &str, id: ObjectId) {
    while !cluster.primary_has(datacenter, id).await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_forgets_what_it_tried_is_found_out() {
    let cluster = Arc::new(Cluster::start(1).await);
    let uri = format!("{}?w=majority", cluster.uri());
    let client = Client::with_uri_str(uri).await.unwrap();
    let messages = client.database("app").collection::<Document>("messages");
    let mut books = Books::default();
    for key in 0..6_i64 {
        if key == 2 {
            cluster.hold_acknowledgements("alfa");
        }
        let message = doc! { "message_id": key, "userid": key };
        let holding = [2, 3].contains(&key).then_some("alfa");
        let acknowledged = Some(insert(&cluster, &messages, &message, holding).await);
        books.note(key, Told { acknowledged, ..Told::default() });
        if key == 3 {
            cluster.release_acknowledgements("alfa");
        }
    }
    let verdict = books.judge(&cluster.census().await);
    assert!(verdict.lost.is_empty(), "{verdict:#?}");
    let unexplained: Vec<i64> = verdict.unexplained.iter().map(|(key, _)| *key).collect();
    assert_eq!(unexplained, [2, 3], "{verdict:#?}");
}
