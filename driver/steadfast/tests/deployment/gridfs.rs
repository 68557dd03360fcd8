//! GridFS on a real replica set: uploads, downloads, corrupt files and aborted uploads.

mod downloads;
mod indexes;
mod names;
mod uploads;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use steadfast::{
    Client, Collection,
    bson::{Bson, Document, doc},
    error::{Error, ErrorKind, GridFsErrorKind, Result},
    event::{EventHandler, command::CommandEvent},
    gridfs::GridFsBucket,
    options::{ClientOptions, GridFsBucketOptions},
};

/// Bucket of one test.
struct TestBucket {
    bucket: GridFsBucket,
    files: Collection<Document>,
    chunks: Collection<Document>,
    sent: Arc<Mutex<Vec<Document>>>,
}

impl TestBucket {
    /// Creates a bucket with a chunk size of four bytes, unless the options set another.
    async fn with(change: impl FnOnce(&mut GridFsBucketOptions)) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("b{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let sent = Arc::new(Mutex::new(Vec::new()));
        let client = client(&sent).await;
        let database = client.database("gridfs");
        let mut options =
            GridFsBucketOptions::builder().bucket_name(name.clone()).chunk_size_bytes(4).build();
        change(&mut options);
        let bucket = database.gridfs_bucket(options);
        bucket.drop().await.expect("no bucket");
        sent.lock().unwrap().clear();
        let files = database.collection(&format!("{name}.files"));
        let chunks = database.collection(&format!("{name}.chunks"));
        Self { bucket, files, chunks, sent }
    }

    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// Returns the commands since the last call that name a collection.
    fn commands(&self) -> Vec<Document> {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }

    async fn upload(&self, name: &str, contents: &[u8]) -> Result<Bson> {
        self.bucket.upload_from_stream(name, contents).await
    }

    async fn download(&self, id: &Bson) -> Result<Vec<u8>> {
        let mut contents = Vec::new();
        let count = self.bucket.download_to_stream(id.clone(), &mut contents).await?;
        assert_eq!(count, contents.len() as u64);
        Ok(contents)
    }

    async fn count_of_chunks(&self) -> u64 {
        self.chunks.count_documents(doc! {}).await.expect("a count")
    }

    async fn is_empty(&self) -> bool {
        self.count_of_chunks().await == 0
            && self.files.count_documents(doc! {}).await.expect("a count") == 0
    }
}

async fn client(sent: &Arc<Mutex<Vec<Document>>>) -> Client {
    let uri = testbed::shared::uri().expect("a deployment");
    let mut options = ClientOptions::parse(&uri).await.expect("a valid connection string");
    let log = Arc::clone(sent);
    options.command_event_handler = Some(EventHandler::callback(move |event| {
        if let CommandEvent::Started(event) = event {
            log.lock().unwrap().push(event.command);
        }
    }));
    Client::with_options(options).expect("a client")
}

/// Returns name and collection of a command.
fn summary(command: &Document) -> String {
    let (name, collection) = command.iter().next().expect("a command has a name");
    let collection = collection.as_str().and_then(|name| name.split_once('.'));
    format!("{name} {}", collection.map_or("", |(_, part)| part))
}

fn summaries(commands: &[Document]) -> Vec<String> {
    commands.iter().map(summary).collect()
}

fn kind(error: &Error) -> &GridFsErrorKind {
    match &*error.kind {
        ErrorKind::GridFs(kind) => kind,
        other => panic!("{other:?}"),
    }
}

/// Returns bytes that differ from each other.
fn bytes(count: usize) -> Vec<u8> {
    (0..=250_u8).cycle().take(count).collect()
}

/// Waits until the condition is satisfied.
async fn wait_until<F: Future<Output = bool>>(what: &str, so: impl Fn() -> F) {
    let waiting = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(240), waiting).await.expect(what);
}
