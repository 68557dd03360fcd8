//! Handles a failed write by its `Error::outcome`, for each of the four outcomes.
//!
//! Run it with `cargo run -p steadfast --example error_outcome`. The connection string comes from
//! `STEADFAST_URI` (default: `mongodb://localhost:27017`). It needs a replica set and replaces the
//! collection `steadfast_examples.payments`.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::env;

use steadfast::{
    Client, Collection,
    bson::{Document, doc},
    error::{Error, ErrorKind, Outcome, Result},
    options::WriteConcern,
};

#[tokio::main]
async fn main() -> Result<()> {
    let uri = env::var("STEADFAST_URI").unwrap_or_else(|_| "mongodb://localhost:27017".to_owned());
    let client = Client::with_uri_str(uri).await?;
    let payments = client.database("steadfast_examples").collection::<Document>("payments");
    payments.drop().await?;

    // NotSent: no server was selected, so nothing was sent.
    let nowhere = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300";
    let unreachable = Client::with_uri_str(nowhere).await?;
    let lost = unreachable.database("steadfast_examples").collection::<Document>("payments");
    report("no server", &lost.insert_one(doc! { "_id": 1 }).await);

    // NotApplied: the server returned an error, and the write had no effect.
    payments.insert_one(doc! { "_id": 1, "amount": 10 }).await?;
    report("duplicate key", &payments.insert_one(doc! { "_id": 1, "amount": 99 }).await);

    // MaybeApplied: a part of a batch was inserted. A write with a lost reply has the same outcome.
    let batch = payments.insert_many([2, 1, 3].map(|id| doc! { "_id": id, "amount": 20 })).await;
    report("half of a batch", &batch);
    if let Err(error) = &batch
        && let ErrorKind::InsertMany(failed) = &*error.kind
    {
        println!("  inserted: {:?}", failed.inserted_ids.values().collect::<Vec<_>>());
    }

    // AppliedNotDurable: the document was inserted, but the write concern was not satisfied. No replica set has 50
    // members with data here.
    let all = WriteConcern::nodes(50);
    let durable = payments.insert_one(doc! { "_id": 4, "amount": 40 }).write_concern(all).await;
    report("write concern", &durable);

    // Put together: a payment with its own `_id` is inserted exactly once.
    for amount in [50, 50] {
        let state = pay(&payments, doc! { "_id": 5, "amount": amount }).await?;
        println!("payment 5: {state}");
    }
    println!("{} payments in all", payments.count_documents(doc! {}).await?);

    unreachable.shutdown().await;
    client.shutdown().await;
    Ok(())
}

fn report<T>(case: &str, result: &Result<T>) {
    match result {
        Ok(_) => println!("{case}: succeeded"),
        Err(error) => println!("{case}: {:?}: {}", error.outcome(), advice(error)),
    }
}

/// Advice for the caller after an error.
fn advice(error: &Error) -> &'static str {
    match error.outcome() {
        Outcome::NotSent | Outcome::NotApplied if error.is_transient() => "call again later",
        Outcome::NotSent | Outcome::NotApplied => "nothing was written; correct the call",
        Outcome::MaybeApplied => "read before you call again, or repeat only what is idempotent",
        Outcome::AppliedNotDurable => "do not call again; a failover may still roll it back",
    }
}

/// Inserts a payment once. An error here follows the retries of the driver.
async fn pay(payments: &Collection<Document>, payment: Document) -> Result<&'static str> {
    // An `_id` chosen by the application makes the insert idempotent.
    for _ in 0..3 {
        let Err(error) = payments.insert_one(&payment).await else { return Ok("inserted") };
        match error.outcome() {
            // A document with the same `_id` exists: an earlier attempt was applied.
            Outcome::NotApplied if error.is_duplicate_key_error() => return Ok("was there before"),
            Outcome::NotSent | Outcome::NotApplied if error.is_transient() => {}
            Outcome::MaybeApplied => {}
            Outcome::AppliedNotDurable => return Ok("inserted, not yet durable"),
            Outcome::NotSent | Outcome::NotApplied => return Err(error),
        }
        println!("  again after {error}");
    }
    Ok("unknown; look for it later")
}
