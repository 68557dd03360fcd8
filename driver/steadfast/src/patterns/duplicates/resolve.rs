//! Of the copies of each event, one is chosen and the others are surplus. Pure: documents come in sorted
//! by key, then by age, and at most one of them is held back.

use std::collections::VecDeque;

use super::{
    Keep,
    key::{Event, Place},
};

/// What became of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resolved<D> {
    /// It is the copy to read.
    Chosen(D),
    /// It is another copy of the same event.
    Surplus(D),
    /// It is nobody's copy.
    Apart(D),
}

/// Chooses as documents come.
#[derive(Debug)]
pub(crate) struct Resolver<D> {
    keep: Keep,
    event: Option<Event>,
    /// The latest copy of the event, as long as there may be a later one.
    held: Option<D>,
    /// What has become clear: two documents at most, if they are taken as they come.
    resolved: VecDeque<Resolved<D>>,
}

impl<D> Resolver<D> {
    pub(crate) fn new(keep: Keep) -> Self {
        Self { keep, event: None, held: None, resolved: VecDeque::new() }
    }

    /// The next document in the order of keys and ages.
    pub(crate) fn offer(&mut self, place: Place, document: D) {
        let named = match place {
            Place::Apart(_) => return self.resolved.push_back(Resolved::Apart(document)),
            Place::Ageless(event) => {
                if self.event.as_ref() != Some(&event) {
                    // What is held back comes before it.
                    self.finish();
                }
                return self.resolved.push_back(Resolved::Apart(document));
            }
            Place::Named(named) => named,
        };
        let is_copy = self.event.as_ref() == Some(&named.event);
        if !is_copy {
            self.finish();
            self.event = Some(named.event);
        }
        match self.keep {
            Keep::First if is_copy => self.resolved.push_back(Resolved::Surplus(document)),
            Keep::First => self.resolved.push_back(Resolved::Chosen(document)),
            Keep::Last => {
                let earlier = self.held.replace(document);
                self.resolved.extend(earlier.map(Resolved::Surplus));
            }
        }
    }

    /// No more documents come: what is held back was the last copy.
    pub(crate) fn finish(&mut self) {
        self.resolved.extend(self.held.take().map(Resolved::Chosen));
    }

    /// What has become clear.
    pub(crate) fn next(&mut self) -> Option<Resolved<D>> {
        self.resolved.pop_front()
    }
}

#[cfg(test)]
mod tests;
