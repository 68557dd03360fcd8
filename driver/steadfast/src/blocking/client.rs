//! Client of the blocking API.

use std::{fmt, time::Duration};

use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use crate::{
    ClientMetrics,
    error::Result,
    options::{ClientOptions, DriverInfo},
    runtime,
};

/// Client of a MongoDB deployment, with a blocking API. See the async [`Client`](crate::Client).
///
/// Create one client per application and clone it: clones share all state, in all threads. The background tasks of a
/// client run in the runtime of the [blocking API](crate::sync#blocking). A client that is converted from an async one
/// stays in the runtime that created it.
///
/// ```no_run
/// # fn run() -> steadfast::error::Result<()> {
/// use steadfast::{bson::{Document, doc}, sync::Client};
///
/// let client = Client::with_uri_str("mongodb://localhost:27017")?;
/// let books = client.database("library").collection::<Document>("books");
/// books.insert_one(doc! { "title": "1984" }).run()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client {
    inner: crate::Client,
}

impl Client {
    /// Creates a client from a connection string. See the async [`with_uri_str`](crate::Client::with_uri_str).
    ///
    /// # Errors
    ///
    /// As the async method, and that of [blocking](crate::sync#blocking).
    pub fn with_uri_str(uri: impl AsRef<str>) -> Result<Self> {
        Self::with_options(ClientOptions::parse(uri.as_ref()).run()?)
    }

    /// Creates a client from options. See the async [`with_options`](crate::Client::with_options).
    ///
    /// It does not block, and can be called in any runtime.
    ///
    /// # Errors
    ///
    /// As the async method, and [`ErrorKind::Internal`](crate::error::ErrorKind::Internal) if the runtime of the
    /// blocking API cannot be started.
    pub fn with_options(options: ClientOptions) -> Result<Self> {
        let _context = runtime::handle()?.enter();
        crate::Client::with_options(options).map(Self::from)
    }

    /// Returns the options that the client was created with. See [`Client::options`](crate::Client::options).
    pub fn options(&self) -> &ClientOptions {
        self.inner.options()
    }

    /// Returns the default read preference, or predicate that selects servers. See
    /// [`Client::selection_criteria`](crate::Client::selection_criteria).
    pub fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.inner.selection_criteria()
    }

    /// Returns the default read concern. See [`Client::read_concern`](crate::Client::read_concern).
    pub fn read_concern(&self) -> Option<&ReadConcern> {
        self.inner.read_concern()
    }

    /// Returns the default write concern. See [`Client::write_concern`](crate::Client::write_concern).
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.inner.write_concern()
    }

    /// Returns the default time-out of a whole call (`timeoutMS`). See [`Client::timeout`](crate::Client::timeout).
    pub fn timeout(&self) -> Option<Duration> {
        self.inner.timeout()
    }

    /// Returns the numbers of retries, overload errors and time-outs. See [`Client::metrics`](crate::Client::metrics).
    pub fn metrics(&self) -> ClientMetrics {
        self.inner.metrics()
    }

    /// Appends the name of a wrapping library to the metadata of the handshake. See
    /// [`Client::append_metadata`](crate::Client::append_metadata).
    pub fn append_metadata(&self, driver_info: DriverInfo) -> Result<()> {
        self.inner.append_metadata(driver_info)
    }

    /// Returns the async client that this one wraps.
    pub(crate) fn as_async(&self) -> &crate::Client {
        &self.inner
    }

    /// Converts the client into the async one that it wraps.
    pub(crate) fn into_async(self) -> crate::Client {
        self.inner
    }
}

/// Wraps an async client, whose background tasks stay in their runtime.
impl From<crate::Client> for Client {
    fn from(inner: crate::Client) -> Self {
        Self { inner }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
