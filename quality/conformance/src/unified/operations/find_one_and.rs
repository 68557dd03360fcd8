//! `findOneAndUpdate`, `findOneAndReplace` and `findOneAndDelete`.

use bson::Document;
use steadfast::{
    Collection,
    options::{
        FindOneAndDeleteOptions, FindOneAndReplaceOptions, FindOneAndUpdateOptions, ReturnDocument,
        UpdateModifications,
    },
};

use super::{Arguments, CallResult, awaited};
use crate::unified::test_error::{TestError, TestResult};

pub(super) async fn update(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let mut session = arguments.session();
    let filter = arguments.required("filter")?;
    let update: UpdateModifications = arguments.required("update")?;
    let returned = return_document(&mut arguments)?;
    let mut options: FindOneAndUpdateOptions = arguments.options()?;
    options.return_document = returned;
    Ok(awaited!(session, collection.find_one_and_update(filter, update).with_options(options))?
        .into())
}

pub(super) async fn replace(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let mut session = arguments.session();
    let filter = arguments.required("filter")?;
    let replacement: Document = arguments.required("replacement")?;
    let returned = return_document(&mut arguments)?;
    let mut options: FindOneAndReplaceOptions = arguments.options()?;
    options.return_document = returned;
    Ok(awaited!(
        session,
        collection.find_one_and_replace(filter, replacement).with_options(options)
    )?
    .into())
}

pub(super) async fn delete(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let mut session = arguments.session();
    let filter = arguments.required("filter")?;
    let options: FindOneAndDeleteOptions = arguments.options()?;
    Ok(awaited!(session, collection.find_one_and_delete(filter).with_options(options))?.into())
}

/// `Before` or `After`, compared without case.
fn return_document(arguments: &mut Arguments) -> TestResult<Option<ReturnDocument>> {
    let Some(given) = arguments.bson("returnDocument") else { return Ok(None) };
    match given.as_str().map(str::to_ascii_lowercase).as_deref() {
        Some("before") => Ok(Some(ReturnDocument::Before)),
        Some("after") => Ok(Some(ReturnDocument::After)),
        _ => Err(TestError::failed(format!("returnDocument is {given}"))),
    }
}
