//! A few operations through a driver, as an application has them. Compiled once for each driver.

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
