//! What a user asks of a [`GridFsBucket`](crate::gridfs::GridFsBucket).

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
