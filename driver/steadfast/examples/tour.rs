//! A tour of the whole API: every method of `Client`, `Database`, `Collection`, `Cursor`,
//! `ChangeStream`, `ClientSession` and `GridFsBucket` once.
//!
//! `cargo run -p steadfast --example tour -- mongodb://localhost:27017` works in a database called
//! `steadfast_tour`, which it drops at the start and at the end.

use std::{io::SeekFrom, time::Duration};

use futures_util::TryStreamExt;
use serde::{Deserialize, Serialize};
use steadfast::{
    Client, ClientSession, Collection, Database, IndexModel, Namespace, SearchIndexModel,
    TransactionState,
    bson::{Bson, Document, doc, rawdoc},
    change_stream::event::OperationType,
    error::{ErrorKind, GridFsErrorKind, Result},
    options::{
        ClientOptions, CollectionOptions, DatabaseOptions, DeleteManyModel, DeleteOneModel,
        DriverInfo, FullDocumentType, GridFsBucketOptions, IndexOptions, InsertOneModel,
        ReadConcern, ReadPreference, ReplaceOneModel, ReturnDocument, SelectionCriteria,
        TransactionOptions, UpdateManyModel, UpdateOneModel, WriteConcern,
    },
};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Book {
    #[serde(rename = "_id")]
    id: i32,
    title: String,
    year: i32,
}

fn book(id: i32, title: &str, year: i32) -> Book {
    Book { id, title: title.to_owned(), year }
}

#[tokio::main]
async fn main() -> Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "mongodb://localhost:27017".to_owned());
    tour(&uri).await
}

/// Calls every method once, and checks the results.
pub async fn tour(uri: &str) -> Result<()> {
    let client = connect(uri).await?;
    let database = client.database_with_options(
        "steadfast_tour",
        DatabaseOptions::builder().write_concern(WriteConcern::majority()).build(),
    );
    database.drop().await?;
    administer(&client, &database).await?;
    let books = database.collection::<Book>("books");
    insert(&books).await?;
    read(&books).await?;
    update(&books).await?;
    write_in_bulk(&books).await?;
    index(&books).await?;
    run_commands(&database).await?;
    use_sessions(&client, &books).await?;
    watch(&client, &database, &books).await?;
    use_transactions(&client, &books).await?;
    keep_files(&database).await?;
    delete(&books).await?;
    books.drop().await?;
    database.drop().await?;
    client.shutdown().await;
    Ok(())
}

async fn connect(uri: &str) -> Result<Client> {
    Client::with_uri_str(uri).await?.shutdown().immediate(true).await;
    let mut options = ClientOptions::parse(uri).await?;
    options.app_name = Some("tour".to_owned());
    options.min_pool_size = Some(2);
    options.default_database = Some("steadfast_tour".to_owned());
    let client = Client::with_options(options)?;
    client.append_metadata(DriverInfo::new("tour"))?;
    client.warm_connection_pool().await;
    assert_eq!(client.default_database().expect("it was named").name(), "steadfast_tour");
    assert!(client.selection_criteria().is_none());
    assert!(client.read_concern().is_none());
    assert!(client.write_concern().is_none());
    Ok(client)
}

async fn administer(client: &Client, database: &Database) -> Result<()> {
    assert_eq!(database.name(), "steadfast_tour");
    assert_eq!(database.write_concern(), Some(&WriteConcern::majority()));
    assert!(database.read_concern().is_none() && database.selection_criteria().is_none());
    assert!(database.client().database("steadfast_tour").name() == database.name());

    database.create_collection("log").capped(true).size(4096).await?;
    assert_eq!(database.list_collection_names().await?, ["log"]);
    let listed: Vec<_> = database.list_collections().await?.try_collect().await?;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].options.capped, Some(true));

    assert!(client.list_database_names().await?.contains(&"steadfast_tour".to_owned()));
    let databases = client.list_databases().await?;
    assert!(databases.iter().any(|database| database.name == "steadfast_tour"));
    Ok(())
}

async fn insert(books: &Collection<Book>) -> Result<()> {
    let inserted = books.insert_one(book(1, "1984", 1949)).await?;
    assert_eq!(inserted.inserted_id, Bson::Int32(1));
    let many = [book(2, "Animal Farm", 1945), book(3, "Homage to Catalonia", 1938)];
    assert_eq!(books.insert_many(many).ordered(false).await?.inserted_ids.len(), 2);

    let twice = books.insert_one(book(1, "1984", 1949)).await.expect_err("the id is taken");
    assert!(twice.is_duplicate_key_error());
    let partly = [book(4, "Coming Up for Air", 1939), book(1, "1984", 1949)];
    let partly = books.insert_many(partly).await.expect_err("one id is taken");
    let ErrorKind::InsertMany(error) = &*partly.kind else { panic!("{partly}") };
    assert_eq!(error.inserted_ids.len(), 1);
    Ok(())
}

async fn read(books: &Collection<Book>) -> Result<()> {
    assert_eq!(books.namespace(), Namespace::new("steadfast_tour", "books"));
    assert_eq!(books.name(), "books");
    assert_eq!(books.find_one(doc! { "_id": 1 }).await?, Some(book(1, "1984", 1949)));
    assert_eq!(books.find_one(doc! { "_id": 99 }).await?, None);

    let by_year: Vec<Book> =
        books.find(doc! {}).sort(doc! { "year": 1 }).batch_size(2).await?.try_collect().await?;
    assert_eq!(by_year.iter().map(|book| book.id).collect::<Vec<_>>(), [3, 4, 2, 1]);

    let mut cursor = books.find(doc! { "year": { "$lt": 1940 } }).await?;
    assert!(cursor.has_next());
    while cursor.advance().await? {
        assert!(cursor.current().get_i32("year")? < 1940);
        assert!(cursor.deserialize_current()?.year < 1940);
    }
    assert!(!cursor.try_advance().await?);
    let mut untyped = books.find(doc! { "_id": 1 }).await?.with_type::<Document>();
    assert!(untyped.advance().await?);

    assert_eq!(books.count_documents(doc! { "year": 1949 }).await?, 1);
    assert_eq!(books.estimated_document_count().await?, 4);
    assert_eq!(books.distinct("year", doc! { "_id": { "$lte": 2 } }).await?.len(), 2);

    let newest = [doc! { "$group": { "_id": null, "year": { "$max": "$year" } } }];
    let newest: Vec<Document> = books.aggregate(newest).await?.try_collect().await?;
    assert_eq!(newest[0].get_i32("year")?, 1949);
    let first = [doc! { "$match": { "_id": 1 } }];
    let first: Vec<Book> = books.aggregate(first).with_type::<Book>().await?.try_collect().await?;
    assert_eq!(first, [book(1, "1984", 1949)]);
    books.aggregate([doc! { "$out": "copies" }]).await?;

    let near = CollectionOptions::builder()
        .selection_criteria(SelectionCriteria::from(ReadPreference::nearest(None)))
        .read_concern(ReadConcern::local())
        .build();
    let copies = books.client().database("steadfast_tour");
    let copies = copies.collection_with_options::<Book>("copies", near);
    assert!(copies.selection_criteria().is_some() && copies.read_concern().is_some());
    assert!(copies.write_concern().is_none());
    copies.clone_with_type::<Document>().find_one(doc! {}).await?;
    Ok(())
}

async fn update(books: &Collection<Book>) -> Result<()> {
    let result = books.update_one(doc! { "_id": 1 }, doc! { "$inc": { "year": 1 } }).await?;
    assert_eq!((result.matched_count, result.modified_count), (1, 1));
    let result = books.update_many(doc! {}, doc! { "$inc": { "year": 1 } }).await?;
    assert_eq!(result.modified_count, 4);
    let result =
        books.replace_one(doc! { "_id": 5 }, book(5, "Burmese Days", 1934)).upsert(true).await?;
    assert_eq!(result.upserted_id, Some(Bson::Int32(5)));

    let before = books.find_one_and_update(doc! { "_id": 1 }, doc! { "$set": { "year": 1949 } });
    assert_eq!(before.await?.expect("it is there").year, 1951);
    let after = books
        .find_one_and_replace(doc! { "_id": 5 }, book(5, "Burmese Days", 1935))
        .return_document(ReturnDocument::After);
    assert_eq!(after.await?.expect("it is there").year, 1935);
    let gone = books.find_one_and_delete(doc! { "_id": 5 }).await?;
    assert_eq!(gone.expect("it was there").title, "Burmese Days");
    Ok(())
}

async fn write_in_bulk(books: &Collection<Book>) -> Result<()> {
    let result = books
        .bulk_write([
            InsertOneModel::new(book(10, "Keep the Aspidistra Flying", 1936)).into(),
            InsertOneModel::new(book(11, "Inside the Whale", 1940)).into(),
            UpdateOneModel::new(doc! { "_id": 10 }, doc! { "$inc": { "year": 1 } }).into(),
            UpdateManyModel::new(doc! { "_id": { "$gte": 10 } }, doc! { "$set": { "x": 1 } })
                .into(),
            ReplaceOneModel::new(doc! { "_id": 12 }, book(12, "Shooting an Elephant", 1950))
                .upsert(true)
                .into(),
            DeleteOneModel::new(doc! { "_id": 10 }).into(),
            DeleteManyModel::new(doc! { "_id": { "$gt": 10 } }).into(),
        ])
        .ordered(true)
        .await?;
    assert_eq!((result.inserted_count, result.upserted_count), (2, 1));
    assert_eq!((result.modified_count, result.deleted_count), (3, 3));
    Ok(())
}

async fn index(books: &Collection<Book>) -> Result<()> {
    let by_title = IndexModel::builder()
        .keys(doc! { "title": 1 })
        .options(IndexOptions::builder().unique(true).build())
        .build();
    assert_eq!(books.create_index(by_title).await?.index_name, "title_1");
    let more = [doc! { "year": -1 }, doc! { "year": 1, "title": -1 }]
        .map(|keys| IndexModel::builder().keys(keys).build());
    assert_eq!(books.create_indexes(more).await?.index_names, ["year_-1", "year_1_title_-1"]);
    assert_eq!(books.list_index_names().await?.len(), 4);
    let listed: Vec<IndexModel> = books.list_indexes().await?.try_collect().await?;
    assert_eq!(listed.len(), 4);
    books.drop_index("year_-1").await?;
    books.drop_indexes().await?;
    assert_eq!(books.list_index_names().await?, ["_id_"]);

    // Search indexes exist in Atlas only; other servers return an error.
    let model = SearchIndexModel::builder().definition(doc! { "mappings": {} }).build();
    assert!(books.create_search_index(model.clone()).await.is_err());
    assert!(books.create_search_indexes([model]).await.is_err());
    assert!(books.update_search_index("default", doc! {}).await.is_err());
    assert!(books.drop_search_index("default").await.is_err());
    assert!(books.list_search_indexes().await.is_err());
    Ok(())
}

async fn run_commands(database: &Database) -> Result<()> {
    let reply = database.run_command(doc! { "ping": 1 }).await?;
    assert_eq!(reply.get_f64("ok")?, 1.0);
    database.run_raw_command(rawdoc! { "ping": 1 }).await?;
    let find = doc! { "find": "books", "filter": { "_id": 1 } };
    let found: Vec<Document> = database.run_cursor_command(find).await?.try_collect().await?;
    assert_eq!(found.len(), 1);
    let find = rawdoc! { "find": "books", "batchSize": 1 };
    let cursor = database.run_raw_cursor_command(find).batch_size(2).await?;
    assert_eq!(cursor.try_collect::<Vec<Document>>().await?.len(), 4);
    let numbers = [doc! { "$documents": [{ "n": 1 }, { "n": 2 }] }];
    let numbers: Vec<Document> = database.aggregate(numbers).await?.try_collect().await?;
    assert_eq!(numbers.len(), 2);
    Ok(())
}

async fn use_sessions(client: &Client, books: &Collection<Book>) -> Result<()> {
    let mut session = client.start_session().causal_consistency(true).await?;
    assert_eq!(session.options().causal_consistency, Some(true));
    assert!(session.id().contains_key("id"));
    books.insert_one(book(20, "Why I Write", 1946)).session(&mut session).await?;
    assert!(books.find_one(doc! { "_id": 20 }).session(&mut session).await?.is_some());

    let find = books.find(doc! {}).sort(doc! { "_id": 1 }).batch_size(2);
    let mut cursor = find.session(&mut session).await?;
    assert_eq!(cursor.next(&mut session).await.transpose()?, Some(book(1, "1984", 1949)));
    assert!(cursor.advance(&mut session).await?);
    assert_eq!(cursor.current().get_i32("_id")?, cursor.deserialize_current()?.id);
    assert!(cursor.has_next() && cursor.try_advance(&mut session).await?);
    let mut untyped = cursor.with_type::<Document>();
    let rest: Vec<Document> = untyped.stream(&mut session).try_collect().await?;
    assert_eq!(rest.len(), 2);
    books.delete_one(doc! { "_id": 20 }).session(&mut session).await?;

    // A standalone server has no cluster time.
    let (Some(clock), Some(time)) = (session.cluster_time(), session.operation_time()) else {
        return Ok(());
    };
    let mut follower = session.client().start_session().await?;
    follower.advance_cluster_time(clock);
    follower.advance_operation_time(time);
    assert!(books.find_one(doc! { "_id": 20 }).session(&mut follower).await?.is_none());

    let mut snapshot = client.start_session().snapshot(true).await?;
    let before = books.count_documents(doc! {}).session(&mut snapshot).await?;
    assert!(snapshot.snapshot_time().is_some());
    books.insert_one(book(20, "Why I Write", 1946)).await?;
    assert_eq!(books.count_documents(doc! {}).session(&mut snapshot).await?, before);
    books.delete_one(doc! { "_id": 20 }).await?;
    Ok(())
}

async fn watch(client: &Client, database: &Database, books: &Collection<Book>) -> Result<()> {
    let mut changes = match books.watch().full_document(FullDocumentType::UpdateLookup).await {
        Ok(changes) => changes,
        // A standalone server has no change streams.
        Err(error) => {
            assert!(matches!(&*error.kind, ErrorKind::Command(_)), "{error}");
            assert!(client.watch().await.is_err() && database.watch().await.is_err());
            return Ok(());
        }
    };
    let mut session = client.start_session().await?;
    let ours = [doc! { "$match": { "ns.db": database.name() } }];
    let mut anywhere = client.watch().pipeline(ours).session(&mut session).await?;
    let short = Duration::from_millis(100);
    let mut in_database = database.watch().max_await_time(short).await?.with_type::<Document>();

    books.insert_one(book(30, "Down and Out", 1933)).session(&mut session).await?;
    let event = changes.try_next().await?.expect("it goes on");
    assert_eq!(event.operation_type, OperationType::Insert);
    assert_eq!(event.full_document, Some(book(30, "Down and Out", 1933)));
    assert!(changes.is_alive());
    let event = anywhere.next(&mut session).await?.expect("it goes on");
    assert_eq!(event.document_key, Some(doc! { "_id": 30 }));
    let mut found = None;
    while in_database.is_alive() && found.is_none() {
        found = in_database.next_if_any().await?;
    }
    assert_eq!(found.expect("it goes on").get_str("operationType")?, "insert");

    // Later streams start at the position of `changes`.
    books.delete_one(doc! { "_id": 30 }).await?;
    let later = books.watch().resume_after(changes.resume_token());
    let event = later.await?.try_next().await?.expect("it goes on");
    assert_eq!(event.operation_type, OperationType::Delete);
    assert!(anywhere.is_alive() && anywhere.resume_token().is_some());
    let mut anywhere = anywhere.with_type::<Document>();
    while anywhere.next_if_any(&mut session).await?.is_none() {}
    Ok(())
}

async fn use_transactions(client: &Client, books: &Collection<Book>) -> Result<()> {
    let defaults = TransactionOptions::builder().write_concern(WriteConcern::majority()).build();
    let mut session = client.start_session().default_transaction_options(defaults).await?;
    let start = session
        .start_transaction()
        .read_concern(ReadConcern::snapshot())
        .selection_criteria(SelectionCriteria::from(ReadPreference::Primary))
        .max_commit_time(Duration::from_secs(10));
    if let Err(error) = start.await {
        // A standalone server has none.
        assert!(matches!(&*error.kind, ErrorKind::Transaction { .. }));
        return Ok(());
    }
    assert_eq!(session.transaction_state(), TransactionState::Starting);
    books.insert_one(book(30, "Burmese Days", 1934)).session(&mut session).await?;
    assert!(!session.is_pinned());
    session.abort_transaction().await?;
    assert!(books.find_one(doc! { "_id": 30 }).session(&mut session).await?.is_none());

    session.start_transaction().write_concern(WriteConcern::majority()).await?;
    books.insert_one(book(30, "Burmese Days", 1934)).session(&mut session).await?;
    session.commit_transaction().await?;
    session.commit_transaction().await?;

    let run = session.start_transaction().and_run2(async |session: &mut ClientSession| {
        books.delete_one(doc! { "_id": 30 }).session(&mut *session).await?;
        books.insert_one(book(31, "A Clergyman's Daughter", 1935)).session(session).await
    });
    assert_eq!(run.await?.inserted_id, Bson::Int32(31));
    let run = session.start_transaction().and_run((books, 31), |session, (books, id)| {
        Box::pin(async move { books.delete_one(doc! { "_id": *id }).session(session).await })
    });
    assert_eq!(run.await?.deleted_count, 1);
    Ok(())
}

async fn keep_files(database: &Database) -> Result<()> {
    let options = GridFsBucketOptions::builder().bucket_name("texts".to_owned()).build();
    let bucket = database.gridfs_bucket(options);
    assert_eq!(bucket.write_concern(), Some(&WriteConcern::majority()));
    assert!(bucket.read_concern().is_none() && bucket.selection_criteria().is_none());

    let mut upload = bucket.open_upload_stream("1984.txt").chunk_size_bytes(16).await?;
    upload.write_all(b"It was a bright cold day in April").await?;
    upload.flush().await?;
    upload.close().await?;
    let second = bucket.upload_from_stream("1984.txt", &b"Big Brother"[..]);
    let id = second.id(Bson::Int32(2)).metadata(doc! { "chapter": 2 }).await?;
    let mut given_up = bucket.open_upload_stream("1985.txt").await?;
    given_up.write_all(b"There is no such book").await?;
    given_up.abort().await?;

    let mut download = bucket.open_download_stream(upload.id().clone()).await?;
    assert_eq!(download.file().length, 33);
    download.seek(SeekFrom::Start(9)).await?;
    let mut text = String::new();
    download.read_to_string(&mut text).await?;
    assert_eq!(text, "bright cold day in April");
    let mut first = bucket.open_download_stream_by_name("1984.txt").revision(0).await?;
    assert_eq!(first.read_u8().await?, b'I');
    let mut copy = Vec::new();
    assert_eq!(bucket.download_to_stream(id.clone(), &mut copy).await?, 11);
    bucket.download_to_stream_by_name("1984.txt", &mut copy).await?;

    bucket.rename(id.clone(), "brother.txt").await?;
    bucket.rename_by_name("1984.txt", "april.txt").await?;
    let named = doc! { "filename": "brother.txt", "metadata.chapter": 2 };
    assert_eq!(bucket.find_one(named).await?.map(|file| file.id), Some(id.clone()));
    let all: Vec<_> = bucket.find(doc! {}).sort(doc! { "length": 1 }).await?.try_collect().await?;
    assert_eq!(all.iter().map(|file| file.length).collect::<Vec<_>>(), [11, 33]);
    bucket.delete(id.clone()).await?;
    bucket.delete_by_name("april.txt").await?;
    let gone = bucket.delete(id).await.expect_err("it is deleted");
    let ErrorKind::GridFs(GridFsErrorKind::FileNotFound { .. }) = &*gone.kind else {
        panic!("{gone}")
    };
    bucket.drop().await
}

async fn delete(books: &Collection<Book>) -> Result<()> {
    assert_eq!(books.delete_one(doc! { "_id": 1 }).await?.deleted_count, 1);
    assert_eq!(books.delete_many(doc! {}).await?.deleted_count, 3);
    // An unacknowledged write has no reply, so its outcome is unknown.
    let unheard = WriteConcern::nodes(0);
    let result = books.insert_one(book(1, "1984", 1949)).write_concern(unheard).await?;
    assert_eq!(result.inserted_id, Bson::Int32(1));
    Ok(())
}
