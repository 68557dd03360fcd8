//! Creates, reads, updates and deletes documents of a typed collection.
//!
//! Run it with `cargo run -p steadfast --example crud`. The connection string comes from
//! `STEADFAST_URI` (default: `mongodb://localhost:27017`). It replaces the collection
//! `steadfast_examples.crud`.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::env;

use serde::{Deserialize, Serialize};
use steadfast::{Client, Collection, bson::doc, error::Result, options::ReturnDocument};

#[derive(Debug, Serialize, Deserialize)]
struct Book {
    #[serde(rename = "_id")]
    isbn: String,
    title: String,
    year: i32,
    copies: i32,
}

impl Book {
    fn new(isbn: &str, title: &str, year: i32) -> Self {
        Self { isbn: isbn.to_owned(), title: title.to_owned(), year, copies: 1 }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let uri = env::var("STEADFAST_URI").unwrap_or_else(|_| "mongodb://localhost:27017".to_owned());
    let client = Client::with_uri_str(uri).await?;
    let books: Collection<Book> = client.database("steadfast_examples").collection("crud");
    books.drop().await?;

    // Create.
    let inserted = books.insert_one(Book::new("0-452", "1984", 1949)).await?;
    println!("inserted {}", inserted.inserted_id);
    let more = [
        Book::new("0-151", "Animal Farm", 1945),
        Book::new("0-156", "Burmese Days", 1934),
        Book::new("0-14", "Coming Up for Air", 1939),
    ];
    println!("inserted {} more", books.insert_many(more).await?.inserted_ids.len());

    // Read one document, and several in batches.
    match books.find_one(doc! { "_id": "0-452" }).await? {
        Some(book) => println!("found {} of {}", book.title, book.year),
        None => println!("there is no such book"),
    }
    let mut cursor = books.find(doc! { "year": { "$lt": 1946 } }).sort(doc! { "year": 1 }).await?;
    while cursor.advance().await? {
        let Book { title, year, .. } = cursor.deserialize_current()?;
        println!("{year}  {title}");
    }
    println!("{} books in all", books.count_documents(doc! {}).await?);

    // Update: one document, all that match, and one that is returned as it is after the update.
    let title = doc! { "$set": { "title": "Nineteen Eighty-Four" } };
    let updated = books.update_one(doc! { "_id": "0-452" }, title).await?;
    println!("matched {}, modified {}", updated.matched_count, updated.modified_count);
    let updated = books.update_many(doc! {}, doc! { "$inc": { "copies": 1 } }).await?;
    println!("{} books have one copy more", updated.modified_count);
    let borrowed = books
        .find_one_and_update(doc! { "_id": "0-452" }, doc! { "$inc": { "copies": -1 } })
        .return_document(ReturnDocument::After)
        .await?;
    if let Some(Book { title, copies, .. }) = borrowed {
        println!("copies of {title}: {copies}");
    }

    // An upsert inserts the document if none matches.
    let homage = Book::new("0-1560", "Homage to Catalonia", 1938);
    let replaced = books.replace_one(doc! { "_id": "0-1560" }, homage).upsert(true).await?;
    if let Some(id) = replaced.upserted_id {
        println!("upserted {id}");
    }

    // Delete.
    let deleted = books.delete_many(doc! { "year": { "$lt": 1940 } }).await?;
    println!("deleted {}", deleted.deleted_count);

    client.shutdown().await;
    Ok(())
}
