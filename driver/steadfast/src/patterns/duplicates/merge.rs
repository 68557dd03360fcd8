//! Several sorted sources as one: of what they are at, the least is next. Pure: who reads fills it.

use bson::oid::ObjectId;

use super::key::{Event, Place};

/// What a source is at.
#[derive(Debug)]
pub(crate) struct Head<D> {
    /// Which source it is of.
    pub(crate) source: usize,
    pub(crate) place: Place,
    pub(crate) document: D,
}

/// The sources, each with at most one document.
#[derive(Debug)]
pub(crate) struct Merge<D> {
    sources: Vec<Source<D>>,
}

#[derive(Debug)]
enum Source<D> {
    /// Its next document is to be read.
    Empty,
    At(Place, D),
    Ended,
}

impl<D> Merge<D> {
    pub(crate) fn of(sources: usize) -> Self {
        Self { sources: (0..sources).map(|_| Source::Empty).collect() }
    }

    /// The source to read from before anything can be taken.
    pub(crate) fn wants(&self) -> Option<usize> {
        self.sources.iter().position(|source| matches!(source, Source::Empty))
    }

    /// What was read from a source; `None` at its end.
    pub(crate) fn fill(&mut self, source: usize, read: Option<(Place, D)>) {
        self.sources[source] =
            read.map_or(Source::Ended, |(place, document)| Source::At(place, document));
    }

    /// The next document; `None` at the end of all.
    ///
    /// One that stands apart is given as soon as it is there. Where a server sorts it among the others
    /// depends on what it has in place of a key; that the others are in order does not.
    pub(crate) fn take(&mut self) -> Option<Head<D>> {
        let mut least: Option<(usize, (&Event, Option<ObjectId>))> = None;
        for (index, source) in self.sources.iter().enumerate() {
            let at = match source {
                Source::At(Place::Apart(_), _) => return self.take_from(index),
                Source::At(Place::Named(named), _) => (&named.event, Some(named.id)),
                Source::At(Place::Ageless(event), _) => (event, None),
                Source::Empty | Source::Ended => continue,
            };
            if least.is_none_or(|(_, other)| at < other) {
                least = Some((index, at));
            }
        }
        let (source, _) = least?;
        self.take_from(source)
    }

    fn take_from(&mut self, source: usize) -> Option<Head<D>> {
        match std::mem::replace(&mut self.sources[source], Source::Empty) {
            Source::At(place, document) => Some(Head { source, place, document }),
            Source::Empty | Source::Ended => None,
        }
    }
}
