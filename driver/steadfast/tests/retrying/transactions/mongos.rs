//! Sharded clusters: a transaction is pinned to the mongos of its first operation, until a transient error.

use super::*;

fn last(observed: &ObservedClient, name: &str) -> CommandStartedEvent {
    observed.started(name).pop().unwrap_or_else(|| panic!("no {name} was sent"))
}

#[tokio::test]
async fn a_transaction_pins_one_mongos_and_the_next_may_use_another() {
    let (_deployment, observed) = two_mongos("").await;
    let mut session = observed.client.start_session().await.unwrap();
    for _ in 0..30 {
        session.start_transaction().await.unwrap();
        assert!(!session.is_pinned());
        insert(&observed, &mut session).await.unwrap();
        assert!(session.is_pinned());
        let router = last(&observed, "insert").connection.address;
        for _ in 0..4 {
            insert(&observed, &mut session).await.unwrap();
            assert_eq!(last(&observed, "insert").connection.address, router);
        }
        observed.books.insert_many([doc! {}, doc! {}]).session(&mut session).await.unwrap();
        assert_eq!(last(&observed, "insert").connection.address, router);
        commit(&mut session).await.unwrap();
        assert_eq!(last(&observed, "commitTransaction").connection.address, router);
        assert!(session.is_pinned(), "the commit may be asked for again");
    }
    assert_eq!(observed.addresses("commitTransaction").len(), 2, "both had their share");
}

#[tokio::test]
async fn an_operation_outside_a_transaction_unpins_the_mongos() {
    let (_deployment, observed) = two_mongos("").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    for _ in 0..50 {
        observed.books.find_one(doc! {}).session(&mut session).await.unwrap();
        assert!(!session.is_pinned());
    }
    assert_eq!(observed.addresses("find").len(), 2);
}

#[tokio::test]
async fn commit_and_abort_send_the_latest_recovery_token() {
    let (_deployment, observed) = two_mongos("").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    insert(&observed, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    let token = last(&observed, "commitTransaction").command.get_document("recoveryToken").cloned();
    let newer = token.unwrap().get_i64("after").unwrap();
    session.start_transaction().await.unwrap();
    insert(&observed, &mut session).await.unwrap();
    abort(&mut session).await;
    let token = last(&observed, "abortTransaction").command.get_document("recoveryToken").cloned();
    assert!(token.unwrap().get_i64("after").unwrap() > newer, "each transaction has its own");
    let inserted = observed.started("insert");
    assert!(inserted.iter().all(|it| !it.command.contains_key("recoveryToken")));
}

#[tokio::test]
async fn a_commit_is_recovered_by_the_other_mongos() {
    for fault in [Fault::LostReply, Fault::CommandError(HOST_UNREACHABLE, RETRYABLE)] {
        let (deployment, observed) = two_mongos("").await;
        let mut session = begin(&observed).await;
        insert(&observed, &mut session).await.unwrap();
        deployment.inject(&[fault]);
        commit(&mut session).await.unwrap();
        assert!(!session.is_pinned());
        let [first, second] = &observed.started("commitTransaction")[..] else {
            panic!("expected two attempts")
        };
        assert_ne!(first.connection.address, second.connection.address);
        let tokens = [first, second].map(|it| it.command.get_document("recoveryToken").unwrap());
        assert_eq!(tokens[0], tokens[1]);
        assert_eq!(commit_concerns(&observed), [None, majority()]);
    }
}

#[tokio::test]
async fn only_transient_errors_unpin_the_mongos() {
    let (deployment, observed) = two_mongos("").await;
    for (fault, pinned) in [
        (Fault::CommandError(112, TRANSIENT), false),
        (Fault::LostReply, false),
        (Fault::WriteError(0, DUPLICATE_KEY, UNLABELLED), true),
        (Fault::CommandError(50, UNLABELLED), true),
    ] {
        let mut session = begin(&observed).await;
        insert(&observed, &mut session).await.unwrap();
        deployment.inject(&[fault]);
        insert(&observed, &mut session).await.unwrap_err();
        assert_eq!(session.is_pinned(), pinned, "{fault:?}");
        abort(&mut session).await;
        assert!(!session.is_pinned(), "{fault:?}");
    }
}

#[tokio::test]
async fn an_abort_goes_to_the_pinned_mongos_and_its_retry_to_another() {
    let (deployment, observed) = two_mongos("").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    let router = last(&observed, "insert").connection.address;
    deployment.inject(&[Fault::CommandError(HOST_UNREACHABLE, RETRYABLE)]);
    abort(&mut session).await;
    let [first, second] = &observed.started("abortTransaction")[..] else {
        panic!("expected two attempts")
    };
    assert_eq!(first.connection.address, router);
    assert_ne!(second.connection.address, router);
}

#[tokio::test]
async fn a_cursor_of_a_transaction_uses_its_mongos() {
    let (_deployment, observed) = two_mongos("").await;
    let mut session = begin(&observed).await;
    let find = observed.books.find(doc! {}).batch_size(1).session(&mut session);
    let mut cursor = bounded(find).await.unwrap();
    while bounded(cursor.advance(&mut session)).await.unwrap() {}
    let more = last(&observed, "getMore");
    assert_eq!(more.connection.address, last(&observed, "find").connection.address);
    assert_eq!(more.command.get_i64("txnNumber").unwrap(), 1);
    assert!(!more.command.get_bool("autocommit").unwrap());
    assert!(!more.command.contains_key("startTransaction"));
}

#[tokio::test]
async fn a_cursor_opened_before_a_transaction_is_not_part_of_it() {
    let (_deployment, observed) = two_mongos("").await;
    let mut session = observed.client.start_session().await.unwrap();
    let find = observed.books.find(doc! {}).batch_size(1).session(&mut session);
    let mut cursor = bounded(find).await.unwrap();
    session.start_transaction().await.unwrap();
    while bounded(cursor.advance(&mut session)).await.unwrap() {}
    assert!(!last(&observed, "getMore").command.contains_key("autocommit"));
    assert_eq!(session.transaction_state(), TransactionState::Starting);
    insert(&observed, &mut session).await.unwrap();
    let begun = last(&observed, "insert").command;
    assert!(begun.get_bool("startTransaction").unwrap());
}
