//! Operations of every kind with unique marks, which are in the database once for each time that the operation was
//! applied.

use futures_util::TryStreamExt;
use steadfast::{
    Client, ClientSession, Collection, Database,
    bson::{Bson, Document, doc},
    error::{Error, Outcome, Result},
    gridfs::GridFsBucket,
    options::{GridFsBucketOptions, InsertOneModel, UpdateOneModel, WriteModel},
};
use tokio::io::AsyncWriteExt;

use super::random_drop::{DropRng, random_drop};

/// Number of documents with a log.
pub(super) const LOGS: i64 = 256;
/// Number of documents that are only read.
pub(super) const READ_ONLY: i64 = 200;
/// State of a document that no write has changed.
pub(super) const UNTOUCHED: &str = "untouched";

/// Kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationKind {
    InsertOne,
    InsertMany,
    InsertDuplicate,
    UpdateOne,
    UpdateMany,
    ReplaceOne,
    DeleteOne,
    DeleteMany,
    FindOneAndUpdate,
    FindOneAndReplace,
    FindOneAndDelete,
    BulkWrite,
    ClientBulkWrite,
    Merge,
    CreateCollection,
    DropCollection,
    Upload,
    UploadStream,
    RenameFile,
    DeleteFile,
    Download,
    FindOne,
    Find,
    Aggregate,
    ChangeStream,
    /// `start_transaction().and_run(..)`
    AndRun,
    /// `start_transaction().and_run2(..)`
    AndRun2,
    /// Start, writes and commit in one future.
    Transaction,
    /// Like `Transaction`, with a cursor that is read to its end.
    CursorInTransaction,
    /// Start, writes and abort in one future.
    AbortedTransaction,
    /// Each step is its own future, and the session outlives it.
    TransactionSteps,
}

impl OperationKind {
    const TRANSACTIONS: [Self; 5] = [
        Self::AndRun,
        Self::Transaction,
        Self::CursorInTransaction,
        Self::AbortedTransaction,
        Self::TransactionSteps,
    ];
    const SINGLE: [Self; 23] = [
        Self::InsertOne,
        Self::InsertMany,
        Self::InsertDuplicate,
        Self::UpdateOne,
        Self::UpdateMany,
        Self::ReplaceOne,
        Self::DeleteOne,
        Self::DeleteMany,
        Self::FindOneAndUpdate,
        Self::FindOneAndReplace,
        Self::FindOneAndDelete,
        Self::BulkWrite,
        Self::ClientBulkWrite,
        Self::Merge,
        Self::Upload,
        Self::UploadStream,
        Self::RenameFile,
        Self::DeleteFile,
        Self::Download,
        Self::FindOne,
        Self::Find,
        Self::Aggregate,
        Self::ChangeStream,
    ];
    const OF_COLLECTIONS: [Self; 2] = [Self::CreateCollection, Self::DropCollection];

    /// Returns a random kind other than `AndRun2`: transactions with the probability 2/5, and creation or drop of a
    /// collection rarely.
    pub(super) fn random(rng: &mut DropRng) -> Self {
        let kinds: &[Self] = match rng.below(50) {
            0 => &Self::OF_COLLECTIONS,
            1..=20 => &Self::TRANSACTIONS,
            _ => &Self::SINGLE,
        };
        kinds[usize::try_from(rng.below(kinds.len() as u64)).unwrap()]
    }

    pub(super) fn is_transaction(self) -> bool {
        self == Self::AndRun2 || Self::TRANSACTIONS.contains(&self)
    }

    /// Number of marks of an operation of this kind.
    pub(super) fn marks(self) -> i64 {
        match self {
            Self::InsertDuplicate
            | Self::Download
            | Self::FindOne
            | Self::Find
            | Self::Aggregate => 0,
            Self::InsertMany | Self::BulkWrite | Self::ClientBulkWrite => 3,
            kind if kind.is_transaction() => 2,
            _ => 1,
        }
    }

    /// Number of untouched documents for an operation of this kind. With two documents, a second execution of a
    /// write to one document changes the second.
    pub(super) fn copies(self) -> u64 {
        match self {
            Self::ReplaceOne | Self::DeleteOne | Self::FindOneAndReplace => 2,
            Self::FindOneAndDelete => 2,
            Self::DeleteMany => 1,
            _ => 0,
        }
    }
}

/// Result of an operation in the application.
#[derive(Clone, Debug)]
pub(super) enum OperationResult {
    Acknowledged,
    /// The future was dropped.
    Dropped,
    /// The transaction was aborted, or never committed.
    Aborted,
    Failed(Outcome),
    /// The operation exceeded the time of a hang.
    Hung,
}

impl OperationResult {
    fn of(result: Option<Result<()>>) -> Self {
        match result {
            None => Self::Dropped,
            Some(Ok(())) => Self::Acknowledged,
            Some(Err(error)) => Self::failed(&error),
        }
    }

    fn failed(error: &Error) -> Self {
        Self::Failed(error.outcome())
    }
}

/// Mark of an operation: its number times four, plus at most three.
pub(super) fn mark(operation: i64, nth: i64) -> i64 {
    operation * 4 + nth
}

/// Contents of the file of an operation, in three chunks.
pub(super) fn contents(operation: i64) -> Vec<u8> {
    format!("file{operation:06}").into_bytes()
}

/// Collections and files that operations write to.
#[derive(Clone, Debug)]
pub(super) struct TestCollections {
    client: Client,
    pub(super) database: Database,
    pub(super) logs: Collection<Document>,
    pub(super) entries: Collection<Document>,
    pub(super) documents: Collection<Document>,
    pub(super) read_only: Collection<Document>,
    pub(super) bucket: GridFsBucket,
}

impl TestCollections {
    pub(super) fn new(client: &Client, database: &str) -> Self {
        let database = client.database(database);
        let options = GridFsBucketOptions::builder().chunk_size_bytes(4).build();
        Self {
            client: client.clone(),
            logs: database.collection("logs"),
            entries: database.collection("entries"),
            documents: database.collection("documents"),
            read_only: database.collection("read_only"),
            bucket: database.gridfs_bucket(options),
            database,
        }
    }

    /// Creates the collections and the documents that are read.
    pub(super) async fn create(&self, is_sharded: bool) {
        self.database.drop().await.unwrap();
        if is_sharded {
            self.shard().await;
        }
        for collection in [&self.entries, &self.documents] {
            if !is_sharded {
                self.database.create_collection(collection.name()).await.unwrap();
            }
        }
        let logs = (0..LOGS).map(|id| doc! { "_id": id, "n": 0_i64, "log": [] });
        self.logs.insert_many(logs).await.unwrap();
        self.read_only.insert_many((0..READ_ONLY).map(|id| doc! { "_id": id })).await.unwrap();
        // The first upload creates the indexes.
        self.upload("first", -1).await;
    }

    /// Shards the collections by the fields that operations filter by.
    async fn shard(&self) {
        let admin = self.client.database("admin");
        let by_id = [&self.logs, &self.entries, &self.read_only].map(|it| (it, "_id"));
        for (collection, key) in by_id.into_iter().chain([(&self.documents, "mark")]) {
            let namespace = collection.namespace().to_string();
            let shard = doc! { "shardCollection": namespace, "key": { key: "hashed" } };
            admin.run_command(shard).await.unwrap();
        }
    }

    async fn upload(&self, name: &str, operation: i64) -> Bson {
        self.bucket.upload_from_stream(name, contents(operation).as_slice()).await.unwrap()
    }

    /// Creates the documents that the operation changes or deletes. Its future is not dropped.
    pub(super) async fn prepare(&self, kind: OperationKind, operation: i64) {
        if kind.copies() > 0 {
            let copy = |_| doc! { "mark": mark(operation, 0), "state": UNTOUCHED };
            self.documents.insert_many((0..kind.copies()).map(copy)).await.unwrap();
        }
        match kind {
            OperationKind::RenameFile | OperationKind::Download => {
                self.upload(&format!("old {operation}"), operation).await;
            }
            OperationKind::DeleteFile => {
                self.upload(&operation.to_string(), operation).await;
            }
            OperationKind::DropCollection => {
                self.database.create_collection(format!("old_{operation}")).await.unwrap();
            }
            _ => {}
        }
    }

    /// Runs an operation, and drops its future at random.
    pub(super) async fn run(
        &self,
        kind: OperationKind,
        operation: i64,
        rng: &mut DropRng,
    ) -> OperationResult {
        match kind {
            OperationKind::Find => self.find_in_steps(rng).await,
            OperationKind::TransactionSteps => self.transaction_steps(operation, rng).await,
            OperationKind::AbortedTransaction => {
                random_drop(rng, self.transaction(operation, kind)).await;
                OperationResult::Aborted
            }
            _ if kind.is_transaction() => {
                OperationResult::of(random_drop(rng, self.transaction(operation, kind)).await)
            }
            OperationKind::Upload
            | OperationKind::UploadStream
            | OperationKind::RenameFile
            | OperationKind::DeleteFile
            | OperationKind::Download => {
                OperationResult::of(random_drop(rng, self.file(kind, operation)).await)
            }
            _ if kind.marks() == 0 || kind == OperationKind::ChangeStream => {
                OperationResult::of(random_drop(rng, self.read(kind, operation)).await)
            }
            _ => OperationResult::of(random_drop(rng, self.write(kind, operation)).await),
        }
    }

    fn log(operation: i64) -> Document {
        doc! { "_id": operation % LOGS }
    }

    /// Update that appends the mark each time that it is applied.
    fn push(mark: i64) -> Document {
        doc! { "$inc": { "n": 1_i64 }, "$push": { "log": mark } }
    }

    async fn write(&self, kind: OperationKind, operation: i64) -> Result<()> {
        let first = mark(operation, 0);
        let (log, push) = (Self::log(operation), Self::push(first));
        let entry = |nth| doc! { "mark": mark(operation, nth) };
        let untouched = doc! { "mark": first, "state": UNTOUCHED };
        let replaced = doc! { "mark": first, "state": "replaced" };
        let is_untouched = |before: Option<Document>| {
            let before = before.expect("a document that is found");
            assert_eq!(before.get_i64("mark").unwrap(), first, "the reply of another operation");
            assert_eq!(before.get_str("state").unwrap(), UNTOUCHED);
        };
        match kind {
            OperationKind::InsertOne => drop(self.entries.insert_one(entry(0)).await?),
            OperationKind::InsertMany => {
                let inserted = self.entries.insert_many((0..3).map(entry)).await?;
                assert_eq!(inserted.inserted_ids.len(), 3);
            }
            OperationKind::UpdateOne => {
                assert_eq!(self.logs.update_one(log, push).await?.modified_count, 1);
            }
            OperationKind::UpdateMany => {
                assert_eq!(self.logs.update_many(log, push).await?.modified_count, 1);
            }
            OperationKind::ReplaceOne => {
                let replaced = self.documents.replace_one(untouched, replaced).await?;
                assert_eq!(replaced.modified_count, 1);
            }
            OperationKind::DeleteOne => {
                assert_eq!(self.documents.delete_one(untouched).await?.deleted_count, 1);
            }
            OperationKind::DeleteMany => {
                assert_eq!(self.documents.delete_many(untouched).await?.deleted_count, 1);
            }
            OperationKind::FindOneAndUpdate => {
                let before = self.logs.find_one_and_update(log, push).await?.expect("a log");
                assert!(!before.get_array("log").unwrap().contains(&first.into()), "{before}");
            }
            OperationKind::FindOneAndReplace => {
                is_untouched(self.documents.find_one_and_replace(untouched, replaced).await?);
            }
            OperationKind::FindOneAndDelete => {
                is_untouched(self.documents.find_one_and_delete(untouched).await?);
            }
            OperationKind::BulkWrite => {
                let models = [0, 1, 2].map(|nth| InsertOneModel::new(entry(nth)).into());
                let result = self.entries.bulk_write(models).await?;
                assert_eq!(result.inserted_count, 3);
            }
            OperationKind::ClientBulkWrite => {
                let (logs, entries) = (self.logs.namespace(), self.entries.namespace());
                let models: [WriteModel; 3] = [
                    UpdateOneModel::new(log, push).namespace(logs).into(),
                    InsertOneModel::new(entry(1)).namespace(entries.clone()).into(),
                    InsertOneModel::new(entry(2)).namespace(entries).into(),
                ];
                self.client.bulk_write(models).await.map(drop)?;
            }
            OperationKind::Merge => {
                let pipeline = [
                    doc! { "$match": { "_id": 0 } },
                    doc! { "$project": { "_id": format!("merged {first}"), "mark": { "$literal": first } } },
                    doc! { "$merge": { "into": "entries", "whenMatched": "fail" } },
                ];
                let merged = self.read_only.aggregate(pipeline).await?;
                assert_eq!(merged.try_collect::<Vec<_>>().await?, []);
            }
            OperationKind::CreateCollection => {
                self.database.create_collection(format!("new_{operation}")).await?;
            }
            OperationKind::DropCollection => {
                let collection = format!("old_{operation}");
                self.database.collection::<Document>(&collection).drop().await?;
            }
            _ => unreachable!("{kind:?} is not a write"),
        }
        Ok(())
    }

    async fn read(&self, kind: OperationKind, operation: i64) -> Result<()> {
        let id = operation % READ_ONLY;
        match kind {
            OperationKind::FindOne => {
                let found = self
                    .read_only
                    .find_one(doc! { "_id": id })
                    .await?
                    .expect("the document exists");
                assert_eq!(found.get_i64("_id").unwrap(), id, "the reply of another operation");
            }
            OperationKind::InsertDuplicate => {
                self.read_only.insert_one(doc! { "_id": id }).await.expect_err("a duplicate key");
            }
            OperationKind::Aggregate => {
                let pipeline = [doc! { "$match": { "_id": { "$gte": id } } }];
                let cursor = self.read_only.aggregate(pipeline).batch_size(20).await?;
                let found: Vec<Document> = cursor.try_collect().await?;
                assert_eq!(i64::try_from(found.len()).unwrap(), READ_ONLY - id);
            }
            OperationKind::ChangeStream => {
                let first = mark(operation, 0);
                let own = [doc! { "$match": { "fullDocument.mark": first } }];
                let mut changes = self.entries.watch().pipeline(own).await?;
                self.entries.insert_one(doc! { "mark": first }).await?;
                // The insert is acknowledged even if reading fails.
                let Ok(event) = changes.try_next().await else { return Ok(()) };
                let event = event.expect("a stream without an end");
                let document = event.full_document.expect("an inserted document");
                assert_eq!(document.get_i64("mark").unwrap(), first);
            }
            _ => unreachable!("{kind:?} is not a read"),
        }
        Ok(())
    }

    /// Drops the futures of cursor iterations: no document is lost or returned twice.
    async fn find_in_steps(&self, rng: &mut DropRng) -> OperationResult {
        let find = self.read_only.find(doc! {}).sort(doc! { "_id": 1 }).batch_size(20);
        let Some(found) = random_drop(rng, find.into_future()).await else {
            return OperationResult::Dropped;
        };
        let mut cursor = match found {
            Ok(cursor) => cursor,
            Err(error) => return OperationResult::failed(&error),
        };
        let mut expected = 0;
        loop {
            match random_drop(rng, cursor.advance()).await {
                None => {}
                Some(Ok(true)) => {
                    assert_eq!(cursor.current().get_i64("_id").unwrap(), expected);
                    expected += 1;
                }
                Some(Ok(false)) => break,
                Some(Err(error)) => return OperationResult::failed(&error),
            }
        }
        assert_eq!(expected, READ_ONLY);
        OperationResult::Acknowledged
    }

    async fn file(&self, kind: OperationKind, operation: i64) -> Result<()> {
        let (old, name) = (format!("old {operation}"), operation.to_string());
        match kind {
            OperationKind::Upload => {
                self.bucket.upload_from_stream(name, contents(operation).as_slice()).await?;
            }
            OperationKind::UploadStream => {
                let mut upload = self.bucket.open_upload_stream(name).await?;
                for byte in contents(operation) {
                    upload.write_all(&[byte]).await?;
                    upload.flush().await?;
                }
                upload.close().await?;
            }
            OperationKind::RenameFile => self.bucket.rename_by_name(old, name).await?,
            OperationKind::DeleteFile => self.bucket.delete_by_name(name).await?,
            OperationKind::Download => {
                let mut found = Vec::new();
                self.bucket.download_to_stream_by_name(old, &mut found).await?;
                assert_eq!(found, contents(operation));
            }
            _ => unreachable!("{kind:?} is not about a file"),
        }
        Ok(())
    }

    /// Writes to two collections in a transaction.
    async fn write_both(&self, operation: i64, session: &mut ClientSession) -> Result<()> {
        let push = Self::push(mark(operation, 0));
        self.logs.update_one(Self::log(operation), push).session(&mut *session).await?;
        let entry = doc! { "mark": mark(operation, 1) };
        self.entries.insert_one(entry).session(session).await.map(drop)
    }

    async fn transaction(&self, operation: i64, kind: OperationKind) -> Result<()> {
        let mut session = self.client.start_session().await?;
        let start = session.start_transaction();
        match kind {
            OperationKind::AndRun => {
                start
                    .and_run((self, operation), |session, (collections, operation)| {
                        Box::pin(collections.write_both(*operation, session))
                    })
                    .await
            }
            _ => {
                start.await?;
                if kind == OperationKind::CursorInTransaction {
                    let find = self.read_only.find(doc! {}).batch_size(50);
                    let mut cursor = find.session(&mut session).await?;
                    let mut found = 0;
                    while cursor.advance(&mut session).await? {
                        found += 1;
                    }
                    assert_eq!(found, READ_ONLY);
                }
                self.write_both(operation, &mut session).await?;
                match kind {
                    OperationKind::AbortedTransaction => session.abort_transaction().await,
                    _ => session.commit_transaction().await,
                }
            }
        }
    }

    /// Runs a transaction with `and_run2`, whose future the compiler cannot prove to be `Send`.
    pub(super) async fn and_run2(&self, operation: i64, rng: &mut DropRng) -> OperationResult {
        let run = async {
            let mut session = self.client.start_session().await?;
            let write =
                async |session: &mut ClientSession| self.write_both(operation, session).await;
            session.start_transaction().and_run2(write).await
        };
        OperationResult::of(random_drop(rng, run).await)
    }

    /// Drops the future of any step. After a dropped write the transaction is aborted; after a dropped commit, the
    /// commit is repeated or the session dropped.
    async fn transaction_steps(&self, operation: i64, rng: &mut DropRng) -> OperationResult {
        let mut session = self.client.start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let written = random_drop(rng, self.write_both(operation, &mut session)).await;
        if !matches!(written, Some(Ok(()))) {
            if rng.one_in(2) {
                session.abort_transaction().await.unwrap();
            }
            return OperationResult::Aborted;
        }
        match random_drop(rng, session.commit_transaction().into_future()).await {
            None if rng.one_in(2) => OperationResult::of(Some(session.commit_transaction().await)),
            committed => OperationResult::of(committed),
        }
    }
}
