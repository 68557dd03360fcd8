//! Prose tests of connection pools.

use std::time::Duration;

use steadfast::event::cmap::ConnectionPoolOptions;
use tokio::sync::mpsc;

use super::*;
use crate::common::{Role, Server, Step, is_handshake_for_operations};

/// Returns the options of the pools of a client, once there is a pool for each member.
async fn created(observed: &ProseClient) -> Vec<ConnectionPoolOptions> {
    let options = |event: &CmapEvent| match event {
        CmapEvent::PoolCreated(event) => Some(event.options.clone().expect("options")),
        _ => None,
    };
    let members = set().members().len();
    observed.pools.wait_for(members, |event| options(event).is_some()).await;
    observed.pools.seen().iter().filter_map(options).collect()
}

/// Returns `true` if the options are those of these tests.
fn is_as_set(options: &ConnectionPoolOptions) -> bool {
    options.max_pool_size == Some(7)
        && options.min_pool_size == Some(2)
        && options.max_connecting == Some(3)
        && options.max_idle_time == Some(Duration::from_millis(4_321))
        && options.wait_queue_timeout == Some(Duration::from_millis(8_765))
}

#[tokio::test]
async fn prose_1_and_2_all_pools_have_the_options_of_the_client() {
    testbed::require!(V6_0);
    let observed = ProseClient::new("pools, prose 1", |options| {
        options.max_pool_size = Some(7);
        options.min_pool_size = Some(2);
        options.max_connecting = Some(3);
        options.max_idle_time = Some(Duration::from_millis(4_321));
        options.wait_queue_timeout = Some(Duration::from_millis(8_765));
    })
    .await;
    let created = created(&observed).await;
    assert_eq!(created.len(), 3);
    assert!(created.iter().all(is_as_set), "{created:?}");
}

#[tokio::test]
async fn prose_3_all_options_of_pools_can_be_set_by_connection_string() {
    testbed::require!(V6_0);
    let uri = format!(
        "{}&maxPoolSize=7&minPoolSize=2&maxConnecting=3&maxIdleTimeMS=4321&waitQueueTimeoutMS=8765",
        set().uri()
    );
    let observed = ProseClient::at(&uri, "pools, prose 3", |_| ()).await;
    let created = created(&observed).await;
    assert!(created.iter().all(is_as_set), "{created:?}");
}

#[tokio::test]
async fn prose_4_events_of_pools_go_to_functions_tasks_and_channels() {
    testbed::require!(V6_0);
    let by_function = Recorder::new();
    let (send, mut by_task) = mpsc::unbounded_channel();
    let (channel, mut by_channel) = mpsc::channel(1_000);
    let handlers = [
        by_function.handler(),
        EventHandler::async_callback(move |event| {
            let send = send.clone();
            Box::pin(async move { send.send(event).unwrap_or_default() })
        }),
        channel.into(),
    ];
    for handler in handlers {
        let observed = ProseClient::new("pools, prose 4", |options| {
            options.cmap_event_handler = Some(handler);
        })
        .await;
        observed.client.database("admin").run_command(doc! { "ping": 1 }).await.unwrap();
    }
    let is_it = |event: &CmapEvent| matches!(event, CmapEvent::ConnectionCheckedOut(_));
    by_function.wait_for(1, is_it).await;
    bounded(async {
        while !is_it(&by_task.recv().await.expect("more events")) {}
        while !is_it(&by_channel.recv().await.expect("more events")) {}
    })
    .await;
}

#[tokio::test]
async fn prose_5_a_failed_handshake_fails_the_checkout_with_a_connection_error() {
    let server = Server::with_handler(Role::Primary, |request| {
        is_handshake_for_operations(request).then(|| vec![Step::HangUp])
    });
    let observed = ProseClient::at(&server.uri("retryReads=false"), "pools, prose 5", |_| ()).await;
    let numbers = observed.collection("numbers");
    let error = bounded(numbers.find_one(doc! {})).await.unwrap_err();
    assert!(error.is_network_error(), "{error:?}");
    let is_it = |event: &CmapEvent| {
        matches!(event, CmapEvent::ConnectionCheckoutFailed(event)
            if event.reason == ConnectionCheckoutFailedReason::ConnectionError)
    };
    observed.pools.wait_for(1, is_it).await;
    let failed = observed.checkouts();
    assert!(!failed.contains(&Checkout::Succeeded), "{failed:?}");
}
