//! Uses the blocking API: no runtime, no `async`. Counts words in several threads, moves one of them in a transaction,
//! and stores a file.
//!
//! Run it with `cargo run -p steadfast --features sync --example blocking`. The connection string comes from
//! `STEADFAST_URI` (default: `mongodb://localhost:27017`). It replaces the collections `words` and `archive` and the
//! bucket `fs` of the database `steadfast_blocking`.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::{env, io::Read, io::Write, thread};

use steadfast::{
    bson::{Document, doc},
    error::Result,
    sync::{Client, Collection},
};

const TEXT: &str =
    "the clocks were striking thirteen and the hallway smelt of boiled cabbage and old rag mats";

fn main() -> Result<()> {
    let uri = env::var("STEADFAST_URI").unwrap_or_else(|_| "mongodb://localhost:27017".to_owned());
    let client = Client::with_uri_str(uri)?;
    let database = client.database("steadfast_blocking");
    database.drop().run()?;
    // A transaction does not create collections on older servers.
    database.create_collection("words").run()?;
    database.create_collection("archive").run()?;
    let words: Collection<Document> = database.collection("words");

    // A client and its handles are shared by threads.
    let chunks: Vec<&str> = TEXT.split(' ').collect();
    thread::scope(|scope| {
        let threads: Vec<_> =
            chunks.chunks(4).map(|chunk| scope.spawn(|| count(&words, chunk))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;

    // A cursor is an iterator.
    for word in words.find(doc! { "count": { "$gt": 1 } }).sort(doc! { "_id": 1 }).run()? {
        let word = word?;
        println!("{}: {}", word.get_str("_id")?, word.get_i32("count")?);
    }
    println!("{} words", words.count_documents(doc! {}).run()?);

    // The closure is repeated after a transient error.
    let archive: Collection<Document> = database.collection("archive");
    let mut session = client.start_session().run()?;
    session.start_transaction().and_run(|session| {
        let moved = words.find_one_and_delete(doc! { "_id": "thirteen" });
        match moved.session(&mut *session).run()? {
            Some(word) => archive.insert_one(word).session(session).run().map(drop),
            None => Ok(()),
        }
    })?;
    println!("{} words, {} archived", count_all(&words)?, count_all(&archive)?);

    // GridFS streams implement `Write` and `Read`.
    let bucket = database.gridfs_bucket(None);
    let mut upload = bucket.open_upload_stream("first-sentence.txt").run()?;
    upload.write_all(TEXT.as_bytes())?;
    upload.close()?;
    let mut text = String::new();
    bucket.open_download_stream(upload.id().clone()).run()?.read_to_string(&mut text)?;
    println!("{} bytes stored and read", text.len());

    client.shutdown().run();
    Ok(())
}

fn count(words: &Collection<Document>, chunk: &[&str]) -> Result<()> {
    for word in chunk {
        let increment = doc! { "$inc": { "count": 1 } };
        words.update_one(doc! { "_id": word }, increment).upsert(true).run()?;
    }
    Ok(())
}

fn count_all(collection: &Collection<Document>) -> Result<u64> {
    collection.count_documents(doc! {}).run()
}
