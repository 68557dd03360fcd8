//! The control: a writer that switches datacenters on any error, as a first try at it would, and remembers
//! only where the document went in the end. What it leaves behind must be found out.

use std::sync::Arc;

use steadfast::{
    Client, Collection,
    bson::{Document, doc, oid::ObjectId},
    error::Error,
};

use super::{
    books::{Books, Told},
    cluster::Cluster,
    weather::{ACKNOWLEDGED_WITHIN, Datacenters},
};

async fn insert(
    messages: &Collection<Document>,
    message: &Document,
) -> Result<(String, ObjectId), Error> {
    let mut last = None;
    for datacenter in ["alfa", "bravo"] {
        let id = ObjectId::new();
        let mut copy = doc! { "_id": id, "datacenter": datacenter };
        copy.extend(message.clone());
        match messages.insert_one(copy).timeout(ACKNOWLEDGED_WITHIN).await {
            Ok(_) => return Ok((datacenter.to_owned(), id)),
            Err(error) => last = Some(error),
        }
    }
    Err(last.expect("there are two datacenters"))
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
        let acknowledged = insert(&messages, &message).await.unwrap();
        books.note(key, Told { acknowledged: Some(acknowledged), ..Told::default() });
        if key == 3 {
            cluster.release_acknowledgements("alfa");
        }
    }
    let verdict = books.judge(&cluster.census().await);
    assert!(verdict.lost.is_empty(), "{verdict:#?}");
    let unexplained: Vec<i64> = verdict.unexplained.iter().map(|(key, _)| *key).collect();
    assert_eq!(unexplained, [2, 3], "{verdict:#?}");
}
