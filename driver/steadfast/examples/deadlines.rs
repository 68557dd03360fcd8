//! Limits the time of calls (`timeoutMS`), and prints the outcome of a write that timed out.
//!
//! Run it with `cargo run -p steadfast --example deadlines`. The connection string comes from
//! `STEADFAST_URI` (default: `mongodb://localhost:27017`). It replaces the collection
//! `steadfast_examples.deadlines` and uses `$where`, so the server must allow JavaScript.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::{
    env,
    time::{Duration, Instant},
};

use steadfast::{
    Client,
    bson::{Document, doc},
    error::{Error, ErrorKind, Outcome, Result},
    options::ClientOptions,
};

#[tokio::main]
async fn main() -> Result<()> {
    let uri = env::var("STEADFAST_URI").unwrap_or_else(|_| "mongodb://localhost:27017".to_owned());
    let mut options = ClientOptions::parse(uri).await?;
    // Time-out of every call, as `timeoutMS=10000` in the connection string: server selection, the
    // connection, the reply and all retries included. Databases, collections and calls can override it.
    options.timeout = Some(Duration::from_secs(10));
    let client = Client::with_options(options)?;
    let jobs = client.database("steadfast_examples").collection::<Document>("deadlines");
    jobs.drop().await?;
    jobs.insert_one(doc! { "_id": 1, "state": "new" }).await?;
    println!("a quick insert is well within its deadline");

    // A filter that takes the server much longer than the time-out.
    let slow = || doc! { "_id": 1, "$where": "sleep(2000) || true" };
    let limit = Duration::from_millis(200);

    let began = Instant::now();
    if let Err(error) = jobs.find_one(slow()).timeout(limit).await {
        println!("a read ended after about {} ms", round(began.elapsed()));
        explain(&error)?;
    }

    let done = doc! { "$set": { "state": "done" } };
    if let Err(error) = jobs.update_one(slow(), done.clone()).timeout(limit).await {
        println!("a write ended");
        explain(&error)?;
        if error.outcome() == Outcome::MaybeApplied {
            // The update sets a value, so it is idempotent: repeat it. Otherwise read first.
            jobs.update_one(doc! { "_id": 1 }, done).await?;
        }
    }
    let job = jobs.find_one(doc! { "_id": 1 }).await?.unwrap_or_default();
    println!("the job is {}", job.get_str("state")?);

    client.shutdown().await;
    Ok(())
}

/// Prints a time-out; returns any other error.
fn explain(error: &Error) -> Result<()> {
    let ErrorKind::Timeout(timeout) = &*error.kind else { return Err(error.clone()) };
    println!("  limit: {:?}", timeout.timeout);
    println!("  spent: {}", timeout.spent);
    println!("  outcome: {:?}", error.outcome());
    Ok(())
}

/// Milliseconds, rounded to hundreds.
fn round(time: Duration) -> u128 {
    (time.as_millis() + 50) / 100 * 100
}
