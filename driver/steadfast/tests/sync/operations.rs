//! Actions of the blocking API: their results and errors.

use std::{future::Ready, thread};

use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use steadfast::{
    IndexModel,
    action::Action,
    bson::{Document, doc},
    error::{ErrorKind, Outcome},
    options::{ClientOptions, InsertOneModel, ServerAddress},
    sync::{Client, Collection},
};
use steadfast_embedded::Deployment;

use super::{StartedCommands, collection, every_action::every_action, replica_set};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct LibraryBook {
    #[serde(rename = "_id")]
    id: i32,
    title: String,
}

#[test]
fn documents_are_created_read_updated_and_deleted() {
    let (_deployment, client) = replica_set();
    let books: Collection<LibraryBook> = client.database("library").collection("books");
    let book = |id, title: &str| LibraryBook { id, title: title.to_owned() };
    let inserted = books.insert_one(book(1, "1984")).run().expect("inserted");
    assert_eq!(inserted.inserted_id.as_i32(), Some(1));
    let inserted = books.insert_many([book(2, "Animal Farm"), book(3, "Burmese Days")]).run();
    assert_eq!(inserted.expect("inserted").inserted_ids.len(), 2);
    let models = [InsertOneModel::new(book(4, "Homage to Catalonia")).into()];
    assert_eq!(books.bulk_write(models).run().expect("written").inserted_count, 1);

    assert_eq!(books.find_one(doc! { "_id": 1 }).run().expect("read"), Some(book(1, "1984")));
    assert_eq!(books.count_documents(doc! {}).run().expect("counted"), 4);
    let titles = books.distinct("title", doc! { "_id": { "$gt": 3 } }).run().expect("read");
    assert_eq!(titles, ["Homage to Catalonia".into()]);

    let update = doc! { "$set": { "title": "Nineteen Eighty-Four" } };
    assert_eq!(
        books.update_one(doc! { "_id": 1 }, update).run().expect("updated").modified_count,
        1
    );
    let before = books.find_one_and_replace(doc! { "_id": 1 }, book(1, "1984")).run();
    assert_eq!(before.expect("replaced").map(|it| it.title), Some("Nineteen Eighty-Four".into()));
    assert_eq!(
        books.delete_many(doc! { "_id": { "$gt": 1 } }).run().expect("deleted").deleted_count,
        3
    );
    assert_eq!(books.estimated_document_count().run().expect("counted"), 1);

    let index = IndexModel::builder().keys(doc! { "title": 1 }).build();
    assert_eq!(books.create_index(index).run().expect("created").index_name, "title_1");
    assert_eq!(books.list_index_names().run().expect("listed"), ["_id_", "title_1"]);
    assert_eq!(
        client.database("library").list_collection_names().run().expect("listed"),
        ["books"]
    );
    client.shutdown().run();
}

/// Turns the result of `run` into a future, because `every_action` awaits.
trait IntoReady: Sized {
    fn ready(self) -> Ready<Self>;
}

impl<T> IntoReady for steadfast::error::Result<T> {
    fn ready(self) -> Ready<Self> {
        std::future::ready(self)
    }
}

#[test]
fn every_action_runs() {
    let deployment = Deployment::replica_set(1).in_thread().start();
    let commands = StartedCommands::default();
    let client = commands.client(&deployment);
    let results = async { every_action!(client, .run().ready()) }.now_or_never().expect("no wait");
    assert!(results.len() >= 40);
    for (name, result) in results {
        match result {
            Ok(()) => {}
            // The embedded deployment has no search indexes.
            Err(error) => assert!(name.contains("search_index"), "{name}: {error}"),
        }
    }
    for command in ["insert", "find", "aggregate", "listIndexes", "createSearchIndexes"] {
        assert!(commands.count(command) > 0, "{command}");
    }

    let mut session = client.start_session().run().expect("a session");
    let results = async { every_action!(client, .session(&mut session).run().ready()) };
    for (name, result) in results.now_or_never().expect("no wait") {
        assert!(result.is_ok() || name.contains("search_index"), "{name}: {result:?}");
    }
    assert!(session.operation_time().is_some());
}

#[test]
fn client_bulk_write_runs() {
    let deployment = Deployment::replica_set(1).version("8.2").in_thread().start();
    let client = Client::with_uri_str(deployment.uri()).expect("a client");
    let model = collection(&client).insert_one_model(doc! { "_id": 1 }).expect("serialized");
    let written = client.bulk_write([model]).verbose_results().run().expect("written");
    assert_eq!(written.insert_results[&0].inserted_id.as_i32(), Some(1));
}

#[test]
fn errors_are_those_of_the_async_api() {
    let (_deployment, client) = replica_set();
    let numbers = collection(&client);
    numbers.insert_one(doc! { "_id": 1 }).run().expect("inserted");
    let error = numbers.insert_one(doc! { "_id": 1 }).run().expect_err("a duplicate");
    assert!(error.is_duplicate_key_error(), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    let error = numbers.find(doc! { "$no": 1 }).run().expect_err("a bad operator");
    assert!(matches!(&*error.kind, ErrorKind::Command(_)), "{error}");
    let error = ClientOptions::parse("mongodb://").run().expect_err("no host");
    assert!(error.is_invalid_argument(), "{error}");
    assert!(
        Client::with_uri_str("mongo://localhost")
            .expect_err("no such scheme")
            .is_invalid_argument()
    );
}

#[test]
fn unreachable_server_is_an_error_after_the_timeout() {
    let uri = "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=50";
    let client = Client::with_uri_str(uri).expect("nothing is sent");
    let error = collection(&client).find_one(doc! {}).run().expect_err("no server");
    assert!(error.is_server_selection_error(), "{error}");
    client.warm_connection_pool().run();
}

#[test]
fn optional_calls_a_setter_only_with_a_value() {
    let (_deployment, client) = replica_set();
    let numbers = collection(&client);
    numbers.insert_many((0..5).map(|n| doc! { "_id": n })).run().expect("inserted");
    let count = |limit: Option<i64>| {
        let find = numbers.find(doc! {}).optional(limit, |find, limit| find.limit(limit));
        find.run().expect("found").count()
    };
    assert_eq!((count(None), count(Some(2))), (5, 2));
}

#[test]
fn client_is_shared_by_threads() {
    const THREADS: i32 = 8;
    const INSERTS: i32 = 25;
    let (_deployment, client) = replica_set();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let client = client.clone();
            scope.spawn(move || {
                let numbers = collection(&client);
                for n in 0..INSERTS {
                    let id = thread * INSERTS + n;
                    numbers
                        .insert_one(doc! { "_id": id, "thread": thread })
                        .run()
                        .expect("inserted");
                }
                let own = numbers.find(doc! { "thread": thread }).batch_size(10).run();
                assert_eq!(own.expect("found").count(), 25);
            });
        }
    });
    let all = collection(&client).count_documents(doc! {}).run().expect("counted");
    assert_eq!(all, 200);
}

#[test]
fn connection_pool_is_warmed_up_and_shut_down() {
    let deployment = Deployment::replica_set(1).in_thread().start();
    let mut options = ClientOptions::parse(deployment.uri()).run().expect("valid");
    options.min_pool_size = Some(2);
    assert_eq!(options.hosts, [ServerAddress::from(deployment.member(0).address())]);
    let client = Client::with_options(options).expect("a client");
    client.warm_connection_pool().run();
    let clone = client.clone();
    client.shutdown().run();
    let error = collection(&clone).find_one(doc! {}).run().expect_err("it is shut down");
    assert!(matches!(&*error.kind, ErrorKind::Shutdown), "{error}");
}

#[test]
fn handles_are_send_and_sync() {
    fn sendable<T: Send + Sync + 'static>() {}
    sendable::<Client>();
    sendable::<steadfast::sync::Database>();
    sendable::<Collection<LibraryBook>>();
    sendable::<steadfast::sync::ClientSession>();
    sendable::<steadfast::sync::Cursor<LibraryBook>>();
    sendable::<steadfast::sync::SessionCursor<LibraryBook>>();
    sendable::<steadfast::sync::ChangeStream<Document>>();
    sendable::<steadfast::sync::gridfs::GridFsBucket>();
}

#[test]
fn handles_return_their_names_and_options() {
    let (_deployment, client) = replica_set();
    let database = client.database("library");
    let books = database.collection::<LibraryBook>("books");
    assert_eq!((database.name(), books.name()), ("library", "books"));
    assert_eq!(books.namespace().to_string(), "library.books");
    assert_eq!(books.clone_with_type::<Document>().namespace(), books.namespace());
    assert!(client.default_database().is_none());
    assert_eq!(books.client().options().hosts, client.options().hosts);
    assert_eq!(format!("{:?}", books.clone()), "Collection(library.books)");
}
