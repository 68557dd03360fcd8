//! Transactions on scripted servers: fields and servers of their commands, error labels, and commits that fail.

mod commits;
mod deadlines;
mod dropped;
mod load_balanced;
mod mongos;
mod overload;

use steadfast::{
    ClientSession, TransactionState,
    error::{TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT},
    options::{CollectionOptions, ReadConcern, WriteConcern},
};

use super::*;

/// `NoSuchTransaction`: the server has no such transaction.
const TRANSIENT: &[&str] = &["TransientTransactionError"];
const NO_SUCH_TRANSACTION: i32 = 251;
const DUPLICATE_KEY: i32 = 11000;

/// Session with a transaction in progress.
async fn begin(observed: &ObservedClient) -> ClientSession {
    let mut session = observed.client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    session
}

async fn insert(observed: &ObservedClient, session: &mut ClientSession) -> Result<()> {
    bounded(observed.books.insert_one(doc! { "x": 1 }).session(session)).await.map(drop)
}

async fn commit(session: &mut ClientSession) -> Result<()> {
    bounded(session.commit_transaction()).await
}

async fn abort(session: &mut ClientSession) {
    bounded(session.abort_transaction()).await.unwrap();
}

/// Returns the write concerns of the commits.
fn commit_concerns(observed: &ObservedClient) -> Vec<Option<Document>> {
    let concern = |it: &CommandStartedEvent| it.command.get_document("writeConcern").ok().cloned();
    observed.started("commitTransaction").iter().map(concern).collect()
}

fn majority() -> Option<Document> {
    Some(doc! { "w": "majority", "wtimeout": 10_000_i64 })
}

#[tokio::test]
async fn the_first_command_starts_the_transaction_and_the_others_continue_it() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "readConcernLevel=available&w=2").await;
    let options = CollectionOptions::builder()
        .read_concern(ReadConcern::local())
        .write_concern(WriteConcern::nodes(0))
        .build();
    let books =
        observed.client.database("db").collection_with_options::<Document>("books", options);
    let mut session = observed.client.start_session().await.unwrap();
    observed.books.find_one(doc! {}).session(&mut session).await.unwrap();
    let before = session.operation_time().unwrap();
    session
        .start_transaction()
        .read_concern(ReadConcern::snapshot())
        .write_concern(WriteConcern::nodes(3))
        .await
        .unwrap();
    books.insert_one(doc! { "x": 1 }).session(&mut session).await.unwrap();
    books.find_one(doc! {}).session(&mut session).await.unwrap();
    books.insert_many([doc! {}, doc! {}]).session(&mut session).await.unwrap();
    books.delete_one(doc! { "x": 1 }).session(&mut session).await.unwrap();
    let database = observed.client.database("db");
    database.run_command(doc! { "distinct": "books" }).session(&mut session).await.unwrap();
    commit(&mut session).await.unwrap();

    let mut sent: Vec<_> = ["insert", "find", "delete", "distinct", "commitTransaction"]
        .iter()
        .flat_map(|name| observed.started(name))
        .filter(|it| it.command.contains_key("autocommit"))
        .collect();
    sent.sort_by_key(|it| it.request_id);
    assert_eq!(sent.len(), 6);
    for (index, event) in sent.iter().enumerate() {
        let command = &event.command;
        assert!(!command.get_bool("autocommit").unwrap(), "{command}");
        assert_eq!(command.get_i64("txnNumber").unwrap(), 1, "{command}");
        assert_eq!(command.get_document("lsid").unwrap(), session.id(), "{command}");
        assert_eq!(command.contains_key("startTransaction"), index == 0, "{command}");
        assert_eq!(command.contains_key("readConcern"), index == 0, "{command}");
        assert_eq!(command.contains_key("writeConcern"), index == 5, "{command}");
        assert!(!command.contains_key("$readPreference"), "{command}");
    }
    let first = &sent[0].command;
    let concern = doc! { "level": "snapshot", "afterClusterTime": before };
    assert_eq!(first.get_document("readConcern").unwrap(), &concern);
    assert_eq!(sent[5].db, "admin");
    assert_eq!(commit_concerns(&observed), [Some(doc! { "w": 3 })]);
    assert!(deployment.requests("insert").iter().all(|request| request.expects_reply));
}

#[tokio::test]
async fn each_transaction_and_each_write_outside_has_the_next_txn_number() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    insert(&observed, &mut session).await.unwrap();
    assert_eq!(session.transaction_state(), TransactionState::None);
    session.start_transaction().await.unwrap();
    insert(&observed, &mut session).await.unwrap();
    abort(&mut session).await;
    insert(&observed, &mut session).await.unwrap();
    assert_eq!(observed.numbers("insert"), [1, 2, 3, 4].map(Some));
}

#[tokio::test]
async fn an_empty_transaction_sends_no_command() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin(&observed).await;
    commit(&mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    session.start_transaction().await.unwrap();
    abort(&mut session).await;
    assert!(observed.commands.seen().is_empty());
}

#[tokio::test]
async fn operations_in_a_transaction_are_not_retried_and_network_errors_are_transient() {
    // pitfall 13
    for fault in [Fault::LostReply, Fault::LostRequest, Fault::TruncatedReply] {
        let deployment = Deployment::primary();
        let observed = ObservedClient::new(&deployment, "").await;
        let mut session = begin(&observed).await;
        insert(&observed, &mut session).await.unwrap();
        deployment.inject(&[fault]);
        let error = insert(&observed, &mut session).await.unwrap_err();
        assert_eq!(observed.started("insert").len(), 2, "{fault:?}");
        assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
        assert!(!error.contains_label(RETRYABLE_WRITE_ERROR), "{error:?}");
        assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
        assert_eq!(session.transaction_state(), TransactionState::InProgress);
        abort(&mut session).await;
        assert_eq!(observed.numbers("abortTransaction"), [Some(1)]);
    }
}

#[tokio::test]
async fn a_command_error_in_a_transaction_is_not_applied_and_has_only_the_labels_of_the_server() {
    for (fault, labelled) in [
        (Fault::CommandError(112, TRANSIENT), true),
        (Fault::CommandError(NOT_WRITABLE_PRIMARY, RETRYABLE), false),
        (Fault::WriteError(0, DUPLICATE_KEY, UNLABELLED), false),
    ] {
        let deployment = Deployment::primary();
        let observed = ObservedClient::new(&deployment, "").await;
        let mut session = begin(&observed).await;
        insert(&observed, &mut session).await.unwrap();
        deployment.inject(&[fault]);
        let error = insert(&observed, &mut session).await.unwrap_err();
        assert_eq!(observed.started("insert").len(), 2, "{fault:?}");
        assert_eq!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), labelled, "{error:?}");
        assert_eq!(error.outcome(), Outcome::NotApplied, "{error:?}");
    }
}

#[tokio::test]
async fn a_server_selection_error_in_a_transaction_is_transient() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    observed.ping().await;
    drop(deployment);
    // The server does not respond, so only the time-out ends the selection.
    tokio::time::pause();
    let mut session = begin(&observed).await;
    // The first operation fails on its connection, the others in server selection.
    for _ in 0..2 {
        let error = insert(&observed, &mut session).await.unwrap_err();
        assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    }
    let many = observed.books.insert_many([doc! {}, doc! {}]).session(&mut session);
    let error = bounded(many).await.unwrap_err();
    assert!(error.is_server_selection_error(), "{error:?}");
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
}

#[tokio::test]
async fn a_pool_cleared_error_in_a_transaction_is_transient() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "maxPoolSize=1&waitQueueTimeoutMS=15000").await;
    let slow = tokio::spawn({
        let database = observed.client.database("db");
        async move { bounded(database.run_command(doc! { "slow": 1 })).await }
    });
    deployment.server().wait_for(|log| !log.named("slow").is_empty()).await;
    let mut session = begin(&observed).await;
    let is_checkout_started =
        |it: &CmapEvent| matches!(it, CmapEvent::ConnectionCheckoutStarted(_));
    let (result, ()) = tokio::join!(insert(&observed, &mut session), async {
        observed.pools.wait_for(2, is_checkout_started).await;
        deployment.gate.open();
    });
    slow.await.unwrap().unwrap_err();
    let error = result.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::ConnectionPoolCleared { .. }), "{error:?}");
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    assert_eq!(error.outcome(), Outcome::NotSent);
    // Nothing was sent, so there is no transaction to abort.
    abort(&mut session).await;
    assert!(observed.started("abortTransaction").is_empty());
}

#[tokio::test]
async fn a_dropped_session_aborts_its_transaction() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    drop(session);
    let log = deployment.server().wait_for(|log| !log.named("abortTransaction").is_empty()).await;
    assert_eq!(log.named("abortTransaction")[0].body.get_i64("txnNumber").unwrap(), 1);
    // A transaction that was committed or is empty is not aborted.
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    drop(session);
    drop(begin(&observed).await);
    observed.client.clone().shutdown().await;
    assert_eq!(deployment.requests("abortTransaction").len(), 1);
}

#[tokio::test]
async fn an_abort_is_retried_and_its_errors_are_ignored() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "retryWrites=false").await;
    for faults in
        [vec![Fault::LostReply], vec![Fault::LostReply; 2], vec![Fault::CommandError(8, &[])]]
    {
        let mut session = begin(&observed).await;
        insert(&observed, &mut session).await.unwrap();
        let before = observed.started("abortTransaction").len();
        deployment.inject(&faults);
        abort(&mut session).await;
        let sent = observed.started("abortTransaction").len() - before;
        let expected = if faults.len() == 1 && !faults[0].is_answered() { 2 } else { faults.len() };
        assert_eq!(sent, expected, "{faults:?}");
        assert_eq!(session.transaction_state(), TransactionState::Aborted);
        let again = bounded(session.abort_transaction()).await.unwrap_err();
        assert!(matches!(&*again.kind, ErrorKind::Transaction { .. }), "{again:?}");
    }
}
