//! Expressions: values computed from a document.
//!
//! An expression is read once and evaluated for many documents. What is constant in it is computed while
//! it is read, as a server does, so that `{$divide: [1, 0]}` is refused even where there is no document.

mod angles;
mod arithmetic;
mod array_order;
mod arrays;
mod binding;
mod calendar;
mod coerce;
mod compare;
mod convert;
mod date_arithmetic;
mod date_text;
mod dates;
mod logic;
mod node;
mod objects;
mod operators;
mod parse;
mod pattern;
mod room;
mod rounding;
mod sets;
mod strings;
pub(crate) mod summary;

use bson::{Bson, Document};

use crate::{Environment, Fault};

use node::{Bound, Context, Node};
use parse::Parser;

pub(crate) use arrays::positive_n;
pub(crate) use coerce::int64 as is_whole;
pub(crate) use objects::not_mergeable;
pub(crate) use parse::{field_path, is_operator, plain_field, variable_name};
pub(crate) use room::check_depth;

/// An expression, checked and ready.
#[derive(Clone, Debug)]
pub struct Expression {
    node: Node,
}

impl Expression {
    /// Reads an expression. Operators that are not known are refused, and so are variables that neither
    /// the expression nor the environment defines.
    pub fn parse(expression: &Bson, env: &Environment) -> Result<Self, Fault> {
        Self::parse_with(expression, env, &[])
    }

    /// The same where these variables are defined besides.
    pub(crate) fn parse_with(
        expression: &Bson,
        env: &Environment,
        variables: &[&str],
    ) -> Result<Self, Fault> {
        Ok(Self { node: Parser::new(env, variables).whole(expression)? })
    }

    /// A value that is the same for all documents.
    pub(crate) fn literal(value: Bson) -> Self {
        Self { node: Node::Constant(Some(value)) }
    }

    /// Its value for a document; `None` where a field is missing.
    pub fn evaluate(&self, root: &Document, env: &Environment) -> Result<Option<Bson>, Fault> {
        self.node.evaluate(Context::new(root, env))
    }

    /// Its value where these variables are defined besides.
    pub(crate) fn evaluate_with(
        &self,
        root: &Document,
        env: &Environment,
        variables: &[(&str, Option<Bson>)],
    ) -> Result<Option<Bson>, Fault> {
        let context = Context::new(root, env);
        self.evaluate_bound(context, variables)
    }

    fn evaluate_bound(
        &self,
        context: Context<'_>,
        variables: &[(&str, Option<Bson>)],
    ) -> Result<Option<Bson>, Fault> {
        match variables.split_first() {
            None => self.node.evaluate(context),
            Some(((name, value), rest)) => {
                let bound = Bound::new(name, value, context);
                self.evaluate_bound(context.with(&bound), rest)
            }
        }
    }

    /// Its value if it is the same for all documents.
    pub fn constant(&self) -> Option<&Bson> {
        match &self.node {
            Node::Constant(value) => value.as_ref(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
