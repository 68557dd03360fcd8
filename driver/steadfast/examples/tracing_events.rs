//! Logs the driver's commands, connections, server selections and topology changes through `tracing`, and
//! counts commands with an event handler.
//!
//! Run it with `cargo run -p steadfast --example tracing_events`. The connection string comes from
//! `STEADFAST_URI` (default: `mongodb://localhost:27017`). It empties the collection
//! `steadfast_examples.traced`.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::{
    env, io,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use steadfast::{
    Client,
    bson::{Document, doc},
    error::Result,
    event::{EventHandler, command::CommandEvent},
    options::ClientOptions,
};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    prelude::*,
};

#[tokio::main]
async fn main() -> Result<()> {
    // Each component has a target. Commands and connections log at `debug`, retries at `info`.
    let targets = Targets::new()
        .with_target("steadfast::command", LevelFilter::DEBUG)
        .with_target("steadfast::connection", LevelFilter::DEBUG)
        .with_target("steadfast::topology", LevelFilter::INFO)
        .with_target("steadfast::retry", LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(io::stdout);
    tracing_subscriber::registry().with(lines.with_filter(targets)).init();

    let uri = env::var("STEADFAST_URI").unwrap_or_else(|_| "mongodb://localhost:27017".to_owned());
    let mut options = ClientOptions::parse(uri).await?;
    options.app_name = Some("tracing-example".to_owned());
    // Length at which documents are cut off in log messages.
    options.tracing_max_document_length_bytes = Some(120);

    // Handlers get the same events as values. They run within the driver, so they must not block.
    let failed = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&failed);
    options.command_event_handler = Some(EventHandler::callback(move |event: CommandEvent| {
        if let CommandEvent::Failed(_) = event {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }));

    let client = Client::with_options(options)?;
    let traced = client.database("steadfast_examples").collection::<Document>("traced");
    traced.delete_many(doc! {}).await?;
    traced.insert_one(doc! { "_id": 1, "text": "hello" }).await?;
    traced.find_one(doc! { "_id": 1 }).await?;
    // A command that fails is logged, too.
    if let Err(error) = traced.find_one(doc! { "_id": { "$unknown": 1 } }).await {
        println!("the application got: {error}");
    }
    client.shutdown().await;
    println!("failed commands: {}", failed.load(Ordering::Relaxed));
    Ok(())
}
