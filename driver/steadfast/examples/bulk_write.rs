//! Sends many writes in few commands, and reads from the error which of them failed.
//!
//! Run it with `cargo run -p steadfast --example bulk_write`. The connection string comes from
//! `STEADFAST_URI` (default: `mongodb://localhost:27017`). It replaces the collections
//! `steadfast_examples.bulk_stock` and `steadfast_examples.bulk_orders`. Its second part needs MongoDB
//! 8.0 or later.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::env;

use steadfast::{
    Client, Collection,
    bson::{Document, doc},
    error::{ErrorKind, Result},
    options::{
        DeleteManyModel, InsertOneModel, ReplaceOneModel, UpdateManyModel, UpdateOneModel,
        WriteModel,
    },
};

#[tokio::main]
async fn main() -> Result<()> {
    let uri = env::var("STEADFAST_URI").unwrap_or_else(|_| "mongodb://localhost:27017".to_owned());
    let client = Client::with_uri_str(uri).await?;
    let database = client.database("steadfast_examples");
    let stock = database.collection::<Document>("bulk_stock");
    let orders = database.collection::<Document>("bulk_orders");
    stock.drop().await?;
    orders.drop().await?;

    write_to_one_collection(&stock).await?;
    write_to_two_collections(&client, &stock, &orders).await?;

    client.shutdown().await;
    Ok(())
}

/// `Collection::bulk_write`: any server.
async fn write_to_one_collection(stock: &Collection<Document>) -> Result<()> {
    let models: Vec<WriteModel<Document>> = vec![
        InsertOneModel::new(doc! { "_id": "apple", "n": 10 }).into(),
        InsertOneModel::new(doc! { "_id": "pear", "n": 0 }).into(),
        // Fails: `apple` exists already (duplicate key).
        InsertOneModel::new(doc! { "_id": "apple", "n": 99 }).into(),
        UpdateOneModel::new(doc! { "_id": "apple" }, doc! { "$inc": { "n": -1 } }).into(),
        UpdateManyModel::new(doc! {}, doc! { "$set": { "shelf": 7 } }).into(),
        ReplaceOneModel::new(doc! { "_id": "plum" }, doc! { "n": 3 }).upsert(true).into(),
        DeleteManyModel::new(doc! { "n": 0 }).into(),
    ];
    // An ordered bulk write, the default, stops at the first error. An unordered one continues.
    let Err(error) = stock.bulk_write(models).ordered(false).await else {
        println!("all writes succeeded");
        return Ok(());
    };
    let ErrorKind::BulkWrite(failed) = &*error.kind else { return Err(error) };
    for (index, error) in &failed.write_errors {
        println!("write {index} failed with code {}", error.code);
    }
    println!("outcome of the whole call: {:?}", error.outcome());
    let left = stock.find_one(doc! { "_id": "apple" }).await?;
    println!("apple: {}", left.unwrap_or_default());
    println!("{} kinds of fruit are left", stock.count_documents(doc! {}).await?);
    Ok(())
}

/// `Client::bulk_write`: one command for several collections, from MongoDB 8.0 on.
async fn write_to_two_collections(
    client: &Client,
    stock: &Collection<Document>,
    orders: &Collection<Document>,
) -> Result<()> {
    let models: [WriteModel; 2] = [
        InsertOneModel::new(doc! { "_id": 1, "fruit": "apple", "n": 2 })
            .namespace(orders.namespace())
            .into(),
        UpdateOneModel::new(doc! { "_id": "apple" }, doc! { "$inc": { "n": -2 } })
            .namespace(stock.namespace())
            .into(),
    ];
    match client.bulk_write(models).verbose_results().await {
        Ok(result) => {
            println!("order {} is inserted", result.insert_results[&0].inserted_id);
            println!("{} document of the stock is modified", result.summary.modified_count);
        }
        Err(error) => match &*error.kind {
            ErrorKind::IncompatibleServer { message, .. } => println!("not here: {message}"),
            _ => return Err(error),
        },
    }
    Ok(())
}
