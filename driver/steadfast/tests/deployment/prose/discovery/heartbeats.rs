//! Streaming protocol, round-trip time and heartbeats.

use std::{
    sync::{Arc, Mutex as Lock},
    time::Instant,
};

use steadfast::{
    event::EventHandler,
    options::{FindOneOptions, SelectionCriteria},
};

use super::*;
use crate::common::{Request, Role, Server, Step};

#[tokio::test]
async fn prose_streaming_1_streamed_heartbeats_have_the_configured_frequency() {
    testbed::require!(V6_0);
    let standalone = testbed::shared::standalone().expect("a server");
    for (uri, server) in
        [(standalone.uri(), standalone.address().into()), (set().uri(), address(members().0))]
    {
        let observed = ProseClient::at(&uri, "streaming, prose 1", |options| {
            options.heartbeat_freq = Some(Duration::from_millis(500));
            options.server_monitoring_mode = Some(ServerMonitoringMode::Stream);
        })
        .await;
        let is_report = |event: &SdamEvent| {
            matches!(event, SdamEvent::ServerHeartbeatSucceeded(event)
                if event.awaited && event.server_address == server)
        };
        observed.servers.wait_for(5, is_report).await;
        // Measured by the clock of the server: four intervals of half a second. With the default frequency they
        // would take ten seconds each.
        let seen = observed.servers.seen();
        let times: Vec<_> = seen.iter().filter(|event| is_report(event)).map(local_time).collect();
        let took = times[4] - times[0];
        assert!((1_600..30_000).contains(&took), "{took} ms at {uri}");
    }
}

/// Returns the `localTime` of a heartbeat reply, in milliseconds.
fn local_time(event: &SdamEvent) -> i64 {
    let SdamEvent::ServerHeartbeatSucceeded(event) = event else { panic!("{event:?}") };
    event.reply.get_datetime("localTime").expect("the time").timestamp_millis()
}

#[tokio::test]
async fn prose_rtt_1_the_round_trip_time_is_updated() {
    testbed::require!(V6_0);
    let app_name = "streamingRttTest";
    let point = FailPoint::reserve(vec![members().0], app_name).await;
    let primary = address(point.members[0]);
    let observed = ProseClient::new(app_name, |_| ()).await;
    observed.collection("rtt_prose_1").find_one(doc! {}).await.unwrap();
    let is_beat = |event: &SdamEvent| {
        matches!(event, SdamEvent::ServerHeartbeatSucceeded(event)
            if event.server_address == primary)
    };
    observed.servers.wait_for(4, is_beat).await;
    for event in observed.servers.seen() {
        let SdamEvent::ServerDescriptionChanged(event) = event else { continue };
        let time = event.new_description.average_round_trip_time;
        assert!(time.is_some_and(|time| !time.is_zero()), "{:?}", event.new_description);
    }

    let slow = doc! {
        "failCommands": ["hello", "isMaster"], "blockConnection": true, "blockTimeMS": 500,
    };
    point.set(1_000, slow);
    let began = Instant::now();
    while round_trip_time(&observed, &primary).await < Duration::from_millis(250) {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not grow");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the round-trip time of a server as used by server selection.
async fn round_trip_time(observed: &ProseClient, server: &ServerAddress) -> Duration {
    let time = Arc::new(Lock::new(Duration::ZERO));
    let (noted, server) = (Arc::clone(&time), server.clone());
    let criteria = SelectionCriteria::Predicate(Arc::new(move |info| {
        let is_it = *info.address() == server;
        if is_it {
            *noted.lock().unwrap() = info.average_round_trip_time().unwrap_or_default();
        }
        is_it
    }));
    let options = FindOneOptions::builder().selection_criteria(criteria).build();
    observed.collection("rtt_prose_1").find_one(doc! {}).with_options(options).await.unwrap();
    *time.lock().unwrap()
}

#[tokio::test]
async fn prose_heartbeat_1_the_started_event_precedes_the_connection() {
    let hangs_up = |_: &Request| Some(vec![Step::HangUp]);
    let server = Arc::new(Server::with_handler(Role::Standalone, hangs_up));
    let story = Recorder::new();
    let EventHandler::Callback(tell) = story.handler() else { unreachable!("a recorder's") };
    let at = Arc::clone(&server);
    let mut options = ClientOptions::parse(server.uri("")).await.unwrap();
    options.sdam_event_handler = Some(EventHandler::callback(move |event| {
        let name = match event {
            SdamEvent::ServerHeartbeatStarted(_) => "heartbeat started",
            SdamEvent::ServerHeartbeatFailed(_) => "heartbeat failed",
            _ => return,
        };
        let log = at.log();
        tell((name, log.opened, log.requests.len()));
    }));
    let _client = Client::with_options(options).unwrap();
    story.wait_until(|story| story.len() >= 2).await;
    let story = story.seen();
    assert_eq!(story[0], ("heartbeat started", 0, 0), "nobody has connected yet");
    assert_eq!(story[1], ("heartbeat failed", 1, 1), "hello has come, and nothing went back");
}
