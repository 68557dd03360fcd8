//! Queries for files.

use bson::Document;

use crate::{
    Cursor,
    error::Result,
    gridfs::{FilesCollectionDocument, GridFsBucket},
    options::{FindOneOptions, FindOptions, GridFsFindOneOptions, GridFsFindOptions},
};

impl GridFsBucket {
    /// Finds the documents of the files that match `filter`, by fields such as `filename`,
    /// `length`, `uploadDate` and `metadata`.
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let mut files = bucket.find(doc! { "metadata.year": 1969 }).sort(doc! { "length": -1 }).await?;
    /// while files.advance().await? {
    ///     let file = files.deserialize_current()?;
    ///     println!("{:?}: {} bytes", file.filename, file.length);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Collection::find`](crate::Collection::find).
    pub fn find(&self, filter: Document) -> Find<'_> {
        Find { bucket: self, filter, options: None }
    }

    /// Finds the document of the first file that matches `filter`, in the order of
    /// [`sort`](FindOne::sort). Returns `None` if no file matches.
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// use steadfast::bson::doc;
    ///
    /// let newest = bucket.find_one(doc! {}).sort(doc! { "uploadDate": -1 }).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Collection::find_one`](crate::Collection::find_one).
    pub fn find_one(&self, filter: Document) -> FindOne<'_> {
        FindOne { bucket: self, filter, options: None }
    }
}

/// Action that finds files. See [`GridFsBucket::find`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct Find<'a> {
    bucket: &'a GridFsBucket,
    filter: Document,
    pub(crate) options: Option<GridFsFindOptions>,
}

impl Find<'_> {
    async fn execute(self) -> Result<Cursor<FilesCollectionDocument>> {
        let options = self.options.map(FindOptions::from);
        self.bucket.files().find(self.filter).with_options(options).await
    }
}

awaitable!(['a] Find<'a> => Cursor<FilesCollectionDocument>, sync crate::blocking::Cursor<FilesCollectionDocument>);

/// Action that finds a file. See [`GridFsBucket::find_one`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct FindOne<'a> {
    bucket: &'a GridFsBucket,
    filter: Document,
    pub(crate) options: Option<GridFsFindOneOptions>,
}

impl FindOne<'_> {
    async fn execute(self) -> Result<Option<FilesCollectionDocument>> {
        let options = self.options.map(FindOneOptions::from);
        self.bucket.files().find_one(self.filter).with_options(options).await
    }
}

awaitable!(['a] FindOne<'a> => Option<FilesCollectionDocument>);
setters!(GridFsFindOneOptions for ['a] FindOne<'a>);
setters!(GridFsFindOptions for ['a] Find<'a>);
