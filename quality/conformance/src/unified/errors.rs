//! Whether an error is the one that a test expects.

use bson::{Bson, Document, doc};
use steadfast::error::{BulkWriteError, Error, ErrorKind, InsertManyError, WriteFailure};

use super::{
    matching::Matcher,
    operations::{bulk_write_result, by_index, partial_bulk_write_result},
    schema::ExpectedError,
    stop::{Step, Stop},
};

/// Whether the error of an operation is the one expected.
pub(super) fn expect(
    matcher: &Matcher<'_>,
    expected: &ExpectedError,
    operation: &str,
    error: &Error,
) -> Step<()> {
    if let Some(wanted) = expected.is_timeout_error
        && error.is_timeout() != wanted
    {
        return Err(Stop::failed(format!("that its time ran out must be {wanted}")));
    }
    if let Some(wanted) = expected.is_client_error
        && is_client_error(error) != wanted
    {
        return Err(Stop::failed(format!("that the client raised it must be {wanted}")));
    }
    if let Some(text) = &expected.error_contains
        && !texts(operation, error)
            .iter()
            .any(|found| found.to_lowercase().contains(&text.to_lowercase()))
    {
        return Err(Stop::failed(format!("it does not say \"{text}\"")));
    }
    expect_code(expected, operation, error)?;
    expect_labels(expected, error)?;
    expect_parts(matcher, expected, operation, error)
}

fn expect_code(expected: &ExpectedError, operation: &str, error: &Error) -> Step<()> {
    if let Some(code) = expected.error_code
        && !examined(operation, error).any(|error| error.code() == Some(code))
    {
        return Err(Stop::failed(format!("its code is {:?}, not {code}", error.code())));
    }
    if let Some(name) = &expected.error_code_name
        && let names = code_names(operation, error)
        && !names.iter().any(|found| found.eq_ignore_ascii_case(name))
    {
        return Err(Stop::failed(format!("its code is {names:?}, not {name}")));
    }
    Ok(())
}

fn expect_labels(expected: &ExpectedError, error: &Error) -> Step<()> {
    if let Some(label) = expected.error_labels_contain.iter().find(|l| !error.contains_label(l)) {
        return Err(Stop::failed(format!("it lacks the label {label}")));
    }
    if let Some(label) = expected.error_labels_omit.iter().find(|l| error.contains_label(l)) {
        return Err(Stop::failed(format!("it has the label {label}")));
    }
    Ok(())
}

fn expect_parts(
    matcher: &Matcher<'_>,
    expected: &ExpectedError,
    operation: &str,
    error: &Error,
) -> Step<()> {
    if let Some(wanted) = &expected.error_response {
        let found = examined(operation, error)
            .find_map(Error::server_response)
            .ok_or("it holds no reply")?;
        let found = Document::try_from(&**found)?;
        matcher.root(wanted, &found).map_err(|stop| stop.within(format!("the reply {found}")))?;
    }
    if let Some(wanted) = &expected.expect_result {
        let found = partial_result(error).map(Bson::Document);
        matcher
            .value(wanted, found.as_ref(), true)
            .map_err(|stop| stop.within(format!("the partial result {found:?}")))?;
    }
    expect_write_errors(matcher, expected, error)
}

/// The errors of single writes, by their index and all of them, and those of write concerns in order.
fn expect_write_errors(matcher: &Matcher<'_>, expected: &ExpectedError, error: &Error) -> Step<()> {
    let none = BulkWriteError::default();
    let found = match &*error.kind {
        ErrorKind::BulkWrite(found) => found,
        _ => &none,
    };
    if let Some(wanted) = &expected.write_errors {
        let errors = found.write_errors.iter().map(|(index, error)| {
            let mut shown = doc! { "code": error.code, "message": &error.message };
            shown.extend(error.details.clone().map(|it| ("details".to_owned(), it.into())));
            (*index, shown.into())
        });
        let shown = by_index(errors);
        if shown.len() != wanted.len() {
            return Err(Stop::failed(format!("its write errors are {shown}")));
        }
        for (index, wanted) in wanted {
            matcher
                .value(wanted, shown.get(index), true)
                .map_err(|stop| stop.within(format!("the error of write {index}")))?;
        }
    }
    if let Some(wanted) = &expected.write_concern_errors {
        let found = &found.write_concern_errors;
        if found.len() != wanted.len() {
            return Err(Stop::failed(format!("its write concern errors are {found:?}")));
        }
        for (wanted, found) in wanted.iter().zip(found) {
            let mut shown = doc! { "code": found.code, "message": &found.message };
            shown.extend(found.details.clone().map(|it| ("details".to_owned(), it.into())));
            matcher
                .root(wanted, &shown)
                .map_err(|stop| stop.within("a write concern error".to_owned()))?;
        }
    }
    Ok(())
}

/// The error and those that caused it.
fn chain(error: &Error) -> impl Iterator<Item = &Error> {
    std::iter::successors(Some(error), |error| {
        std::error::Error::source(*error).and_then(|source| source.downcast_ref())
    })
}

/// The errors that messages, codes and replies are expected of: the error and those that caused it. Of a client's
/// bulk write only its top-level error, which caused it: the errors of single writes have fields of their own.
fn examined<'a>(operation: &str, error: &'a Error) -> impl Iterator<Item = &'a Error> {
    let is_aggregate =
        operation == "clientBulkWrite" && matches!(&*error.kind, ErrorKind::BulkWrite(_));
    chain(error).skip(usize::from(is_aggregate))
}

/// Whether it does not come from a server's reply.
fn is_client_error(error: &Error) -> bool {
    let cause = chain(error).last().unwrap_or(error);
    let from_server = matches!(
        &*cause.kind,
        ErrorKind::Command(_)
            | ErrorKind::Write(_)
            | ErrorKind::InsertMany(_)
            | ErrorKind::BulkWrite(_)
    );
    !from_server && cause.server_response().is_none()
}

/// All that it says, of each write, too.
fn texts(operation: &str, error: &Error) -> Vec<String> {
    let mut texts = Vec::new();
    for error in examined(operation, error) {
        texts.push(error.to_string());
        match &*error.kind {
            ErrorKind::InsertMany(partly) => {
                let errors = partly.write_errors.iter().flatten();
                texts.extend(errors.map(|error| error.message.clone()));
                texts.extend(partly.write_concern_error.iter().map(|error| error.message.clone()));
            }
            ErrorKind::BulkWrite(partly) => {
                texts.extend(partly.write_errors.values().map(|error| error.message.clone()));
                texts.extend(partly.write_concern_errors.iter().map(|e| e.message.clone()));
            }
            _ => {}
        }
    }
    texts
}

/// The names of its codes, of each write, too.
fn code_names(operation: &str, error: &Error) -> Vec<String> {
    let mut names = Vec::new();
    for error in examined(operation, error) {
        match &*error.kind {
            ErrorKind::Command(error) => names.push(error.code_name.clone()),
            ErrorKind::Write(WriteFailure::WriteConcernError(error)) => {
                names.push(error.code_name.clone());
            }
            ErrorKind::Write(WriteFailure::WriteError(error)) => {
                names.extend(error.code_name.clone());
            }
            ErrorKind::InsertMany(InsertManyError {
                write_errors, write_concern_error, ..
            }) => {
                names.extend(write_errors.iter().flatten().filter_map(|e| e.code_name.clone()));
                names.extend(write_concern_error.iter().map(|error| error.code_name.clone()));
            }
            ErrorKind::BulkWrite(BulkWriteError { write_errors, write_concern_errors, .. }) => {
                names.extend(write_errors.values().filter_map(|error| error.code_name.clone()));
                names.extend(write_concern_errors.iter().map(|error| error.code_name.clone()));
            }
            _ => {}
        }
    }
    names
}

/// The partial result of the error, if it has one. The specification calls that of an `insertMany` a bulk
/// write's, too.
fn partial_result(error: &Error) -> Option<Document> {
    match &*error.kind {
        ErrorKind::BulkWrite(BulkWriteError { partial_result: Some(partly), .. }) => {
            Some(partial_bulk_write_result(partly))
        }
        ErrorKind::InsertMany(partly) => {
            let mut result = bulk_write_result(&Default::default());
            let count = i64::try_from(partly.inserted_ids.len()).unwrap_or(i64::MAX);
            result.insert("insertedCount", count);
            result.insert("insertedIds", by_index(partly.inserted_ids.clone()));
            Some(result)
        }
        _ => None,
    }
}
