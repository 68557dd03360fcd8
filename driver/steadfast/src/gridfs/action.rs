//! Actions of a [`GridFsBucket`](crate::gridfs::GridFsBucket).

/// Implements the setter `timeout` for actions without other options.
macro_rules! timeout {
    ([$($generics:tt)*] $action:ty) => {
        impl<$($generics)*> $action {
            /// Time-out of the whole call (`timeoutMS`), including all its commands; for a stream, of all
            /// operations on it. Zero means no limit. Defaults to the time-out of the bucket's database.
            pub fn timeout(mut self, value: Duration) -> Self {
                self.timeout = Some(value);
                self
            }
        }
    };
}

mod delete;
mod download;
mod drop;
mod find;
mod rename;
mod upload;

pub use self::{
    delete::{Delete, DeleteByName},
    download::{
        DownloadToStream, DownloadToStreamByName, OpenDownloadStream, OpenDownloadStreamByName,
    },
    drop::Drop,
    find::{Find, FindOne},
    rename::{Rename, RenameByName},
    upload::{OpenUploadStream, UploadFromStream},
};
