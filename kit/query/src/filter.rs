//! Query filters.

mod bits;
mod clause;
mod node;
mod operators;
mod parse;
mod pattern;
mod types;

use bson::{Bson, Document};

use crate::{Collation, Environment, Fault};

use node::{FilterNode, FilterSearch};

pub(crate) use bits::stored_bytes;

/// Details of a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterMatch {
    /// Index of the matched array element, for the positional operator `$`.
    pub position: Option<usize>,
}

/// A parsed filter.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Conditions in the order in which servers evaluate them.
    root: FilterNode,
    /// Conditions in the written order, if there are several. Positional projections use it.
    written: Option<Box<FilterNode>>,
    collation: Collation,
}

impl Filter {
    /// Parses a filter. Strings compare by the collation of `environment`.
    ///
    /// # Errors
    ///
    /// Fails for unknown operators and invalid arguments, with the error codes of servers.
    pub fn parse(filter: &Document, environment: &Environment) -> Result<Self, Fault> {
        let collation = environment.collation.clone();
        let node = parse::filter(filter, environment)?.optimized(&collation);
        Ok(match node.sorted() {
            Some(root) => Self { root, written: Some(Box::new(node)), collation },
            None => Self { root: node, written: None, collation },
        })
    }

    /// Returns `true` if the filter matches the document.
    ///
    /// # Errors
    ///
    /// Fails if an `$expr` fails.
    pub fn matches(&self, document: &Document, env: &Environment) -> Result<bool, Fault> {
        FilterSearch::new(&self.collation, env).matches(&self.root, document)
    }

    /// Matches a document and returns the position for the positional operator `$`.
    ///
    /// # Errors
    ///
    /// Fails if an `$expr` fails.
    pub fn matched(
        &self,
        document: &Document,
        env: &Environment,
    ) -> Result<Option<FilterMatch>, Fault> {
        let mut search = FilterSearch::new(&self.collation, env);
        let matches = search.matches(&self.root, document)?;
        Ok(matches.then_some(FilterMatch { position: search.position }))
    }

    /// Returns the array index for a positional projection. It can differ from that of an update.
    pub(crate) fn projected_position(
        &self,
        document: &Document,
        env: &Environment,
    ) -> Result<Option<usize>, Fault> {
        let mut search = FilterSearch::new(&self.collation, env);
        search.matches(self.written.as_deref().unwrap_or(&self.root), document)?;
        Ok(search.position)
    }

    /// Returns the equality conditions: `{a: 1}`, `{a: {$eq: 1}}`, also inside `$and`. Upserts
    /// start with them, and index lookups use them. A path can occur twice.
    pub fn equalities(&self) -> Vec<(String, Bson)> {
        let mut found = Vec::new();
        self.root.equalities(&mut |path, value| found.push((path.text(), value.clone())));
        found
    }

    /// Returns the values of `_id` that can match, if the filter restricts them to a list.
    pub fn id_candidates(&self) -> Option<&[Bson]> {
        let mut named = None;
        self.root.alternatives(&mut |path, values| {
            if path.is("_id") && values.iter().all(|it| self.collation.is_exact_for(it)) {
                named = Some(values);
            }
        });
        named
    }

    /// Returns the field of a filter with a single condition on a top-level field.
    pub(crate) fn only_field(&self) -> Option<&str> {
        match &self.root {
            FilterNode::Field(path, _) => path.only(),
            _ => None,
        }
    }

    /// Returns `true` if the filter has an `$expr`, which upserts do not permit.
    pub fn has_expression(&self) -> bool {
        self.root.has_expression()
    }
}

#[cfg(test)]
mod tests;
