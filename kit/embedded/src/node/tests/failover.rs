//! Elections and step-downs as clients see them.

use tokio::time::timeout;

use super::*;

#[tokio::test(start_paused = true)]
async fn who_waits_for_members_hears_of_a_step_down() {
    let lab = Lab::new(3);
    lab.insert(1, doc! {}).await;
    lab.set.hold_replication(2);
    let write = with(retryable(1, 1), doc! { "writeConcern": { "w": 3 } });
    let waiting = lab.insert(2, write);
    tokio::pin!(waiting);
    assert!(timeout(Duration::from_millis(1), &mut waiting).await.is_err());
    let step_down = doc! { "replSetStepDown": 10, "secondaryCatchUpPeriodSecs": 5 };
    assert_ok(&lab.admin(step_down).await);
    let reply = waiting.await;
    assert_ok(&reply);
    assert_eq!(concern_code(&reply), 11602);
    assert_eq!(labels(&reply), ["RetryableWriteError"]);
    let primary = lab.set.primary().unwrap();
    assert_eq!(primary, 1);
    let again = lab.run_on(primary, "t", inserting(2, retryable(1, 1))).await;
    assert_ok(&again);
    assert_eq!(again.get_array("retriedStmtIds").unwrap(), &vec![Bson::Int32(0)]);
    assert_eq!(lab.ids_on(1, doc! {}).await, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_primary_steps_down_when_somebody_can_follow() {
    let lab = Lab::new(3);
    for (arguments, expected) in [
        (doc! { "replSetStepDown": -1 }, 2),
        (doc! { "replSetStepDown": 5, "secondaryCatchUpPeriodSecs": 6 }, 2),
    ] {
        assert_eq!(code(&lab.admin(arguments).await), expected);
    }
    let reply = lab.run_on(1, "admin", doc! { "replSetStepDown": 60 }).await;
    assert_eq!(code(&reply), 10107);
    lab.set.hold_replication(1);
    lab.set.hold_replication(2);
    lab.insert(1, doc! { "writeConcern": { "w": 1 } }).await;
    let reply = lab.admin(doc! { "replSetStepDown": 60 }).await;
    assert_eq!(code(&reply), 262);
    assert_eq!(lab.set.primary(), Some(0));
    let reply = lab.admin(doc! { "replSetStepDown": 60, "force": true }).await;
    assert_ok(&reply);
    assert!(!lab.set.nodes()[0].hello().get_bool("isWritablePrimary").unwrap());
}

#[tokio::test(start_paused = true)]
async fn elections_happen_by_themselves() {
    let lab = Lab::new(3);
    lab.insert(1, doc! {}).await;
    let mut topology = lab.set.nodes()[1].topology();
    topology.mark_unchanged();
    lab.set.kill(0);
    assert_eq!(*lab.set.nodes()[0].power().borrow(), Power::Off);
    let began = tokio::time::Instant::now();
    assert_eq!(lab.set.until_primary().await, 1);
    assert_eq!(began.elapsed(), Duration::from_millis(300));
    assert!(topology.has_changed().unwrap());
    let reply = lab.run_on(1, "t", inserting(2, doc! {})).await;
    assert_ok(&reply);
    lab.set.restart(0);
    lab.set.until_replicated().await;
    assert_eq!(lab.ids_on(0, doc! {}).await, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_on_a_member_that_dies_is_interrupted() {
    let lab = Lab::new(3);
    lab.insert(1, doc! {}).await;
    lab.set.hold_replication(2);
    let waiting = lab.insert(2, doc! { "writeConcern": { "w": 3 } });
    tokio::pin!(waiting);
    assert!(timeout(Duration::from_millis(1), &mut waiting).await.is_err());
    lab.set.kill(0);
    lab.set.restart(0);
    assert_eq!(concern_code(&waiting.await), 11602);
    assert_eq!(code(&lab.insert(3, doc! {}).await), 10107);
}

#[tokio::test(start_paused = true)]
async fn what_a_lost_primary_acknowledged_alone_may_be_taken_back() {
    let lab = Lab::new(3);
    lab.insert(1, doc! {}).await;
    lab.set.partition(&[&[0], &[1, 2]]);
    assert_ok(&lab.insert(2, doc! { "writeConcern": { "w": 1 } }).await);
    let majority = lab.insert(3, doc! { "writeConcern": { "w": "majority", "wtimeout": 50 } });
    assert_eq!(concern_code(&majority.await), 64);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(lab.set.primary(), Some(1));
    assert_eq!(code(&lab.insert(4, doc! {}).await), 10107);
    assert_ok(&lab.run_on(1, "t", inserting(5, doc! {})).await);
    assert_eq!(lab.ids_on(0, doc! {}).await, [1, 2, 3]);
    lab.set.heal();
    assert_eq!(lab.ids_on(0, doc! {}).await, [1, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_member_can_be_asked_to_be_primary_or_not_to_be() {
    let lab = Lab::new(3);
    assert_ok(&lab.run_on(2, "admin", doc! { "replSetStepUp": 1 }).await);
    assert_eq!(lab.set.primary(), Some(2));
    let reply = lab.run_on(2, "admin", doc! { "replSetFreeze": 10 }).await;
    assert_eq!(code(&reply), 95);
    assert_ok(&lab.run_on(0, "admin", doc! { "replSetFreeze": 1000 }).await);
    lab.set.step_down();
    assert_eq!(lab.set.primary(), Some(1));
    let status = lab.admin(doc! { "replSetGetStatus": 1 }).await;
    let states: Vec<&str> = status
        .get_array("members")
        .unwrap()
        .iter()
        .map(|member| member.as_document().unwrap().get_str("stateStr").unwrap())
        .collect();
    assert_eq!(states, ["SECONDARY", "PRIMARY", "SECONDARY"]);
    let config = lab.admin(doc! { "replSetGetConfig": 1 }).await;
    assert_eq!(config.get_document("config").unwrap().get_array("members").unwrap().len(), 3);
    assert_eq!(code(&lab.run(doc! { "replSetGetStatus": 1 }).await), 13);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_survives_a_step_down_and_not_a_restart() {
    let lab = Lab::new(3);
    for id in 0..5 {
        lab.insert(id, doc! {}).await;
    }
    let opened = lab.run(doc! { "find": "c", "batchSize": 2 }).await;
    let id = opened.get_document("cursor").unwrap().get_i64("id").unwrap();
    let more = doc! { "getMore": id, "collection": "c", "batchSize": 2 };
    assert_ok(&lab.admin(doc! { "replSetStepDown": 10, "secondaryCatchUpPeriodSecs": 5 }).await);
    let reply = lab.run(more.clone()).await;
    assert_ok(&reply);
    assert_eq!(reply.get_document("cursor").unwrap().get_array("nextBatch").unwrap().len(), 2);
    lab.set.kill(0);
    lab.set.restart(0);
    assert_eq!(code(&lab.run(more).await), 43);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_on_a_frozen_primary_is_not_done_while_it_stands_still() {
    let lab = Lab::new(3);
    lab.insert(0, doc! {}).await;
    lab.insert(1, starting(1, 1)).await;
    let waiting = lab.insert(1, doc! {});
    tokio::pin!(waiting);
    assert!(timeout(Duration::from_millis(1), &mut waiting).await.is_err());
    lab.set.freeze(0);
    assert!(timeout(Duration::from_secs(100), &mut waiting).await.is_err());
    assert_eq!(lab.set.primary(), Some(1));
    lab.set.thaw(0);
    assert_eq!(code(&waiting.await), 10107);
    assert_eq!(lab.ids().await, [0]);
}
