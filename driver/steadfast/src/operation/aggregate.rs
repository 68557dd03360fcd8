//! `aggregate`.

use std::{sync::Arc, time::Duration};

use bson::{Document, RawArrayBuf, RawDocumentBuf, raw::cstr};
use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use super::{Concern, add_read_concern, add_write_concern, find::checked_batch_size};
use crate::{
    Database,
    collection::CollectionHandle,
    command::{Command, CommandKind, Target},
    error::{Error, Result},
    namespace::check_database_name,
    operation::get_more::GetMoreOptions,
    options::{AggregateOptions, CursorType, TimeoutMode},
};

/// Target of a pipeline.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AggregateSource<'a> {
    Database(&'a Database),
    Collection(&'a CollectionHandle),
    /// Collection whose read concern and write concern are not inherited.
    CollectionWithoutConcerns(&'a CollectionHandle),
}

impl<'a> AggregateSource<'a> {
    pub(crate) fn client(self) -> &'a crate::Client {
        match self {
            Self::Database(database) => &database.client,
            Self::Collection(collection) | Self::CollectionWithoutConcerns(collection) => {
                &collection.client
            }
        }
    }

    fn database(self) -> &'a Arc<str> {
        match self {
            Self::Database(database) => &database.name,
            Self::Collection(collection) | Self::CollectionWithoutConcerns(collection) => {
                &collection.database
            }
        }
    }

    fn timeout(self) -> Option<Duration> {
        match self {
            Self::Database(database) => database.timeout(),
            Self::Collection(collection) | Self::CollectionWithoutConcerns(collection) => {
                collection.timeout
            }
        }
    }

    fn read_target(self, action: Option<&SelectionCriteria>) -> Target {
        match self {
            Self::Database(database) => {
                Target::Read(action.or(database.selection_criteria()).cloned().unwrap_or_default())
            }
            Self::Collection(collection) | Self::CollectionWithoutConcerns(collection) => {
                collection.read_target(action)
            }
        }
    }

    fn read_concern<'r>(self, own: Option<&'r ReadConcern>) -> Concern<'r, ReadConcern>
    where
        'a: 'r,
    {
        match self {
            Self::Database(database) => Concern { own, inherited: database.read_concern() },
            Self::Collection(collection) => collection.read_concern(own),
            Self::CollectionWithoutConcerns(_) => Concern { own, inherited: None },
        }
    }

    fn write_concern<'w>(self, own: Option<&'w WriteConcern>) -> Concern<'w, WriteConcern>
    where
        'a: 'w,
    {
        match self {
            Self::Database(database) => Concern { own, inherited: database.write_concern() },
            Self::Collection(collection) => collection.write_concern(own),
            Self::CollectionWithoutConcerns(_) => Concern { own, inherited: None },
        }
    }
}

/// Returns the command and the options of the cursor's `getMore`.
pub(crate) fn aggregate(
    source: AggregateSource<'_>,
    pipeline: &[Document],
    options: Option<&AggregateOptions>,
) -> Result<(Command, GetMoreOptions)> {
    let none = AggregateOptions::default();
    let options = options.unwrap_or(&none);
    let writes = writes(pipeline);
    let mut command = begin(source, writes, options)?;
    command.explicit.criteria = options.selection_criteria.is_some();
    let mut stages = RawArrayBuf::new();
    for stage in pipeline {
        stages.push(bson::to_raw_document(stage)?);
    }
    command.field(cstr!("pipeline"), stages);
    command.field(cstr!("cursor"), cursor_field(writes, options.batch_size)?);
    command.fields_of(options)?;
    add_read_concern(&mut command, source.read_concern(options.read_concern.as_ref()))?;
    if writes {
        add_write_concern(&mut command, source.write_concern(options.write_concern.as_ref()))?;
        // Also with `w: 0` the reply is awaited, because it contains the cursor.
        command.acknowledged = true;
    }
    command.limit(options.timeout, source.timeout());
    let mut more = GetMoreOptions {
        batch_size: options.batch_size,
        max_time: options.max_await_time,
        comment: options.comment.clone(),
        ..GetMoreOptions::default()
    };
    if writes && options.timeout_mode == Some(TimeoutMode::Iteration) {
        return Err(Error::invalid_argument(
            "timeout_mode of a pipeline with $out or $merge must be CursorLifetime",
        ));
    }
    more.apply_timeout_mode(&mut command, options.timeout_mode, CursorType::NonTailable)?;
    Ok((command, more))
}

/// Returns `true` if the last stage is `$out` or `$merge`.
pub(crate) fn writes(pipeline: &[Document]) -> bool {
    let last = pipeline.last().and_then(|stage| stage.keys().next());
    last.is_some_and(|stage| stage == "$out" || stage == "$merge")
}

fn begin(source: AggregateSource<'_>, writes: bool, options: &AggregateOptions) -> Result<Command> {
    let name = cstr!("aggregate");
    let kind = if writes { CommandKind::Write } else { CommandKind::Read };
    let target = match source.read_target(options.selection_criteria.as_ref()) {
        Target::Read(criteria) if writes => Target::WritingAggregate(criteria),
        target => target,
    };
    match source {
        AggregateSource::Database(database) => {
            check_database_name(&database.name)?;
            Ok(Command::new(name, 1, source.database(), target, kind))
        }
        AggregateSource::Collection(collection)
        | AggregateSource::CollectionWithoutConcerns(collection) => {
            let collection = collection.checked_name()?;
            Ok(Command::new(name, collection, source.database(), target, kind))
        }
    }
}

/// The CRUD specification: no batch size is sent with `$out` or `$merge`, because a batch size of
/// zero would prevent the pipeline from running.
fn cursor_field(writes: bool, batch_size: Option<u32>) -> Result<RawDocumentBuf> {
    let mut cursor = RawDocumentBuf::new();
    if let Some(batch_size) = batch_size {
        let batch_size = checked_batch_size(batch_size)?;
        if !writes {
            cursor.append(cstr!("batchSize"), batch_size);
        }
    }
    Ok(cursor)
}

/// Returns the pipeline that counts documents.
pub(super) fn counting(
    filter: &Document,
    skip: Option<u64>,
    limit: Option<u64>,
) -> Result<Vec<Document>> {
    let whole = |what: &str, number: u64| {
        i64::try_from(number)
            .map_err(|_| Error::invalid_argument(format!("{what} {number} is out of range")))
    };
    let mut pipeline = vec![bson::doc! { "$match": filter.clone() }];
    if let Some(skip) = skip {
        pipeline.push(bson::doc! { "$skip": whole("skip", skip)? });
    }
    if let Some(limit) = limit {
        pipeline.push(bson::doc! { "$limit": whole("limit", limit)? });
    }
    pipeline.push(bson::doc! { "$group": { "_id": 1, "n": { "$sum": 1 } } });
    Ok(pipeline)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bson::{Bson, doc};

    use super::*;
    use crate::{
        operation::fixture::{body, collection, collection_with, database, database_with},
        options::{CollectionOptions, DatabaseOptions, Hint, ReadPreference},
    };

    fn sent(pipeline: &[Document], options: &AggregateOptions) -> Document {
        let collection = collection();
        body(
            &aggregate(AggregateSource::Collection(&collection), pipeline, Some(options))
                .unwrap()
                .0,
        )
    }

    #[tokio::test]
    async fn plain_pipeline_requests_a_cursor() {
        let collection = collection();
        let pipeline = [doc! { "$match": { "x": 1 } }];
        let (command, _) =
            aggregate(AggregateSource::Collection(&collection), &pipeline, None).unwrap();
        assert_eq!(
            body(&command),
            doc! { "aggregate": "books", "pipeline": [{ "$match": { "x": 1 } }], "cursor": {} }
        );
        assert_eq!(command.kind, CommandKind::Read);
        assert!(matches!(command.target, Target::Read(_)));
    }

    #[tokio::test]
    async fn database_pipeline_has_no_collection() {
        let database = database();
        let pipeline = [doc! { "$currentOp": {} }];
        let (command, _) =
            aggregate(AggregateSource::Database(&database), &pipeline, None).unwrap();
        assert_eq!(
            body(&command),
            doc! { "aggregate": 1, "pipeline": [{ "$currentOp": {} }], "cursor": {} }
        );
    }

    #[tokio::test]
    async fn every_option_is_sent() {
        let options = AggregateOptions::builder()
            .allow_disk_use(true)
            .batch_size(2)
            .bypass_document_validation(true)
            .comment(Bson::from("note"))
            .hint(Hint::Keys(doc! { "x": 1 }))
            .max_await_time(Duration::from_millis(5))
            .max_time(Duration::from_millis(10))
            .read_concern(ReadConcern::local())
            .write_concern(WriteConcern::majority())
            .let_vars(doc! { "y": 1 })
            .build();
        assert_eq!(
            sent(&[], &options),
            doc! {
                "aggregate": "books", "pipeline": [], "cursor": { "batchSize": 2 },
                "allowDiskUse": true, "bypassDocumentValidation": true, "comment": "note",
                "hint": { "x": 1 }, "maxTimeMS": 10_i64, "let": { "y": 1 },
                "readConcern": { "level": "local" },
            }
        );
    }

    #[tokio::test]
    async fn max_await_time_beyond_the_timeout_is_rejected() {
        let options = AggregateOptions::builder()
            .max_await_time(Duration::from_secs(5))
            .timeout(Duration::from_secs(5))
            .build();
        let collection = collection();
        let source = AggregateSource::Collection(&collection);
        let error = aggregate(source, &[], Some(&options)).map(drop).unwrap_err();
        assert!(error.is_invalid_argument(), "{error}");
    }

    #[tokio::test]
    async fn a_pipeline_that_writes_has_a_write_concern_and_no_batch_size() {
        for stage in [doc! { "$out": "other" }, doc! { "$merge": { "into": "other" } }] {
            let options = AggregateOptions::builder()
                .batch_size(0)
                .write_concern(WriteConcern::majority())
                .selection_criteria(SelectionCriteria::from(ReadPreference::nearest(None)))
                .build();
            let collection = collection();
            let source = AggregateSource::Collection(&collection);
            let (command, _) =
                aggregate(source, std::slice::from_ref(&stage), Some(&options)).unwrap();
            assert_eq!(
                body(&command),
                doc! {
                    "aggregate": "books", "pipeline": [stage], "cursor": {},
                    "writeConcern": { "w": "majority" },
                }
            );
            assert_eq!(command.kind, CommandKind::Write);
            assert!(matches!(command.target, Target::WritingAggregate(_)));
        }
    }

    #[tokio::test]
    async fn only_the_last_stage_makes_a_pipeline_write() {
        assert!(!writes(&[doc! { "$out": "x" }, doc! { "$match": {} }]));
        assert!(!writes(&[]));
        assert!(!writes(&[doc! {}]));
    }

    #[tokio::test]
    async fn concerns_are_inherited_unless_the_action_has_its_own() {
        let collection = collection_with(
            CollectionOptions::builder().read_concern(ReadConcern::majority()).build(),
        );
        let concern = |options: Option<&AggregateOptions>| {
            let source = AggregateSource::Collection(&collection);
            let command = aggregate(source, &[], options).unwrap().0;
            body(&command).get_document("readConcern").unwrap().clone()
        };
        assert_eq!(concern(None), doc! { "level": "majority" });
        let own = AggregateOptions::builder().read_concern(ReadConcern::local()).build();
        assert_eq!(concern(Some(&own)), doc! { "level": "local" });
        let bare = aggregate(AggregateSource::CollectionWithoutConcerns(&collection), &[], None)
            .unwrap()
            .0;
        assert!(!body(&bare).contains_key("readConcern"));

        let database =
            database_with(DatabaseOptions::builder().write_concern(WriteConcern::nodes(2)).build());
        let pipeline = [doc! { "$out": "other" }];
        let command = aggregate(AggregateSource::Database(&database), &pipeline, None).unwrap().0;
        assert_eq!(body(&command).get_document("writeConcern").unwrap(), &doc! { "w": 2 });
    }
}
