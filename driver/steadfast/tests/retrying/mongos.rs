//! Retries in a sharded cluster use another mongos if there is one. Behind a load balancer, the load balancer
//! selects the server.

use super::*;

#[tokio::test]
async fn the_retry_of_a_write_goes_to_the_other_mongos() {
    let (deployment, observed) = two_mongos("").await;
    for _ in 0..10 {
        deployment.inject(&[Fault::CommandError(HOST_UNREACHABLE, RETRYABLE)]);
        observed.run(&write("insert_one")).await.unwrap();
    }
    check_other_mongos(&observed, "insert");
}

#[tokio::test]
async fn the_retry_of_a_read_goes_to_the_other_mongos() {
    let (deployment, observed) = two_mongos("").await;
    for _ in 0..10 {
        deployment.inject(&[Fault::CommandError(HOST_UNREACHABLE, UNLABELLED)]);
        observed.run(&reads()[0]).await.unwrap();
    }
    check_other_mongos(&observed, "find");
}

#[track_caller]
fn check_other_mongos(observed: &ObservedClient, command: &str) {
    let started = observed.started(command);
    assert_eq!(started.len(), 20);
    for pair in started.chunks(2) {
        assert_eq!(pair[0].operation_id, pair[1].operation_id);
        assert_ne!(pair[0].connection.address, pair[1].connection.address);
        assert_eq!(pair[0].command.get("txnNumber"), pair[1].command.get("txnNumber"));
    }
}

#[tokio::test]
async fn a_write_is_retried_on_the_only_mongos() {
    let deployment = Deployment::start(Role::Mongos);
    let observed = ObservedClient::new(&deployment, "").await;
    deployment.inject(&[Fault::CommandError(HOST_UNREACHABLE, RETRYABLE)]);
    observed.run(&write("insert_one")).await.unwrap();
    assert_eq!(observed.numbers("insert"), [1, 1].map(Some));
}

#[tokio::test]
async fn the_attempts_name_both_mongos() {
    let (deployment, observed) = two_mongos("").await;
    deployment.inject(&[Fault::CommandError(HOST_UNREACHABLE, RETRYABLE); 2]);
    let error = observed.run(&write("insert_one")).await.unwrap_err();
    let named: BTreeSet<_> = error.attempts().iter().map(|it| it.server.to_string()).collect();
    let servers: BTreeSet<_> = deployment.servers.iter().map(common::Server::address).collect();
    assert_eq!(named, servers);
    let latest = error.attempts().last().map(|attempt| &attempt.server);
    assert_eq!(error.server_address(), latest, "{error:?}");
}

/// The raised error is not always the last one.
#[tokio::test]
async fn an_error_names_the_server_of_its_attempt() {
    let first = Fault::CommandError(HOST_UNREACHABLE, RETRYABLE);
    let second = Fault::CommandError(NOT_WRITABLE_PRIMARY, NO_WRITES_PERFORMED);
    for (faults, raised) in [
        ([first, second], 0),
        ([Fault::LostReply, second], 0),
        ([first, Fault::LostReply], 1),
        ([second, first], 1),
    ] {
        let (deployment, observed) = two_mongos("").await;
        deployment.inject(&faults);
        let error = observed.run(&write("insert_one")).await.unwrap_err();
        let started = observed.started("insert");
        assert_eq!(started.len(), 2, "{faults:?}: {error:?}");
        assert_ne!(started[0].connection.address, started[1].connection.address);
        let origin = &started[raised].connection.address;
        assert_eq!(error.server_address(), Some(origin), "{faults:?}: {error:?}");
        let named = error.to_string();
        assert!(named.contains(&origin.to_string()), "{faults:?}: {named}");
        assert!(!named.contains(&started[1 - raised].connection.address.to_string()), "{named}");
    }
}

#[tokio::test]
async fn behind_a_load_balancer_writes_are_retried() {
    for fault in [Fault::LostReply, Fault::CommandError(SHUTDOWN_IN_PROGRESS, RETRYABLE)] {
        let deployment = Deployment::start(Role::LoadBalanced);
        let observed = ObservedClient::new(&deployment, "loadBalanced=true").await;
        deployment.inject(&[fault]);
        observed.run(&write("insert_one")).await.unwrap();
        assert_eq!(observed.numbers("insert"), [1, 1].map(Some), "{fault:?}");
        let applied = deployment.applied();
        assert!(applied.len() == 1 && applied.values().all(|&times| times == 1), "{applied:?}");
    }
}
