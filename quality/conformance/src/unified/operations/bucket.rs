//! Operations of GridFS buckets.

use bson::{Binary, Bson, Document, spec::BinarySubtype};
use steadfast::{
    gridfs::GridFsBucket,
    options::{GridFsDownloadByNameOptions, GridFsFindOptions, GridFsUploadOptions},
};

use super::{Arguments, CallResult, OperationResult, results, unknown, within};
use crate::unified::{matching::hex, test_error::TestResult};

pub(super) async fn call(bucket: &GridFsBucket, name: &str, arguments: Arguments) -> CallResult {
    match name {
        "delete" => delete(bucket, arguments).await,
        "deleteByName" => delete_by_name(bucket, arguments).await,
        "download" => download(bucket, arguments).await,
        "downloadByName" => download_by_name(bucket, arguments).await,
        "drop" => drop(bucket, arguments).await,
        "find" => find(bucket, arguments).await,
        "rename" => rename(bucket, arguments).await,
        "renameByName" => rename_by_name(bucket, arguments).await,
        "upload" | "uploadWithId" => upload(bucket, arguments).await,
        _ => Err(unknown("bucket", name)),
    }
}

async fn upload(bucket: &GridFsBucket, mut arguments: Arguments) -> CallResult {
    let filename: String = arguments.required("filename")?;
    let source = source(&mut arguments)?;
    let id = arguments.bson("id");
    // The driver never stores these deprecated fields.
    for deprecated in ["disableMD5", "contentType"] {
        arguments.bson(deprecated);
    }
    let options: GridFsUploadOptions = arguments.options()?;
    let mut upload = bucket.upload_from_stream(&filename, &*source).with_options(options);
    if let Some(id) = id {
        upload = upload.id(id);
    }
    Ok(OperationResult::Value(upload.await?))
}

/// Bytes to upload.
fn source(arguments: &mut Arguments) -> TestResult<Vec<u8>> {
    let source: Document = arguments.required("source")?;
    hex(source.get("$$hexBytes").ok_or("the source of an upload is not $$hexBytes")?)
}

async fn download(bucket: &GridFsBucket, mut arguments: Arguments) -> CallResult {
    let id: Bson = arguments.required("id")?;
    let timeout = arguments.timeout()?;
    arguments.done()?;
    let mut bytes = Vec::new();
    within!(timeout, bucket.download_to_stream(id, &mut bytes))?;
    Ok(contents(bytes))
}

async fn download_by_name(bucket: &GridFsBucket, mut arguments: Arguments) -> CallResult {
    let filename: String = arguments.required("filename")?;
    let options: GridFsDownloadByNameOptions = arguments.options()?;
    let mut bytes = Vec::new();
    let download = bucket.download_to_stream_by_name(filename, &mut bytes).with_options(options);
    download.await?;
    Ok(contents(bytes))
}

fn contents(bytes: Vec<u8>) -> OperationResult {
    OperationResult::Value(Binary { subtype: BinarySubtype::Generic, bytes }.into())
}

async fn delete(bucket: &GridFsBucket, mut arguments: Arguments) -> CallResult {
    let id: Bson = arguments.required("id")?;
    let timeout = arguments.timeout()?;
    arguments.done()?;
    Ok(within!(timeout, bucket.delete(id))?.into())
}

async fn delete_by_name(bucket: &GridFsBucket, mut arguments: Arguments) -> CallResult {
    let filename: String = arguments.required("filename")?;
    let timeout = arguments.timeout()?;
    arguments.done()?;
    Ok(within!(timeout, bucket.delete_by_name(filename))?.into())
}

async fn rename(bucket: &GridFsBucket, mut arguments: Arguments) -> CallResult {
    let id: Bson = arguments.required("id")?;
    let new_filename: String = arguments.required("newFilename")?;
    let timeout = arguments.timeout()?;
    arguments.done()?;
    Ok(within!(timeout, bucket.rename(id, new_filename))?.into())
}

async fn rename_by_name(bucket: &GridFsBucket, mut arguments: Arguments) -> CallResult {
    let filename: String = arguments.required("filename")?;
    let new_filename: String = arguments.required("newFilename")?;
    let timeout = arguments.timeout()?;
    arguments.done()?;
    Ok(within!(timeout, bucket.rename_by_name(filename, new_filename))?.into())
}

async fn find(bucket: &GridFsBucket, mut arguments: Arguments) -> CallResult {
    let filter: Document = arguments.required("filter")?;
    let options: GridFsFindOptions = arguments.options()?;
    let files = results::items(bucket.find(filter).with_options(options).await?).await?;
    Ok(results::documents(&files)?)
}

async fn drop(bucket: &GridFsBucket, mut arguments: Arguments) -> CallResult {
    let timeout = arguments.timeout()?;
    arguments.done()?;
    Ok(within!(timeout, bucket.drop())?.into())
}
