//! Calls of the blocking API in each kind of runtime.

use std::{
    sync::{Arc, mpsc},
    thread,
};

use steadfast::{
    bson::doc,
    error::{Error, ErrorKind},
    event::{EventHandler, command::CommandEvent},
    options::ClientOptions,
    sync::Client,
};
use steadfast_embedded::Deployment;
use tokio::{
    runtime::{Builder, Runtime},
    task,
};

use super::{HANG, collection, replica_set};

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Makes calls of each kind. They succeed.
fn use_client(uri: &str) {
    let client = Client::with_uri_str(uri).expect("a client");
    let numbers = collection(&client);
    numbers.drop().run().expect("dropped");
    numbers.insert_many((0..10).map(|n| doc! { "_id": n })).run().expect("inserted");
    assert_eq!(numbers.find(doc! {}).batch_size(3).run().expect("found").count(), 10);
    let mut session = client.start_session().run().expect("a session");
    let transaction = session.start_transaction();
    let deleted =
        transaction.and_run(|session| numbers.delete_many(doc! {}).session(session).run());
    assert_eq!(deleted.expect("committed").deleted_count, 10);
    drop(session);
    client.shutdown().run();
}

#[track_caller]
fn assert_would_block(error: &Error) {
    assert!(matches!(&*error.kind, ErrorKind::InvalidArgument { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("would block") && message.contains("spawn_blocking"), "{message}");
}

/// Makes calls of each kind. They return the error for a thread that may not block.
fn assert_rejected(client: &Client, uri: &str) {
    let numbers = collection(client);
    assert_would_block(&Client::with_uri_str(uri).expect_err("rejected"));
    assert_would_block(&numbers.insert_one(doc! { "rejected": true }).run().expect_err("rejected"));
    assert_would_block(&numbers.find(doc! {}).run().expect_err("rejected"));
    assert_would_block(&client.start_session().run().expect_err("rejected"));
    assert_would_block(&ClientOptions::parse(uri).run().expect_err("rejected"));
    // Neither has a result. They return.
    client.warm_connection_pool().run();
    client.clone().database("sync").gridfs_bucket(None);
}

#[test]
fn calls_block_outside_of_any_runtime() {
    let (deployment, _) = replica_set();
    use_client(&deployment.uri());
    let uri = deployment.uri();
    thread::spawn(move || use_client(&uri)).join().expect("no panic");
}

#[test]
fn calls_block_in_a_multi_thread_runtime() {
    let (deployment, _) = replica_set();
    let uri = deployment.uri();
    multi_thread().block_on(async {
        use_client(&uri);
        let in_task = uri.clone();
        task::spawn(async move { use_client(&in_task) }).await.expect("no panic");
        task::spawn_blocking(move || use_client(&uri)).await.expect("no panic");
    });
}

#[test]
fn blocking_task_hands_its_worker_over() {
    let (_deployment, client) = replica_set();
    multi_thread().block_on(async {
        let mut changes = collection(&client).watch().run().expect("opened");
        let watching = task::spawn(async move { changes.next().expect("an event").map(drop) });
        // There is one worker, which the other task blocks.
        let writing = task::spawn(async move { collection(&client).insert_one(doc! {}).run() });
        writing.await.expect("no panic").expect("inserted");
        watching.await.expect("no panic").expect("an event");
    });
}

#[test]
fn calls_are_rejected_in_tasks_of_a_current_thread_runtime() {
    let (deployment, client) = replica_set();
    let uri = deployment.uri();
    current_thread().block_on(async {
        assert_rejected(&client, &uri);
        let (in_task, task_uri) = (client.clone(), uri.clone());
        task::spawn(async move { assert_rejected(&in_task, &task_uri) }).await.expect("no panic");
    });
    task::LocalSet::new().block_on(&current_thread(), async { assert_rejected(&client, &uri) });
    task::LocalSet::new().block_on(&multi_thread(), async { assert_rejected(&client, &uri) });
    assert_eq!(collection(&client).count_documents(doc! {}).run().expect("counted"), 0);
}

#[test]
fn calls_block_in_spawn_blocking_of_a_current_thread_runtime() {
    let (deployment, _) = replica_set();
    let uri = deployment.uri();
    current_thread().block_on(async {
        let in_pool = uri.clone();
        task::spawn_blocking(move || use_client(&in_pool)).await.expect("no panic");
        task::spawn_blocking(move || thread::spawn(move || use_client(&uri)).join())
            .await
            .expect("no panic")
            .expect("no panic");
    });
}

#[test]
fn rejected_handles_can_be_used_elsewhere() {
    let (_deployment, client) = replica_set();
    let numbers = collection(&client);
    numbers.insert_many((0..6).map(|n| doc! { "_id": n })).run().expect("inserted");
    let mut session = client.start_session().run().expect("a session");
    let mut cursor = numbers.find(doc! {}).batch_size(2).run().expect("found");
    let mut changes = numbers.watch().run().expect("opened");
    current_thread().block_on(async {
        assert_would_block(&cursor.advance().expect_err("rejected"));
        assert_would_block(&changes.next_if_any().expect_err("rejected"));
        assert_would_block(&session.start_transaction().run().expect_err("rejected"));
        let run = session
            .start_transaction()
            .and_run(|_| -> steadfast::error::Result<()> { panic!("called") });
        assert_would_block(&run.expect_err("rejected"));
        // An iterator ends after the error, so that loops that ignore errors end.
        let rejected: Vec<_> = numbers.find(doc! {}).run().into_iter().flatten().collect();
        assert!(rejected.is_empty());
        assert_eq!(changes.by_ref().take(5).filter(|event| event.is_err()).count(), 1);
    });
    let mut count = 0;
    while cursor.advance().expect("read") {
        count += 1;
    }
    assert_eq!(count, 6);
    session.start_transaction().run().expect("started");
    assert!(changes.next_if_any().expect("read").is_none());
}

#[test]
fn shutdown_continues_in_the_background_of_a_current_thread_runtime() {
    let (_deployment, client) = replica_set();
    let clone = client.clone();
    collection(&client).insert_one(doc! {}).run().expect("inserted");
    current_thread().block_on(async { client.shutdown().run() });
    let started = std::time::Instant::now();
    loop {
        match collection(&clone).find_one(doc! {}).run() {
            Ok(_) => assert!(started.elapsed() < HANG, "it is not shut down"),
            Err(error) => return assert!(matches!(&*error.kind, ErrorKind::Shutdown), "{error}"),
        }
        thread::yield_now();
    }
}

#[test]
fn converted_client_stays_in_its_runtime() {
    let (deployment, _) = replica_set();
    let runtime = multi_thread();
    let client = runtime.block_on(steadfast::Client::with_uri_str(deployment.uri()));
    let client = Client::from(client.expect("a client"));
    collection(&client).insert_one(doc! {}).run().expect("inserted");
    let found = runtime.block_on(async { collection(&client).find_one(doc! {}).run() });
    assert!(found.expect("read").is_some());

    // A session of the async API in an action of the blocking one, and the other way around.
    let blocking = collection(&client);
    runtime.block_on(async {
        let uri = deployment.uri();
        let async_client = steadfast::Client::with_uri_str(uri).await.expect("a client");
        let of_both = Client::from(async_client.clone());
        let mut session = async_client.start_session().await.expect("a session");
        let inserted = collection(&of_both).insert_one(doc! {}).session(&mut session).run();
        inserted.expect("inserted");
        let mut session = steadfast::sync::ClientSession::from(session);
        let numbers =
            async_client.database("sync").collection::<steadfast::bson::Document>("numbers");
        numbers.insert_one(doc! {}).session(&mut session).await.expect("inserted");
    });
    assert_eq!(blocking.count_documents(doc! {}).run().expect("counted"), 3);
}

#[test]
fn event_handler_can_make_calls() {
    let deployment = Deployment::replica_set(1).in_thread().start();
    let (sender, counts) = mpsc::channel();
    let counter = Arc::new(Client::with_uri_str(deployment.uri()).expect("a client"));
    let mut options = ClientOptions::parse(deployment.uri()).run().expect("valid");
    options.command_event_handler = Some(EventHandler::callback(move |event| {
        if matches!(event, CommandEvent::Succeeded(_)) {
            let count = collection(&counter).count_documents(doc! {}).run();
            let _ = sender.send(count.expect("counted"));
        }
    }));
    let client = Client::with_options(options).expect("a client");
    collection(&client).insert_one(doc! {}).run().expect("inserted");
    assert_eq!(counts.recv_timeout(HANG), Ok(1));
    multi_thread()
        .block_on(async {
            task::spawn(async move { collection(&client).insert_one(doc! {}).run() }).await
        })
        .expect("no panic")
        .expect("inserted");
    assert_eq!(counts.recv_timeout(HANG), Ok(2));
}
