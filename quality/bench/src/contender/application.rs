//! Operations of an application. Compiled once for each driver.

use bson::doc;
use driver::{Client, Collection};

use super::driver;
use crate::{
    Result,
    contender::{Application, DATABASE},
    document::Book,
};

#[derive(Clone)]
pub(crate) struct Library {
    client: Client,
    books: Collection<Book>,
    slow: Collection<Book>,
    shed: Collection<Book>,
}

impl Application for Library {
    async fn connect(uri: &str) -> Result<Self> {
        let client = Client::with_uri_str(uri).await?;
        let database = client.database(DATABASE);
        Ok(Self {
            books: database.collection("written"),
            slow: database.collection("slow"),
            shed: database.collection("shed"),
            client,
        })
    }

    async fn insert(&self) -> Result<()> {
        self.books.insert_one(Book::new()).await?;
        Ok(())
    }

    #[cfg(feature = "mongod")]
    async fn insert_labelled(&self) -> std::result::Result<(), crate::contender::LabelledError> {
        let inserted = self.books.insert_one(Book::new()).await;
        inserted.map(drop).map_err(|error| crate::contender::LabelledError {
            overloaded: error.contains_label("SystemOverloadedError"),
            retryable: error.contains_label("RetryableError"),
            message: error.to_string(),
        })
    }

    async fn insert_shed(&self) -> Result<()> {
        self.shed.insert_one(Book::new()).await?;
        Ok(())
    }

    async fn find_slowly(&self) -> Result<()> {
        self.slow.find_one(doc! { "_id": 1 }).await?;
        Ok(())
    }

    async fn ping(&self) -> Result<()> {
        self.client.database(DATABASE).run_command(doc! { "ping": 1 }).await?;
        Ok(())
    }
}
