//! Invalid input from applications and servers ends in time in an error that names cause and server, never in a panic.

#![allow(missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod from_applications;
mod from_servers;
mod impostors;

use std::time::Duration;

use common::{Clock, Recorder, bounded};
use steadfast::{
    Client,
    bson::{Document, doc},
    error::{Error, Result},
    event::sdam::SdamEvent,
    options::ClientOptions,
};

/// Time-outs of the clients, measured by a stopped clock.
const LIMITS: &str = "serverSelectionTimeoutMS=30000&connectTimeoutMS=5000&socketTimeoutMS=5000";

async fn ping(client: &Client) -> Result<Document> {
    bounded(client.database("db").run_command(doc! { "ping": 1 })).await
}

/// Error of the first operation of a client. Its server selection time-out expires after the first heartbeat.
async fn first_error(
    uri: &str,
    clock: &Clock,
    before_heartbeat: impl Future<Output = ()>,
) -> Error {
    let heartbeats = Recorder::new();
    let mut options = ClientOptions::parse(uri).await.expect("a sound connection string");
    options.sdam_event_handler = Some(heartbeats.handler());
    let client = Client::with_options(options).unwrap();
    let (ended, ()) = tokio::join!(ping(&client), async {
        before_heartbeat.await;
        let over = |event: &SdamEvent| {
            use SdamEvent::{ServerHeartbeatFailed, ServerHeartbeatSucceeded};
            matches!(event, ServerHeartbeatFailed(_) | ServerHeartbeatSucceeded(_))
        };
        heartbeats.wait_for(1, over).await;
        clock.pass(Duration::from_secs(30)).await;
    });
    ended.expect_err("the server is not usable")
}

#[track_caller]
fn assert_message_contains(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}
