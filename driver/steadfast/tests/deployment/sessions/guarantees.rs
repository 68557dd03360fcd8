//! Guarantees of sessions: causal consistency and snapshot reads.

use futures_util::TryStreamExt;
use steadfast::{
    bson::{Document, doc},
    error::ErrorKind,
    options::{CollectionOptions, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern},
};

use super::collection;

#[tokio::test]
async fn causally_consistent_commands_have_after_cluster_time() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, log) = collection("causal", 1).await;
    let mut session = client.start_session().await.unwrap();
    assert!(session.operation_time().is_none() && session.cluster_time().is_none());
    numbers.find_one(doc! {}).session(&mut session).await.unwrap();
    assert!(!log.last("find").contains_key("readConcern"), "nothing was before the first");
    let first = log.last_reply("find").get_timestamp("operationTime").unwrap();
    assert_eq!(session.operation_time(), Some(first));
    assert!(session.cluster_time().is_some());

    numbers.insert_one(doc! {}).session(&mut session).await.unwrap();
    assert_eq!(
        log.last("insert").get_document("readConcern").unwrap(),
        &doc! { "afterClusterTime": first },
        "writes come after it, too"
    );
    let written = log.last_reply("insert").get_timestamp("operationTime").unwrap();
    assert!(written > first);
    numbers.find_one(doc! {}).session(&mut session).await.unwrap();
    assert_eq!(
        log.last("find").get_document("readConcern").unwrap(),
        &doc! { "afterClusterTime": written }
    );

    // An error reply also advances the operation time: here, to at least that of a write outside the session.
    numbers.insert_one(doc! {}).await.unwrap();
    let outside = log.last_reply("insert").get_timestamp("operationTime").unwrap();
    assert!(outside > session.operation_time().unwrap());
    let wrong = doc! { "find": numbers.name(), "filter": { "$wrong": 1 } };
    let database = client.database("sessions");
    database.run_command(wrong).session(&mut session).await.unwrap_err();
    let time = session.operation_time().unwrap();
    assert!(time >= outside);

    // The read concern level of the operation is kept.
    numbers
        .count_documents(doc! {})
        .read_concern(ReadConcern::majority())
        .session(&mut session)
        .await
        .unwrap();
    let concern = doc! { "level": "majority", "afterClusterTime": time };
    assert_eq!(log.last("aggregate").get_document("readConcern").unwrap(), &concern);

    // A command of the application (`run_command`) is sent unchanged.
    let own = doc! { "find": numbers.name() };
    database.run_command(own).session(&mut session).await.unwrap();
    assert!(!log.last("find").contains_key("readConcern"));
}

#[tokio::test]
async fn without_causal_consistency_no_after_cluster_time_is_sent() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, log) = collection("not_causal", 1).await;
    let mut session = client.start_session().causal_consistency(false).await.unwrap();
    numbers.insert_one(doc! {}).session(&mut session).await.unwrap();
    numbers.find_one(doc! {}).session(&mut session).await.unwrap();
    assert!(!log.last("find").contains_key("readConcern"));
    // Implicit sessions are not causally consistent.
    numbers.find_one(doc! {}).await.unwrap();
    assert!(!log.last("find").contains_key("readConcern"));
}

#[tokio::test]
async fn a_causally_consistent_session_reads_its_writes_from_a_secondary() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, _) = collection("own_writes", 1).await;
    let secondary = CollectionOptions::builder()
        .selection_criteria(SelectionCriteria::from(ReadPreference::secondary(None)))
        .read_concern(ReadConcern::majority())
        .build();
    let copies = client.database("sessions");
    let copies = copies.collection_with_options::<Document>("own_writes", secondary);
    let mut session = client.start_session().await.unwrap();
    for id in 1..20 {
        let insert = numbers.insert_one(doc! { "_id": id }).session(&mut session);
        insert.write_concern(WriteConcern::majority()).await.unwrap();
        let found = copies.find_one(doc! { "_id": id }).session(&mut session).await.unwrap();
        assert!(found.is_some(), "{id} is missing");
    }
}

#[tokio::test]
async fn operation_time_can_be_passed_to_another_session() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, log) = collection("followed", 1).await;
    let mut leader = client.start_session().await.unwrap();
    numbers.insert_one(doc! {}).session(&mut leader).await.unwrap();
    let (clock, time) = (leader.cluster_time().unwrap(), leader.operation_time().unwrap());
    let mut follower = client.start_session().await.unwrap();
    follower.advance_cluster_time(clock);
    follower.advance_operation_time(time);
    assert_eq!(follower.cluster_time().unwrap().document(), clock.document());
    numbers.find_one(doc! {}).session(&mut follower).await.unwrap();
    let sent = log.last("find");
    let concern = sent.get_document("readConcern").unwrap();
    assert_eq!(concern.get_timestamp("afterClusterTime").unwrap(), time);
    assert_eq!(sent.get_document("lsid").unwrap(), follower.id());
}

#[tokio::test]
async fn a_snapshot_session_reads_one_point_in_time() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, log) = collection("snapshot", 3).await;
    let mut session = client.start_session().snapshot(true).await.unwrap();
    assert_eq!(session.snapshot_time(), None);
    let find = numbers.find(doc! {}).session(&mut session);
    let mut cursor = find.await.unwrap();
    let before: Vec<_> = cursor.stream(&mut session).try_collect().await.unwrap();
    assert_eq!(before.len(), 3);
    assert_eq!(
        log.last("find").get_document("readConcern").unwrap(),
        &doc! { "level": "snapshot" }
    );
    let moment = session.snapshot_time().expect("the server chose one");

    let majority = WriteConcern::majority();
    numbers.insert_one(doc! { "_id": 3 }).write_concern(majority.clone()).await.unwrap();
    numbers.delete_one(doc! { "_id": 0 }).write_concern(majority).await.unwrap();
    let mut cursor = numbers.find(doc! {}).batch_size(2).session(&mut session).await.unwrap();
    let after: Vec<_> = cursor.stream(&mut session).try_collect().await.unwrap();
    assert_eq!(after, before, "the second find sees what the first saw");
    let concern = doc! { "level": "snapshot", "atClusterTime": moment };
    assert_eq!(log.last("find").get_document("readConcern").unwrap(), &concern);
    assert!(!log.last("getMore").contains_key("readConcern"));
    let counted = numbers.distinct("_id", doc! {}).session(&mut session).await.unwrap();
    assert_eq!(counted.len(), 3);
    assert_eq!(session.snapshot_time(), Some(moment), "the first to be told stays");

    // Another session can read at the same time.
    let mut later = client.start_session().snapshot(true).snapshot_time(moment).await.unwrap();
    let found = numbers.find_one(doc! { "_id": 0 }).session(&mut later).await.unwrap();
    assert!(found.is_some());
    let now = numbers.find_one(doc! { "_id": 0 }).await.unwrap();
    assert!(now.is_none());
}

#[tokio::test]
async fn a_snapshot_session_does_not_write() {
    testbed::require!(testbed::shared::servers());
    let (client, numbers, _) = collection("snapshot_write", 1).await;
    let mut session = client.start_session().snapshot(true).await.unwrap();
    let error = numbers.insert_one(doc! { "_id": 1 }).session(&mut session).await.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::Command(_)), "{error}");
    assert_eq!(numbers.count_documents(doc! {}).await.unwrap(), 1);
}
