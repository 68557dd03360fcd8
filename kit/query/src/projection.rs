//! Which fields of a document `find` gives.

mod apply;
mod parse;

use bson::Document;

use crate::{Environment, Expression, Fault, Filter};

/// A projection, checked and ready.
#[derive(Clone, Debug)]
pub struct Projection {
    kind: Kind,
    /// Whether `_id` is given: it is unless it is left out by name.
    id: bool,
    root: Branch,
    /// `$slice`, applied to what the rest leaves.
    slices: Vec<(Vec<String>, Slice)>,
    /// `a.$`: the path before the `$`.
    positional: Option<Vec<String>>,
}

/// Whether fields are named that are given, or that are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Inclusion,
    Exclusion,
}

/// What becomes of the fields of a document, in the order in which they are named.
#[derive(Clone, Debug, Default)]
struct Branch {
    fields: Vec<(String, Twig)>,
}

#[derive(Clone, Debug)]
enum Twig {
    /// It is given, or left out.
    Named,
    /// It is given, cut by a `$slice`.
    Sliced,
    /// So it is with fields of it.
    Branch(Branch),
    /// It is computed.
    Computed(Box<Expression>),
    /// `$elemMatch`: the first element that matches, as a filter of the array sees it.
    Element(Box<Filter>),
}

/// Which elements of an array are given.
#[derive(Clone, Copy, Debug)]
enum Slice {
    First(usize),
    Last(usize),
    /// From an index on; a negative one counts from the end.
    Range {
        skip: i64,
        limit: usize,
    },
}

impl Projection {
    /// Reads the projection of a `find` or a findAndModify. The filter is for its `$`.
    pub fn parse(projection: &Document, env: &Environment) -> Result<Self, Fault> {
        parse::projection(projection, env)
    }

    /// What it leaves of a document that this filter matched.
    pub fn apply(
        &self,
        document: &Document,
        filter: &Filter,
        env: &Environment,
    ) -> Result<Document, Fault> {
        apply::projected(self, document, filter, env)
    }
}

impl Branch {
    fn twig(&self, name: &str) -> Option<&Twig> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, twig)| twig)
    }

    /// Whether it makes fields that a document may not have.
    fn computes(&self) -> bool {
        self.fields.iter().any(|(_, twig)| twig.computes())
    }
}

impl Twig {
    fn computes(&self) -> bool {
        match self {
            Self::Named | Self::Sliced => false,
            Self::Branch(branch) => branch.computes(),
            Self::Computed(_) | Self::Element(_) => true,
        }
    }
}

#[cfg(test)]
mod tests;
