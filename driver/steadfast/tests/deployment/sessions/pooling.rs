//! Session pool: return and reuse of server sessions, dirty sessions and `endSessions`.

use std::time::Duration;

use steadfast::{
    bson::{Bson, Document, doc},
    error::ErrorKind,
    options::{DeleteOneModel, InsertOneModel, UpdateOneModel, WriteConcern, WriteModel},
};

use super::{CommandLog, assert_invalid_argument, client_with, collection};
use crate::FAIL_POINT;

fn ids_ended(log: &CommandLog) -> Vec<Bson> {
    let mut ids = log.last("endSessions").get_array("endSessions").unwrap().clone();
    ids.sort_by_key(ToString::to_string);
    ids
}

/// pitfall 20: `find_one` leaks no session.
#[tokio::test]
async fn sequential_operations_share_one_session() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, log) = collection("one_by_one", 50).await;
    for id in 0..10 {
        numbers.update_one(doc! { "_id": id }, doc! { "$set": { "x": 1 } }).await.unwrap();
        numbers.find_one(doc! {}).await.unwrap();
        numbers.find_one(doc! { "_id": -1 }).await.unwrap();
        numbers.distinct("x", doc! {}).await.unwrap();
        let taken = numbers.insert_one(doc! { "_id": id }).await.unwrap_err();
        assert!(taken.is_duplicate_key_error());
        drop(client.database("sessions").run_command(doc! { "noSuchCommand": 1 }).await);
    }
    assert_eq!(log.sent().len(), 60);
    assert_eq!(log.sessions().len(), 1);
}

#[tokio::test]
async fn all_commands_of_one_operation_have_one_session() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, log) = collection("one_operation", 5).await;
    let models = || -> [WriteModel<Document>; 4] {
        [
            InsertOneModel::new(doc! {}).into(),
            UpdateOneModel::new(doc! {}, doc! { "$set": { "x": 1 } }).into(),
            InsertOneModel::new(doc! {}).into(),
            DeleteOneModel::new(doc! { "x": 1 }).into(),
        ]
    };
    numbers.bulk_write(models()).await.unwrap();
    assert_eq!(log.sent().len(), 4);
    assert_eq!(log.sessions().len(), 1);

    log.clear();
    let mut session = client.start_session().await.unwrap();
    numbers.bulk_write(models()).session(&mut session).await.unwrap();
    let large = "x".repeat(1 << 20);
    let documents: Vec<_> = (0..60).map(|_| doc! { "large": &large }).collect();
    numbers.insert_many(documents).session(&mut session).await.unwrap();
    assert!(log.sent().len() >= 6);
    assert_eq!(log.sessions(), [session.id().clone()]);
}

/// pitfall 19
#[tokio::test]
async fn an_unacknowledged_write_has_no_session() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, log) = collection("unacknowledged", 0).await;
    let unacknowledged = WriteConcern::nodes(0);
    numbers.insert_one(doc! {}).write_concern(unacknowledged.clone()).await.unwrap();
    assert!(!log.last("insert").contains_key("lsid"));
    // All commands of an ordered bulk write except the last are acknowledged, and have a session.
    let models: [WriteModel<Document>; 3] = [
        InsertOneModel::new(doc! {}).into(),
        DeleteOneModel::new(doc! {}).into(),
        UpdateOneModel::new(doc! {}, doc! { "$set": { "x": 1 } }).into(),
    ];
    numbers.bulk_write(models.clone()).write_concern(unacknowledged.clone()).await.unwrap();
    assert!(log.last("insert").contains_key("lsid") && log.last("delete").contains_key("lsid"));
    assert!(!log.last("update").contains_key("lsid"));

    // An unacknowledged write in an explicit session is rejected before anything is sent.
    log.clear();
    let mut session = client.start_session().await.unwrap();
    let one =
        numbers.insert_one(doc! {}).write_concern(unacknowledged.clone()).session(&mut session);
    assert_invalid_argument(&one.await.unwrap_err());
    let many =
        numbers.bulk_write(models).write_concern(unacknowledged.clone()).session(&mut session);
    assert_invalid_argument(&many.await.unwrap_err());
    let many = numbers.insert_many([doc! {}]).write_concern(unacknowledged).session(&mut session);
    assert_invalid_argument(&many.await.unwrap_err());
    assert!(log.sent().is_empty());
}

/// pitfall 20
#[tokio::test]
async fn an_open_cursor_keeps_its_session_until_it_is_dropped() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, log) = collection("kept", 5).await;
    let cursor = numbers.find(doc! {}).batch_size(2).await.unwrap();
    let kept = log.last("find").get("lsid").cloned().unwrap();
    for _ in 0..3 {
        numbers.find_one(doc! {}).await.unwrap();
        assert_ne!(log.last("find").get("lsid"), Some(&kept));
    }
    drop(cursor);
    // A shutdown waits until the cursor is killed, and then ends all pooled sessions.
    log.wait_for("killCursors", 1).await;
    assert_eq!(log.last("killCursors").get("lsid"), Some(&kept));
    let used: Vec<_> = log.sessions().into_iter().map(Bson::from).collect();
    assert_eq!(used.len(), 2);
    client.shutdown().await;
    let ended = ids_ended(&log);
    assert!(ended.len() == 2 && used.iter().all(|id| ended.contains(id)), "{ended:?}");
}

#[tokio::test]
async fn shutdown_ends_all_sessions_on_the_server() {
    testbed::require!(testbed::shared::servers());
    let (client, log) = client_with(|_| ()).await;
    let mut ids = Vec::new();
    let mut sessions = Vec::new();
    for _ in 0..5 {
        let mut session = client.start_session().await.unwrap();
        client
            .database("admin")
            .run_command(doc! { "ping": 1 })
            .session(&mut session)
            .await
            .unwrap();
        ids.push(Bson::from(session.id().clone()));
        sessions.push(session);
    }
    drop(sessions);
    ids.sort_by_key(ToString::to_string);
    client.shutdown().await;
    assert_eq!(ids_ended(&log), ids);
    assert_eq!(log.named("endSessions").len(), 1);
    let said = log.last("endSessions");
    assert_eq!(said.get_str("$db").unwrap(), "admin");
}

/// Closes the connection of the next `ping` of clients with this `appName`.
async fn close_connection_on_ping(app_name: &str) {
    let (client, _) = client_with(|_| ()).await;
    let data = doc! { "failCommands": ["ping"], "closeConnection": true, "appName": app_name };
    let fail = doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data };
    client.database("admin").run_command(fail).await.unwrap();
    client.shutdown().await;
}

/// pitfall 17
#[tokio::test]
async fn a_session_is_not_used_again_after_a_network_error() {
    testbed::require!(testbed::shared::servers());
    let (client, log) = client_with(|options| {
        options.app_name = Some("dirty sessions".to_owned());
    })
    .await;
    let admin = client.database("admin");
    let ping = || doc! { "ping": 1 };

    let _point = FAIL_POINT.lock().await;
    close_connection_on_ping("dirty sessions").await;
    let error = admin.run_command(ping()).await.unwrap_err();
    assert!(error.is_network_error(), "{error}");
    let implicit = log.last("ping").get("lsid").cloned().unwrap();
    admin.run_command(ping()).await.unwrap();
    assert_ne!(log.last("ping").get("lsid"), Some(&implicit));

    close_connection_on_ping("dirty sessions").await;
    let mut session = client.start_session().await.unwrap();
    let explicit = Bson::from(session.id().clone());
    assert!(admin.run_command(ping()).session(&mut session).await.unwrap_err().is_network_error());
    // The explicit session keeps its server session, and stays dirty after a successful command.
    admin.run_command(ping()).session(&mut session).await.unwrap();
    assert_eq!(log.last("ping").get("lsid"), Some(&explicit));
    drop(session);
    admin.run_command(ping()).await.unwrap();
    assert_ne!(log.last("ping").get("lsid"), Some(&explicit));
    client.shutdown().await;
    let ended = ids_ended(&log);
    assert!(!ended.contains(&implicit) && !ended.contains(&explicit), "{ended:?}");
}

/// pitfall 22
#[tokio::test]
async fn the_session_of_a_dropped_future_is_not_used_again() {
    testbed::require!(testbed::shared::servers());
    let (client, log) = client_with(|_| ()).await;
    let admin = client.database("admin");
    admin.run_command(doc! { "ping": 1 }).await.unwrap();
    let sleep = doc! { "sleep": 1, "millis": 1_000, "lock": "none" };
    let dropped = tokio::select! {
        biased;
        () = log.wait_for("sleep", 1) => None,
        result = admin.run_command(sleep.clone()).into_future() => Some(result),
    };
    assert!(dropped.is_none());
    let implicit = log.last("sleep").get("lsid").cloned().unwrap();
    admin.run_command(doc! { "ping": 1 }).await.unwrap();
    assert_ne!(log.last("ping").get("lsid"), Some(&implicit));

    let mut session = client.start_session().await.unwrap();
    let explicit = Bson::from(session.id().clone());
    let dropped = tokio::select! {
        biased;
        () = log.wait_for("sleep", 2) => None,
        result = admin.run_command(sleep).session(&mut session).into_future() => Some(result),
    };
    assert!(dropped.is_none());
    admin.run_command(doc! { "ping": 1 }).session(&mut session).await.unwrap();
    drop(session);
    admin.run_command(doc! { "ping": 1 }).await.unwrap();
    client.shutdown().await;
    let ended = ids_ended(&log);
    assert!(!ended.contains(&implicit) && !ended.contains(&explicit), "{ended:?}");
}

#[tokio::test]
async fn shutdown_does_not_wait_for_a_session_which_then_fails() {
    testbed::require!(testbed::shared::servers());
    let (client, _) = client_with(|_| ()).await;
    let mut session = client.start_session().await.unwrap();
    let admin = client.database("admin");
    tokio::time::timeout(Duration::from_secs(60), client.shutdown().into_future()).await.unwrap();
    let late = admin.run_command(doc! { "ping": 1 }).session(&mut session).await.unwrap_err();
    assert!(matches!(&*late.kind, ErrorKind::Shutdown), "{late}");
}
