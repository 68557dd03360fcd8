//! The operations through a driver. Compiled once for each: `driver` is whichever it is.

use bson::{Document, RawDocumentBuf, doc};
use driver::{Client, Collection};
use futures_util::TryStreamExt;

use super::{driver, mixed};
use crate::{
    Result,
    contender::{DATABASE, Job, Worker},
    document::{Book, Scan},
    workload::{NUMBERED, Workload},
};

/// A task with handles of its own.
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
    /// How many documents are to be drained or inserted.
    wanted: usize,
    /// The `_id` of the document that is its own.
    number: i32,
}

impl Caller {
    /// The tasks, which share one client.
    pub(crate) async fn for_each_task(job: &Job) -> Result<Vec<Self>> {
        let client = Client::with_uri_str(job.uri()).await?;
        let database = client.database(DATABASE);
        let name = job.collection();
        let numbers = (0..NUMBERED).cycle().take(usize::try_from(job.tasks)?);
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
                    wanted: job.documents,
                    number,
                })
            })
            .collect()
    }

    fn all_of(&self, seen: usize) -> Result<()> {
        let wanted = self.wanted;
        match seen == wanted {
            true => Ok(()),
            false => Err(format!("{seen} documents instead of {wanted}").into()),
        }
    }

    async fn drain_documents(&self) -> Result<()> {
        let mut cursor = self.documents.find(doc! {}).await?;
        let mut seen = 0;
        while let Some(document) = cursor.try_next().await? {
            seen += usize::from(!document.is_empty());
        }
        self.all_of(seen)
    }

    async fn drain_structs(&self) -> Result<()> {
        let mut cursor = self.books.find(doc! {}).await?;
        let mut seen = 0;
        while let Some(book) = cursor.try_next().await? {
            seen += usize::from(book.available);
        }
        self.all_of(seen)
    }

    async fn drain_raw(&self) -> Result<()> {
        let mut cursor = self.raw.find(doc! {}).await?;
        let mut seen = 0;
        while cursor.advance().await? {
            seen += usize::from(!cursor.current().is_empty());
        }
        self.all_of(seen)
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
                one_of(result.matched_count)?;
            }
            Workload::FindOne => {
                let found = self.books.find_one(doc! { "_id": self.number }).await?;
                one_of(u64::from(found.is_some()))?;
            }
            Workload::InsertMany => {
                let result = self.raw.insert_many(&self.many).await?;
                self.all_of(result.inserted_ids.len())?;
            }
            Workload::BulkWrite => mixed::write(&self.books, &self.book).await?,
            Workload::DrainDocuments => self.drain_documents().await?,
            Workload::DrainStructs => self.drain_structs().await?,
            Workload::DrainRaw => self.drain_raw().await?,
            Workload::InsertLarge => {
                let scan = self.scan.as_ref().ok_or("no document was made")?;
                self.scans.insert_one(scan).await?;
            }
            Workload::FindLarge => {
                let found = self.scans.find_one(doc! { "_id": 1 }).await?;
                one_of(u64::from(found.is_some()))?;
            }
        }
        Ok(())
    }
}

fn one_of(found: u64) -> Result<()> {
    if found == 1 { Ok(()) } else { Err(format!("{found} documents instead of one").into()) }
}
