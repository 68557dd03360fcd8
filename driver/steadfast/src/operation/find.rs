//! `find`.

use bson::{Document, raw::cstr};

use super::add_read_concern;
use crate::{
    collection::CollectionHandle,
    command::{Command, CommandKind},
    error::{Error, Result},
    operation::get_more::GetMoreOptions,
    options::{CursorType, FindOneOptions, FindOptions},
};

/// Returns the command and the options of the cursor's `getMore`.
pub(crate) fn find(
    collection: &CollectionHandle,
    filter: &Document,
    options: Option<&FindOptions>,
) -> Result<(Command, GetMoreOptions)> {
    let criteria = options.and_then(|options| options.selection_criteria.as_ref());
    let target = collection.read_target(criteria);
    let name = collection.checked_name()?;
    let mut command =
        Command::new(cstr!("find"), name, &collection.database, target, CommandKind::Read);
    command.explicit.criteria = criteria.is_some();
    command.field(cstr!("filter"), bson::to_raw_document(filter)?);
    if let Some(options) = options {
        command.fields_of(options)?;
        add_size(&mut command, options)?;
        add_cursor_type(&mut command, options.cursor_type);
    }
    let own = options.and_then(|options| options.read_concern.as_ref());
    add_read_concern(&mut command, collection.read_concern(own))?;
    command.limit(options.and_then(|options| options.timeout), collection.timeout);
    let mut more = options.map(more).unwrap_or_default();
    let mode = options.and_then(|options| options.timeout_mode);
    let cursor_type = options.and_then(|options| options.cursor_type).unwrap_or_default();
    more.apply_timeout_mode(&mut command, mode, cursor_type)?;
    // A caller that sets the batch size does not expect a second batch.
    more.ahead =
        cursor_type == CursorType::NonTailable && more.batch_size.is_none() && more.limit.is_none();
    Ok((command, more))
}

/// Returns the command for one document. The cursor is exhausted with the first batch.
pub(crate) fn one(
    collection: &CollectionHandle,
    filter: &Document,
    options: Option<FindOneOptions>,
) -> Result<(Command, GetMoreOptions)> {
    if let Some(options) = options {
        return find(collection, filter, Some(&options.into()));
    }
    // Most calls have no options, which are not read one by one then.
    let (mut command, mut more) = find(collection, filter, None)?;
    command.field(cstr!("limit"), 1_i64);
    command.field(cstr!("singleBatch"), true);
    more.limit = Some(1);
    Ok((command, more))
}

/// Adds `limit`, `batchSize` and `singleBatch`, which depend on each other.
fn add_size(command: &mut Command, options: &FindOptions) -> Result<()> {
    let limit = options.limit.filter(|limit| *limit != 0);
    if let Some(limit) = limit {
        let most = limit.checked_abs().ok_or_else(|| {
            Error::invalid_argument(format!(
                "limit {limit} is out of range; use at least {}",
                -i64::MAX
            ))
        })?;
        command.field(cstr!("limit"), most);
    }
    if let Some(batch_size) = options.batch_size {
        let batch_size = checked_batch_size(batch_size)?;
        // The CRUD specification: a first batch as large as the limit would leave the cursor open.
        let one_more = limit == Some(i64::from(batch_size)) && batch_size < i32::MAX;
        command.field(cstr!("batchSize"), if one_more { batch_size + 1 } else { batch_size });
    }
    if limit.is_some_and(i64::is_negative) {
        command.field(cstr!("singleBatch"), true);
    }
    Ok(())
}

/// Returns the batch size as an `i32`.
pub(super) fn checked_batch_size(batch_size: u32) -> Result<i32> {
    i32::try_from(batch_size).map_err(|_| {
        Error::invalid_argument(format!(
            "batch_size {batch_size} is out of range; use at most {}",
            i32::MAX
        ))
    })
}

fn add_cursor_type(command: &mut Command, cursor_type: Option<CursorType>) {
    let (tailable, await_data) = match cursor_type {
        None | Some(CursorType::NonTailable) => (false, false),
        Some(CursorType::Tailable) => (true, false),
        Some(CursorType::TailableAwait) => (true, true),
    };
    if tailable {
        command.field(cstr!("tailable"), true);
    }
    if await_data {
        command.field(cstr!("awaitData"), true);
    }
}

/// Servers accept `maxTimeMS` in a `getMore` only if its cursor awaits data.
fn more(options: &FindOptions) -> GetMoreOptions {
    let awaits = options.cursor_type == Some(CursorType::TailableAwait);
    GetMoreOptions {
        batch_size: options.batch_size,
        max_time: options.max_await_time.filter(|_| awaits),
        comment: options.comment.clone(),
        limit: options.limit.map(i64::unsigned_abs).filter(|limit| *limit != 0),
        renewed: false,
        ahead: false,
        may_write: false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bson::{Bson, doc};
    use steadfast_core::concern::ReadConcern;

    use super::*;
    use crate::{
        operation::fixture::{body, collection, collection_named},
        options::{Collation, Hint},
    };

    fn sent(options: &FindOptions) -> Document {
        body(&find(&collection(), &doc! { "x": 1 }, Some(options)).unwrap().0)
    }

    #[tokio::test]
    async fn find_without_options_sends_the_filter_only() {
        let (command, more) = find(&collection(), &doc! { "x": 1 }, None).unwrap();
        assert_eq!(body(&command), doc! { "find": "books", "filter": { "x": 1 } });
        assert_eq!((&*command.name, &*command.database), ("find", "library"));
        assert_eq!(command.kind, CommandKind::Read);
        assert!(more.limit.is_none() && more.max_time.is_none() && more.batch_size.is_none());
    }

    #[tokio::test]
    async fn every_option_is_sent() {
        let options = FindOptions::builder()
            .allow_disk_use(true)
            .allow_partial_results(true)
            .batch_size(2)
            .comment(Bson::from("note"))
            .hint(Hint::Name("x_1".to_owned()))
            .limit(10)
            .max(doc! { "x": 9 })
            .max_time(Duration::from_millis(1500))
            .min(doc! { "x": 0 })
            .no_cursor_timeout(true)
            .projection(doc! { "_id": 0 })
            .read_concern(ReadConcern::majority())
            .return_key(false)
            .max_scan(1000)
            .show_record_id(true)
            .skip(3)
            .sort(doc! { "x": -1 })
            .collation(Collation::builder().locale("en").build())
            .let_vars(doc! { "y": 1 })
            .build();
        assert_eq!(
            sent(&options),
            doc! {
                "find": "books", "filter": { "x": 1 },
                "allowDiskUse": true, "allowPartialResults": true, "comment": "note",
                "hint": "x_1", "max": { "x": 9 }, "maxTimeMS": 1500_i64, "min": { "x": 0 },
                "noCursorTimeout": true, "projection": { "_id": 0 }, "returnKey": false,
                "maxScan": 1000_i64, "showRecordId": true, "skip": 3_i64, "sort": { "x": -1 },
                "collation": { "locale": "en" }, "let": { "y": 1 },
                "limit": 10_i64, "batchSize": 2, "readConcern": { "level": "majority" },
            }
        );
    }

    #[tokio::test]
    async fn find_one_without_options_equals_empty_options() {
        let found = |options| one(&collection(), &doc! { "x": 1 }, options).unwrap();
        let ((plain, more), (with_options, more_with_options)) =
            (found(None), found(Some(<_>::default())));
        assert_eq!(body(&plain), body(&with_options));
        assert_eq!(more.limit, more_with_options.limit);
    }

    #[tokio::test]
    async fn negative_limit_requests_a_single_batch() {
        let options = FindOptions::builder().limit(-5).build();
        let expected = doc! {
            "find": "books", "filter": { "x": 1 }, "limit": 5_i64, "singleBatch": true,
        };
        assert_eq!(sent(&options), expected);
    }

    #[tokio::test]
    async fn limit_of_zero_is_not_sent() {
        let options = FindOptions::builder().limit(0).build();
        assert_eq!(sent(&options), doc! { "find": "books", "filter": { "x": 1 } });
    }

    #[tokio::test]
    async fn batch_size_equal_to_the_limit_is_incremented() {
        let options = FindOptions::builder().limit(4).batch_size(4).build();
        assert_eq!(sent(&options).get("batchSize"), Some(&Bson::Int32(5)));
    }

    #[tokio::test]
    async fn limit_and_batch_size_out_of_range_are_rejected() {
        for options in [
            FindOptions::builder().limit(i64::MIN).build(),
            FindOptions::builder().batch_size(u32::MAX).build(),
        ] {
            let error = find(&collection(), &doc! {}, Some(&options)).unwrap_err();
            assert!(error.is_invalid_argument(), "{error}");
        }
    }

    #[tokio::test]
    async fn find_one_requests_a_single_batch() {
        // pitfall 20
        let options = FindOneOptions::builder().skip(1).build();
        let expected = doc! {
            "find": "books", "filter": { "x": 1 }, "skip": 1_i64, "limit": 1_i64,
            "singleBatch": true,
        };
        assert_eq!(sent(&options.into()), expected);
    }

    #[tokio::test]
    async fn max_await_time_is_sent_for_tailable_await_cursors_only() {
        let wait = Duration::from_millis(10);
        let options = FindOptions::builder().max_await_time(wait);
        let tailing = |kind| options.clone().cursor_type(kind).build();
        let max_time = |options: &FindOptions| more(options).max_time;
        assert_eq!(max_time(&tailing(CursorType::Tailable)), None);
        assert_eq!(max_time(&tailing(CursorType::TailableAwait)), Some(wait));
        assert_eq!(
            sent(&tailing(CursorType::TailableAwait)),
            doc! { "find": "books", "filter": { "x": 1 }, "tailable": true, "awaitData": true }
        );
    }

    #[tokio::test]
    async fn invalid_names_are_rejected() {
        // pitfall 41
        for (database, name) in [("library", ""), ("library", "a\0b"), ("a.b", "books"), ("", "x")]
        {
            let error = find(&collection_named(database, name), &doc! {}, None).unwrap_err();
            assert!(error.is_invalid_argument(), "{database:?} {name:?}: {error}");
        }
    }
}
