//! In a sharded cluster a transaction stays with the router that it began on, as long as that helps.

use super::*;

fn last(watched: &Watched, name: &str) -> CommandStartedEvent {
    watched.started(name).pop().unwrap_or_else(|| panic!("no {name} was sent"))
}

#[tokio::test]
async fn all_of_a_transaction_goes_to_one_router_and_the_next_to_any() {
    let (_deployment, watched) = two_routers("").await;
    let mut session = watched.client.start_session().await.unwrap();
    for _ in 0..30 {
        session.start_transaction().await.unwrap();
        assert!(!session.is_pinned());
        insert(&watched, &mut session).await.unwrap();
        assert!(session.is_pinned());
        let router = last(&watched, "insert").connection.address;
        for _ in 0..4 {
            insert(&watched, &mut session).await.unwrap();
            assert_eq!(last(&watched, "insert").connection.address, router);
        }
        watched.books.insert_many([doc! {}, doc! {}]).session(&mut session).await.unwrap();
        assert_eq!(last(&watched, "insert").connection.address, router);
        commit(&mut session).await.unwrap();
        assert_eq!(last(&watched, "commitTransaction").connection.address, router);
        assert!(session.is_pinned(), "the commit may be asked for again");
    }
    assert_eq!(watched.addresses("commitTransaction").len(), 2, "both had their share");
}

#[tokio::test]
async fn an_operation_outside_lets_go_of_the_router() {
    let (_deployment, watched) = two_routers("").await;
    let mut session = begin(&watched).await;
    insert(&watched, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    for _ in 0..50 {
        watched.books.find_one(doc! {}).session(&mut session).await.unwrap();
        assert!(!session.is_pinned());
    }
    assert_eq!(watched.addresses("find").len(), 2);
}

#[tokio::test]
async fn the_latest_recovery_token_goes_with_the_end_of_the_transaction() {
    let (_deployment, watched) = two_routers("").await;
    let mut session = begin(&watched).await;
    insert(&watched, &mut session).await.unwrap();
    insert(&watched, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    let token = last(&watched, "commitTransaction").command.get_document("recoveryToken").cloned();
    let newer = token.unwrap().get_i64("after").unwrap();
    session.start_transaction().await.unwrap();
    insert(&watched, &mut session).await.unwrap();
    abort(&mut session).await;
    let token = last(&watched, "abortTransaction").command.get_document("recoveryToken").cloned();
    assert!(token.unwrap().get_i64("after").unwrap() > newer, "each transaction has its own");
    let inserted = watched.started("insert");
    assert!(inserted.iter().all(|it| !it.command.contains_key("recoveryToken")));
}

#[tokio::test]
async fn a_commit_is_recovered_by_the_other_router() {
    for fault in [Fault::LostReply, Fault::Refused(HOST_UNREACHABLE, RETRYABLE)] {
        let (deployment, watched) = two_routers("").await;
        let mut session = begin(&watched).await;
        insert(&watched, &mut session).await.unwrap();
        deployment.suffer(&[fault]);
        commit(&mut session).await.unwrap();
        assert!(!session.is_pinned());
        let [first, second] = &watched.started("commitTransaction")[..] else {
            panic!("it is tried twice")
        };
        assert_ne!(first.connection.address, second.connection.address);
        let tokens = [first, second].map(|it| it.command.get_document("recoveryToken").unwrap());
        assert_eq!(tokens[0], tokens[1]);
        assert_eq!(commit_concerns(&watched), [None, majority()]);
    }
}

#[tokio::test]
async fn a_transient_error_lets_go_of_the_router_and_another_error_does_not() {
    let (deployment, watched) = two_routers("").await;
    for (fault, pinned) in [
        (Fault::Refused(112, TRANSIENT), false),
        (Fault::LostReply, false),
        (Fault::Failed(0, DUPLICATE_KEY, UNLABELLED), true),
        (Fault::Refused(50, UNLABELLED), true),
    ] {
        let mut session = begin(&watched).await;
        insert(&watched, &mut session).await.unwrap();
        deployment.suffer(&[fault]);
        insert(&watched, &mut session).await.unwrap_err();
        assert_eq!(session.is_pinned(), pinned, "{fault:?}");
        abort(&mut session).await;
        assert!(!session.is_pinned(), "{fault:?}");
    }
}

#[tokio::test]
async fn an_abort_goes_to_the_router_first_and_then_to_any() {
    let (deployment, watched) = two_routers("").await;
    let mut session = begin(&watched).await;
    insert(&watched, &mut session).await.unwrap();
    let router = last(&watched, "insert").connection.address;
    deployment.suffer(&[Fault::Refused(HOST_UNREACHABLE, RETRYABLE)]);
    abort(&mut session).await;
    let [first, second] = &watched.started("abortTransaction")[..] else {
        panic!("it is tried twice")
    };
    assert_eq!(first.connection.address, router);
    assert_ne!(second.connection.address, router);
}

#[tokio::test]
async fn a_cursor_is_read_at_the_router_of_its_transaction() {
    let (_deployment, watched) = two_routers("").await;
    let mut session = begin(&watched).await;
    let find = watched.books.find(doc! {}).batch_size(1).session(&mut session);
    let mut cursor = bounded(find).await.unwrap();
    while bounded(cursor.advance(&mut session)).await.unwrap() {}
    let more = last(&watched, "getMore");
    assert_eq!(more.connection.address, last(&watched, "find").connection.address);
    assert_eq!(more.command.get_i64("txnNumber").unwrap(), 1);
    assert!(!more.command.get_bool("autocommit").unwrap());
    assert!(!more.command.contains_key("startTransaction"));
}

#[tokio::test]
async fn a_cursor_of_before_is_no_part_of_a_transaction() {
    let (_deployment, watched) = two_routers("").await;
    let mut session = watched.client.start_session().await.unwrap();
    let find = watched.books.find(doc! {}).batch_size(1).session(&mut session);
    let mut cursor = bounded(find).await.unwrap();
    session.start_transaction().await.unwrap();
    while bounded(cursor.advance(&mut session)).await.unwrap() {}
    assert!(!last(&watched, "getMore").command.contains_key("autocommit"));
    assert_eq!(session.transaction_state(), TransactionState::Starting);
    insert(&watched, &mut session).await.unwrap();
    let begun = last(&watched, "insert").command;
    assert!(begun.get_bool("startTransaction").unwrap());
}
