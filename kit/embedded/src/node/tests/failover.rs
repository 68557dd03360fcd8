//! Elections and step-downs as clients see them.

use tokio::time::timeout;

use super::*;

#[tokio::test(start_paused = true)]
async fn step_down_interrupts_write_concern_wait() {
    let lab = TestMembers::new(3);
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
async fn step_down_requires_electable_secondary() {
    let lab = TestMembers::new(3);
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
async fn members_elect_primary_after_timeout() {
    let lab = TestMembers::new(3);
    lab.insert(1, doc! {}).await;
    let mut topology = lab.set.nodes()[1].topology();
    topology.mark_unchanged();
    lab.set.kill(0);
    assert_eq!(*lab.set.nodes()[0].process_state().borrow(), ProcessState::Killed);
    let began = tokio::time::Instant::now();
    assert_eq!(lab.set.wait_for_primary().await, 1);
    assert_eq!(began.elapsed(), Duration::from_millis(300));
    assert!(topology.has_changed().unwrap());
    let reply = lab.run_on(1, "t", inserting(2, doc! {})).await;
    assert_ok(&reply);
    lab.set.restart(0);
    lab.set.wait_for_replication().await;
    assert_eq!(lab.ids_on(0, doc! {}).await, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn killed_member_interrupts_waiting_write() {
    let lab = TestMembers::new(3);
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
async fn w1_write_of_partitioned_primary_is_rolled_back() {
    let lab = TestMembers::new(3);
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
async fn repl_set_step_up_and_freeze_control_elections() {
    let lab = TestMembers::new(3);
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
async fn cursor_survives_step_down_but_not_restart() {
    let lab = TestMembers::new(3);
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
async fn frozen_primary_does_not_execute_waiting_write() {
    let lab = TestMembers::new(3);
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
