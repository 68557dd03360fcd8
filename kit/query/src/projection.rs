//! Projections of `find` and `findAndModify`.

mod apply;
mod parse;

use bson::Document;

use crate::{Environment, Expression, Fault, Filter};

/// A parsed projection.
#[derive(Clone, Debug)]
pub struct Projection {
    kind: ProjectionKind,
    /// `false` if `_id` is excluded by name.
    id: bool,
    root: ProjectedFields,
    /// `$slice`, applied last.
    slices: Vec<(Vec<String>, Slice)>,
    /// Path before the `$` of a positional projection (`a.$`).
    positional: Option<Vec<String>>,
}

/// Kind of the projection: named fields are included or excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProjectionKind {
    Inclusion,
    Exclusion,
}

/// Projected fields, in the written order.
#[derive(Clone, Debug, Default)]
struct ProjectedFields {
    fields: Vec<(String, FieldProjection)>,
}

#[derive(Clone, Debug)]
enum FieldProjection {
    /// Included or excluded.
    Named,
    /// Included, cut by a `$slice`.
    Sliced,
    /// Nested fields.
    Nested(ProjectedFields),
    /// Computed.
    Computed(Box<Expression>),
    /// `$elemMatch`: the first matching element.
    Element(Box<Filter>),
}

/// Range of a `$slice`.
#[derive(Clone, Copy, Debug)]
enum Slice {
    First(usize),
    Last(usize),
    /// Elements from an index on. Negative indexes count from the end.
    Range {
        skip: i64,
        limit: usize,
    },
}

impl Projection {
    /// Parses the projection of a `find` or `findAndModify`.
    ///
    /// # Errors
    ///
    /// Fails for invalid projections, with the error codes of servers.
    pub fn parse(projection: &Document, env: &Environment) -> Result<Self, Fault> {
        parse::projection(projection, env)
    }

    /// Projects a document that the filter matched. Positional projections use the filter.
    ///
    /// # Errors
    ///
    /// Fails if an expression or a positional projection fails.
    pub fn apply(
        &self,
        document: &Document,
        filter: &Filter,
        env: &Environment,
    ) -> Result<Document, Fault> {
        apply::projected(self, document, filter, env)
    }
}

impl ProjectedFields {
    fn field(&self, name: &str) -> Option<&FieldProjection> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, field)| field)
    }

    /// Returns `true` if the projection can add fields.
    fn computes(&self) -> bool {
        self.fields.iter().any(|(_, field)| field.computes())
    }
}

impl FieldProjection {
    fn computes(&self) -> bool {
        match self {
            Self::Named | Self::Sliced => false,
            Self::Nested(branch) => branch.computes(),
            Self::Computed(_) | Self::Element(_) => true,
        }
    }
}

#[cfg(test)]
mod tests;
