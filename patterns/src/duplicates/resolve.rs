//! Choice of one copy of each event; the others are surplus. Pure. Its input is sorted by key, then by age; it
//! holds back at most one document.

use std::collections::VecDeque;

use super::{
    Keep,
    key::{EventKey, KeyPosition},
};

/// Classified document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resolved<D> {
    /// The copy to return.
    Chosen(D),
    /// Another copy of the same event.
    Surplus(D),
    /// Not a copy.
    NotACopy(D),
}

/// Classifies documents in the order of their keys.
#[derive(Debug)]
pub(crate) struct Resolver<D> {
    keep: Keep,
    event: Option<EventKey>,
    /// Latest copy of the event, as long as a later one may follow.
    held: Option<D>,
    /// Classified documents: two at most, if they are taken as they come.
    resolved: VecDeque<Resolved<D>>,
}

impl<D> Resolver<D> {
    pub(crate) fn new(keep: Keep) -> Self {
        Self { keep, event: None, held: None, resolved: VecDeque::new() }
    }

    /// Adds the next document in the order of keys and ages.
    pub(crate) fn offer(&mut self, position: KeyPosition, document: D) {
        let copy = match position {
            KeyPosition::NotACopy(_) => {
                return self.resolved.push_back(Resolved::NotACopy(document));
            }
            KeyPosition::WithoutAge(event) => {
                if self.event.as_ref() != Some(&event) {
                    // The document that is held back comes before it.
                    self.finish();
                }
                return self.resolved.push_back(Resolved::NotACopy(document));
            }
            KeyPosition::EventCopy(copy) => copy,
        };
        let is_copy = self.event.as_ref() == Some(&copy.event);
        if !is_copy {
            self.finish();
            self.event = Some(copy.event);
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

    /// Ends the input: the document that is held back is the last copy.
    pub(crate) fn finish(&mut self) {
        self.resolved.extend(self.held.take().map(Resolved::Chosen));
    }

    /// Returns the next classified document.
    pub(crate) fn next(&mut self) -> Option<Resolved<D>> {
        self.resolved.pop_front()
    }
}

#[cfg(test)]
mod tests;
