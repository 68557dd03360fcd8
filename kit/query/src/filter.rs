//! Which documents a filter matches.

mod bits;
mod clause;
mod node;
mod operators;
mod parse;
mod pattern;
mod types;

use bson::{Bson, Document};

use crate::{Collation, Environment, Fault};

use node::{Node, Search};

pub(crate) use bits::stored_bytes;

/// What is known of a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Matched {
    /// Which element of an array the positional operator `$` stands for.
    pub position: Option<usize>,
}

/// A filter, checked and ready.
#[derive(Clone, Debug)]
pub struct Filter {
    /// In the order that a server searches in.
    root: Node,
    /// In the order in which it is written, if it has several parts: what a projection goes by.
    written: Option<Box<Node>>,
    collation: Collation,
}

impl Filter {
    /// Reads a filter. Operators that are not known are refused. Its strings compare as the
    /// environment says that it is read in.
    pub fn parse(filter: &Document, environment: &Environment) -> Result<Self, Fault> {
        let collation = environment.collation.clone();
        let node = parse::filter(filter, environment)?.optimized(&collation);
        Ok(match node.sorted() {
            Some(root) => Self { root, written: Some(Box::new(node)), collation },
            None => Self { root: node, written: None, collation },
        })
    }

    /// Whether it matches a document.
    pub fn matches(&self, document: &Document, env: &Environment) -> Result<bool, Fault> {
        Search::new(&self.collation, env).matches(&self.root, document)
    }

    /// The same, and what the match says of the positional operator `$`.
    pub fn matched(
        &self,
        document: &Document,
        env: &Environment,
    ) -> Result<Option<Matched>, Fault> {
        let mut search = Search::new(&self.collation, env);
        let matches = search.matches(&self.root, document)?;
        Ok(matches.then_some(Matched { position: search.position }))
    }

    /// Which element the `$` of a projection stands for: not always the one that an update changes.
    pub(crate) fn projected_position(
        &self,
        document: &Document,
        env: &Environment,
    ) -> Result<Option<usize>, Fault> {
        let mut search = Search::new(&self.collation, env);
        search.matches(self.written.as_deref().unwrap_or(&self.root), document)?;
        Ok(search.position)
    }

    /// What the fields must equal for it to match: `{a: 1}`, `{a: {$eq: 1}}`, also inside `$and`. An
    /// upsert begins with them; an index is chosen by them. A path that is named twice is there twice.
    pub fn equalities(&self) -> Vec<(String, Bson)> {
        let mut found = Vec::new();
        self.root.equalities(&mut |path, value| found.push((path.text(), value.clone())));
        found
    }

    /// The `_id`s of which a document must have one for it to match, if it names them all.
    pub fn named_ids(&self) -> Option<&[Bson]> {
        let mut named = None;
        self.root.alternatives(&mut |path, values| {
            if path.is("_id") && values.iter().all(|it| self.collation.is_exact_for(it)) {
                named = Some(values);
            }
        });
        named
    }

    /// The field that it speaks of, if it is one clause of one field that is not inside another.
    pub(crate) fn only_field(&self) -> Option<&str> {
        match &self.root {
            Node::Field(path, _) => path.only(),
            _ => None,
        }
    }

    /// Whether it has an `$expr`, which an upsert must not.
    pub fn has_expression(&self) -> bool {
        self.root.has_expression()
    }
}

#[cfg(test)]
mod tests;
