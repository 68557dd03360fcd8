//! Reads and administration on a real server: queries, cursors, indexes, collections, databases and `run_command`.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_core::Stream;
use serde::Deserialize;
use steadfast::{
    Client, Collection, Cursor, Database, IndexModel,
    bson::{Bson, Document, doc, rawdoc},
    error::{ErrorKind, Result},
    event::{EventHandler, command::CommandEvent},
    options::{
        ClientOptions, Collation, CollationStrength, CreateCollectionOptions, CursorType, Hint,
        IndexOptions, ReadConcern, TimeseriesOptions, WriteConcern,
    },
    results::CollectionType,
};
use testbed::{Mongod, Options};

/// Commands that a client sent, in order.
#[derive(Clone, Default)]
struct SentCommands(Arc<Mutex<Vec<Document>>>);

impl SentCommands {
    fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().filter_map(|sent| sent.keys().next().cloned()).collect()
    }

    fn count(&self, name: &str) -> usize {
        self.names().iter().filter(|sent| *sent == name).count()
    }

    /// Waits until a command with this name was sent.
    async fn wait_for(&self, name: &str) {
        let seen = async {
            while self.count(name) == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), seen).await.expect("the command is sent");
    }
}

async fn client_with_log(uri: &str) -> Result<(Client, SentCommands)> {
    let sent = SentCommands::default();
    let mut options = ClientOptions::parse(uri).await?;
    let log = sent.clone();
    options.command_event_handler = Some(EventHandler::callback(move |event| {
        if let CommandEvent::Started(event) = event {
            log.0.lock().unwrap().push(event.command);
        }
    }));
    Ok((Client::with_options(options)?, sent))
}

/// Empty database of the shared deployment that no other test uses.
async fn fresh(name: &str) -> Result<(Database, SentCommands)> {
    let (client, sent) = client_with_log(&testbed::shared::uri().expect("a deployment")).await?;
    let database = client.database(name);
    database.drop().write_concern(WriteConcern::majority()).await?;
    Ok((database, sent))
}

/// Inserts documents `{ _id: 0, x: 0 }`, … with a plain command.
async fn fill(collection: &Collection<Document>, database: &Database, count: i32) -> Result<()> {
    let documents: Vec<_> = (0..count).map(|x| doc! { "_id": x, "x": x }).collect();
    database.run_command(doc! { "insert": collection.name(), "documents": documents }).await?;
    Ok(())
}

async fn drain<T: for<'de> Deserialize<'de>>(cursor: &mut Cursor<T>) -> Result<Vec<T>> {
    let mut all = Vec::new();
    while cursor.advance().await? {
        all.push(cursor.deserialize_current()?);
    }
    Ok(all)
}

async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await
}

fn ids(documents: &[Document]) -> Vec<i32> {
    documents.iter().map(|document| document.get_i32("_id").unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn find_applies_its_options() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (database, sent) = fresh("reads_find").await?;
    let numbers = database.collection::<Document>("numbers");
    fill(&numbers, &database, 10).await?;

    let mut cursor = numbers
        .find(doc! { "x": { "$gte": 2 } })
        .sort(doc! { "x": -1 })
        .skip(1)
        .limit(4)
        .batch_size(3)
        .projection(doc! { "x": 0 })
        .hint(Hint::Keys(doc! { "_id": 1 }))
        .max_time(Duration::from_secs(10))
        .read_concern(ReadConcern::majority())
        .comment(Bson::from("why"))
        .await?;
    assert_eq!(ids(&drain(&mut cursor).await?), [8, 7, 6, 5]);
    assert!(!cursor.has_next());
    assert_eq!(sent.count("getMore"), 1);
    // The server does not close the cursor at its limit.
    sent.wait_for("killCursors").await;
    let more = sent.0.lock().unwrap().iter().find(|sent| sent.contains_key("getMore")).cloned();
    let more = more.unwrap();
    assert_eq!(more.get_i32("batchSize").unwrap(), 1);
    assert_eq!(more.get_str("comment").unwrap(), "why");

    let all = drain(&mut numbers.find(doc! {}).limit(-3).await?).await?;
    assert_eq!(all.len(), 3);

    let one = numbers.find_one(doc! { "x": { "$gt": 4 } }).sort(doc! { "x": 1 }).await?;
    assert_eq!(one.unwrap().get_i32("x").unwrap(), 5);
    assert!(numbers.find_one(doc! { "x": 99 }).await?.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_is_read_in_place_typed_and_as_a_stream() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    #[derive(Deserialize)]
    struct Number {
        x: i32,
    }
    let (database, sent) = fresh("reads_cursor").await?;
    let numbers = database.collection::<Document>("numbers");
    fill(&numbers, &database, 7).await?;

    let mut cursor = numbers.find(doc! {}).batch_size(2).await?.with_type::<Number>();
    let mut sum = 0;
    while let Some(number) = next(&mut cursor).await {
        sum += number?.x;
    }
    assert_eq!(sum, 21);
    assert!(next(&mut cursor).await.is_none());
    assert_eq!(sent.count("getMore"), 3);
    assert_eq!(sent.count("killCursors"), 0);

    let mut cursor = numbers.find(doc! {}).await?;
    assert!(cursor.has_next());
    assert!(cursor.deserialize_current().is_err(), "no current document");
    assert!(cursor.advance().await?);
    assert_eq!(cursor.current().get_i32("x").unwrap(), 0);

    // pitfall 20: a cursor with a single batch sends no `getMore`.
    let before = sent.names().len();
    drain(&mut cursor).await?;
    drop(cursor);
    assert_eq!(sent.names().len(), before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_of_another_type_is_an_error_and_the_stream_continues() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    #[derive(Debug, Deserialize)]
    struct Number {
        #[allow(dead_code)]
        x: i32,
    }
    let (database, _) = fresh("reads_types").await?;
    let documents = vec![doc! { "_id": 0, "x": "text" }, doc! { "_id": 1, "x": 1 }];
    database.run_command(doc! { "insert": "numbers", "documents": documents }).await?;
    let mut cursor =
        database.collection::<Number>("numbers").find(doc! {}).sort(doc! { "_id": 1 }).await?;
    let error = next(&mut cursor).await.unwrap().unwrap_err();
    assert!(
        matches!(&*error.kind, ErrorKind::Bson(_) | ErrorKind::BsonDeserialization(_)),
        "{error}"
    );
    assert!(next(&mut cursor).await.unwrap().is_ok());
    assert!(next(&mut cursor).await.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_dropped_early_is_killed() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (database, sent) = fresh("reads_drop").await?;
    let numbers = database.collection::<Document>("numbers");
    fill(&numbers, &database, 10).await?;
    let mut cursor = numbers.find(doc! {}).batch_size(2).await?;
    assert!(cursor.advance().await?);
    drop(cursor);
    sent.wait_for("killCursors").await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_kill_cursors_is_sent_after_shutdown() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    // pitfall 37
    let (database, sent) = fresh("reads_shutdown").await?;
    let numbers = database.collection::<Document>("numbers");
    fill(&numbers, &database, 10).await?;
    let mut cursor = numbers.find(doc! {}).batch_size(2).await?;
    assert!(cursor.advance().await?);
    database.client().clone().shutdown().await;
    assert!(cursor.advance().await?, "the received documents remain");
    let error = cursor.advance().await.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::Shutdown), "{error}");
    drop(cursor);
    tokio::task::yield_now().await;
    assert_eq!(sent.count("killCursors"), 0);
    Ok(())
}

#[test]
fn a_cursor_may_outlive_its_runtime() {
    testbed::require!(testbed::shared::servers());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let cursor = runtime.block_on(async {
        let (database, _) = fresh("reads_runtime").await.unwrap();
        let numbers = database.collection::<Document>("numbers");
        fill(&numbers, &database, 10).await.unwrap();
        numbers.find(doc! {}).batch_size(2).await.unwrap()
    });
    drop(runtime);
    drop(cursor);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_advance_loses_no_batch() -> Result<()> {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).expect("a server");
    let (client, sent) = client_with_log(&server.uri()).await?;
    let database = client.database("reads");
    let numbers = database.collection::<Document>("numbers");
    fill(&numbers, &database, 6).await?;
    let admin = client.database("admin");
    let slow = doc! { "failCommands": ["getMore"], "blockConnection": true, "blockTimeMS": 1_000 };
    admin
        .run_command(doc! {
            "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": slow,
        })
        .await?;

    let mut cursor = numbers.find(doc! {}).sort(doc! { "_id": 1 }).batch_size(2).await?;
    let mut found = Vec::new();
    for _ in 0..2 {
        assert!(cursor.advance().await?);
        found.push(cursor.deserialize_current()?);
    }
    tokio::select! {
        biased;
        () = sent.wait_for("getMore") => {}
        ended = cursor.advance() => panic!("the server is slow on purpose: {ended:?}"),
    }
    // Other commands are served meanwhile, and the cursor keeps its position.
    admin.run_command(doc! { "ping": 1 }).await?;
    found.extend(drain(&mut cursor).await?);
    assert_eq!(ids(&found), [0, 1, 2, 3, 4, 5]);
    assert_eq!(sent.count("getMore"), 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_get_more_is_an_error_and_not_the_end_of_the_cursor() -> Result<()> {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).expect("a server");
    let (client, sent) = client_with_log(&server.uri()).await?;
    let database = client.database("reads");
    let numbers = database.collection::<Document>("numbers");
    fill(&numbers, &database, 6).await?;
    let admin = client.database("admin");
    let fail = |mut data: Document| {
        data.insert("failCommands", vec!["getMore"]);
        admin.run_command(doc! {
            "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data,
        })
    };

    fail(doc! { "errorCode": 7 }).await?;
    let mut cursor = numbers.find(doc! {}).batch_size(2).await?;
    assert!(cursor.advance().await? && cursor.advance().await?);
    assert_eq!(cursor.advance().await.unwrap_err().code(), Some(7));
    assert_eq!(cursor.advance().await.unwrap_err().code(), Some(7));
    assert!(!cursor.has_next());
    sent.wait_for("killCursors").await;

    fail(doc! { "closeConnection": true }).await?;
    let mut cursor = numbers.find(doc! {}).batch_size(2).await?;
    let mut items = Vec::new();
    while let Some(item) = next(&mut cursor).await {
        items.push(item);
    }
    assert_eq!(items.len(), 3);
    assert!(items.pop().unwrap().unwrap_err().is_network_error());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tailable_cursor_waits_for_new_documents() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (database, _) = fresh("reads_tail").await?;
    database.create_collection("log").capped(true).size(4096).await?;
    let log = database.collection::<Document>("log");
    fill(&log, &database, 1).await?;
    let mut cursor = log
        .find(doc! {})
        .cursor_type(CursorType::TailableAwait)
        .max_await_time(Duration::from_millis(50))
        .await?;
    assert!(cursor.try_advance().await?);
    assert!(!cursor.try_advance().await?, "no document yet");
    assert!(cursor.has_next());
    let tailing = tokio::spawn(async move {
        assert!(cursor.advance().await?);
        cursor.deserialize_current()
    });
    database.run_command(doc! { "insert": "log", "documents": [{ "_id": 7 }] }).await?;
    assert_eq!(tailing.await.unwrap()?.get_i32("_id").unwrap(), 7);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelines_run_on_collections_and_databases() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    #[derive(Deserialize, PartialEq, Debug)]
    struct Parity {
        #[serde(rename = "_id")]
        odd: i32,
        count: i32,
    }
    let (database, _) = fresh("reads_aggregate").await?;
    let numbers = database.collection::<Document>("numbers");
    fill(&numbers, &database, 5).await?;
    let mut cursor = numbers
        .aggregate([
            doc! { "$group": { "_id": { "$mod": ["$x", 2] }, "count": { "$sum": 1 } } },
            doc! { "$sort": { "_id": 1 } },
        ])
        .batch_size(1)
        .with_type::<Parity>()
        .await?;
    let parities = drain(&mut cursor).await?;
    assert_eq!(parities, [Parity { odd: 0, count: 3 }, Parity { odd: 1, count: 2 }]);

    let mut written = numbers
        .aggregate([doc! { "$match": { "x": { "$lt": 2 } } }, doc! { "$out": "few" }])
        .batch_size(0)
        .write_concern(WriteConcern::majority())
        .await?;
    assert!(!written.advance().await?);
    assert_eq!(database.collection::<Document>("few").count_documents(doc! {}).await?, 2);

    let operations = database.client().database("admin");
    let mut cursor =
        operations.aggregate([doc! { "$currentOp": {} }, doc! { "$limit": 1 }]).await?;
    assert!(cursor.advance().await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn count_documents_and_distinct_apply_their_options() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (database, _) = fresh("reads_count").await?;
    let numbers = database.collection::<Document>("numbers");
    assert_eq!(numbers.estimated_document_count().await?, 0);
    assert_eq!(numbers.count_documents(doc! {}).await?, 0);
    fill(&numbers, &database, 5).await?;
    assert_eq!(numbers.estimated_document_count().await?, 5);
    assert_eq!(numbers.count_documents(doc! { "x": { "$gt": 0 } }).skip(1).limit(2).await?, 2);
    let values = numbers.distinct("x", doc! { "x": { "$gte": 3 } }).await?;
    assert_eq!(values, [Bson::Int32(3), Bson::Int32(4)]);

    let documents = vec![doc! { "word": "Ja" }, doc! { "word": "ja" }];
    database.run_command(doc! { "insert": "words", "documents": documents }).await?;
    let words = database.collection::<Document>("words");
    let loose = Collation::builder().locale("en").strength(CollationStrength::Secondary).build();
    assert_eq!(words.distinct("word", doc! {}).collation(loose.clone()).await?.len(), 1);
    assert_eq!(words.count_documents(doc! { "word": "JA" }).collation(loose).await?, 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_and_collections_are_created_listed_and_dropped() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (database, _) = fresh("reads_admin").await?;
    let client = database.client();
    database.create_collection("capped").capped(true).size(4096).max(3).await?;
    let options = CreateCollectionOptions::builder()
        .timeseries(TimeseriesOptions::builder().time_field("at").build())
        .expire_after_seconds(Duration::from_secs(3600))
        .build();
    database.create_collection("measured").with_options(options).await?;
    database
        .create_collection("shown")
        .view_on("capped".to_owned())
        .pipeline(vec![doc! { "$match": {} }])
        .await?;
    let taken = database.create_collection("capped").capped(true).size(9999).await.unwrap_err();
    assert_eq!(taken.code(), Some(48));
    assert!(taken.server_address().is_some());

    let mut names = database
        .list_collection_names()
        .filter(doc! { "name": { "$regex": "^[cms][a-z]+$" } })
        .await?;
    names.sort();
    assert_eq!(names, ["capped", "measured", "shown"]);
    let found = drain(&mut database.list_collections().batch_size(1).await?).await?;
    let of = |name: &str| found.iter().find(|found| found.name == name).unwrap().clone();
    assert_eq!(of("capped").options.max, Some(3));
    assert!(of("capped").info.uuid.is_some() && of("capped").id_index.is_some());
    assert_eq!(of("shown").collection_type, CollectionType::View);
    assert!(of("shown").info.read_only);
    assert_eq!(of("measured").collection_type, CollectionType::Timeseries);
    assert_eq!(of("measured").options.timeseries.unwrap().time_field, "at");

    let listed = client.list_databases().filter(doc! { "name": "reads_admin" }).await?;
    assert!(listed.len() == 1 && listed[0].size_on_disk > 0 && !listed[0].empty);
    assert!(client.list_database_names().await?.contains(&"reads_admin".to_owned()));

    database.collection::<Document>("capped").drop().await?;
    database.collection::<Document>("never there").drop().await?;
    database.drop().await?;
    assert!(!client.list_database_names().await?.contains(&"reads_admin".to_owned()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_are_created_listed_and_dropped() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (database, _) = fresh("reads_indexes").await?;
    let books = database.collection::<Document>("books");
    let unique = IndexOptions::builder().unique(true).build();
    let model = IndexModel::builder().keys(doc! { "isbn": 1 }).options(unique).build();
    assert_eq!(books.create_index(model.clone()).await?.index_name, "isbn_1");
    assert_eq!(books.create_index(model).await?.index_name, "isbn_1", "it may be there already");
    let expiring = IndexOptions::builder()
        .name("old".to_owned())
        .expire_after(Duration::from_secs(60))
        .build();
    let models = [
        IndexModel::builder().keys(doc! { "title": "text" }).build(),
        IndexModel::builder().keys(doc! { "at": 1 }).options(expiring).build(),
    ];
    assert_eq!(books.create_indexes(models).await?.index_names, ["title_text", "old"]);

    let mut names = books.list_index_names().await?;
    names.sort();
    assert_eq!(names, ["_id_", "isbn_1", "old", "title_text"]);
    let indexes = drain(&mut books.list_indexes().batch_size(2).await?).await?;
    let options = |keys: Document| {
        let found = indexes.iter().find(|index| index.keys == keys).unwrap();
        found.options.clone().unwrap()
    };
    assert_eq!(options(doc! { "isbn": 1 }).unique, Some(true));
    assert_eq!(options(doc! { "at": 1 }).expire_after, Some(Duration::from_secs(60)));

    books.drop_index("isbn_1").await?;
    assert_eq!(books.drop_index("isbn_1").await.unwrap_err().code(), Some(27));
    assert!(books.drop_index("*").await.unwrap_err().is_invalid_argument());
    books.drop_indexes().await?;
    assert_eq!(books.list_index_names().await?, ["_id_"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn run_command_and_run_cursor_command_return_replies_and_errors() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (database, sent) = fresh("reads_commands").await?;
    let numbers = database.collection::<Document>("numbers");
    fill(&numbers, &database, 5).await?;
    let reply = database.run_raw_command(rawdoc! { "ping": 1 }).await?;
    assert_eq!(reply.get_f64("ok").unwrap(), 1.0);

    let find = doc! { "find": "numbers", "batchSize": 1, "sort": { "_id": 1 } };
    let mut cursor =
        database.run_cursor_command(find).batch_size(3).comment(Bson::from("more")).await?;
    assert_eq!(ids(&drain(&mut cursor).await?), [0, 1, 2, 3, 4]);
    assert_eq!(sent.count("getMore"), 2);

    let unknown = database.run_command(doc! { "noSuchCommand": 1 }).await.unwrap_err();
    assert_eq!(unknown.code(), Some(59));
    let error = database.run_cursor_command(doc! { "ping": 1 }).await.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::InvalidResponse { .. }), "{error}");
    assert!(error.server_address().is_some());
    assert!(database.run_command(doc! {}).await.unwrap_err().is_invalid_argument());
    assert!(database.run_command(doc! { "a\0b": 1 }).await.is_err());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn search_index_commands_are_errors_without_atlas() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (database, sent) = fresh("reads_search").await?;
    let books = database.collection::<Document>("books");
    let model = steadfast::SearchIndexModel::builder().definition(doc! { "mappings": {} }).build();
    assert!(books.create_search_index(model).await.unwrap_err().code().is_some());
    assert!(books.update_search_index("x", doc! {}).await.unwrap_err().code().is_some());
    assert!(books.drop_search_index("x").await.unwrap_err().code().is_some());
    assert!(books.list_search_indexes().name("x").await.unwrap_err().code().is_some());
    let names = ["createSearchIndexes", "updateSearchIndex", "dropSearchIndex", "aggregate"];
    assert!(names.iter().all(|name| sent.count(name) == 1), "{:?}", sent.names());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unacknowledged_command_does_not_wait() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let (database, _) = fresh("reads_unacknowledged").await?;
    let unacknowledged = WriteConcern::nodes(0);
    database.create_collection("made").write_concern(unacknowledged.clone()).await?;
    let made = async {
        while !database.list_collection_names().await?.contains(&"made".to_owned()) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Result::Ok(())
    };
    tokio::time::timeout(Duration::from_secs(60), made)
        .await
        .expect("the connection is established")?;
    let journaled = unacknowledged.with_journal(true);
    let error = database.create_collection("x").write_concern(journaled).await.unwrap_err();
    assert!(error.is_invalid_argument());
    Ok(())
}
