//! Comparison of errors with expected errors (`expectError`).

use bson::{Bson, Document, doc};
use steadfast::error::{BulkWriteError, Error, ErrorKind, InsertManyError, WriteFailure};

use super::{
    matching::Matcher,
    operations::{bulk_write_result, by_index, partial_bulk_write_result},
    schema::ExpectedError,
    test_error::{TestError, TestResult},
};

/// Fails unless the error of an operation is the expected one.
pub(super) fn expect(
    matcher: &Matcher<'_>,
    expected: &ExpectedError,
    operation: &str,
    error: &Error,
) -> TestResult<()> {
    if let Some(wanted) = expected.is_timeout_error
        && error.is_timeout() != wanted
    {
        return Err(TestError::failed(format!("isTimeoutError must be {wanted}")));
    }
    if let Some(wanted) = expected.is_client_error
        && is_client_error(error) != wanted
    {
        return Err(TestError::failed(format!("isClientError must be {wanted}")));
    }
    if let Some(text) = &expected.error_contains
        && !messages(operation, error)
            .iter()
            .any(|found| found.to_lowercase().contains(&text.to_lowercase()))
    {
        return Err(TestError::failed(format!("its message lacks \"{text}\"")));
    }
    expect_code(expected, operation, error)?;
    expect_labels(expected, error)?;
    expect_parts(matcher, expected, operation, error)
}

fn expect_code(expected: &ExpectedError, operation: &str, error: &Error) -> TestResult<()> {
    if let Some(code) = expected.error_code
        && !compared(operation, error).any(|error| error.code() == Some(code))
    {
        return Err(TestError::failed(format!("its code is {:?}, not {code}", error.code())));
    }
    if let Some(name) = &expected.error_code_name
        && let names = code_names(operation, error)
        && !names.iter().any(|found| found.eq_ignore_ascii_case(name))
    {
        return Err(TestError::failed(format!("its code is {names:?}, not {name}")));
    }
    Ok(())
}

fn expect_labels(expected: &ExpectedError, error: &Error) -> TestResult<()> {
    if let Some(label) = expected.error_labels_contain.iter().find(|l| !error.contains_label(l)) {
        return Err(TestError::failed(format!("it lacks the label {label}")));
    }
    if let Some(label) = expected.error_labels_omit.iter().find(|l| error.contains_label(l)) {
        return Err(TestError::failed(format!("it has the label {label}")));
    }
    Ok(())
}

fn expect_parts(
    matcher: &Matcher<'_>,
    expected: &ExpectedError,
    operation: &str,
    error: &Error,
) -> TestResult<()> {
    if let Some(wanted) = &expected.error_response {
        let found =
            compared(operation, error).find_map(Error::server_response).ok_or("it has no reply")?;
        let found = Document::try_from(&**found)?;
        matcher.root(wanted, &found).map_err(|error| error.within(format!("the reply {found}")))?;
    }
    if let Some(wanted) = &expected.expect_result {
        let found = partial_result(error).map(Bson::Document);
        matcher
            .value(wanted, found.as_ref(), true)
            .map_err(|error| error.within(format!("the partial result {found:?}")))?;
    }
    expect_write_errors(matcher, expected, error)
}

/// Compares all write errors by their index, and write concern errors in their order.
fn expect_write_errors(
    matcher: &Matcher<'_>,
    expected: &ExpectedError,
    error: &Error,
) -> TestResult<()> {
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
            return Err(TestError::failed(format!("its write errors are {shown}")));
        }
        for (index, wanted) in wanted {
            matcher
                .value(wanted, shown.get(index), true)
                .map_err(|error| error.within(format!("the error of write {index}")))?;
        }
    }
    if let Some(wanted) = &expected.write_concern_errors {
        let found = &found.write_concern_errors;
        if found.len() != wanted.len() {
            return Err(TestError::failed(format!("its write concern errors are {found:?}")));
        }
        for (wanted, found) in wanted.iter().zip(found) {
            let mut shown = doc! { "code": found.code, "message": &found.message };
            shown.extend(found.details.clone().map(|it| ("details".to_owned(), it.into())));
            matcher
                .root(wanted, &shown)
                .map_err(|error| error.within("a write concern error".to_owned()))?;
        }
    }
    Ok(())
}

/// The error and its sources.
fn chain(error: &Error) -> impl Iterator<Item = &Error> {
    std::iter::successors(Some(error), |error| {
        std::error::Error::source(*error).and_then(|source| source.downcast_ref())
    })
}

/// Errors whose messages, codes and replies are compared: the error and its sources. For a client's bulk write only the
/// top-level error, which is the source: write errors have their own expectations.
fn compared<'a>(operation: &str, error: &'a Error) -> impl Iterator<Item = &'a Error> {
    let is_aggregate =
        operation == "clientBulkWrite" && matches!(&*error.kind, ErrorKind::BulkWrite(_));
    chain(error).skip(usize::from(is_aggregate))
}

/// Returns true if the error has no server reply.
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

/// Messages of the error, its sources and its write errors.
fn messages(operation: &str, error: &Error) -> Vec<String> {
    let mut messages = Vec::new();
    for error in compared(operation, error) {
        messages.push(error.to_string());
        match &*error.kind {
            ErrorKind::InsertMany(partly) => {
                let errors = partly.write_errors.iter().flatten();
                messages.extend(errors.map(|error| error.message.clone()));
                messages
                    .extend(partly.write_concern_error.iter().map(|error| error.message.clone()));
            }
            ErrorKind::BulkWrite(partly) => {
                messages.extend(partly.write_errors.values().map(|error| error.message.clone()));
                messages.extend(partly.write_concern_errors.iter().map(|e| e.message.clone()));
            }
            _ => {}
        }
    }
    messages
}

/// Code names of the error, its sources and its write errors.
fn code_names(operation: &str, error: &Error) -> Vec<String> {
    let mut names = Vec::new();
    for error in compared(operation, error) {
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

/// Partial result of the error. The specification expects that of an `insertMany` in the form of a bulk write.
fn partial_result(error: &Error) -> Option<Document> {
    match &*error.kind {
        ErrorKind::BulkWrite(BulkWriteError {
            partial_collection_result: Some(partly), ..
        }) => Some(bulk_write_result(partly)),
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
