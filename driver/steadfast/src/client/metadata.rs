//! What libraries on top of the driver add to the client's account of itself.

use crate::{Client, error::Result, options::DriverInfo};

impl Client {
    /// Adds the name of a library that wraps this client to what servers are told of it, for their
    /// logs. Connections made from now on tell it; those that exist are left alone.
    ///
    /// The same information is added only once. It is an error if a text contains `|`, by which the
    /// server's logs tell the names apart, or if there is no room left for it.
    ///
    /// ```no_run
    /// # async fn run() -> steadfast::error::Result<()> {
    /// use steadfast::{Client, options::DriverInfo};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost:27017").await?;
    /// let mut library = DriverInfo::new("shelves");
    /// library.version = Some("2.1".to_owned());
    /// client.append_metadata(library)?;
    /// # Ok(()) }
    /// ```
    pub fn append_metadata(&self, driver_info: DriverInfo) -> Result<()> {
        self.executor().topology().establisher().metadata.append(&driver_info)
    }
}
