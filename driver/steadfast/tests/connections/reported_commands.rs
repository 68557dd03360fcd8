//! Commands in command started events, compared with the bytes that were sent.

use steadfast::{
    bson::Timestamp,
    options::{ReadConcern, ReadPreference, SelectionCriteria, ServerApi, WriteConcern},
};

use super::*;

/// Fields that an attempt or the session adds to a command.
const ADDED: [&str; 15] = [
    "$db",
    "$clusterTime",
    "$readPreference",
    "apiDeprecationErrors",
    "apiStrict",
    "apiVersion",
    "autocommit",
    "lsid",
    "maxTimeMS",
    "nsInfo",
    "documents",
    "readConcern",
    "startTransaction",
    "txnNumber",
    "writeConcern",
];

/// Mongos that sends a cluster time with each reply.
fn mongos() -> Server {
    Server::with_handler(Role::Mongos, |request| {
        let time = Timestamp { time: 7, increment: 1 };
        let mut reply = match request.name.as_str() {
            _ if request.is_hello() => {
                return Some(vec![Step::Hello(doc! { "maxWireVersion": 25 })]);
            }
            "find" => doc! { "cursor": { "id": 0_i64, "ns": "db.people", "firstBatch": [] } },
            "bulkWrite" => doc! {
                "cursor": { "id": 0_i64, "ns": "admin.$cmd.bulkWrite", "firstBatch": [] },
                "nErrors": 0, "nInserted": 1, "nMatched": 0, "nModified": 0, "nUpserted": 0, "nDeleted": 0,
            },
            _ => doc! { "n": 1 },
        };
        let signed = doc! { "clusterTime": time, "signature": { "keyId": 1_i64 } };
        reply.extend(doc! { "ok": 1, "operationTime": time, "$clusterTime": signed });
        Some(vec![Step::Reply(reply)])
    })
}

/// Sends commands with every combination of added fields.
async fn send_all(client: &Client) -> Result<()> {
    let people = client.database("db").collection::<Document>("people");
    let anywhere = || SelectionCriteria::from(ReadPreference::secondary_preferred(None));
    client.database("db").run_command(doc! { "ping": 1 }).await?;
    people.insert_one(doc! { "_id": 1 }).await?;
    people.insert_one(doc! { "_id": 1 }).write_concern(WriteConcern::majority()).await?;
    // More bytes than the send buffer accepts, so the documents are sent from their own buffer.
    let large = (0..40).map(|id| doc! { "_id": id, "text": "x".repeat(1000) });
    people.insert_many(large).await?;
    people.find_one(doc! {}).await?;
    people.find_one(doc! {}).selection_criteria(anywhere()).await?;
    people.find_one(doc! {}).read_concern(ReadConcern::majority()).await?;
    people.update_one(doc! {}, doc! { "$inc": { "x": 1 } }).await?;
    people.update_many(doc! {}, doc! { "$inc": { "x": 1 } }).await?;
    client.bulk_write([people.insert_one_model(doc! { "_id": 1 })?]).await?;
    people.insert_one(doc! { "_id": 2 }).write_concern(WriteConcern::nodes(0)).await?;

    let mut session = client.start_session().await?;
    people.find_one(doc! {}).session(&mut session).await?;
    people.find_one(doc! {}).selection_criteria(anywhere()).session(&mut session).await?;
    let started = session.start_transaction().read_concern(ReadConcern::snapshot());
    started.write_concern(WriteConcern::majority()).await?;
    people.insert_one(doc! { "_id": 3 }).session(&mut session).await?;
    people.find_one(doc! {}).session(&mut session).await?;
    session.commit_transaction().await?;
    session.commit_transaction().await?;
    session.start_transaction().await?;
    people.find_one(doc! {}).session(&mut session).await?;
    session.abort_transaction().await
}

#[tokio::test]
async fn started_event_equals_the_sent_command() {
    let api = ServerApi::builder().strict(false).deprecation_errors(true).build();
    let mut reported = BTreeSet::new();
    for (uri, api) in [("", None), ("timeoutMS=60000", Some(api)), ("retryWrites=false", None)] {
        let server = mongos();
        let events = Recorder::new();
        let mut options = ClientOptions::parse(server.uri(uri)).await.unwrap();
        options.command_event_handler = Some(events.handler());
        options.server_api = api;
        let client = Client::with_options(options).unwrap();
        bounded(send_all(&client)).await.unwrap();
        let started: Vec<_> = events
            .seen()
            .into_iter()
            .filter_map(|event| match event {
                CommandEvent::Started(event) => Some(event),
                _ => None,
            })
            .collect();
        assert!(started.len() >= 19, "{}", started.len());
        for event in started {
            // An unacknowledged write has no reply to wait for.
            let sent = |log: &ServerLog| log.requests.iter().any(|it| it.id == event.request_id);
            let log = server.wait_for(sent).await;
            let sent = log.requests.iter().find(|it| it.id == event.request_id).unwrap();
            assert!(!sent.has_duplicate_fields, "{sent:?}");
            assert_eq!(event.command, sent.body, "{}", event.command_name);
            assert_eq!((&event.command_name, &event.db), (&sent.name, &sent.database));
            reported.extend(event.command.keys().cloned());
        }
    }
    let missing: Vec<_> = ADDED.into_iter().filter(|it| !reported.contains(*it)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
