//! Load-balanced mode: a transaction is pinned to its connection.

use steadfast::bson::Bson;

use super::*;

/// One connection, with this wait queue time-out.
const SCARCE: &str = "maxPoolSize=1&waitQueueTimeoutMS=100";
const QUEUE: std::time::Duration = std::time::Duration::from_millis(100);

async fn balanced(options: &str) -> (Deployment, ObservedClient) {
    let deployment = Deployment::start(Role::LoadBalanced);
    let options = format!("loadBalanced=true&{options}");
    let observed = ObservedClient::new(&deployment, &options).await;
    (deployment, observed)
}

/// Returns `true` if another operation gets a connection before the wait queue time-out.
async fn is_connection_free(observed: &ObservedClient, clock: &Clock) -> bool {
    let is_begun = |event: &CmapEvent| matches!(event, CmapEvent::ConnectionCheckoutStarted(_));
    let begun = observed.pools.seen().iter().filter(|event| is_begun(event)).count();
    let database = observed.client.database("db");
    let ping = bounded(database.run_command(doc! { "ping": 1 }));
    let waits = async {
        observed.pools.wait_for(begun + 1, is_begun).await;
        let seen = observed.pools.seen();
        let mut since = seen.iter().rev().take_while(|event| !is_begun(event));
        // It gets an idle connection or a new one.
        let is_served = |event: &CmapEvent| {
            use CmapEvent::{ConnectionCheckedOut, ConnectionCreated};
            matches!(event, ConnectionCheckedOut(_) | ConnectionCreated(_))
        };
        if !since.any(is_served) {
            clock.pass(QUEUE).await;
        }
    };
    match tokio::join!(ping, waits).0 {
        Ok(_) => true,
        Err(error) => {
            assert!(error.is_network_timeout(), "{error:?}");
            false
        }
    }
}

#[tokio::test]
async fn a_transaction_pins_one_connection() {
    let (deployment, observed) = balanced("maxPoolSize=2").await;
    let mut session = begin(&observed).await;
    for _ in 0..3 {
        insert(&observed, &mut session).await.unwrap();
        observed.ping().await;
    }
    commit(&mut session).await.unwrap();
    let log = deployment.server().log();
    let pinned = log.connections_of("insert")[0];
    assert_eq!(log.connections_of("insert"), [pinned; 3]);
    assert_eq!(log.connections_of("commitTransaction"), [pinned]);
    assert!(log.connections_of("ping").iter().all(|&other| other != pinned));
    let token = &log.named("commitTransaction")[0].body;
    assert!(matches!(token.get("recoveryToken"), Some(Bson::Document(_))));
}

#[tokio::test]
async fn connection_stays_pinned_until_an_operation_outside_the_transaction() {
    let (_deployment, observed) = balanced(SCARCE).await;
    let clock = Clock::stopped();
    let mut session = begin(&observed).await;
    assert!(is_connection_free(&observed, &clock).await, "it has not begun");
    insert(&observed, &mut session).await.unwrap();
    assert!(!is_connection_free(&observed, &clock).await);
    commit(&mut session).await.unwrap();
    assert!(!is_connection_free(&observed, &clock).await, "the commit may be asked for again");
    commit(&mut session).await.unwrap();
    session.start_transaction().await.unwrap();
    assert!(is_connection_free(&observed, &clock).await);
    insert(&observed, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    insert(&observed, &mut session).await.unwrap();
    assert!(is_connection_free(&observed, &clock).await, "an operation outside lets go of it");
    session.start_transaction().await.unwrap();
    insert(&observed, &mut session).await.unwrap();
    abort(&mut session).await;
    assert!(is_connection_free(&observed, &clock).await);
    session.start_transaction().await.unwrap();
    insert(&observed, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    drop(session);
    assert!(is_connection_free(&observed, &clock).await, "an ended session lets go of it");
}

#[tokio::test]
async fn only_transient_errors_unpin_the_connection() {
    let (deployment, observed) = balanced(SCARCE).await;
    let clock = Clock::stopped();
    for (fault, free) in [
        (Fault::CommandError(112, TRANSIENT), true),
        (Fault::LostReply, true),
        (Fault::WriteError(0, DUPLICATE_KEY, UNLABELLED), false),
        (Fault::CommandError(50, UNLABELLED), false),
    ] {
        let mut session = begin(&observed).await;
        insert(&observed, &mut session).await.unwrap();
        deployment.inject(&[fault]);
        insert(&observed, &mut session).await.unwrap_err();
        assert_eq!(session.is_pinned(), !free, "{fault:?}");
        assert_eq!(is_connection_free(&observed, &clock).await, free, "{fault:?}");
        abort(&mut session).await;
        assert!(is_connection_free(&observed, &clock).await, "{fault:?}");
    }
}

#[tokio::test]
async fn cursors_of_the_transaction_share_its_connection() {
    let (deployment, observed) = balanced(SCARCE).await;
    let clock = Clock::stopped();
    let mut session = begin(&observed).await;
    let find = observed.books.find(doc! {}).batch_size(1).session(&mut session);
    let mut cursor = bounded(find).await.unwrap();
    assert!(bounded(cursor.advance(&mut session)).await.unwrap());
    insert(&observed, &mut session).await.unwrap();
    while bounded(cursor.advance(&mut session)).await.unwrap() {}
    insert(&observed, &mut session).await.unwrap();
    // A cursor that is not exhausted ends with the transaction, and does not block other operations.
    let find = observed.books.find(doc! {}).batch_size(1).session(&mut session);
    drop(bounded(find).await.unwrap());
    insert(&observed, &mut session).await.unwrap();
    assert!(!is_connection_free(&observed, &clock).await);
    commit(&mut session).await.unwrap();
    session.start_transaction().await.unwrap();
    assert!(is_connection_free(&observed, &clock).await);
    assert_eq!(deployment.server().log().opened, 1);
    assert!(observed.started("killCursors").is_empty());
}

#[tokio::test]
async fn dropped_operation_ends_before_the_next_uses_the_pinned_connection() {
    let _clock = Clock::stopped();
    let (deployment, observed) = balanced("maxPoolSize=2").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[Fault::HeldReply]);
    let sent = deployment.server().wait_for(|log| log.named("insert").len() == 2);
    tokio::select! {
        done = observed.books.insert_one(doc! {}).session(&mut session) => panic!("{done:?}"),
        _ = sent => {}
    }
    deployment.gate.open();
    abort(&mut session).await;
    assert!(!session.is_pinned());
    // The connection was broken before the abort was sent.
    let ends = observed.commands.seen();
    let failed = ends.iter().position(|it| matches!(it, CommandEvent::Failed(_)));
    let aborted = ends.iter().position(
        |it| matches!(it, CommandEvent::Started(it) if it.command_name == "abortTransaction"),
    );
    assert!(failed.is_some() && failed < aborted, "{ends:?}");
    observed.ping().await;
}

#[tokio::test]
async fn a_connection_with_an_invalid_reply_does_not_stay_pinned() {
    let (deployment, observed) = balanced("").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[Fault::ReplyToAnother]);
    insert(&observed, &mut session).await.unwrap_err();
    commit(&mut session).await.unwrap();
    let log = deployment.server().log();
    let commits = log.connections_of("commitTransaction");
    assert!(!log.connections_of("insert").contains(&commits[0]), "{commits:?}");
}
