//! Retries after failed connection checkout and failed handshakes.

use std::sync::Arc;

use steadfast::{bson::Bson, event::retry::RetryEvent};

use super::{
    common::{Request, Server, Step, is_handshake_for_operations},
    *,
};

fn is_checkout_started(event: &CmapEvent) -> bool {
    matches!(event, CmapEvent::ConnectionCheckoutStarted(_))
}

/// Runs a write that waits for the only connection. That connection breaks, which clears the pool.
async fn run_waiting(write: &Operation, options: &str) -> (Deployment, ObservedClient, Result<()>) {
    let deployment = Deployment::primary();
    let options = format!("maxPoolSize=1&waitQueueTimeoutMS=15000&{options}");
    let observed = ObservedClient::new(&deployment, &options).await;
    let slow = tokio::spawn({
        let database = observed.client.database("db");
        async move { bounded(database.run_command(doc! { "slow": 1 })).await }
    });
    deployment.server().wait_for(|log| !log.named("slow").is_empty()).await;
    let waiting = tokio::spawn(bounded((write.run)(observed.books.clone())));
    observed.pools.wait_for(2, is_checkout_started).await;
    deployment.gate.open();
    assert!(slow.await.unwrap().unwrap_err().is_network_error());
    let result = waiting.await.unwrap();
    (deployment, observed, result)
}

#[tokio::test]
async fn a_write_is_retried_when_the_pool_is_cleared_during_checkout() {
    // pitfalls 26 and 28
    with_each(retryable_writes(), |write| async move {
        let (deployment, observed, result) = run_waiting(&write, "").await;
        assert!(result.is_ok(), "{}: {result:?}", write.name);
        assert!(deployment.applied().values().all(|&times| times == 1), "{}", write.name);
        assert_eq!(observed.numbers(write.command), [Some(1)], "{}", write.name);
    })
    .await;
}

#[tokio::test]
async fn a_pool_cleared_error_without_retries_has_no_label() {
    // pitfall 28
    let off = retryable_writes().into_iter().map(|write| (write, "retryWrites=false"));
    let cases: Vec<_> = off.chain(other_writes().into_iter().map(|write| (write, ""))).collect();
    for (write, options) in cases {
        let (deployment, observed, result) = run_waiting(&write, options).await;
        let error = result.expect_err(write.name);
        let cleared = matches!(&*error.kind, ErrorKind::ConnectionPoolCleared { .. });
        assert!(cleared, "{}: {error:?}", write.name);
        assert!(error.labels().is_empty(), "{}: {error:?}", write.name);
        assert_eq!(error.outcome(), Outcome::NotSent, "{}: {error:?}", write.name);
        assert!(observed.started(write.command).is_empty(), "{}", write.name);
        assert!(deployment.applied().is_empty(), "{}", write.name);
    }
}

#[tokio::test]
async fn a_write_is_retried_after_a_failed_handshake() {
    // pitfalls 18 and 28: when the first attempt fails there is no session yet.
    with_each(retryable_writes(), |write| async move {
        let deployment = Deployment::primary();
        deployment.cut_handshakes(1);
        let observed = ObservedClient::new(&deployment, "maxPoolSize=1").await;
        let result = observed.run(&write).await;
        assert!(result.is_ok(), "{}: {result:?}", write.name);
        assert!(deployment.applied().values().all(|&times| times == 1), "{}", write.name);
        assert_eq!(observed.numbers(write.command), [Some(1)], "{}", write.name);
    })
    .await;
}

#[tokio::test]
async fn a_write_whose_handshakes_all_fail_is_not_sent() {
    with_each(retryable_writes(), |write| async move {
        let deployment = Deployment::primary();
        deployment.cut_handshakes(usize::MAX);
        let observed = ObservedClient::new(&deployment, "").await;
        let error = observed.run(&write).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotSent, "{}: {error:?}", write.name);
        assert!(error.contains_label(RETRYABLE_WRITE_ERROR), "{}: {error:?}", write.name);
        // A failed handshake is an overload error, because the server may be overloaded.
        assert_eq!(error.attempts().len(), 6, "{}", write.name);
        assert!(error.attempts().iter().all(|it| it.request_id.is_none()), "{}", write.name);
        assert!(observed.started(write.command).is_empty(), "{}", write.name);
        assert!(deployment.applied().is_empty(), "{}", write.name);
    })
    .await;
}

#[tokio::test]
async fn a_handshake_error_with_retry_writes_off_has_no_label() {
    // pitfall 28
    let deployment = Deployment::primary();
    deployment.cut_handshakes(1);
    let observed = ObservedClient::new(&deployment, "retryWrites=false").await;
    let error = observed.run(&write("insert_one")).await.unwrap_err();
    assert_eq!((error.outcome(), error.attempts().len()), (Outcome::NotSent, 1), "{error:?}");
    assert!(!error.contains_label(RETRYABLE_WRITE_ERROR), "{error:?}");
}

#[tokio::test]
async fn retries_with_max_pool_size_1_do_not_deadlock() {
    // pitfall 26
    let deployment = Deployment::primary();
    // When the connection breaks, the pool is cleared, and all waiting operations retry at once.
    deployment.inject(&[Fault::None, Fault::LostReply]);
    let observed = ObservedClient::new(&deployment, "maxPoolSize=1&waitQueueTimeoutMS=15000").await;
    let tasks: Vec<_> = (0..12)
        .map(|n| {
            let books = observed.books.clone();
            tokio::spawn(async move { bounded(books.insert_one(doc! { "_id": n })).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().expect("the write is retried");
    }
    let applied = deployment.applied();
    assert_eq!(applied.len(), 12);
    assert!(applied.values().all(|&times| times == 1), "{applied:?}");
    assert_eq!(deployment.faults_left(), 0);
}

#[tokio::test]
async fn a_retry_sends_the_latest_cluster_time_of_the_client() {
    // pitfall 35
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    observed.ping().await;
    deployment.inject(&[Fault::HeldReply]);
    let update = tokio::spawn(bounded((write("update_one").run)(observed.books.clone())));
    deployment.server().wait_for(|log| !log.named("update").is_empty()).await;
    observed.ping().await;
    deployment.gate.open();
    update.await.unwrap().unwrap();
    let started = observed.started("update");
    let times: Vec<_> = started.iter().map(|event| cluster_time(&event.command)).collect();
    assert!(times.len() == 2 && times[0].is_some() && times[1] > times[0], "{times:?}");
    assert!(deployment.applied().values().all(|&times| times == 1));
}

#[tokio::test]
async fn an_operation_is_retried_after_several_pool_clears() {
    let deployment = Deployment::primary();
    // Each `slow` command closes the only connection, which clears the pool.
    deployment.gate.open();
    let retries = Arc::new(Recorder::new());
    let options = "maxPoolSize=1&heartbeatFrequencyMS=500";
    let mut options = ClientOptions::parse(deployment.uri(options)).await.unwrap();
    options.retry_event_handler = Some(retries.handler());
    let client = Client::with_options(options).unwrap();
    let database = client.database("db");
    let has_met_two_cleared_pools = move || {
        retries.seen().iter().any(|event| match event {
            RetryEvent::Scheduled(it) => it.command_name == "insert" && it.failed_attempts >= 2,
            _ => false,
        })
    };
    for _ in 0..8 {
        let (database, is_over) = (database.clone(), has_met_two_cleared_pools.clone());
        tokio::spawn(async move {
            while !is_over() {
                database.run_command(doc! { "slow": 1 }).await.unwrap_err();
            }
        });
    }
    let books = database.collection::<Document>("books");
    let mut inserted = 0;
    bounded(async {
        while !has_met_two_cleared_pools() {
            books.insert_one(doc! { "_id": inserted }).await.unwrap();
            inserted += 1;
        }
    })
    .await;
    let applied = deployment.applied();
    assert_eq!(applied.len(), usize::try_from(inserted).unwrap());
    assert!(applied.values().all(|&times| times == 1), "{applied:?}");
}

#[tokio::test]
async fn a_write_through_a_connection_without_sessions_is_sent_once() {
    // The monitoring connection reports `logicalSessionTimeoutMinutes`, the pooled connection does not.
    let handler = |request: &Request| match request.name.as_str() {
        "insert" => Some(vec![Step::HangUp]),
        _ if is_handshake_for_operations(request) => {
            Some(vec![Step::Hello(doc! { "logicalSessionTimeoutMinutes": Bson::Null })])
        }
        _ => None,
    };
    let server = Server::builder().role(Role::Primary).handler(handler).start();
    let client = Client::with_uri_str(server.uri("replicaSet=set")).await.unwrap();
    let books = client.database("db").collection::<Document>("books");
    let error = bounded(books.insert_one(doc! { "_id": 1 })).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
    assert!(!error.contains_label(RETRYABLE_WRITE_ERROR), "{error:?}");
    let log = server.log();
    let inserts = log.named("insert");
    assert_eq!(inserts.len(), 1, "{inserts:?}");
    assert!(!inserts[0].body.contains_key("txnNumber"), "{}", inserts[0].body);
}
