//! Prose tests of the sessions specification, with their numbers.
//!
//! Omitted: 6, an ended session is dropped, and a program that used it would not compile; 7, 16 and 17, a client
//! has a single user; 12 and 13, the tests do not fork; 22 and 23, the snapshot time can only be read, and other
//! sessions have none.

use std::collections::BTreeSet;

use futures_util::{TryStreamExt, future::join_all};
use steadfast::{
    bson::{Bson, Document, Timestamp, doc},
    error::ErrorKind,
    event::{EventHandler, sdam::SdamEvent},
    options::{
        CollectionOptions, ReadPreference, SelectionCriteria, SessionOptions, UpdateOneModel,
        WriteConcern,
    },
};
use tokio::sync::watch;

use super::{assert_invalid_argument, client_at, client_with, collection, every_action};
use crate::common::{Role, Server, Step};

#[tokio::test]
async fn prose_1_a_session_is_not_both_snapshot_and_causally_consistent() {
    testbed::require!(testbed::shared::servers());
    let (client, _) = client_with(|_| ()).await;
    let started = client.start_session().snapshot(true).causal_consistency(true).await;
    assert_invalid_argument(&started.unwrap_err());
}

#[tokio::test]
async fn prose_2_the_session_pool_is_last_in_first_out() {
    testbed::require!(testbed::shared::servers());
    let (client, _) = client_with(|_| ()).await;
    let a = client.start_session().await.unwrap();
    let b = client.start_session().await.unwrap();
    let (id_of_a, id_of_b) = (a.id().clone(), b.id().clone());
    drop(a);
    drop(b);
    let first = client.start_session().await.unwrap();
    let second = client.start_session().await.unwrap();
    assert_eq!((first.id(), second.id()), (&id_of_b, &id_of_a));
}

#[tokio::test]
async fn prose_3_commands_send_the_cluster_time_of_the_previous_reply() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, log) = collection("prose_3", 1).await;
    let database = client.database("sessions");
    database.run_command(doc! { "ping": 1 }).await.unwrap();
    for name in ["ping", "aggregate", "find", "insert"] {
        match name {
            "ping" => database.run_command(doc! { "ping": 1 }).await.map(drop),
            "aggregate" => numbers.aggregate([doc! { "$limit": 1 }]).await.map(drop),
            "find" => numbers.find(doc! {}).await.map(drop),
            _ => numbers.insert_one(doc! {}).await.map(drop),
        }
        .unwrap();
        let cluster_time = log.last_reply(name).get_document("$clusterTime").unwrap().clone();
        let said = log.last(name);
        assert!(said.get_document("$clusterTime").is_ok(), "{name} tells no cluster time");
        database.run_command(doc! { "ping": 1 }).await.unwrap();
        assert_eq!(
            log.last("ping").get_document("$clusterTime").unwrap(),
            &cluster_time,
            "after {name}"
        );
    }
}

#[tokio::test]
async fn prose_4_every_action_runs_in_its_explicit_session_or_in_an_implicit_one() {
    testbed::require!(testbed::shared::servers());
    let (client, log) = client_with(|_| ()).await;
    let mut session = client.start_session().await.unwrap();
    for (name, result) in every_action!(client, .session(&mut session)) {
        // Search indexes require Atlas.
        assert!(result.is_ok() || name.contains("search"), "{name}: {result:?}");
    }
    let sent = log.sent();
    assert!(sent.len() >= 40, "{}", sent.len());
    for command in &sent {
        assert_eq!(command.get_document("lsid").unwrap(), session.id(), "{command}");
    }

    log.clear();
    for (name, result) in every_action!(client,) {
        assert!(result.is_ok() || name.contains("search"), "{name}: {result:?}");
    }
    assert_eq!(log.sent().len(), sent.len());
    for command in log.sent() {
        let id = command.get_document("lsid").expect("a session of its own");
        assert_ne!(id, session.id(), "{command}");
    }
}

#[tokio::test]
async fn prose_5_a_session_of_another_client_is_rejected_by_every_action() {
    testbed::require!(testbed::shared::servers());
    let (client, log) = client_with(|_| ()).await;
    let (other, _) = client_with(|_| ()).await;
    let mut session = other.start_session().await.unwrap();
    for (name, result) in every_action!(client, .session(&mut session)) {
        let error = result.expect_err(name);
        assert!(matches!(&*error.kind, ErrorKind::InvalidArgument { .. }), "{name}: {error}");
    }
    assert!(log.sent().is_empty());
}

/// pitfall 20
#[tokio::test]
async fn prose_8_a_cursor_exhausted_by_its_first_batch_returns_its_session_at_once() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, log) = collection("prose_8", 2).await;
    let mut cursor = numbers.find(doc! {}).await.unwrap();
    assert!(cursor.advance().await.unwrap());
    client.database("sessions").run_command(doc! { "ping": 1 }).await.unwrap();
    assert_eq!(log.last("ping").get("lsid"), log.last("find").get("lsid"));
    assert!(cursor.has_next(), "it is still being read");
}

/// pitfall 20
#[tokio::test]
async fn prose_9_a_cursor_exhausted_by_a_get_more_returns_its_session_at_once() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, log) = collection("prose_9", 5).await;
    let database = client.database("sessions");
    let mut cursor = numbers.find(doc! {}).batch_size(3).await.unwrap();
    for _ in 0..3 {
        assert!(cursor.advance().await.unwrap());
    }
    database.run_command(doc! { "ping": 1 }).await.unwrap();
    assert_ne!(log.last("ping").get("lsid"), log.last("find").get("lsid"), "in use");
    assert!(cursor.advance().await.unwrap());
    assert_eq!(log.last("getMore").get("lsid"), log.last("find").get("lsid"));
    database.run_command(doc! { "ping": 1 }).await.unwrap();
    assert_eq!(log.last("ping").get("lsid"), log.last("find").get("lsid"));
    assert!(cursor.has_next(), "it is still being read");
}

#[tokio::test]
async fn prose_11_find_and_get_more_have_the_same_session_with_any_read_preference() {
    testbed::require!(testbed::shared::servers());
    let (client, _, log) = collection("prose_11", 3).await;
    for preference in [
        ReadPreference::primary(),
        ReadPreference::primary_preferred(None),
        ReadPreference::secondary(None),
        ReadPreference::secondary_preferred(None),
        ReadPreference::nearest(None),
    ] {
        log.clear();
        let options = CollectionOptions::builder()
            .selection_criteria(SelectionCriteria::from(preference))
            .build();
        let numbers = client.database("sessions");
        let numbers = numbers.collection_with_options::<Document>("prose_11", options);
        let found: Vec<_> =
            numbers.find(doc! {}).batch_size(2).await.unwrap().try_collect().await.unwrap();
        assert_eq!(found.len(), 3);
        let sent = log.last("find");
        let Some(Bson::Binary(id)) = sent.get_document("lsid").unwrap().get("id") else {
            panic!("{sent}");
        };
        assert!(id.bytes.iter().any(|byte| *byte != 0));
        assert_eq!(log.last("getMore").get("lsid"), log.last("find").get("lsid"));
    }
}

#[tokio::test]
async fn prose_14_operations_that_wait_for_a_connection_hold_no_session() {
    testbed::require!(testbed::shared::servers());
    let (_, _, _) = collection("prose_14", 1).await;
    let mut fewest = usize::MAX;
    for _ in 0..5 {
        let (client, log) = client_with(|options| {
            options.max_pool_size = Some(1);
            options.retry_writes = Some(true);
        })
        .await;
        let c = client.database("sessions").collection::<Document>("prose_14");
        let set = || doc! { "$set": { "a": 1 } };
        let update = UpdateOneModel::new(doc! {}, set());
        let done = tokio::join!(
            async { c.insert_one(doc! {}).await.map(drop) },
            async { c.delete_one(doc! {}).await.map(drop) },
            async { c.update_one(doc! {}, set()).await.map(drop) },
            async { c.bulk_write([update.into()]).await.map(drop) },
            async { c.find_one_and_delete(doc! {}).await.map(drop) },
            async { c.find_one_and_update(doc! {}, set()).await.map(drop) },
            async { c.find_one_and_replace(doc! {}, doc! { "a": 1 }).await.map(drop) },
            async { c.find(doc! {}).await?.try_collect::<Vec<_>>().await.map(drop) },
        );
        for result in [done.0, done.1, done.2, done.3, done.4, done.5, done.6, done.7] {
            result.unwrap();
        }
        let sessions = log.sessions().len();
        assert!(sessions < 8, "every operation held a session");
        fewest = fewest.min(sessions);
    }
    assert_eq!(fewest, 1);
}

fn server_without_sessions() -> Server {
    let without = doc! { "logicalSessionTimeoutMinutes": Bson::Null };
    Server::builder().lenient().hello_fields(without).start()
}

#[tokio::test]
async fn prose_18_a_server_without_sessions_gets_no_implicit_session() {
    let server = server_without_sessions();
    let (client, log) = client_at(&server.uri(""), |_| ()).await;
    let numbers = client.database("db").collection::<Document>("numbers");
    drop(numbers.find_one(doc! {}).await);
    drop(numbers.insert_one(doc! {}).await);
    for name in ["find", "insert"] {
        assert!(!log.last(name).contains_key("lsid"));
    }
}

#[tokio::test]
async fn prose_19_an_explicit_session_fails_on_a_server_without_sessions_once_it_is_used() {
    let server = server_without_sessions();
    let (client, log) = client_at(&server.uri(""), |_| ()).await;
    let numbers = client.database("db").collection::<Document>("numbers");
    let mut session = client.start_session().await.expect("nothing is known yet");
    let read = numbers.find_one(doc! {}).session(&mut session).await.unwrap_err();
    assert!(matches!(&*read.kind, ErrorKind::SessionsNotSupported), "{read}");
    let write = numbers.insert_one(doc! {}).session(&mut session).await.unwrap_err();
    assert!(matches!(&*write.kind, ErrorKind::SessionsNotSupported), "{write}");
    assert!(log.sent().is_empty());
}

#[tokio::test]
async fn prose_20_cluster_time_does_not_come_from_monitors() {
    testbed::require!(testbed::shared::servers());
    let primary = {
        let (client, _) = client_with(|_| ()).await;
        let hello = client.database("admin").run_command(doc! { "hello": 1 }).await.unwrap();
        hello.get_str("primary").unwrap().to_owned()
    };
    let beats = watch::Sender::new(0_u32);
    let beating = beats.clone();
    let uri = format!("mongodb://{primary}/?directConnection=true&heartbeatFrequencyMS=500");
    let (client, log) = client_at(&uri, |options| {
        // Polling, so that there are heartbeats without a change.
        options.server_monitoring_mode = Some(steadfast::options::ServerMonitoringMode::Poll);
        options.sdam_event_handler = Some(EventHandler::callback(move |event| {
            if matches!(event, SdamEvent::ServerHeartbeatSucceeded(_)) {
                beating.send_modify(|count| *count += 1);
            }
        }));
    })
    .await;
    let admin = client.database("admin");
    let reply = admin.run_command(doc! { "ping": 1 }).await.unwrap();
    let cluster_time = reply.get_document("$clusterTime").unwrap();

    let (other, _) = client_with(|_| ()).await;
    let advanced = other.database("sessions").collection::<Document>("prose_20");
    advanced.insert_one(doc! {}).write_concern(WriteConcern::majority()).await.unwrap();
    let mut beats = beats.subscribe();
    let seen = *beats.borrow();
    // The heartbeat in progress may have begun before the insert.
    beats.wait_for(|count| *count >= seen + 2).await.unwrap();

    admin.run_command(doc! { "ping": 1 }).await.unwrap();
    assert_eq!(log.last("ping").get_document("$clusterTime").unwrap(), cluster_time);
}

/// Second part of the same rule: monitors and handshakes do not send the cluster time.
#[tokio::test]
async fn prose_20_monitors_do_not_send_the_cluster_time() {
    let time = doc! { "clusterTime": Timestamp { time: 9, increment: 1 } };
    let server = Server::with_handler(Role::Primary, move |request| {
        let reply = doc! { "ok": 1, "$clusterTime": time.clone() };
        (request.name == "ping").then(|| vec![Step::Reply(reply)])
    });
    let (client, _) = client_at(&server.uri("heartbeatFrequencyMS=500"), |options| {
        options.server_monitoring_mode = Some(steadfast::options::ServerMonitoringMode::Poll);
    })
    .await;
    for _ in 0..2 {
        client.database("admin").run_command(doc! { "ping": 1 }).await.unwrap();
    }
    let hellos = |recorder: &crate::common::ServerLog| {
        recorder.requests.iter().filter(|it| it.is_hello()).count()
    };
    let before = hellos(&server.log());
    let recorder = server.wait_for(|recorder| hellos(recorder) > before).await;
    assert!(recorder.named("ping")[1].body.contains_key("$clusterTime"));
    assert!(
        !recorder.requests.iter().any(|it| it.is_hello() && it.body.contains_key("$clusterTime"))
    );
}

#[tokio::test]
async fn prose_21_only_a_snapshot_session_takes_a_snapshot_time() {
    testbed::require!(testbed::shared::servers());
    let (client, _) = client_with(|_| ()).await;
    let time = Timestamp { time: 1, increment: 0 };
    let options = SessionOptions::builder().snapshot(false).snapshot_time(time).build();
    assert_invalid_argument(&client.start_session().with_options(options).await.unwrap_err());
    let session = client.start_session().snapshot(true).snapshot_time(time).await.unwrap();
    assert_eq!(session.snapshot_time(), Some(time));
}

#[tokio::test]
async fn concurrent_operations_have_different_sessions() {
    testbed::require!(testbed::shared::servers());
    let (client, log) = client_with(|_| ()).await;
    let admin = client.database("admin");
    let sleep = || doc! { "sleep": 1, "millis": 300, "lock": "none" };
    for result in join_all((0..3).map(|_| admin.run_command(sleep()).into_future())).await {
        result.unwrap();
    }
    let sessions: BTreeSet<_> = log.sessions().iter().map(ToString::to_string).collect();
    assert_eq!(sessions.len(), 3);
}
