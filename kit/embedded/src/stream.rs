//! Change streams: events from majority-committed oplog entries.
//!
//! A stream has a position in the oplog. Each batch starts at the position and ends at the majority
//! commit point. The stream keeps no oplog entries between batches. On a mongos it merges the
//! oplogs of all shards, up to the time at which all of them are known.

mod description;
mod difference;
mod event;
mod resume_token;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bson::Document;
use steadfast_query::{Code, Collections, Environment, Fault, Pipeline, value::format_document};

use super::{
    cursor::{
        AwaitDataSource,
        batch::{CursorBatch, MAX_REPLY_BYTES},
    },
    oplog::{OplogEntry, StreamHistory},
    store::size_of_document,
};

use event::{Event, events};

pub(crate) use event::{SHARD_COLLECTION, StreamTarget, is_internal};
pub(crate) use resume_token::{EventPoint, StreamPosition};

/// Documents that an event includes besides the change (`fullDocument`,
/// `fullDocumentBeforeChange`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageMode {
    /// None.
    Off,
    /// Current document at the time of the lookup (`updateLookup`).
    Lookup,
    /// Document at the time of the event, if it is stored (`whenAvailable`).
    WhenAvailable,
    /// Document at the time of the event, or an error (`required`).
    Required,
}

/// Server version, for fields that depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangeStreamVersion {
    pub(crate) max_wire_version: i32,
}

impl ChangeStreamVersion {
    /// Returns `true` if events have `wallTime` and expanded events exist (6.0 and later).
    pub(crate) fn has_wall_time(self) -> bool {
        self.max_wire_version >= 17
    }

    /// Returns `true` if the oplog stores differences of updates, including truncated arrays (5.0
    /// and later).
    fn stores_differences(self) -> bool {
        self.max_wire_version >= 13
    }

    /// Returns `true` if events have `nsType` (8.1 and later).
    fn has_ns_type(self) -> bool {
        self.max_wire_version >= 26
    }

    /// Returns `true` if events have `disambiguatedPaths` (6.1 and later).
    fn has_disambiguated_paths(self) -> bool {
        self.max_wire_version >= 18
    }

    /// Returns `true` if events have `collectionUUID`, `disambiguatedPaths` and
    /// `operationDescription` without `showExpandedEvents`, and `commitTimestamp` (8.2 and later).
    fn has_default_expanded_fields(self) -> bool {
        self.max_wire_version >= 27
    }
}

/// Options of a change stream.
#[derive(Clone, Debug)]
pub(crate) struct ChangeStreamOptions {
    pub(crate) target: StreamTarget,
    /// `fullDocument`.
    pub(crate) full: ImageMode,
    /// `fullDocumentBeforeChange`.
    pub(crate) before: ImageMode,
    /// `showExpandedEvents`.
    pub(crate) expanded: bool,
    pub(crate) version: ChangeStreamVersion,
}

/// An open change stream.
#[derive(Debug)]
pub(crate) struct ChangeStream {
    options: Arc<ChangeStreamOptions>,
    /// Stages after `$changeStream`.
    pipeline: Pipeline,
    env: Environment,
    position: StreamPosition,
    /// `true` until the event of the resume token has been found in the oplog.
    start_unchecked: bool,
    seen: Option<StreamHistory>,
}

impl ChangeStream {
    /// A stream that starts after a position.
    pub(crate) fn new(
        options: ChangeStreamOptions,
        pipeline: Pipeline,
        env: Environment,
        position: StreamPosition,
    ) -> Self {
        let start_unchecked = position.point != EventPoint::Start;
        let options = Arc::new(options);
        Self { options, pipeline, env, position, start_unchecked, seen: None }
    }

    /// Checks that the position is an event of this stream.
    fn check_start(&mut self, entries: &[Vec<Arc<OplogEntry>>]) -> Result<(), Fault> {
        let shard = self.position.shard;
        let Some(entries) = entries.get(shard as usize) else {
            return Err(resume_token::not_found(self.position));
        };
        let Some(first) = entries.first().filter(|_| self.start_unchecked) else { return Ok(()) };
        let shown = events(first, shard, &self.options);
        if !shown.iter().any(|event| event.position == self.position) {
            return Err(resume_token::not_found(self.position));
        }
        self.start_unchecked = false;
        Ok(())
    }

    /// Result of the pipeline for an event. `None` if the pipeline filters it out.
    fn run_pipeline(
        &self,
        event: &Event<'_>,
        seen: &StreamHistory,
    ) -> Result<Option<Document>, Fault> {
        let document = event.document(&self.options, seen)?;
        let id = document.get("_id").cloned();
        let left = self.pipeline.run(vec![document.into()], &NoCollections, &self.env)?.pop();
        if let Some(left) = &left
            && left.get("_id") != id.as_ref()
        {
            return Err(without_token(event.position, left));
        }
        let size = left.as_ref().map_or(0, size_of_document);
        if size > MAX_REPLY_BYTES {
            return Err(Fault::new(
                Code::DOCUMENT_TOO_LARGE,
                format!(
                    "BSONObj size: {size} (0x{size:X}) is invalid. Size must be between 0 and \
                     {MAX_REPLY_BYTES}(16MB)"
                ),
            ));
        }
        Ok(left)
    }

    /// Fills a batch until it is full, the stream is invalidated, or no entries are left.
    fn fill(
        &mut self,
        batch: &mut CursorBatch,
        max_count: usize,
        seen: &StreamHistory,
    ) -> Result<(), Fault> {
        let entries = seen.after(self.position.floor())?;
        self.check_start(&entries)?;
        let mut bytes = 0;
        for event in merged(&entries, &Arc::clone(&self.options)) {
            if event.position <= self.position {
                continue;
            }
            if batch.documents.len() >= max_count {
                return Ok(());
            }
            let document = self.run_pipeline(&event, seen)?;
            bytes += document.as_ref().map_or(0, size_of_document);
            if bytes > MAX_REPLY_BYTES && !batch.documents.is_empty() {
                return Ok(());
            }
            self.position = event.position;
            batch.documents.extend(document);
            if event.invalidates() {
                batch.finished = true;
                batch.invalidated = true;
                return Ok(());
            }
        }
        self.position = self.position.max(StreamPosition::start(seen.horizon()));
        Ok(())
    }
}

/// Events of all shards in the order of their positions.
fn merged<'a>(
    entries: &'a [Vec<Arc<OplogEntry>>],
    options: &'a ChangeStreamOptions,
) -> impl Iterator<Item = Event<'a>> {
    let of_shard = |(shard, entries): (usize, &'a Vec<Arc<OplogEntry>>)| {
        let shard = u32::try_from(shard).unwrap_or(u32::MAX);
        entries.iter().flat_map(move |entry| events(entry, shard, options)).peekable()
    };
    let mut shards: Vec<_> = entries.iter().enumerate().map(of_shard).collect();
    std::iter::from_fn(move || {
        let next = shards.iter_mut().enumerate().filter_map(|(shard, events)| {
            let position = events.peek()?.position;
            Some((position, shard))
        });
        let (_, shard) = next.min()?;
        shards[shard].next()
    })
}

impl AwaitDataSource for ChangeStream {
    fn set_history(&mut self, seen: &StreamHistory) {
        self.seen = Some(seen.clone());
    }

    fn take(&mut self, max_count: usize) -> Result<CursorBatch, Fault> {
        let mut batch = CursorBatch::default();
        if let Some(seen) = self.seen.take() {
            self.fill(&mut batch, max_count, &seen)?;
        }
        batch.resume_token = Some(self.position.token());
        Ok(batch)
    }
}

/// Error of a pipeline that changes the `_id` of events, the resume token.
fn without_token(position: StreamPosition, left: &Document) -> Fault {
    let expected = bson::doc! { "_id": position.token() };
    let found: Document = left
        .iter()
        .filter(|(name, _)| *name == "_id")
        .map(|(name, id)| (name.clone(), id.clone()))
        .collect();
    Fault::new(
        Code::named(280, "ChangeStreamFatalError"),
        format!(
            "Encountered an event whose _id field, which contains the resume token, was modified by \
             the pipeline. Modifying the _id field of an event makes it impossible to resume the \
             stream from that point. Only transformations that retain the unmodified _id field are \
             allowed. Expected: {} but found: {}",
            format_document(&expected),
            format_document(&found)
        ),
    )
}

/// Environment of a pipeline that may not read collections.
struct NoCollections;

impl Collections for NoCollections {
    fn documents(&self, _: &str, _: &str) -> Vec<std::sync::Arc<Document>> {
        Vec::new()
    }
}
