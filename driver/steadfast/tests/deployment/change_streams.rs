//! Change streams on a real replica set: events, scopes, options, resuming and ending.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use steadfast::{
    Client, Collection, Database,
    bson::{Bson, Document, doc},
    change_stream::event::{ChangeNamespace, ChangeStreamEvent, OperationType},
    error::ErrorKind,
    event::command::CommandEvent,
    options::{
        ChangeStreamPreAndPostImages, ClientOptions, FullDocumentBeforeChangeType,
        FullDocumentType, ReadConcern,
    },
};

use crate::common::{Recorder, bounded};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct TitledBook {
    #[serde(rename = "_id")]
    id: i32,
    title: String,
}

fn book(id: i32, title: &str) -> TitledBook {
    TitledBook { id, title: title.to_owned() }
}

/// Empty database of the shared replica set, and the commands of its client.
async fn database(name: &str) -> (Client, Database, Recorder<CommandEvent>) {
    let commands = Recorder::new();
    let uri = testbed::shared::uri().expect("a deployment");
    let mut options = ClientOptions::parse(&uri).await.unwrap();
    options.command_event_handler = Some(commands.handler());
    let client = Client::with_options(options).unwrap();
    let database = client.database(&format!("change_streams_{name}"));
    database.drop().await.unwrap();
    (client, database, commands)
}

fn sent(commands: &Recorder<CommandEvent>, name: &str) -> Vec<Document> {
    let started = |event| match event {
        CommandEvent::Started(event) if event.command_name == name => Some(event.command),
        _ => None,
    };
    commands.seen().into_iter().filter_map(started).collect()
}

async fn books(name: &str) -> (Database, Collection<TitledBook>, Recorder<CommandEvent>) {
    let (_, database, commands) = database(name).await;
    database.create_collection("books").await.unwrap();
    let books = database.collection("books");
    (database, books, commands)
}

#[tokio::test]
async fn a_stream_has_an_event_for_every_change_and_ends_when_the_collection_is_dropped() {
    testbed::require!(testbed::shared::servers());
    let (database, books, _) = books("every_change").await;
    let mut changes = bounded(books.watch()).await.unwrap();
    books.insert_one(book(1, "1984")).await.unwrap();
    let update = doc! { "$set": { "title": "Nineteen" }, "$unset": { "year": 1 } };
    books.update_one(doc! { "_id": 1 }, update).await.unwrap();
    books.replace_one(doc! { "_id": 1 }, book(1, "Animal Farm")).await.unwrap();
    books.delete_one(doc! { "_id": 1 }).await.unwrap();
    books.drop().await.unwrap();

    let events: Vec<ChangeStreamEvent<TitledBook>> =
        bounded(changes.by_ref().try_collect()).await.unwrap();
    let kinds: Vec<_> = events.iter().map(|event| event.operation_type.clone()).collect();
    assert_eq!(
        kinds,
        [
            OperationType::Insert,
            OperationType::Update,
            OperationType::Replace,
            OperationType::Delete,
            OperationType::Drop,
            OperationType::Invalidate,
        ]
    );
    let documents: Vec<_> = events.iter().map(|event| event.full_document.clone()).collect();
    assert_eq!(documents[0], Some(book(1, "1984")));
    assert_eq!((&documents[1], &documents[2]), (&None, &Some(book(1, "Animal Farm"))));
    let described = events[1].update_description.as_ref().unwrap();
    assert_eq!(described.updated_fields, doc! { "title": "Nineteen" });
    for event in &events[..5] {
        let ChangeNamespace { db, coll, .. } = event.ns.as_ref().unwrap();
        assert_eq!((db.as_str(), coll.as_deref()), (database.name(), Some("books")));
        assert!(event.cluster_time.is_some() && event.wall_time.is_some());
    }
    for event in &events[..4] {
        assert_eq!(event.document_key, Some(doc! { "_id": 1 }));
    }
    assert!(!changes.is_alive());
    assert!(bounded(changes.next()).await.is_none());
    assert_eq!(changes.resume_token().as_ref(), Some(&events[5].id));
}

#[tokio::test]
async fn a_stream_resumes_from_a_stored_token_and_starts_after_an_invalidate_event() {
    testbed::require!(testbed::shared::servers());
    let (database, books, _) = books("stored").await;
    let mut changes = bounded(books.watch()).await.unwrap();
    for id in 1..=3 {
        books.insert_one(book(id, "1984")).await.unwrap();
    }
    let first = bounded(changes.try_next()).await.unwrap().unwrap();
    let stored = ::bson::serialize_to_vec(&first.id).unwrap();
    drop(changes);

    let token = ::bson::deserialize_from_slice(&stored).unwrap();
    let mut changes = bounded(books.watch().resume_after(Some(token))).await.unwrap();
    for id in [2, 3] {
        let event = bounded(changes.try_next()).await.unwrap().unwrap();
        assert_eq!(event.document_key, Some(doc! { "_id": id }));
    }
    books.drop().await.unwrap();
    let rest: Vec<_> = bounded(changes.by_ref().try_collect()).await.unwrap();
    assert_eq!(rest.len(), 2);
    let ended = changes.resume_token().unwrap();

    // A stream cannot resume after an invalidate event, but a new stream can start after it.
    let resumed = books.watch().resume_after(ended.clone()).await;
    assert!(resumed.is_err() || resumed.unwrap().try_next().await.is_err());
    database.create_collection("books").await.unwrap();
    books.insert_one(book(4, "1984")).await.unwrap();
    let mut changes = bounded(books.watch().start_after(ended)).await.unwrap();
    let event = bounded(changes.try_next()).await.unwrap().unwrap();
    assert_eq!(event.document_key, Some(doc! { "_id": 4 }));

    // It can also start at an operation time.
    let time = event.cluster_time.unwrap();
    let mut changes = bounded(books.watch().start_at_operation_time(time)).await.unwrap();
    assert_eq!(bounded(changes.try_next()).await.unwrap().unwrap().id, event.id);
}

#[tokio::test]
async fn databases_and_whole_deployments_are_watched() {
    testbed::require!(testbed::shared::servers());
    let (client, database, commands) = database("wider").await;
    let ours = doc! { "$match": { "ns.db": database.name() } };
    let mut in_database = bounded(database.watch()).await.unwrap();
    let mut anywhere = bounded(client.watch().pipeline([ours])).await.unwrap();
    for name in ["a", "b"] {
        database.collection(name).insert_one(doc! { "in": name }).await.unwrap();
    }
    for name in ["a", "b"] {
        for stream in [&mut in_database, &mut anywhere] {
            let event = bounded(stream.try_next()).await.unwrap().unwrap();
            assert_eq!(event.ns.unwrap().coll.as_deref(), Some(name));
            assert_eq!(event.full_document.unwrap().get_str("in").unwrap(), name);
        }
    }
    let aggregates = sent(&commands, "aggregate");
    assert_eq!(aggregates[0].get_str("$db").unwrap(), database.name());
    assert_eq!(aggregates[1].get_str("$db").unwrap(), "admin");
    assert!(aggregates.iter().all(|command| command.get("aggregate") == Some(&Bson::Int32(1))));
    // The `getMore` has the namespace of the reply.
    let asked = sent(&commands, "getMore");
    assert!(asked.iter().all(|command| command.get_str("collection").unwrap() == "$cmd.aggregate"));

    database.drop().await.unwrap();
    let last = bounded(in_database.try_collect::<Vec<_>>()).await.unwrap().pop().unwrap();
    assert_eq!(last.operation_type, OperationType::Invalidate);
    loop {
        let event = bounded(anywhere.try_next()).await.unwrap().unwrap();
        if event.operation_type == OperationType::DropDatabase {
            assert_eq!(event.ns.unwrap().coll, None);
            break;
        }
    }
    assert!(anywhere.is_alive());
}

#[tokio::test]
async fn events_have_pre_and_post_images_if_requested() {
    testbed::require!(testbed::shared::servers());
    let (_, database, _) = database("images").await;
    let images = ChangeStreamPreAndPostImages::new(true);
    let create = database.create_collection("books");
    create.change_stream_pre_and_post_images(images).await.unwrap();
    let books = database.collection::<TitledBook>("books");
    books.insert_one(book(1, "1984")).await.unwrap();
    let mut changes = books
        .watch()
        .full_document(FullDocumentType::Required)
        .full_document_before_change(FullDocumentBeforeChangeType::WhenAvailable)
        .await
        .unwrap();
    let mut looked_up = books.watch().full_document(FullDocumentType::UpdateLookup).await.unwrap();
    for title in ["Animal Farm", "Burmese Days"] {
        let update = doc! { "$set": { "title": title } };
        books.update_one(doc! {}, update).await.unwrap();
    }
    for (before, after) in [("1984", "Animal Farm"), ("Animal Farm", "Burmese Days")] {
        let event = bounded(changes.try_next()).await.unwrap().unwrap();
        assert_eq!(event.full_document_before_change, Some(book(1, before)));
        assert_eq!(event.full_document, Some(book(1, after)));
        // The post-image of an update lookup is the document at the time of the lookup.
        let event = bounded(looked_up.try_next()).await.unwrap().unwrap();
        assert_eq!(event.full_document, Some(book(1, "Burmese Days")));
    }
}

#[tokio::test]
async fn expanded_events_include_create() {
    testbed::require!(testbed::shared::servers());
    let (_, database, _) = database("expanded").await;
    let mut changes = database.watch().show_expanded_events(true).await.unwrap();
    database.create_collection("books").await.unwrap();
    let event = bounded(changes.try_next()).await.unwrap().unwrap();
    assert_eq!(event.operation_type, OperationType::Other("create".to_owned()));
    assert!(event.operation_description.is_some() && event.collection_uuid.is_some());
}

#[tokio::test]
async fn events_that_the_pipeline_changed_are_deserialized_as_another_type() {
    testbed::require!(testbed::shared::servers());
    #[derive(Debug, PartialEq, Deserialize)]
    struct Title {
        title: String,
    }

    let (_, books, _) = books("pipeline").await;
    let pipeline = [
        doc! { "$match": { "operationType": "insert" } },
        doc! { "$project": { "title": "$fullDocument.title" } },
    ];
    let changes = bounded(books.watch().pipeline(pipeline)).await.unwrap();
    let mut titles = changes.with_type::<Title>();
    books.insert_one(book(1, "1984")).await.unwrap();
    books.delete_one(doc! { "_id": 1 }).await.unwrap();
    books.insert_one(book(2, "Animal Farm")).await.unwrap();
    for title in ["1984", "Animal Farm"] {
        let read = bounded(titles.try_next()).await.unwrap();
        assert_eq!(read, Some(Title { title: title.to_owned() }));
    }

    // An event that cannot be deserialized is an error; the stream continues.
    let mut changes = bounded(books.watch()).await.unwrap();
    books.clone_with_type().insert_one(doc! { "_id": 3, "title": 3 }).await.unwrap();
    books.insert_one(book(4, "Burmese Days")).await.unwrap();
    let error = bounded(changes.try_next()).await.unwrap_err();
    assert!(
        matches!(&*error.kind, ErrorKind::Bson(_) | ErrorKind::BsonDeserialization(_)),
        "{error}"
    );
    let event = bounded(changes.try_next()).await.unwrap().unwrap();
    assert_eq!(event.full_document, Some(book(4, "Burmese Days")));
}

#[tokio::test]
async fn next_if_any_returns_available_events_and_updates_the_token() {
    testbed::require!(testbed::shared::servers());
    let (database, books, commands) = books("no_waiting").await;
    let wait = Duration::from_millis(50);
    let mut changes = books.watch().max_await_time(wait).batch_size(2).await.unwrap();
    let mut tokens = vec![changes.resume_token().unwrap()];
    assert!(bounded(changes.next_if_any()).await.unwrap().is_none() && changes.is_alive());
    assert_eq!(sent(&commands, "getMore").len(), 1);

    // The token also advances past events of other collections.
    database.collection("others").insert_one(doc! {}).await.unwrap();
    bounded(async {
        while changes.resume_token() == tokens.last().cloned() {
            assert!(changes.next_if_any().await.unwrap().is_none());
        }
    })
    .await;
    tokens.push(changes.resume_token().unwrap());
    books.insert_one(book(1, "1984")).await.unwrap();
    let event = bounded(async {
        loop {
            if let Some(event) = changes.next_if_any().await.unwrap() {
                break event;
            }
        }
    })
    .await;
    assert_eq!(event.document_key, Some(doc! { "_id": 1 }));
    let asked = sent(&commands, "getMore");
    assert!(asked.iter().all(|command| command.get_i64("maxTimeMS").unwrap() == 50));
    assert!(asked.iter().all(|command| command.get_i32("batchSize").unwrap() == 2));
    let begun = sent(&commands, "aggregate").remove(0);
    assert!(!begun.contains_key("maxTimeMS"));
    assert_eq!(begun.get_document("cursor").unwrap(), &doc! { "batchSize": 2 });
}

#[tokio::test]
async fn a_stream_of_a_session_is_read_only_in_that_session() {
    testbed::require!(testbed::shared::servers());
    let (_, books, commands) = books("session").await;
    let client = books.client();
    let mut session = client.start_session().await.unwrap();
    let mut other = client.start_session().await.unwrap();
    let mut changes = books.watch().session(&mut session).await.unwrap();
    let insert = books.insert_one(book(1, "1984"));
    insert.session(&mut session).await.unwrap();

    for error in [
        changes.next(&mut other).await.unwrap_err(),
        changes.next_if_any(&mut other).await.unwrap_err(),
    ] {
        assert!(error.is_invalid_argument(), "{error}");
    }
    let event = bounded(changes.next(&mut session)).await.unwrap().unwrap();
    assert_eq!(event.full_document, Some(book(1, "1984")));
    assert!(bounded(changes.next_if_any(&mut session)).await.unwrap().is_none());
    assert!(changes.is_alive() && changes.resume_token().is_some());

    books.drop().await.unwrap();
    let mut changes = changes.with_type::<Document>();
    let mut kinds = Vec::new();
    while let Some(event) = bounded(changes.next(&mut session)).await.unwrap() {
        kinds.push(event.get_str("operationType").unwrap().to_owned());
    }
    assert_eq!(kinds, ["drop", "invalidate"]);
    assert!(!changes.is_alive());
    for name in ["aggregate", "getMore"] {
        for command in sent(&commands, name) {
            assert_eq!(command.get_document("lsid").unwrap(), session.id());
        }
    }

    // A session of another client is rejected before anything is sent.
    let stranger = Client::with_uri_str(testbed::shared::uri().unwrap()).await.unwrap();
    let mut foreign = stranger.start_session().await.unwrap();
    let rejected = books.watch().session(&mut foreign).await;
    assert!(rejected.unwrap_err().is_invalid_argument());
}

#[tokio::test]
async fn a_dropped_stream_is_killed_on_the_server() {
    testbed::require!(testbed::shared::servers());
    let (_, books, commands) = books("dropped").await;
    let changes = bounded(books.watch()).await.unwrap();
    drop(changes);
    let killed = |event: &CommandEvent| matches!(event, CommandEvent::Succeeded(it) if it.command_name == "killCursors");
    commands.wait_for(1, killed).await;
}

#[tokio::test]
async fn options_that_the_server_rejects_are_command_errors() {
    testbed::require!(testbed::shared::servers());
    testbed::require!(V6_0);
    let (_, books, _) = books("rejected").await;
    let local = books.watch().read_concern(ReadConcern::local()).await.unwrap_err();
    assert!(matches!(&*local.kind, ErrorKind::Command(_)), "{local}");
    let twice = [doc! { "$changeStream": {} }];
    let twice = books.watch().pipeline(twice).await.unwrap_err();
    assert!(matches!(&*twice.kind, ErrorKind::Command(_)), "{twice}");
    let writing = books.watch().pipeline([doc! { "$out": "other" }]).await.unwrap_err();
    assert!(matches!(&*writing.kind, ErrorKind::Command(_)), "{writing}");

    let server = testbed::shared::standalone().expect("a server");
    let client = Client::with_uri_str(server.uri()).await.unwrap();
    let alone = client.watch().await.unwrap_err();
    assert!(matches!(&*alone.kind, ErrorKind::Command(_)), "{alone}");
}
