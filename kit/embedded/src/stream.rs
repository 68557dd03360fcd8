//! Change streams: events from majority-committed oplog entries.
//!
//! A stream has a position in the oplog. Each batch starts at the position and ends at the majority
//! commit point. The stream keeps no oplog entries between batches. On a mongos it merges the
//! oplogs of all shards, up to the time at which all of them are known.

mod description;
mod difference;
mod event;
#[cfg(test)]
mod tests;
mod token;

use std::sync::Arc;

use bson::Document;
use steadfast_query::{Code, Collections, Environment, Fault, Pipeline, value::show_document};

use super::{
    cursor::{
        Live,
        batch::{Batch, MOST_BYTES},
    },
    log::{Entry, Histories},
    store::size_of_document,
};

use event::{Event, events};

pub(crate) use event::{SHARD_COLLECTION, Subject, is_internal};
pub(crate) use token::{Point, Position};

/// Documents that an event includes besides the change (`fullDocument`,
/// `fullDocumentBeforeChange`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Images {
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
pub(crate) struct Version {
    pub(crate) max_wire_version: i32,
}

impl Version {
    /// Returns `true` if events have `wallTime` and expanded events exist (6.0 and later).
    pub(crate) fn tells_time(self) -> bool {
        self.max_wire_version >= 17
    }

    /// Returns `true` if the oplog stores differences of updates, including truncated arrays (5.0
    /// and later).
    fn has_differences(self) -> bool {
        self.max_wire_version >= 13
    }

    /// Returns `true` if events have `nsType` (8.1 and later).
    fn names_types(self) -> bool {
        self.max_wire_version >= 26
    }

    /// Returns `true` if events have `disambiguatedPaths` (6.1 and later).
    fn disambiguates(self) -> bool {
        self.max_wire_version >= 18
    }

    /// Returns `true` if events have `collectionUUID`, `disambiguatedPaths` and
    /// `operationDescription` without `showExpandedEvents`, and `commitTimestamp` (8.2 and later).
    fn tells_all(self) -> bool {
        self.max_wire_version >= 27
    }
}

/// Options of a change stream.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) subject: Subject,
    /// `fullDocument`.
    pub(crate) full: Images,
    /// `fullDocumentBeforeChange`.
    pub(crate) before: Images,
    /// `showExpandedEvents`.
    pub(crate) expanded: bool,
    pub(crate) version: Version,
}

/// An open change stream.
#[derive(Debug)]
pub(crate) struct Stream {
    options: Arc<Options>,
    /// Stages after `$changeStream`.
    pipeline: Pipeline,
    env: Environment,
    position: Position,
    /// `true` until the event of the resume token has been found in the oplog.
    unproved: bool,
    seen: Option<Histories>,
}

impl Stream {
    /// A stream that starts after a position.
    pub(crate) fn new(
        options: Options,
        pipeline: Pipeline,
        env: Environment,
        position: Position,
    ) -> Self {
        let unproved = position.point != Point::Start;
        let options = Arc::new(options);
        Self { options, pipeline, env, position, unproved, seen: None }
    }

    /// Checks that the position is an event of this stream.
    fn prove(&mut self, entries: &[Vec<Arc<Entry>>]) -> Result<(), Fault> {
        let shard = self.position.shard;
        let Some(entries) = entries.get(shard as usize) else {
            return Err(token::not_found(self.position));
        };
        let Some(first) = entries.first().filter(|_| self.unproved) else { return Ok(()) };
        let told = events(first, shard, &self.options);
        if !told.iter().any(|event| event.position == self.position) {
            return Err(token::not_found(self.position));
        }
        self.unproved = false;
        Ok(())
    }

    /// Result of the pipeline for an event. `None` if the pipeline filters it out.
    fn shaped(&self, event: &Event<'_>, seen: &Histories) -> Result<Option<Document>, Fault> {
        let document = event.document(&self.options, seen)?;
        let id = document.get("_id").cloned();
        let left = self.pipeline.run(vec![document.into()], &Nothing, &self.env)?.pop();
        if let Some(left) = &left
            && left.get("_id") != id.as_ref()
        {
            return Err(without_token(event.position, left));
        }
        let size = left.as_ref().map_or(0, size_of_document);
        if size > MOST_BYTES {
            return Err(Fault::new(
                Code::DOCUMENT_TOO_LARGE,
                format!(
                    "BSONObj size: {size} (0x{size:X}) is invalid. Size must be between 0 and \
                     {MOST_BYTES}(16MB)"
                ),
            ));
        }
        Ok(left)
    }

    /// Fills a batch until it is full, the stream is invalidated, or no entries are left.
    fn fill(&mut self, batch: &mut Batch, most: usize, seen: &Histories) -> Result<(), Fault> {
        let entries = seen.after(self.position.floor())?;
        self.prove(&entries)?;
        let mut bytes = 0;
        for event in merged(&entries, &Arc::clone(&self.options)) {
            if event.position <= self.position {
                continue;
            }
            if batch.documents.len() >= most {
                return Ok(());
            }
            let document = self.shaped(&event, seen)?;
            bytes += document.as_ref().map_or(0, size_of_document);
            if bytes > MOST_BYTES && !batch.documents.is_empty() {
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
        self.position = self.position.max(Position::start(seen.horizon()));
        Ok(())
    }
}

/// Events of all shards in the order of their positions.
fn merged<'a>(
    entries: &'a [Vec<Arc<Entry>>],
    options: &'a Options,
) -> impl Iterator<Item = Event<'a>> {
    let of_shard = |(shard, entries): (usize, &'a Vec<Arc<Entry>>)| {
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

impl Live for Stream {
    fn see(&mut self, seen: &Histories) {
        self.seen = Some(seen.clone());
    }

    fn take(&mut self, most: usize) -> Result<Batch, Fault> {
        let mut batch = Batch::default();
        if let Some(seen) = self.seen.take() {
            self.fill(&mut batch, most, &seen)?;
        }
        batch.resume_token = Some(self.position.token());
        Ok(batch)
    }
}

/// Error of a pipeline that changes the `_id` of events, the resume token.
fn without_token(position: Position, left: &Document) -> Fault {
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
            show_document(&expected),
            show_document(&found)
        ),
    )
}

/// Environment of a pipeline that may not read collections.
struct Nothing;

impl Collections for Nothing {
    fn documents(&self, _: &str, _: &str) -> Vec<std::sync::Arc<Document>> {
        Vec::new()
    }
}
