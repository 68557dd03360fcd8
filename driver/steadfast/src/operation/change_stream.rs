//! The `aggregate` that opens or resumes a change stream.

use bson::Timestamp;
use std::sync::Arc;

use bson::{Bson, Document};

use super::aggregate::{self, AggregateSource};
use crate::{
    Client, Database,
    collection::CollectionHandle,
    command::Command,
    error::Result,
    operation::get_more::GetMoreOptions,
    options::{AggregateOptions, ChangeStreamOptions, CursorType},
    resume_token::ResumeToken,
};

/// Start of a change stream, or of a resumed one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StartPosition {
    /// Position in the options of the application, else the current time.
    FromOptions,
    /// `startAfter` this token.
    StartAfter(ResumeToken),
    /// `resumeAfter` this token.
    ResumeAfter(ResumeToken),
    /// `startAtOperationTime`.
    AtOperationTime(Timestamp),
}

/// Client, database or collection of a change stream.
#[derive(Clone, Debug)]
pub(crate) enum ChangeStreamScope {
    /// All databases of the deployment. The command runs on this one, `admin`.
    Cluster(Database),
    Database(Database),
    Collection(Arc<CollectionHandle>),
}

impl ChangeStreamScope {
    pub(crate) fn cluster(client: &Client) -> Self {
        Self::Cluster(client.database("admin"))
    }

    pub(crate) fn client(&self) -> &Client {
        self.source().client()
    }

    fn source(&self) -> AggregateSource<'_> {
        match self {
            Self::Cluster(database) | Self::Database(database) => {
                AggregateSource::Database(database)
            }
            Self::Collection(collection) => AggregateSource::Collection(collection),
        }
    }
}

/// Scope and options of a change stream.
#[derive(Clone, Debug)]
pub(crate) struct ChangeStreamPlan {
    pub(crate) scope: ChangeStreamScope,
    /// Pipeline of the application after `$changeStream`.
    pub(crate) pipeline: Vec<Document>,
    pub(crate) options: ChangeStreamOptions,
}

impl ChangeStreamPlan {
    /// Returns the `aggregate` from this position, and the options of the cursor's `getMore`.
    pub(crate) fn begin(&self, start: &StartPosition) -> Result<(Command, GetMoreOptions)> {
        let mut pipeline = Vec::with_capacity(1 + self.pipeline.len());
        pipeline.push(bson::doc! { "$changeStream": self.stage(start)? });
        pipeline.extend_from_slice(&self.pipeline);
        let options = self.aggregate_options();
        let (mut command, mut more) =
            aggregate::aggregate(self.scope.source(), &pipeline, Some(&options))?;
        // The time-out applies to each iteration, because the stream has no end.
        more.apply_timeout_mode(&mut command, None, CursorType::TailableAwait)?;
        Ok((command, more))
    }

    /// Returns the fields of the `$changeStream` stage.
    fn stage(&self, start: &StartPosition) -> Result<Document> {
        let mut stage = bson::serialize_to_document(&self.options)?;
        if let ChangeStreamScope::Cluster(_) = self.scope {
            stage.insert("allChangesForCluster", true);
        }
        let (key, value) = match start {
            StartPosition::FromOptions => return Ok(stage),
            StartPosition::StartAfter(token) => ("startAfter", Bson::try_from(token.0.clone())?),
            StartPosition::ResumeAfter(token) => ("resumeAfter", Bson::try_from(token.0.clone())?),
            StartPosition::AtOperationTime(time) => {
                ("startAtOperationTime", Bson::Timestamp(*time))
            }
        };
        for other in ["startAfter", "resumeAfter", "startAtOperationTime"] {
            stage.remove(other);
        }
        stage.insert(key, value);
        Ok(stage)
    }

    /// Options of the `aggregate`. `maxAwaitTimeMS` applies to `getMore` only.
    fn aggregate_options(&self) -> AggregateOptions {
        let options = self.options.clone();
        AggregateOptions {
            batch_size: options.batch_size,
            collation: options.collation,
            comment: options.comment,
            max_await_time: options.max_await_time,
            read_concern: options.read_concern,
            selection_criteria: options.selection_criteria,
            timeout: options.timeout,
            ..AggregateOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bson::{Timestamp, doc};
    use steadfast_core::concern::ReadConcern;

    use super::*;
    use crate::{
        change_stream::event::ResumeToken,
        command::{CommandKind, Target},
        operation::fixture::{body, collection, database},
        options::{Collation, FullDocumentBeforeChangeType, FullDocumentType},
    };

    fn token(text: &str) -> ResumeToken {
        ResumeToken(bson::rawdoc! { "_data": text }.into())
    }

    fn plan(options: ChangeStreamOptions) -> ChangeStreamPlan {
        let pipeline = vec![doc! { "$match": { "operationType": "insert" } }];
        ChangeStreamPlan { scope: ChangeStreamScope::Collection(collection()), pipeline, options }
    }

    fn stage_of(plan: &ChangeStreamPlan, start: &StartPosition) -> Document {
        let sent = body(&plan.begin(start).unwrap().0);
        let first = sent.get_array("pipeline").unwrap()[0].as_document().unwrap();
        first.get_document("$changeStream").unwrap().clone()
    }

    #[tokio::test]
    async fn the_stage_comes_before_the_pipeline_of_the_application() {
        let (command, _) =
            plan(ChangeStreamOptions::default()).begin(&StartPosition::FromOptions).unwrap();
        assert_eq!(
            body(&command),
            doc! {
                "aggregate": "books",
                "pipeline": [
                    { "$changeStream": {} }, { "$match": { "operationType": "insert" } },
                ],
                "cursor": {},
            }
        );
        assert_eq!(command.kind, CommandKind::Read);
        assert!(matches!(command.target, Target::Read(_)));
    }

    #[tokio::test]
    async fn database_and_cluster_streams_name_no_collection() {
        let begun = |scope: ChangeStreamScope| {
            let plan = ChangeStreamPlan {
                scope,
                pipeline: vec![],
                options: ChangeStreamOptions::default(),
            };
            let (command, _) = plan.begin(&StartPosition::FromOptions).unwrap();
            (command.database.to_string(), body(&command))
        };
        let (name, sent) = begun(ChangeStreamScope::Database(database()));
        assert_eq!(name, "library");
        assert_eq!(
            sent,
            doc! { "aggregate": 1, "pipeline": [{ "$changeStream": {} }], "cursor": {} }
        );
        let (name, sent) = begun(ChangeStreamScope::cluster(database().client()));
        assert_eq!(name, "admin");
        let stage = doc! { "$changeStream": { "allChangesForCluster": true } };
        assert_eq!(sent, doc! { "aggregate": 1, "pipeline": [stage], "cursor": {} });
    }

    #[tokio::test]
    async fn options_are_sent_in_the_stage_or_in_the_command() {
        let options = ChangeStreamOptions::builder()
            .full_document(FullDocumentType::UpdateLookup)
            .full_document_before_change(FullDocumentBeforeChangeType::Required)
            .start_at_operation_time(Timestamp { time: 5, increment: 1 })
            .start_after(token("after"))
            .resume_after(token("resume"))
            .show_expanded_events(true)
            .max_await_time(Duration::from_millis(7))
            .batch_size(3)
            .collation(Collation::builder().locale("fr").build())
            .comment(Bson::from("note"))
            .read_concern(ReadConcern::majority())
            .build();
        let plan = ChangeStreamPlan { pipeline: vec![], ..plan(options) };
        let (command, more) = plan.begin(&StartPosition::FromOptions).unwrap();
        assert_eq!(
            body(&command),
            doc! {
                "aggregate": "books",
                "pipeline": [{ "$changeStream": {
                    "fullDocument": "updateLookup", "fullDocumentBeforeChange": "required",
                    "startAtOperationTime": Timestamp { time: 5, increment: 1 },
                    "startAfter": { "_data": "after" },
                    "showExpandedEvents": true,
                    "resumeAfter": { "_data": "resume" },
                } }],
                "cursor": { "batchSize": 3 },
                "collation": { "locale": "fr" },
                "comment": "note",
                "readConcern": { "level": "majority" },
            }
        );
        assert_eq!(more.max_time, Some(Duration::from_millis(7)));
        assert_eq!((more.batch_size, more.comment), (Some(3), Some(Bson::from("note"))));
    }

    #[tokio::test]
    async fn resumed_stream_has_one_start_position_and_its_other_options() {
        let options = ChangeStreamOptions::builder()
            .full_document(FullDocumentType::UpdateLookup)
            .start_after(token("first"))
            .build();
        let after_another = plan(options);
        assert_eq!(
            stage_of(&after_another, &StartPosition::StartAfter(token("next"))),
            doc! { "fullDocument": "updateLookup", "startAfter": { "_data": "next" } }
        );
        assert_eq!(
            stage_of(&after_another, &StartPosition::ResumeAfter(token("next"))),
            doc! { "fullDocument": "updateLookup", "resumeAfter": { "_data": "next" } }
        );
        let time = Timestamp { time: 5, increment: 1 };
        let options = ChangeStreamOptions::builder().start_at_operation_time(time).build();
        let at_a_time = plan(options);
        assert_eq!(
            stage_of(&at_a_time, &StartPosition::AtOperationTime(time)),
            doc! { "startAtOperationTime": time }
        );
        assert_eq!(
            stage_of(&at_a_time, &StartPosition::ResumeAfter(token("next"))),
            doc! { "resumeAfter": { "_data": "next" } }
        );
    }
}
