//! `count`, and the pipeline of an exact count.

use bson::{Bson, Document, RawDocument, raw::cstr};
use serde::Deserialize;

use super::{
    add_read_concern,
    aggregate::{AggregateSource, aggregate, counting},
};
use crate::{
    collection::CollectionHandle,
    command::{Command, CommandKind},
    error::command_error::parse,
    error::{Error, Result},
    options::{AggregateOptions, CountOptions, EstimatedDocumentCountOptions},
    serde_helpers::number,
};

/// Returns the `count` command, which uses the collection's metadata.
pub(crate) fn estimated(
    collection: &CollectionHandle,
    options: Option<&EstimatedDocumentCountOptions>,
) -> Result<Command> {
    let none = EstimatedDocumentCountOptions::default();
    let options = options.unwrap_or(&none);
    let target = collection.read_target(options.selection_criteria.as_ref());
    let name = collection.checked_name()?;
    let mut command =
        Command::new(cstr!("count"), name, &collection.database, target, CommandKind::Read);
    command.explicit.criteria = options.selection_criteria.is_some();
    command.fields_of(options)?;
    add_read_concern(&mut command, collection.read_concern(options.read_concern.as_ref()))?;
    command.limit(options.timeout, collection.timeout);
    Ok(command)
}

/// Reads the reply to [`estimated`].
pub(crate) fn read_estimated(body: &RawDocument) -> Result<u64> {
    #[derive(Deserialize)]
    struct Counted {
        n: Bson,
    }
    count(&parse::<Counted>(body)?.n)
}

/// Returns the `aggregate` that counts matching documents.
pub(crate) fn documents(
    collection: &CollectionHandle,
    filter: &Document,
    options: Option<&CountOptions>,
) -> Result<Command> {
    let none = CountOptions::default();
    let options = options.unwrap_or(&none);
    let pipeline = counting(filter, options.skip, options.limit)?;
    let aggregate_options = AggregateOptions::builder()
        .hint(options.hint.clone())
        .max_time(options.max_time)
        .collation(options.collation.clone())
        .selection_criteria(options.selection_criteria.clone())
        .read_concern(options.read_concern.clone())
        .comment(options.comment.clone())
        .timeout(options.timeout)
        .build();
    let source = AggregateSource::Collection(collection);
    Ok(aggregate(source, &pipeline, Some(&aggregate_options))?.0)
}

/// Reads the reply to [`documents`]: one document with the count, or none if no document matches.
pub(crate) fn read_documents(body: &RawDocument) -> Result<u64> {
    #[derive(Deserialize)]
    struct Counted {
        cursor: Batch,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Batch {
        first_batch: Vec<Group>,
    }
    #[derive(Deserialize)]
    struct Group {
        n: Bson,
    }
    match parse::<Counted>(body)?.cursor.first_batch.first() {
        Some(group) => count(&group.n),
        None => Ok(0),
    }
}

fn count(number: &Bson) -> Result<u64> {
    number::whole(number)
        .ok_or_else(|| Error::invalid_response(format!("{number} is not a number of documents")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bson::doc;

    use super::*;
    use crate::operation::fixture::{assert_invalid_response, body, collection, raw};

    #[tokio::test]
    async fn estimated_document_count_is_a_count_command() {
        let command = estimated(&collection(), None).unwrap();
        assert_eq!(body(&command), doc! { "count": "books" });
        let options = EstimatedDocumentCountOptions::builder()
            .max_time(Duration::from_millis(6))
            .comment(Bson::from("note"))
            .build();
        let command = estimated(&collection(), Some(&options)).unwrap();
        assert_eq!(
            body(&command),
            doc! { "count": "books", "maxTimeMS": 6_i64, "comment": "note" }
        );
    }

    #[tokio::test]
    async fn count_documents_is_an_aggregation() {
        let options = CountOptions::builder().skip(1).limit(2).comment(Bson::from("note")).build();
        let command = documents(&collection(), &doc! { "x": 1 }, Some(&options)).unwrap();
        assert_eq!(
            body(&command),
            doc! {
                "aggregate": "books",
                "pipeline": [
                    { "$match": { "x": 1 } },
                    { "$skip": 1_i64 },
                    { "$limit": 2_i64 },
                    { "$group": { "_id": 1, "n": { "$sum": 1 } } },
                ],
                "cursor": {},
                "comment": "note",
            }
        );
    }

    #[tokio::test]
    async fn limit_beyond_i64_is_rejected() {
        let options = CountOptions::builder().limit(u64::MAX).build();
        let error = documents(&collection(), &doc! {}, Some(&options)).unwrap_err();
        assert!(error.is_invalid_argument());
    }

    #[test]
    fn counts_of_any_numeric_type_are_read() {
        assert_eq!(read_estimated(&raw(doc! { "n": 3, "ok": 1 })).unwrap(), 3);
        assert_eq!(read_estimated(&raw(doc! { "n": 3.0, "ok": 1 })).unwrap(), 3);
        let batch = |batch: Vec<Document>| raw(doc! { "cursor": { "firstBatch": batch } });
        assert_eq!(read_documents(&batch(vec![doc! { "_id": 1, "n": 5_i64 }])).unwrap(), 5);
        assert_eq!(read_documents(&batch(vec![])).unwrap(), 0);
    }

    #[test]
    fn replies_without_a_count_are_invalid() {
        for reply in [doc! { "ok": 1 }, doc! { "n": -1 }, doc! { "n": "many" }] {
            assert_invalid_response(read_estimated(&raw(reply)));
        }
        for reply in [
            doc! { "ok": 1 },
            doc! { "cursor": 1 },
            doc! { "cursor": { "firstBatch": [{ "m": 1 }] } },
            doc! { "cursor": { "firstBatch": [{ "n": -1 }] } },
        ] {
            assert_invalid_response(read_documents(&raw(reply)));
        }
    }
}
