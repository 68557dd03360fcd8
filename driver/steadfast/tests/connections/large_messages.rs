//! Messages that are too large for the send buffer arrive unchanged. A connection with a partial request is closed.

use steadfast::{
    Collection,
    bson::{Bson, RawDocumentBuf, rawdoc},
};

use super::*;

/// Server that acknowledges inserts.
fn insert_server(compressor: Option<&'static str>) -> Server {
    Server::with_handler(Role::Standalone, move |request| {
        if let (true, Some(name)) = (request.is_hello(), compressor) {
            return Some(vec![Step::Hello(doc! { "compression": [name] })]);
        }
        let count = request.body.get_array("documents").ok()?.len();
        let reply = doc! { "ok": 1, "n": i32::try_from(count).unwrap() };
        Some(vec![Step::Reply(reply)])
    })
}

/// Documents of about `bytes` bytes in total and of various lengths up to some thousand bytes. Every third has an
/// `_id`.
fn documents(bytes: usize) -> Vec<RawDocumentBuf> {
    let mut documents = Vec::new();
    let mut total = 0;
    while total < bytes {
        let n = i32::try_from(documents.len()).unwrap();
        let text = "x".repeat(documents.len() * 7919 % 4000);
        let document = match n % 3 {
            0 => rawdoc! { "_id": n, "text": text },
            _ => rawdoc! { "n": n, "text": text },
        };
        total += document.as_bytes().len();
        documents.push(document);
    }
    documents
}

/// Returns the documents of the only insert, without generated `_id`s.
fn arrived(server: &Server, sent: &[RawDocumentBuf]) -> (Vec<Document>, Vec<Bson>) {
    let log = server.log();
    let inserts = log.named("insert");
    assert_eq!(inserts.len(), 1);
    let received = inserts[0].body.get_array("documents").unwrap().iter().zip(sent);
    received
        .map(|(received, sent)| {
            let mut received = received.as_document().unwrap().clone();
            let id = received.get("_id").unwrap().clone();
            if !matches!(sent.get("_id"), Ok(Some(_))) {
                assert_eq!(received.keys().next().unwrap(), "_id");
                received.remove("_id");
            }
            (received, id)
        })
        .unzip()
}

async fn check_inserted(options: &str, compressor: Option<&'static str>, bytes: usize) {
    let server = insert_server(compressor);
    let client = Client::with_uri_str(server.uri(options)).await.unwrap();
    let books = client.database("db").collection::<RawDocumentBuf>("books");
    let documents = documents(bytes);
    let result = bounded(books.insert_many(&documents)).await.unwrap();
    let (received, ids) = arrived(&server, &documents);
    let sent: Vec<_> = documents.iter().map(|it| Document::try_from(&**it).unwrap()).collect();
    assert!(received == sent, "something was changed on the way");
    assert_eq!(result.inserted_ids.len(), documents.len());
    assert!(ids.iter().enumerate().all(|(index, id)| result.inserted_ids[&index] == *id));
    // The connection remains usable.
    run(&client, "ping").await.unwrap();
    assert_eq!(server.log().opened, 2, "one of the monitor, one of operations");
}

#[tokio::test]
async fn raw_documents_of_any_total_size_arrive_unchanged() {
    for bytes in [1, 5_000, 50_000, 1_000_000, 10_000_000] {
        check_inserted("", None, bytes).await;
    }
}

#[cfg(feature = "zlib")]
#[tokio::test]
async fn compressed_raw_documents_arrive_unchanged() {
    check_inserted("compressors=zlib", Some("zlib"), 1_000_000).await;
}

#[tokio::test]
async fn unacknowledged_raw_documents_arrive_unchanged() {
    let server = insert_server(None);
    let client = Client::with_uri_str(server.uri("w=0")).await.unwrap();
    let books = client.database("db").collection::<RawDocumentBuf>("books");
    let documents = documents(300_000);
    bounded(books.insert_many(&documents)).await.unwrap();
    server.wait_for(|log| !log.named("insert").is_empty()).await;
    let sent: Vec<_> = documents.iter().map(|it| Document::try_from(&**it).unwrap()).collect();
    assert!(arrived(&server, &documents).0 == sent);
}

#[tokio::test]
async fn a_large_document_arrives_unchanged() {
    let server = insert_server(None);
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let books = client.database("db").collection::<Document>("books");
    let document = doc! { "_id": 1, "text": "x".repeat(3_000_000) };
    bounded(books.insert_one(&document)).await.unwrap();
    bounded(books.insert_many([&document, &document])).await.unwrap();
    let log = server.log();
    for (request, count) in log.named("insert").iter().zip([1, 2]) {
        let expected = vec![Bson::Document(document.clone()); count];
        assert!(*request.body.get_array("documents").unwrap() == expected);
    }
}

/// Drops the insert while it is being sent, and checks that its connection is closed.
async fn drop_half_sent(insert: impl AsyncFn(Collection<RawDocumentBuf>)) {
    // pitfall 21
    let gate = Gate::closed();
    let server = Server::with_handler(Role::Standalone, {
        let gate = gate.clone();
        move |request| {
            let reply = Step::Reply(doc! { "ok": 1 });
            // After this reply the server reads nothing.
            (request.name == "last").then(|| vec![reply, Step::WaitFor(gate.clone())])
        }
    });
    let (client, commands) = client_with_commands(&server.uri("maxPoolSize=1")).await;
    run(&client, "last").await.unwrap();
    let books = client.database("db").collection::<RawDocumentBuf>("books");
    let started = |event: &CommandEvent| matches!(event, CommandEvent::Started(event) if event.command_name == "insert");
    tokio::select! {
        biased;
        () = insert(books) => panic!("more was sent than any socket holds"),
        () = commands.wait_for(1, started) => {}
    }
    run(&client, "ping").await.unwrap();
    gate.open();
    let log = server.wait_for(|log| log.open == 2).await;
    assert_ne!(log.connections_of("ping"), log.connections_of("last"));
    assert!(log.named("insert").is_empty(), "half a message is none");
}

#[tokio::test]
async fn a_half_sent_insert_many_that_is_dropped_closes_the_connection() {
    let documents = documents(40_000_000);
    drop_half_sent(async |books: Collection<RawDocumentBuf>| {
        books.insert_many(&documents).await.map(drop).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_half_sent_large_document_that_is_dropped_closes_the_connection() {
    let document = rawdoc! { "text": "x".repeat(15_000_000) };
    drop_half_sent(async |books: Collection<RawDocumentBuf>| {
        books.insert_one(&document).await.map(drop).unwrap();
    })
    .await;
}
