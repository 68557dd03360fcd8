//! Reads its own writes from secondaries (causal consistency), passes its operation time to another client, and
//! reads several times from one snapshot.
//!
//! Run it with `cargo run -p steadfast --example sessions`. The connection string comes from
//! `STEADFAST_URI` (default: `mongodb://localhost:27017`). It needs a replica set or a sharded cluster and
//! replaces the collection `steadfast_examples.visits`.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::env;

use steadfast::{
    Client,
    bson::{Document, doc},
    error::Result,
    options::{CollectionOptions, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern},
};

#[tokio::main]
async fn main() -> Result<()> {
    let uri = env::var("STEADFAST_URI").unwrap_or_else(|_| "mongodb://localhost:27017".to_owned());
    let client = Client::with_uri_str(&uri).await?;
    // Majority for reads and writes: with both, causal consistency also holds across a failover.
    let options = CollectionOptions::builder()
        .selection_criteria(SelectionCriteria::from(ReadPreference::secondary_preferred(None)))
        .read_concern(ReadConcern::majority())
        .write_concern(WriteConcern::majority())
        .build();
    let database = client.database("steadfast_examples");
    let visits = database.collection_with_options::<Document>("visits", options.clone());
    visits.drop().await?;

    // Sessions are causally consistent by default: a read waits until the secondary has the data that the session
    // wrote or read before (`afterClusterTime`).
    let mut session = client.start_session().await?;
    for id in 0..10 {
        visits.insert_one(doc! { "_id": id }).session(&mut session).await?;
        let found = visits.find_one(doc! { "_id": id }).session(&mut session).await?;
        if found.is_none() {
            println!("visit {id} is not there yet");
        }
    }
    println!("10 writes, each read from a secondary at once");

    // Another process, say the next service in a chain, continues at the same operation time.
    let other_client = Client::with_uri_str(&uri).await?;
    let mut follower = other_client.start_session().await?;
    if let (Some(cluster_time), Some(time)) = (session.cluster_time(), session.operation_time()) {
        follower.advance_cluster_time(cluster_time);
        follower.advance_operation_time(time);
    }
    let theirs = other_client
        .database("steadfast_examples")
        .collection_with_options::<Document>("visits", options);
    let count = theirs.count_documents(doc! {}).session(&mut follower).await?;
    println!("the other client counts {count}");

    // All reads of a snapshot session, here from the primary, see the data of one point in time.
    let mut snapshot = client.start_session().snapshot(true).await?;
    let visits = database.collection::<Document>("visits");
    let before = visits.count_documents(doc! {}).session(&mut snapshot).await?;
    visits.delete_many(doc! { "_id": { "$lt": 5 } }).session(&mut session).await?;
    let still = visits.count_documents(doc! {}).session(&mut snapshot).await?;
    let now = visits.count_documents(doc! {}).session(&mut session).await?;
    println!("in the snapshot: {before}, then {still}; outside of it: {now}");

    drop((session, follower, snapshot));
    other_client.shutdown().await;
    client.shutdown().await;
    Ok(())
}
