//! What a user asks of a [`GridFsBucket`](crate::gridfs::GridFsBucket).

/// The setter of an action's time limit, where that is its only option.
macro_rules! timeout {
    ([$($generics:tt)*] $action:ty) => {
        impl<$($generics)*> $action {
            /// How long the call may take in all, whatever commands it takes; of a stream, all that
            /// is done with it. Zero is without end. By default what the bucket's database says.
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
