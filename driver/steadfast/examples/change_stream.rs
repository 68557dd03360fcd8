//! Watches the changes of a collection, and resumes after the last one that was handled.
//!
//! Run it with `cargo run -p steadfast --example change_stream`. The connection string comes from
//! `STEADFAST_URI` (default: `mongodb://localhost:27017`). It needs a replica set or a sharded cluster
//! and replaces the collection `steadfast_examples.orders`.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::env;

use futures_util::TryStreamExt;
use serde::{Deserialize, Serialize};
use steadfast::{
    Client, Collection,
    bson::doc,
    change_stream::event::{ChangeStreamEvent, OperationType},
    error::Result,
    options::FullDocumentType,
};

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    #[serde(rename = "_id")]
    id: i32,
    fruit: String,
    shipped: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let uri = env::var("STEADFAST_URI").unwrap_or_else(|_| "mongodb://localhost:27017".to_owned());
    let client = Client::with_uri_str(uri).await?;
    let orders: Collection<Order> = client.database("steadfast_examples").collection("orders");
    orders.drop().await?;
    orders.insert_one(Order { id: 0, fruit: "plum".to_owned(), shipped: true }).await?;

    // Watch inserts and updates; of an update, request the whole document (`updateLookup`).
    let wanted = doc! { "$match": { "operationType": { "$in": ["insert", "update"] } } };
    let mut changes = orders
        .watch()
        .pipeline([wanted.clone()])
        .full_document(FullDocumentType::UpdateLookup)
        .await?;

    // Only changes after `watch` has returned are events: order 0 is not one of them.
    let writer = tokio::spawn(write(orders.clone()));
    for _ in 0..3 {
        let Some(event) = changes.try_next().await? else { break };
        print(&event);
    }
    match writer.await {
        Ok(written) => written?,
        Err(error) => println!("the writing task failed: {error}"),
    }

    // An application stores the token after each event that it has handled. After a restart it resumes there:
    // here with the insert that follows, which no stream was open for.
    let token = changes.resume_token();
    drop(changes);
    orders.insert_one(Order { id: 3, fruit: "fig".to_owned(), shipped: false }).await?;
    let mut resumed = orders.watch().pipeline([wanted]).resume_after(token).await?;
    if let Some(event) = resumed.try_next().await? {
        print!("resumed: ");
        print(&event);
    }

    drop(resumed);
    client.shutdown().await;
    Ok(())
}

async fn write(orders: Collection<Order>) -> Result<()> {
    for (id, fruit) in [(1, "apple"), (2, "pear")] {
        orders.insert_one(Order { id, fruit: fruit.to_owned(), shipped: false }).await?;
    }
    orders.update_one(doc! { "_id": 1 }, doc! { "$set": { "shipped": true } }).await?;
    // Not an insert and not an update: the pipeline filters it out.
    orders.delete_one(doc! { "_id": 2 }).await?;
    Ok(())
}

fn print(event: &ChangeStreamEvent<Order>) {
    let order = event.full_document.as_ref();
    match (&event.operation_type, order) {
        (OperationType::Insert, Some(order)) => println!("new order {}: {}", order.id, order.fruit),
        (OperationType::Update, Some(order)) => {
            println!("order {}: shipped is {}", order.id, order.shipped);
        }
        // The document of an update may be deleted before the server looks it up.
        (other, _) => println!("{other:?} of {:?}", event.document_key),
    }
}
