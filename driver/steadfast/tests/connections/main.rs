//! Connections against scripted servers: limits, time-outs, pinning, monitoring and events.

#![allow(missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod behind_a_load_balancer;
#[cfg(any(feature = "snappy", feature = "zlib", feature = "zstd"))]
mod compression;
mod dead_servers;
mod deadlines;
mod deployment_types;
mod events;
mod handshakes;
mod large_messages;
mod limits;
mod monitoring;
mod read_ahead;
mod reported_commands;
mod shutdown_and_cancellation;
mod timeouts;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::{
    Clock, Gate, Recorder, Request, Role, Server, ServerLog, Step, bounded,
    is_handshake_for_operations,
};
use steadfast::{
    Client,
    bson::{Bson, Document, doc},
    error::{Error, ErrorKind, Result},
    event::{
        cmap::{CmapEvent, ConnectionClosedReason},
        command::CommandEvent,
    },
    options::ClientOptions,
};
use testbed::{Mongod, Options};
use tokio::task::JoinHandle;

async fn run(client: &Client, name: &str) -> Result<Document> {
    bounded(client.database("db").run_command(doc! { name: 1 })).await
}

/// Like [`run`], in a task.
fn start(client: &Client, name: &'static str) -> JoinHandle<Result<Document>> {
    let client = client.clone();
    tokio::spawn(async move { run(&client, name).await })
}

/// Server that replies to `slow` only after the gate is open.
fn slow_server(role: Role) -> (Server, Gate) {
    let gate = Gate::closed();
    let server = Server::with_handler(role, {
        let gate = gate.clone();
        move |request| match request.name.as_str() {
            "slow" => {
                let reply = doc! { "ok": 1, "slow": true };
                Some(vec![Step::WaitFor(gate.clone()), Step::Reply(reply)])
            }
            _ => None,
        }
    });
    (server, gate)
}

async fn client_with_cmap(uri: &str) -> (Client, Recorder<CmapEvent>) {
    let recorder = Recorder::new();
    let mut options = ClientOptions::parse(uri).await.unwrap();
    options.cmap_event_handler = Some(recorder.handler());
    (Client::with_options(options).unwrap(), recorder)
}

async fn client_with_commands(uri: &str) -> (Client, Recorder<CommandEvent>) {
    let recorder = Recorder::new();
    let mut options = ClientOptions::parse(uri).await.unwrap();
    options.command_event_handler = Some(recorder.handler());
    (Client::with_options(options).unwrap(), recorder)
}

#[track_caller]
fn assert_message_contains(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

fn is_checkout_started(event: &CmapEvent) -> bool {
    matches!(event, CmapEvent::ConnectionCheckoutStarted(_))
}

fn is_created(event: &CmapEvent) -> bool {
    matches!(event, CmapEvent::ConnectionCreated(_))
}
