//! A retry in a sharded cluster goes to another router if there is one; behind a load balancer it is
//! the balancer's to choose.

use super::*;

#[tokio::test]
async fn the_retry_of_a_write_goes_to_the_other_router() {
    let (deployment, watched) = two_routers("").await;
    for _ in 0..10 {
        deployment.suffer(&[Fault::Refused(HOST_UNREACHABLE, RETRYABLE)]);
        watched.run(&write("insert_one")).await.unwrap();
    }
    check_other_router(&watched, "insert");
}

#[tokio::test]
async fn the_retry_of_a_read_goes_to_the_other_router() {
    let (deployment, watched) = two_routers("").await;
    for _ in 0..10 {
        deployment.suffer(&[Fault::Refused(HOST_UNREACHABLE, UNLABELLED)]);
        watched.run(&reads()[0]).await.unwrap();
    }
    check_other_router(&watched, "find");
}

#[track_caller]
fn check_other_router(watched: &Watched, command: &str) {
    let started = watched.started(command);
    assert_eq!(started.len(), 20);
    for pair in started.chunks(2) {
        assert_eq!(pair[0].operation_id, pair[1].operation_id);
        assert_ne!(pair[0].connection.address, pair[1].connection.address);
        assert_eq!(pair[0].command.get("txnNumber"), pair[1].command.get("txnNumber"));
    }
}

#[tokio::test]
async fn the_only_router_is_tried_again() {
    let deployment = Deployment::start(Role::Mongos);
    let watched = Watched::new(&deployment, "").await;
    deployment.suffer(&[Fault::Refused(HOST_UNREACHABLE, RETRYABLE)]);
    watched.run(&write("insert_one")).await.unwrap();
    assert_eq!(watched.numbers("insert"), [1, 1].map(Some));
}

#[tokio::test]
async fn the_attempts_name_both_routers() {
    let (deployment, watched) = two_routers("").await;
    deployment.suffer(&[Fault::Refused(HOST_UNREACHABLE, RETRYABLE); 2]);
    let error = watched.run(&write("insert_one")).await.unwrap_err();
    let named: BTreeSet<_> = error.attempts().iter().map(|it| it.server.to_string()).collect();
    let servers: BTreeSet<_> = deployment.servers.iter().map(common::Server::address).collect();
    assert_eq!(named, servers);
    let latest = error.attempts().last().map(|attempt| &attempt.server);
    assert_eq!(error.server_address(), latest, "{error:?}");
}

/// The error raised is not always the last one.
#[tokio::test]
async fn an_error_names_the_server_of_the_attempt_that_it_came_from() {
    let first = Fault::Refused(HOST_UNREACHABLE, RETRYABLE);
    let second = Fault::Refused(NOT_WRITABLE_PRIMARY, WROTE_NOTHING);
    for (faults, raised) in [
        ([first, second], 0),
        ([Fault::LostReply, second], 0),
        ([first, Fault::LostReply], 1),
        ([second, first], 1),
    ] {
        let (deployment, watched) = two_routers("").await;
        deployment.suffer(&faults);
        let error = watched.run(&write("insert_one")).await.unwrap_err();
        let started = watched.started("insert");
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
async fn behind_a_load_balancer_writes_are_tried_again_too() {
    for fault in [Fault::LostReply, Fault::Refused(SHUTDOWN_IN_PROGRESS, RETRYABLE)] {
        let deployment = Deployment::start(Role::LoadBalanced);
        let watched = Watched::new(&deployment, "loadBalanced=true").await;
        deployment.suffer(&[fault]);
        watched.run(&write("insert_one")).await.unwrap();
        assert_eq!(watched.numbers("insert"), [1, 1].map(Some), "{fault:?}");
        let applied = deployment.applied();
        assert!(applied.len() == 1 && applied.values().all(|&times| times == 1), "{applied:?}");
    }
}
