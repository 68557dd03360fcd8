//! Moves money between two accounts in a transaction: once in place, once from spawned tasks that compete.
//!
//! Run it with `cargo run -p steadfast --example transaction`. The connection string comes from
//! `STEADFAST_URI` (default: `mongodb://localhost:27017`). It needs a replica set or a sharded cluster
//! and replaces the collection `steadfast_examples.accounts`.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::env;

use steadfast::{
    Client, ClientSession, Collection,
    bson::{Document, doc},
    error::{Error, Result},
};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<()> {
    let uri = env::var("STEADFAST_URI").unwrap_or_else(|_| "mongodb://localhost:27017".to_owned());
    let client = Client::with_uri_str(uri).await?;
    let accounts = client.database("steadfast_examples").collection::<Document>("accounts");
    accounts.drop().await?;
    let balances = [("ann", 100), ("bob", 0)];
    accounts
        .insert_many(balances.map(|(name, balance)| doc! { "_id": name, "balance": balance }))
        .await?;

    // `and_run2` takes an async closure, which can borrow what is around it.
    let mut session = client.start_session().await?;
    session
        .start_transaction()
        .and_run2(async |session: &mut ClientSession| transfer(session, &accounts, 30).await)
        .await?;
    println!("moved 30: {}", balances_of(&accounts).await?);

    // An error of the application aborts the transaction and comes back to the caller.
    let too_much = session
        .start_transaction()
        .and_run2(async |session: &mut ClientSession| transfer(session, &accounts, 500).await)
        .await;
    match too_much {
        Err(error) => match error.get_custom::<NotEnough>() {
            Some(NotEnough(amount)) => println!("aborted: ann does not have {amount}"),
            None => return Err(error),
        },
        Ok(()) => println!("moved 500, which cannot be"),
    }
    println!("unchanged: {}", balances_of(&accounts).await?);

    // In a spawned task the future must be `Send`: `and_run` takes a context and a boxed future. Write
    // conflicts between the tasks are transient errors, after which `and_run` runs the transaction again.
    let mut tasks = JoinSet::new();
    for _ in 0..5 {
        let (client, accounts) = (client.clone(), accounts.clone());
        tasks.spawn(async move {
            let mut session = client.start_session().await?;
            session
                .start_transaction()
                .and_run(accounts, |session, accounts| {
                    Box::pin(async move { transfer(session, accounts, 10).await })
                })
                .await
        });
    }
    for transferred in tasks.join_all().await {
        transferred?;
    }
    println!("moved 5 times 10: {}", balances_of(&accounts).await?);

    client.shutdown().await;
    Ok(())
}

/// The error that `transfer` raises by itself.
struct NotEnough(i32);

/// Every operation is given the session: without it, it would not be part of the transaction.
async fn transfer(
    session: &mut ClientSession,
    accounts: &Collection<Document>,
    amount: i32,
) -> Result<()> {
    let ann = doc! { "_id": "ann", "balance": { "$gte": amount } };
    let withdraw = doc! { "$inc": { "balance": -amount } };
    let withdrawn = accounts.update_one(ann, withdraw).session(&mut *session).await?;
    if withdrawn.matched_count == 0 {
        return Err(Error::custom(NotEnough(amount)));
    }
    let deposit = doc! { "$inc": { "balance": amount } };
    accounts.update_one(doc! { "_id": "bob" }, deposit).session(session).await?;
    Ok(())
}

async fn balances_of(accounts: &Collection<Document>) -> Result<String> {
    let mut found = accounts.find(doc! {}).sort(doc! { "_id": 1 }).await?;
    let mut balances = Vec::new();
    while found.advance().await? {
        let account = found.current();
        balances.push(format!("{} has {}", account.get_str("_id")?, account.get_i32("balance")?));
    }
    Ok(balances.join(", "))
}
