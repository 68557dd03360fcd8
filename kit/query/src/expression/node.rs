//! Tree of a parsed expression, and its evaluation.

use bson::{Bson, Document};

use super::{operators::AggregationOperator, pattern::ExpressionRegex, size_limit::SizeLimit};
use crate::{Environment, Fault};

/// A value. `None` means missing.
pub(super) type Value = Option<Bson>;

/// A node of an expression.
#[derive(Clone, Debug)]
pub(super) enum ExpressionNode {
    Constant(Value),
    /// A path: `$a.b`, `$$name.b`.
    Path {
        variable: Variable,
        fields: Vec<String>,
    },
    Document(Vec<(String, ExpressionNode)>),
    Array(Vec<ExpressionNode>),
    Call(Box<Call>),
}

/// Start of a path.
#[derive(Clone, Debug)]
pub(super) enum Variable {
    Root,
    Now,
    ClusterTime,
    Named(String),
}

/// Call of an operator. Arguments are in the operator's order; `None` was not given.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) operator: &'static AggregationOperator,
    pub(super) arguments: Vec<Option<ExpressionNode>>,
    /// Variables that the call binds.
    pub(super) names: Vec<String>,
    /// State that was computed while parsing.
    pub(super) precomputed: Precomputed,
}

/// State of an operator that was computed while parsing.
#[derive(Clone, Debug, Default)]
pub(super) enum Precomputed {
    #[default]
    Nothing,
    /// Regular expression, if it is constant.
    Pattern(Option<ExpressionRegex>),
    /// Order of `$sortArray` by fields.
    Order(crate::Sort),
}

/// Inputs of an evaluation.
#[derive(Clone, Copy)]
pub(super) struct EvaluationContext<'a> {
    root: &'a Document,
    env: &'a Environment,
    bound: Option<&'a BoundVariable<'a>>,
}

/// A bound variable, linked to those of outer scopes.
pub(super) struct BoundVariable<'a> {
    name: &'a str,
    value: &'a Value,
    outer: Option<&'a BoundVariable<'a>>,
}

impl<'a> BoundVariable<'a> {
    pub(super) fn new(name: &'a str, value: &'a Value, context: EvaluationContext<'a>) -> Self {
        Self { name, value, outer: context.bound }
    }
}

impl<'a> EvaluationContext<'a> {
    pub(super) fn new(root: &'a Document, env: &'a Environment) -> Self {
        Self { root, env, bound: None }
    }

    pub(super) fn with(self, bound: &'a BoundVariable<'a>) -> Self {
        Self { bound: Some(bound), ..self }
    }

    fn variable(&self, name: &str) -> Option<&'a Bson> {
        let mut bound = self.bound;
        while let Some(it) = bound {
            if it.name == name {
                return it.value.as_ref();
            }
            bound = it.outer;
        }
        self.env.variables.get(name)
    }
}

impl ExpressionNode {
    pub(super) fn constant(&self) -> Option<&Value> {
        match self {
            Self::Constant(value) => Some(value),
            Self::Path { .. } | Self::Document(_) | Self::Array(_) | Self::Call(_) => None,
        }
    }

    pub(super) fn evaluate(&self, context: EvaluationContext<'_>) -> Result<Value, Fault> {
        match self {
            Self::Constant(value) => Ok(value.clone()),
            Self::Path { variable, fields } => Ok(follow(variable, fields, context)),
            Self::Document(fields) => {
                let mut document = Document::new();
                let mut limit = SizeLimit::new("an object");
                for (name, node) in fields {
                    if let Some(value) = node.evaluate(context)? {
                        limit.take(&value)?;
                        document.insert(name.as_str(), value);
                    }
                }
                Ok(Some(document.into()))
            }
            Self::Array(nodes) => {
                let mut array = Vec::with_capacity(nodes.len());
                let mut limit = SizeLimit::new("an array");
                for node in nodes {
                    let value = node.evaluate(context)?.unwrap_or(Bson::Null);
                    limit.take(&value)?;
                    array.push(value);
                }
                Ok(Some(array.into()))
            }
            Self::Call(call) => (call.operator.function)(&Arguments { call, context }),
        }
    }
}

fn follow(variable: &Variable, fields: &[String], context: EvaluationContext<'_>) -> Value {
    match variable {
        Variable::Root if fields.is_empty() => Some(context.root.clone().into()),
        Variable::Root => descend(context.root, fields),
        Variable::Now => within(&context.env.now.into(), fields),
        Variable::ClusterTime => within(&context.env.cluster_time.into(), fields),
        Variable::Named(name) => within(context.variable(name)?, fields),
    }
}

fn descend(document: &Document, fields: &[String]) -> Value {
    let (first, rest) = fields.split_first()?;
    within(document.get(first)?, rest)
}

/// Evaluates a path. A path enters the documents of an array, not nested arrays, and returns an
/// array.
fn within(value: &Bson, fields: &[String]) -> Value {
    if fields.is_empty() {
        return Some(value.clone());
    }
    match value {
        Bson::Document(document) => descend(document, fields),
        Bson::Array(array) => {
            let documents = array.iter().filter_map(Bson::as_document);
            Some(Bson::Array(documents.filter_map(|it| descend(it, fields)).collect()))
        }
        _ => None,
    }
}

/// Arguments of a call, evaluated on access.
pub(super) struct Arguments<'a> {
    call: &'a Call,
    context: EvaluationContext<'a>,
}

impl<'a> Arguments<'a> {
    /// Name of the operator, with `$`.
    pub(super) fn name(&self) -> &'static str {
        self.call.operator.name
    }

    pub(super) fn env(&self) -> &'a Environment {
        self.context.env
    }

    pub(super) fn len(&self) -> usize {
        self.call.arguments.len()
    }

    pub(super) fn names(&self) -> &'a [String] {
        &self.call.names
    }

    pub(super) fn precomputed(&self) -> &'a Precomputed {
        &self.call.precomputed
    }

    pub(super) fn given(&self, index: usize) -> bool {
        self.call.arguments.get(index).is_some_and(Option::is_some)
    }

    /// Evaluates an argument. Missing if it was not given.
    pub(super) fn value(&self, index: usize) -> Result<Value, Fault> {
        self.value_in(index, self.context)
    }

    /// Evaluates an argument with one more variable.
    pub(super) fn value_with(
        &self,
        index: usize,
        name: &str,
        value: &Value,
    ) -> Result<Value, Fault> {
        self.value_in(index, self.context.with(&BoundVariable::new(name, value, self.context)))
    }

    pub(super) fn value_in(
        &self,
        index: usize,
        context: EvaluationContext<'_>,
    ) -> Result<Value, Fault> {
        match self.call.arguments.get(index) {
            Some(Some(node)) => node.evaluate(context),
            Some(None) | None => Ok(None),
        }
    }

    pub(super) fn context(&self) -> EvaluationContext<'a> {
        self.context
    }
}
