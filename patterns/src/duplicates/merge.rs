//! Merge of sorted sources: the least of their next documents comes next. Pure: the caller reads the sources.

use bson::oid::ObjectId;

use super::key::{EventKey, KeyPosition};

/// Next document of a source.
#[derive(Debug)]
pub(crate) struct SourceDocument<D> {
    /// Index of the source.
    pub(crate) source: usize,
    pub(crate) position: KeyPosition,
    pub(crate) document: D,
}

/// Sources, each with at most one document in memory.
#[derive(Debug)]
pub(crate) struct Merge<D> {
    sources: Vec<SourceState<D>>,
}

#[derive(Debug)]
enum SourceState<D> {
    /// The next document has not been read.
    Empty,
    At(KeyPosition, D),
    Ended,
}

impl<D> Merge<D> {
    pub(crate) fn of(sources: usize) -> Self {
        Self { sources: (0..sources).map(|_| SourceState::Empty).collect() }
    }

    /// Returns a source that has to be read before a document can be taken.
    pub(crate) fn source_to_read(&self) -> Option<usize> {
        self.sources.iter().position(|source| matches!(source, SourceState::Empty))
    }

    /// Sets the document that was read from a source; `None` at its end.
    pub(crate) fn fill(&mut self, source: usize, read: Option<(KeyPosition, D)>) {
        self.sources[source] = read
            .map_or(SourceState::Ended, |(position, document)| SourceState::At(position, document));
    }

    /// Returns the next document; `None` at the end of all.
    ///
    /// A document that is not a copy is returned at once: a server sorts it by the value that it has instead of a
    /// key, which does not affect the order of the others.
    pub(crate) fn take(&mut self) -> Option<SourceDocument<D>> {
        let mut least: Option<(usize, (&EventKey, Option<ObjectId>))> = None;
        for (index, source) in self.sources.iter().enumerate() {
            let at = match source {
                SourceState::At(KeyPosition::NotACopy(_), _) => return self.take_from(index),
                SourceState::At(KeyPosition::EventCopy(copy), _) => (&copy.event, Some(copy.id)),
                SourceState::At(KeyPosition::WithoutAge(event), _) => (event, None),
                SourceState::Empty | SourceState::Ended => continue,
            };
            if least.is_none_or(|(_, other)| at < other) {
                least = Some((index, at));
            }
        }
        let (source, _) = least?;
        self.take_from(source)
    }

    fn take_from(&mut self, source: usize) -> Option<SourceDocument<D>> {
        match std::mem::replace(&mut self.sources[source], SourceState::Empty) {
            SourceState::At(position, document) => {
                Some(SourceDocument { source, position, document })
            }
            SourceState::Empty | SourceState::Ended => None,
        }
    }
}
