//! Transactions on overloaded servers: a rejected attempt was not executed, and its retry stays in the
//! transaction.

use std::{pin::pin, time::Duration};

use super::*;

const REJECTED: &[&str] = &["SystemOverloadedError", "RetryableError"];
const OVERLOADED: Fault = Fault::CommandError(462, REJECTED);

fn is_end_of(event: &CommandEvent, name: &str) -> bool {
    match event {
        CommandEvent::Succeeded(it) => it.command_name == name,
        CommandEvent::Failed(it) => it.command_name == name,
        _ => false,
    }
}

#[tokio::test]
async fn retry_of_a_later_operation_goes_to_the_pinned_mongos() {
    let clock = Clock::stopped();
    // Without streaming, every connection except that of the monitor is used by operations.
    let options = "maxIdleTimeMS=1&serverMonitoringMode=poll";
    for _ in 0..10 {
        let (deployment, observed) = two_mongos(options).await;
        let mut session = begin(&observed).await;
        insert(&observed, &mut session).await.unwrap();
        let mongos = observed.addresses("insert");
        // The idle connection expires, by the real clock; the handshake of the next one fails.
        std::thread::sleep(Duration::from_millis(2));
        deployment.cut_handshakes(1);
        let inserted = insert(&observed, &mut session);
        clock.pass_until(Duration::from_millis(100), inserted).await.unwrap();
        let failed = |it: &CmapEvent| matches!(it, CmapEvent::ConnectionCheckoutFailed(_));
        assert_eq!(observed.pools.seen().iter().filter(|it| failed(it)).count(), 1);
        assert_eq!(observed.started("insert").len(), 2);
        assert_eq!(observed.addresses("insert"), mongos);
        assert!(session.is_pinned());
        commit(&mut session).await.unwrap();
        assert_eq!(observed.addresses("commitTransaction"), mongos);
    }
}

#[tokio::test]
async fn commit_dropped_in_the_backoff_after_a_rejection_is_aborted_with_its_session() {
    let _clock = Clock::stopped();
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[OVERLOADED]);
    {
        let mut commit = pin!(session.commit_transaction().into_future());
        tokio::select! {
            biased;
            () = observed.commands.wait_for(1, |it| is_end_of(it, "commitTransaction")) => {}
            ended = &mut commit => panic!("the backoff does not end: {ended:?}"),
        }
    }
    drop(session);
    bounded(observed.client.clone().shutdown()).await;
    assert_eq!(observed.numbers("commitTransaction"), [Some(1)]);
    assert_eq!(observed.numbers("abortTransaction"), [Some(1)]);
}

#[tokio::test]
async fn retry_that_finds_no_server_has_the_label_of_the_transaction() {
    for name in ["insert", "commitTransaction"] {
        let clock = Clock::stopped();
        let deployment = Deployment::primary();
        let observed = ObservedClient::new(&deployment, "").await;
        let mut session = begin(&observed).await;
        insert(&observed, &mut session).await.unwrap();
        // The rejection marks the server Unknown; the next check finds a secondary.
        deployment.inject(&[Fault::CommandError(NOT_WRITABLE_PRIMARY, REJECTED)]);
        deployment
            .set_hello_fields_after_fault(doc! { "isWritablePrimary": false, "secondary": true });
        let step = Duration::from_secs(1);
        let (result, label) = match name {
            "insert" => {
                let insert = insert(&observed, &mut session);
                (clock.pass_until(step, insert).await, TRANSIENT_TRANSACTION_ERROR)
            }
            _ => {
                let commit = session.commit_transaction().into_future();
                (clock.pass_until(step, commit).await, UNKNOWN_TRANSACTION_COMMIT_RESULT)
            }
        };
        let error = result.unwrap_err();
        assert_eq!(error.attempt_count(), 1, "{error:?}");
        assert!(matches!(&*error.kind, ErrorKind::Command(it) if it.code == NOT_WRITABLE_PRIMARY));
        assert!(error.contains_label(label), "{name}: {error:?}");
        assert_eq!(error.outcome(), Outcome::NotApplied);
    }
}
