//! Reads many documents: in batches, as a stream, in parts of them, and page by page.
//!
//! Run it with `cargo run -p steadfast --example cursors_and_pagination`. The connection string comes from
//! `STEADFAST_URI` (default: `mongodb://localhost:27017`). It replaces the collection
//! `steadfast_examples.readings`.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::env;

use futures_util::TryStreamExt;
use serde::{Deserialize, Serialize};
use steadfast::{Client, Collection, IndexModel, bson::doc, error::Result};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Reading {
    #[serde(rename = "_id")]
    id: i32,
    sensor: String,
    value: i32,
}

/// Result of `average_by_sensor` for one sensor.
#[derive(Deserialize)]
struct Average {
    #[serde(rename = "_id")]
    sensor: String,
    value: f64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let uri = env::var("STEADFAST_URI").unwrap_or_else(|_| "mongodb://localhost:27017".to_owned());
    let client = Client::with_uri_str(uri).await?;
    let readings: Collection<Reading> =
        client.database("steadfast_examples").collection("readings");
    readings.drop().await?;
    let sensors = ["attic", "cellar"];
    let all = (0..250).map(|id| Reading {
        id,
        sensor: sensors[usize::from(id % 2 == 0)].to_owned(),
        value: id % 50,
    });
    readings.insert_many(all).await?;
    // Pages of one sensor, in the order of this index, cost the same however far back they are.
    let index = IndexModel::builder().keys(doc! { "sensor": 1, "_id": 1 }).build();
    readings.create_index(index).await?;

    // `advance` and `current` read documents in the batch, without copying them.
    let mut cursor = readings.find(doc! {}).batch_size(100).await?;
    let mut sum = 0;
    while cursor.advance().await? {
        sum += cursor.current().get_i32("value")?;
    }
    println!("the sum of all values is {sum}");

    // A cursor is also a `Stream` of deserialized documents.
    let high: Vec<Reading> = readings
        .find(doc! { "value": { "$gte": 48 } })
        .sort(doc! { "_id": 1 })
        .limit(3)
        .await?
        .try_collect()
        .await?;
    for Reading { id, sensor, value } in &high {
        println!("reading {id} of the {sensor}: {value}");
    }

    let (mut after, mut pages, mut seen) = (None, 0, 0);
    loop {
        let page = page_after(&readings, after).await?;
        let Some(last) = page.last() else { break };
        (after, pages, seen) = (Some(last.id), pages + 1, seen + page.len());
    }
    println!("{seen} readings of the attic on {pages} pages");

    for Average { sensor, value } in average_by_sensor(&readings).await? {
        println!("average of the {sensor}: {value}");
    }

    client.shutdown().await;
    Ok(())
}

/// The next page after a reading: a range of the index. `skip` would read and discard all pages before.
async fn page_after(readings: &Collection<Reading>, after: Option<i32>) -> Result<Vec<Reading>> {
    let mut filter = doc! { "sensor": "attic" };
    if let Some(id) = after {
        filter.insert("_id", doc! { "$gt": id });
    }
    readings.find(filter).sort(doc! { "_id": 1 }).limit(40).await?.try_collect().await
}

/// An aggregation whose documents have another type than those of the collection.
async fn average_by_sensor(readings: &Collection<Reading>) -> Result<Vec<Average>> {
    let pipeline = [
        doc! { "$group": { "_id": "$sensor", "value": { "$avg": "$value" } } },
        doc! { "$sort": { "_id": 1 } },
    ];
    readings.aggregate(pipeline).with_type::<Average>().await?.try_collect().await
}
