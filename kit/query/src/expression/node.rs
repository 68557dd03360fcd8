//! What an expression is made of once it is read, and how it gets its value.

use bson::{Bson, Document};

use super::{operators::Operator, pattern::Pattern, room::Room};
use crate::{Environment, Fault};

/// A value; `None` where a field is missing.
pub(super) type Value = Option<Bson>;

/// A part of an expression.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Constant(Value),
    /// `$a.b`, `$$name.b`.
    Path {
        variable: Variable,
        fields: Vec<String>,
    },
    Document(Vec<(String, Node)>),
    Array(Vec<Node>),
    Call(Box<Call>),
}

/// Where a path begins.
#[derive(Clone, Debug)]
pub(super) enum Variable {
    Root,
    Now,
    ClusterTime,
    Named(String),
}

/// An operator with its arguments, in the order that the operator lists them; `None` where one was not
/// given.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) operator: &'static Operator,
    pub(super) arguments: Vec<Option<Node>>,
    /// The variables that it binds.
    pub(super) names: Vec<String>,
    /// What is known of it before there is a document.
    pub(super) known: Known,
}

/// What an operator needs besides arguments.
#[derive(Clone, Debug, Default)]
pub(super) enum Known {
    #[default]
    Nothing,
    /// A pattern that is the same for all documents.
    Pattern(Option<Pattern>),
    /// The order of `$sortArray` by fields of its elements.
    Order(crate::Sort),
}

/// What an expression can see.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    root: &'a Document,
    env: &'a Environment,
    bound: Option<&'a Bound<'a>>,
}

/// A variable that an expression defined, and those defined around it.
pub(super) struct Bound<'a> {
    name: &'a str,
    value: &'a Value,
    outer: Option<&'a Bound<'a>>,
}

impl<'a> Bound<'a> {
    pub(super) fn new(name: &'a str, value: &'a Value, context: Context<'a>) -> Self {
        Self { name, value, outer: context.bound }
    }
}

impl<'a> Context<'a> {
    pub(super) fn new(root: &'a Document, env: &'a Environment) -> Self {
        Self { root, env, bound: None }
    }

    pub(super) fn with(self, bound: &'a Bound<'a>) -> Self {
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

impl Node {
    pub(super) fn constant(&self) -> Option<&Value> {
        match self {
            Self::Constant(value) => Some(value),
            Self::Path { .. } | Self::Document(_) | Self::Array(_) | Self::Call(_) => None,
        }
    }

    pub(super) fn evaluate(&self, context: Context<'_>) -> Result<Value, Fault> {
        match self {
            Self::Constant(value) => Ok(value.clone()),
            Self::Path { variable, fields } => Ok(follow(variable, fields, context)),
            Self::Document(fields) => {
                let mut document = Document::new();
                let mut room = Room::of("an object");
                for (name, node) in fields {
                    if let Some(value) = node.evaluate(context)? {
                        room.take(&value)?;
                        document.insert(name.as_str(), value);
                    }
                }
                Ok(Some(document.into()))
            }
            Self::Array(nodes) => {
                let mut array = Vec::with_capacity(nodes.len());
                let mut room = Room::of("an array");
                for node in nodes {
                    let value = node.evaluate(context)?.unwrap_or(Bson::Null);
                    room.take(&value)?;
                    array.push(value);
                }
                Ok(Some(array.into()))
            }
            Self::Call(call) => (call.operator.function)(&Arguments { call, context }),
        }
    }
}

fn follow(variable: &Variable, fields: &[String], context: Context<'_>) -> Value {
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

/// A path goes through the documents in an array, not through arrays in it, and gives an array.
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

/// The arguments of a call, each evaluated when it is asked for.
pub(super) struct Arguments<'a> {
    call: &'a Call,
    context: Context<'a>,
}

impl<'a> Arguments<'a> {
    /// The operator's name, with its `$`.
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

    pub(super) fn known(&self) -> &'a Known {
        &self.call.known
    }

    pub(super) fn given(&self, index: usize) -> bool {
        self.call.arguments.get(index).is_some_and(Option::is_some)
    }

    /// An argument's value; missing if it was not given.
    pub(super) fn value(&self, index: usize) -> Result<Value, Fault> {
        self.value_in(index, self.context)
    }

    /// An argument's value where one more variable is defined.
    pub(super) fn value_with(
        &self,
        index: usize,
        name: &str,
        value: &Value,
    ) -> Result<Value, Fault> {
        self.value_in(index, self.context.with(&Bound::new(name, value, self.context)))
    }

    pub(super) fn value_in(&self, index: usize, context: Context<'_>) -> Result<Value, Fault> {
        match self.call.arguments.get(index) {
            Some(Some(node)) => node.evaluate(context),
            Some(None) | None => Ok(None),
        }
    }

    pub(super) fn context(&self) -> Context<'a> {
        self.context
    }
}
