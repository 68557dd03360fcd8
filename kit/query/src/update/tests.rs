//! Updates. Expected results are those of servers.

mod array_filters;
mod arrays;
mod fields;
mod pipelines;
mod properties;
mod replacements;
mod storing;
mod upserts;

use bson::{Bson, DateTime, Document, Timestamp};

use crate::{Environment, Fault, Filter, Update};

use super::navigation::identical_documents;

fn env() -> Environment {
    Environment::new(DateTime::from_millis(5000), Timestamp { time: 7, increment: 8 }, 1)
}

/// Applies an update to a document.
fn applied(document: &Document, update: impl Into<Bson>) -> Result<Option<Document>, Fault> {
    matched(document, &Document::new(), update)
}

/// Applies an update to a document that a filter matched.
fn matched(
    document: &Document,
    filter: &Document,
    update: impl Into<Bson>,
) -> Result<Option<Document>, Fault> {
    let env = env();
    let filter = Filter::parse(filter, &env)?;
    Update::parse(&update.into(), &[], &env)?.apply(document, &filter, &env)
}

/// Asserts results, including types and field order.
fn assert_each(cases: Vec<(Document, Document, Document)>) {
    for (document, update, expected) in cases {
        let result = applied(&document, update.clone()).unwrap();
        let result = result.unwrap_or_else(|| panic!("{update} changed nothing"));
        assert!(
            identical_documents(&result, &expected),
            "{document} with {update} became {result}, not {expected}"
        );
    }
}

/// Asserts that updates change nothing.
fn assert_none_changes(cases: Vec<(Document, Document)>) {
    for (document, update) in cases {
        let result = applied(&document, update.clone()).unwrap();
        assert!(result.is_none(), "{document} with {update} became {result:?}");
    }
}

/// Asserts error codes and messages.
fn assert_fails(cases: Vec<(Document, Document, i32, &str)>) {
    for (document, update, code, words) in cases {
        let fault = applied(&document, update.clone()).expect_err(&format!("{update}"));
        assert_eq!((fault.code.number, fault.message.as_str()), (code, words), "{update}");
    }
}
