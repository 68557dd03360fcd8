//! Metadata that libraries add to the handshake of a client.

use crate::{Client, error::Result, options::DriverInfo};

impl Client {
    /// Appends the name of a wrapping library to the metadata of the
    /// [handshake](https://github.com/mongodb/specifications/blob/master/source/mongodb-handshake/handshake.md),
    /// which servers log.
    ///
    /// Only connections established later send it. Identical metadata is appended once.
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
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) if a value contains
    /// the delimiter `|`, or if the metadata would exceed 512 bytes.
    pub fn append_metadata(&self, driver_info: DriverInfo) -> Result<()> {
        self.executor().topology().establisher().metadata.append(&driver_info)
    }
}
