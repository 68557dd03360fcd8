//! Cursors and change streams of the blocking API.

use std::thread;

use serde::Deserialize;
use steadfast::{
    bson::{Document, RawDocumentBuf, doc},
    change_stream::event::OperationType,
    error::Result,
    sync::Client,
};

use super::{collection, replica_set};

#[derive(Debug, Deserialize)]
struct NumberId {
    #[serde(rename = "_id")]
    id: i32,
}

/// Inserts the numbers from 0 to 9.
fn insert_ten(client: &Client) {
    let numbers = (0..10).map(|n| doc! { "_id": n, "name": format!("n{n}") });
    collection(client).insert_many(numbers).run().expect("inserted");
}

#[test]
fn cursor_iterates_over_all_batches() {
    let (_deployment, client) = replica_set();
    insert_ten(&client);
    let numbers = collection(&client).clone_with_type::<NumberId>();
    let cursor = numbers.find(doc! {}).sort(doc! { "_id": 1 }).batch_size(3).run().expect("found");
    let ids: Result<Vec<i32>> = cursor.map(|number| Ok(number?.id)).collect();
    assert_eq!(ids.expect("read"), (0..10).collect::<Vec<_>>());
}

#[test]
fn cursor_advances_without_copies() {
    #[derive(Deserialize)]
    struct Name<'a> {
        name: &'a str,
    }

    let (_deployment, client) = replica_set();
    insert_ten(&client);
    let numbers = collection(&client);
    let find = numbers.find(doc! {}).sort(doc! { "_id": 1 }).batch_size(4);
    let mut cursor = find.run().expect("found").with_type::<Name<'_>>();
    let mut count = 0;
    while cursor.advance().expect("read") {
        assert_eq!(cursor.current().get_i32("_id").expect("an id"), count);
        assert_eq!(cursor.deserialize_current().expect("it is").name, format!("n{count}"));
        count += 1;
    }
    assert_eq!(count, 10);
    assert!(!cursor.has_next());
    assert!(!cursor.try_advance().expect("ended"));
}

#[test]
fn aggregation_has_a_typed_cursor() {
    let (_deployment, client) = replica_set();
    insert_ten(&client);
    let pipeline = [doc! { "$match": { "_id": { "$gte": 7 } } }, doc! { "$sort": { "_id": 1 } }];
    let numbers = collection(&client);
    let aggregate = numbers.aggregate(pipeline).with_type::<NumberId>();
    let ids: Vec<i32> = aggregate.run().expect("run").map(|it| it.expect("read").id).collect();
    assert_eq!(ids, [7, 8, 9]);
}

#[test]
fn session_cursor_is_read_with_its_session() {
    let (_deployment, client) = replica_set();
    insert_ten(&client);
    let numbers = collection(&client);
    let copies = client.database("sync").collection::<Document>("copies");
    let mut session = client.start_session().run().expect("a session");
    let find = numbers.find(doc! {}).sort(doc! { "_id": 1 }).batch_size(3);
    let mut cursor = find.session(&mut session).run().expect("found");
    // The session is free between two documents.
    let first = cursor.next(&mut session).expect("a document").expect("read");
    copies.insert_one(first).session(&mut session).run().expect("inserted");
    assert!(cursor.advance(&mut session).expect("read"));
    assert_eq!(cursor.current().get_i32("_id").expect("an id"), 1);
    let mut cursor = cursor.with_type::<NumberId>();
    assert_eq!(cursor.deserialize_current().expect("read").id, 1);
    let rest: Vec<i32> = cursor.iter(&mut session).map(|it| it.expect("read").id).collect();
    assert_eq!(rest, (2..10).collect::<Vec<_>>());
    assert!(!cursor.has_next());

    let mut other = client.start_session().run().expect("a session");
    let mut cursor = numbers.find(doc! {}).session(&mut session).run().expect("found");
    assert!(cursor.try_advance(&mut other).expect_err("another session").is_invalid_argument());
    let all: Vec<_> = cursor.iter(&mut other).collect();
    assert!(matches!(&all[..], [Err(error)] if error.is_invalid_argument()), "{all:?}");
}

#[test]
fn causally_consistent_session_reads_its_own_writes() {
    let (_deployment, client) = replica_set();
    let mut first = client.start_session().run().expect("a session");
    let numbers = collection(&client);
    numbers.insert_one(doc! { "_id": 1 }).session(&mut first).run().expect("inserted");
    let mut second = client.start_session().run().expect("a session");
    second.advance_cluster_time(first.cluster_time().expect("a time"));
    second.advance_operation_time(first.operation_time().expect("a time"));
    let found = numbers.find_one(doc! { "_id": 1 }).session(&mut second).run();
    assert!(found.expect("read").is_some());
    assert_ne!(first.id(), second.id());
}

#[test]
fn change_stream_iterates_and_resumes() {
    let (_deployment, client) = replica_set();
    let numbers = collection(&client);
    let mut changes = numbers.watch().run().expect("opened");
    assert!(changes.next_if_any().expect("no event").is_none());
    numbers.insert_one(doc! { "_id": 1 }).run().expect("inserted");
    numbers.delete_one(doc! { "_id": 1 }).run().expect("deleted");
    let event = changes.next().expect("an event").expect("read");
    assert_eq!(event.operation_type, OperationType::Insert);
    assert!(changes.is_alive());

    let resumed = numbers.watch().resume_after(changes.resume_token()).run().expect("resumed");
    let mut resumed = resumed.with_type::<RawDocumentBuf>();
    let event = resumed.next().expect("an event").expect("read");
    assert_eq!(event.get_str("operationType").expect("a type"), "delete");
}

#[test]
fn change_stream_waits_for_the_next_event() {
    let (_deployment, client) = replica_set();
    let mut changes = client.database("sync").watch().run().expect("opened");
    let writer = client.clone();
    let writing = thread::spawn(move || collection(&writer).insert_one(doc! { "_id": 7 }).run());
    let event = changes.next().expect("an event").expect("read");
    assert_eq!(event.document_key, Some(doc! { "_id": 7 }));
    writing.join().expect("no panic").expect("inserted");
}

#[test]
fn session_change_stream_is_read_with_its_session() {
    let (_deployment, client) = replica_set();
    let mut session = client.start_session().run().expect("a session");
    let numbers = collection(&client);
    let mut changes = numbers.watch().session(&mut session).run().expect("opened");
    numbers.insert_one(doc! { "_id": 1 }).session(&mut session).run().expect("inserted");
    let event = changes.next(&mut session).expect("read").expect("an event");
    assert_eq!(event.operation_type, OperationType::Insert);
    assert!(changes.next_if_any(&mut session).expect("read").is_none());
    assert!(changes.is_alive() && changes.resume_token().is_some());
}
