//! Change streams: what has been written, told event by event to who watches.
//!
//! A stream stands somewhere in the log. Each time it is asked it goes on from there, up to what most
//! members have, and makes events of the entries that are about its subject. It keeps nothing of the
//! log between two questions. Through a mongos, it reads the logs of all shards, in the order of
//! their times, up to where all of them are known.

mod description;
mod difference;
mod event;
#[cfg(test)]
mod tests;
mod token;

use std::sync::Arc;

use bson::Document;
use steadfast_query::{Code, Collections, Environment, Fault, Pipeline, value::format_document};

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

/// Which documents an event shows besides what changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Images {
    /// None.
    Off,
    /// The document as it is when the event is told (`updateLookup`).
    Lookup,
    /// The document at the time of the event, if it was kept.
    WhenAvailable,
    /// The same, and it is an error if it was not kept.
    Required,
}

/// What a server of some version tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    pub(crate) max_wire_version: i32,
}

impl Version {
    /// `wallTime`, and events that have to be asked for: 6.0 and later.
    pub(crate) fn tells_time(self) -> bool {
        self.max_wire_version >= 17
    }

    /// Whether its log has what an update changed, array elements that went among it: 5.0 and later.
    fn has_differences(self) -> bool {
        self.max_wire_version >= 13
    }

    /// `nsType`: 8.1 and later.
    fn names_types(self) -> bool {
        self.max_wire_version >= 26
    }

    /// `disambiguatedPaths`: 6.1 and later.
    fn disambiguates(self) -> bool {
        self.max_wire_version >= 18
    }

    /// `collectionUUID`, `disambiguatedPaths` and `operationDescription` without `showExpandedEvents`,
    /// and `commitTimestamp`: 8.2 and later.
    fn tells_all(self) -> bool {
        self.max_wire_version >= 27
    }
}

/// What a stream is about and how it is told.
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

/// A change stream that somebody watches.
#[derive(Debug)]
pub(crate) struct Stream {
    options: Arc<Options>,
    /// What becomes of its events.
    pipeline: Pipeline,
    env: Environment,
    position: Position,
    /// Whether it was not seen yet that the log has the event that it goes on after.
    unproved: bool,
    seen: Option<Histories>,
}

impl Stream {
    /// One that goes on after a position.
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

    /// Makes sure that it goes on after an event of its own.
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

    /// What its pipeline leaves of an event.
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

    /// Fills a batch, until it is full, the stream ends or there are no more entries.
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

/// The events of the entries of all shards, in the order of their positions.
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

/// An event must be one that the stream can go on after.
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
            format_document(&expected),
            format_document(&found)
        ),
    )
}

/// The stages that a stream may have read no collection.
struct Nothing;

impl Collections for Nothing {
    fn documents(&self, _: &str, _: &str) -> Vec<std::sync::Arc<Document>> {
        Vec::new()
    }
}
