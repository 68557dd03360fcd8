//! Operations of all workloads. Compiled once for each driver, which is imported as `driver`.

use bson::{Document, RawDocumentBuf, doc};
use driver::{Client, Collection};
use futures_util::TryStreamExt;

use super::{driver, mixed};
use crate::{
    Result,
    contender::{DATABASE, Job, Worker},
    document::{Book, Scan},
    workload::{NUMBERED_DOCUMENTS, Workload},
};

/// A task with its own handles of one client.
pub(crate) struct Caller {
    workload: Workload,
    client: Client,
    documents: Collection<Document>,
    books: Collection<Book>,
    raw: Collection<RawDocumentBuf>,
    scans: Collection<Scan>,
    book: Book,
    scan: Option<Scan>,
    many: Vec<RawDocumentBuf>,
    /// Number of documents that each call reads or inserts.
    expected: usize,
    /// `_id` of the document that this task finds and updates.
    number: i32,
}

impl Caller {
    /// Creates the tasks, which share one client.
    pub(crate) async fn for_each_task(job: &Job) -> Result<Vec<Self>> {
        let client = Client::with_uri_str(job.uri()).await?;
        let database = client.database(DATABASE);
        let name = job.collection();
        let numbers = (0..NUMBERED_DOCUMENTS).cycle().take(usize::try_from(job.tasks)?);
        numbers
            .map(|number| {
                Ok(Self {
                    workload: job.workload,
                    client: client.clone(),
                    documents: database.collection(name),
                    books: database.collection(name),
                    raw: database.collection(name),
                    scans: database.collection(name),
                    book: Book::new(),
                    scan: (job.workload == Workload::InsertLarge).then(Scan::new),
                    many: match job.workload {
                        Workload::InsertMany => vec![Book::raw()?; job.documents],
                        _ => Vec::new(),
                    },
                    expected: job.documents,
                    number,
                })
            })
            .collect()
    }

    fn check_count(&self, seen: usize) -> Result<()> {
        let expected = self.expected;
        match seen == expected {
            true => Ok(()),
            false => Err(format!("{seen} documents instead of {expected}").into()),
        }
    }

    async fn drain_documents(&self) -> Result<()> {
        let mut cursor = self.documents.find(doc! {}).await?;
        let mut seen = 0;
        while let Some(document) = cursor.try_next().await? {
            seen += usize::from(!document.is_empty());
        }
        self.check_count(seen)
    }

    async fn drain_structs(&self) -> Result<()> {
        let mut cursor = self.books.find(doc! {}).await?;
        let mut seen = 0;
        while let Some(book) = cursor.try_next().await? {
            seen += usize::from(book.available);
        }
        self.check_count(seen)
    }

    async fn drain_raw(&self) -> Result<()> {
        let mut cursor = self.raw.find(doc! {}).await?;
        let mut seen = 0;
        while cursor.advance().await? {
            seen += usize::from(!cursor.current().is_empty());
        }
        self.check_count(seen)
    }
}

impl Worker for Caller {
    async fn call(&mut self) -> Result<()> {
        match self.workload {
            Workload::Ping => {
                self.client.database(DATABASE).run_command(doc! { "ping": 1 }).await?;
            }
            Workload::InsertOne | Workload::InsertOnePlain => {
                self.books.insert_one(&self.book).await?;
            }
            Workload::UpdateOne => {
                let by_id = doc! { "_id": self.number };
                let result = self.books.update_one(by_id, doc! { "$inc": { "sold": 1 } }).await?;
                check_one(result.matched_count)?;
            }
            Workload::FindOne => {
                let found = self.books.find_one(doc! { "_id": self.number }).await?;
                check_one(u64::from(found.is_some()))?;
            }
            Workload::InsertMany => {
                let result = self.raw.insert_many(&self.many).await?;
                self.check_count(result.inserted_ids.len())?;
            }
            Workload::BulkWrite => mixed::write(&self.books, &self.book).await?,
            Workload::DrainDocuments => self.drain_documents().await?,
            Workload::DrainStructs => self.drain_structs().await?,
            Workload::DrainRaw => self.drain_raw().await?,
            Workload::InsertLarge => {
                let scan = self.scan.as_ref().ok_or("the document is missing")?;
                self.scans.insert_one(scan).await?;
            }
            Workload::FindLarge => {
                let found = self.scans.find_one(doc! { "_id": 1 }).await?;
                check_one(u64::from(found.is_some()))?;
            }
        }
        Ok(())
    }
}

fn check_one(found: u64) -> Result<()> {
    if found == 1 { Ok(()) } else { Err(format!("{found} documents instead of one").into()) }
}
