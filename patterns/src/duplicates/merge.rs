//! Merge of sorted sources: the least of their next documents comes next. Pure: the caller reads the sources.

use bson::oid::ObjectId;

use super::key::{Event, KeyPosition};

/// Next document of a source.
#[derive(Debug)]
pub(crate) struct Head<D> {
    /// Index of the source.
    pub(crate) source: usize,
    pub(crate) place: KeyPosition,
    pub(crate) document: D,
}

/// Sources, each with at most one document.
#[derive(Debug)]
pub(crate) struct Merge<D> {
    sources: Vec<Source<D>>,
}

#[derive(Debug)]
enum Source<D> {
    /// The next document has to be read.
    Empty,
    At(KeyPosition, D),
    Ended,
}

impl<D> Merge<D> {
    pub(crate) fn of(sources: usize) -> Self {
        Self { sources: (0..sources).map(|_| Source::Empty).collect() }
    }

    /// Returns a source that has to be read before a document can be taken.
    pub(crate) fn source_to_read(&self) -> Option<usize> {
        self.sources.iter().position(|source| matches!(source, Source::Empty))
    }

    /// Sets the document that was read from a source; `None` at its end.
    pub(crate) fn fill(&mut self, source: usize, read: Option<(KeyPosition, D)>) {
        self.sources[source] =
            read.map_or(Source::Ended, |(place, document)| Source::At(place, document));
    }

    /// Returns the next document; `None` at the end of all.
    ///
    /// A document that is not a copy is returned at once. Its place in the server's sort depends on what it has
    /// instead of a key; the order of the others does not.
    pub(crate) fn take(&mut self) -> Option<Head<D>> {
        let mut least: Option<(usize, (&Event, Option<ObjectId>))> = None;
        for (index, source) in self.sources.iter().enumerate() {
            let at = match source {
                Source::At(KeyPosition::NotACopy(_), _) => return self.take_from(index),
                Source::At(KeyPosition::EventCopy(named), _) => (&named.event, Some(named.id)),
                Source::At(KeyPosition::WithoutAge(event), _) => (event, None),
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
