//! Aggregation expressions: values computed from a document.
//!
//! An expression is parsed once and evaluated for many documents. Constant parts are evaluated
//! while parsing, as in servers, so `{$divide: [1, 0]}` fails without a document.

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
mod rounding;
mod sets;
pub(crate) mod simple_accumulator;
mod size_limit;
mod strings;
mod trigonometry;

use bson::{Bson, Document};

use crate::{Environment, Fault};

use node::{BoundVariable, EvaluationContext, ExpressionNode};
use parse::ExpressionParser;

pub(crate) use arrays::positive_n;
pub(crate) use coerce::int64 as is_whole;
pub(crate) use objects::not_mergeable;
pub(crate) use parse::{field_path, is_operator, plain_field, variable_name};
pub(crate) use size_limit::check_depth;

/// A parsed expression.
#[derive(Clone, Debug)]
pub struct Expression {
    node: ExpressionNode,
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    ///
    /// Fails for unknown operators and undefined variables, with the error codes of servers.
    pub fn parse(expression: &Bson, env: &Environment) -> Result<Self, Fault> {
        Self::parse_with(expression, env, &[])
    }

    /// Parses an expression that can use these variables, too.
    pub(crate) fn parse_with(
        expression: &Bson,
        env: &Environment,
        variables: &[&str],
    ) -> Result<Self, Fault> {
        Ok(Self { node: ExpressionParser::new(env, variables).whole(expression)? })
    }

    /// Creates an expression with a constant value.
    pub(crate) fn literal(value: Bson) -> Self {
        Self { node: ExpressionNode::Constant(Some(value)) }
    }

    /// Evaluates the expression for a document. `None` means a missing value.
    ///
    /// # Errors
    ///
    /// Fails like the operators of a server, for example on a division by zero.
    pub fn evaluate(&self, root: &Document, env: &Environment) -> Result<Option<Bson>, Fault> {
        self.node.evaluate(EvaluationContext::new(root, env))
    }

    /// Evaluates the expression with further variables.
    pub(crate) fn evaluate_with(
        &self,
        root: &Document,
        env: &Environment,
        variables: &[(&str, Option<Bson>)],
    ) -> Result<Option<Bson>, Fault> {
        let context = EvaluationContext::new(root, env);
        self.evaluate_bound(context, variables)
    }

    fn evaluate_bound(
        &self,
        context: EvaluationContext<'_>,
        variables: &[(&str, Option<Bson>)],
    ) -> Result<Option<Bson>, Fault> {
        match variables.split_first() {
            None => self.node.evaluate(context),
            Some(((name, value), rest)) => {
                let bound = BoundVariable::new(name, value, context);
                self.evaluate_bound(context.with(&bound), rest)
            }
        }
    }

    /// Returns the value of a constant expression.
    pub fn constant(&self) -> Option<&Bson> {
        match &self.node {
            ExpressionNode::Constant(value) => value.as_ref(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
