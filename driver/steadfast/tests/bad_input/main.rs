//! What comes of bad input, whichever side it is from: an error that names the cause and the server,
//! in time, and never a panic.

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

/// How long a client waits for things; by a clock that is stopped.
const LIMITS: &str = "serverSelectionTimeoutMS=30000&connectTimeoutMS=5000&socketTimeoutMS=5000";

async fn ping(client: &Client) -> Result<Document> {
    bounded(client.database("db").run_command(doc! { "ping": 1 })).await
}

/// The error of the first operation of a client, whose time to find a server passes when its monitor has found
/// out what is wrong.
async fn first_error(uri: &str, clock: &Clock, finds_out: impl Future<Output = ()>) -> Error {
    let heartbeats = Recorder::new();
    let mut options = ClientOptions::parse(uri).await.expect("a sound connection string");
    options.sdam_event_handler = Some(heartbeats.handler());
    let client = Client::with_options(options).unwrap();
    let (ended, ()) = tokio::join!(ping(&client), async {
        finds_out.await;
        let over = |event: &SdamEvent| {
            use SdamEvent::{ServerHeartbeatFailed, ServerHeartbeatSucceeded};
            matches!(event, ServerHeartbeatFailed(_) | ServerHeartbeatSucceeded(_))
        };
        heartbeats.wait_for(1, over).await;
        clock.pass(Duration::from_secs(30)).await;
    });
    ended.expect_err("the server is no good")
}

#[track_caller]
fn assert_says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}
