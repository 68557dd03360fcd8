//! Parsing of expressions.

use bson::{Bson, Document};

use super::{
    node::{Call, EvaluationContext, ExpressionNode, Precomputed, Value, Variable},
    operators::{AggregationOperator, ArgumentForm, NamedArguments, find},
};
use crate::{Code, Dialect, Environment, Fault, value::type_name};

/// Parser of expressions. Tracks the variables in scope.
pub(super) struct ExpressionParser<'a> {
    env: &'a Environment,
    bound: Vec<String>,
    /// First error of constant folding. Servers fold after parsing, so parse errors take
    /// precedence.
    failed: Option<Fault>,
}

impl<'a> ExpressionParser<'a> {
    pub(super) fn new(env: &'a Environment, variables: &[&str]) -> Self {
        Self { env, bound: variables.iter().map(|it| (*it).to_owned()).collect(), failed: None }
    }

    /// Parses a complete expression.
    pub(super) fn whole(mut self, expression: &Bson) -> Result<ExpressionNode, Fault> {
        let node = self.expression(expression)?;
        match self.failed {
            Some(fault) if self.env.folds_constants => Err(fault),
            Some(_) | None => Ok(node),
        }
    }

    /// Returns `true` if constants are folded while parsing.
    pub(super) fn folds_constants(&self) -> bool {
        self.env.folds_constants
    }

    /// Parses a part. Drops its folding errors if `forgives` returns `true`, because a server would
    /// not fold it.
    pub(super) fn ignoring_errors_if<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Fault>,
        forgives: impl FnOnce(&T) -> bool,
    ) -> Result<T, Fault> {
        let failed = self.failed.clone();
        let read = read(self)?;
        if forgives(&read) {
            self.failed = failed;
        }
        Ok(read)
    }

    /// Records an error of constant folding.
    pub(super) fn fail(&mut self, fault: Fault) {
        self.failed.get_or_insert(fault);
    }

    pub(super) fn expression(&mut self, expression: &Bson) -> Result<ExpressionNode, Fault> {
        match expression {
            Bson::String(text) if text.starts_with('$') => self.path(text),
            Bson::Document(document) => self.document(document),
            Bson::Array(array) => {
                let nodes = array.iter().map(|it| self.expression(it));
                Ok(folded(ExpressionNode::Array(nodes.collect::<Result<_, _>>()?)))
            }
            other => Ok(ExpressionNode::Constant(Some(other.clone()))),
        }
    }

    /// Parses with further variables in scope.
    pub(super) fn scoped(&mut self, names: &[&str], inner: &Bson) -> Result<ExpressionNode, Fault> {
        let outer = self.bound.len();
        self.bound.extend(names.iter().map(|it| (*it).to_owned()));
        let node = self.expression(inner);
        self.bound.truncate(outer);
        node
    }

    /// Creates a call of an operator, or its value if all arguments are constant.
    pub(super) fn call(
        &mut self,
        operator: &'static AggregationOperator,
        mut arguments: Vec<Option<ExpressionNode>>,
    ) -> Result<ExpressionNode, Fault> {
        let constant =
            |it: &Option<ExpressionNode>| it.as_ref().is_none_or(|it| it.constant().is_some());
        // Servers move constant arguments of commutative operators to the end.
        if self.folds_constants() && is_commutative(operator.name, self.env.dialect) {
            arguments.sort_by_key(constant);
        }
        let folds = operator.folds && arguments.iter().all(constant);
        let call =
            Call { operator, arguments, names: Vec::new(), precomputed: Precomputed::Nothing };
        let node = ExpressionNode::Call(Box::new(call));
        if folds {
            match node.evaluate(EvaluationContext::new(&Document::new(), self.env)) {
                Ok(value) => return Ok(ExpressionNode::Constant(value)),
                Err(fault) => self.fail(fault),
            }
        }
        Ok(node)
    }

    /// Creates a call with precomputed state.
    pub(super) fn call_with_precomputed(
        &self,
        operator: &'static AggregationOperator,
        arguments: Vec<Option<ExpressionNode>>,
        precomputed: Precomputed,
    ) -> ExpressionNode {
        ExpressionNode::Call(Box::new(Call { operator, arguments, names: Vec::new(), precomputed }))
    }

    fn document(&mut self, document: &Document) -> Result<ExpressionNode, Fault> {
        match document.iter().next() {
            Some((name, argument)) if name.starts_with('$') => {
                if document.len() != 1 {
                    return Err(Fault::location(
                        15983,
                        format!(
                            "An object representing an expression must have exactly one field: {document}"
                        ),
                    ));
                }
                self.operator(name, argument)
            }
            _ => self.object(document),
        }
    }

    /// Parses a document whose fields are expressions.
    pub(super) fn object(&mut self, document: &Document) -> Result<ExpressionNode, Fault> {
        let mut fields = Vec::with_capacity(document.len());
        for (name, value) in document {
            field_name(name)?;
            fields.push((name.clone(), self.expression(value)?));
        }
        Ok(folded(ExpressionNode::Document(fields)))
    }

    fn operator(&mut self, name: &str, argument: &Bson) -> Result<ExpressionNode, Fault> {
        let Some(operator) = find(name) else {
            return Err(Fault::new(
                Code::named(168, "InvalidPipelineOperator"),
                format!("Unrecognized expression '{name}'"),
            ));
        };
        match &operator.form {
            ArgumentForm::Exactly(count) => {
                let arguments = self.list(argument)?;
                if arguments.len() != *count {
                    return Err(Fault::location(
                        16020,
                        format!(
                            "Expression {name} takes exactly {count} arguments. {} were passed in.",
                            arguments.len()
                        ),
                    ));
                }
                self.call(operator, arguments)
            }
            ArgumentForm::Between(least, most) => {
                let arguments = self.list(argument)?;
                let count = arguments.len();
                if count < *least || count > *most {
                    return Err(Fault::location(
                        28667,
                        format!(
                            "Expression {name} takes at least {least} arguments, and at most {most}, \
                             but {count} were passed in."
                        ),
                    ));
                }
                self.call(operator, arguments)
            }
            ArgumentForm::AtLeastTwo(code) => {
                let arguments = self.list(argument)?;
                if arguments.len() < 2 {
                    let count = arguments.len();
                    let message = format!("{name} needs at least two arguments, had: {count}");
                    return Err(Fault::location(*code, message));
                }
                self.call(operator, arguments)
            }
            ArgumentForm::Single => {
                let arguments = self.list(argument)?;
                if arguments.len() != 1 {
                    let count = arguments.len();
                    let message = format!("{name} requires a single argument, got {count}");
                    return Err(Fault::location(50723, message));
                }
                self.call(operator, arguments)
            }
            ArgumentForm::Any => {
                let arguments = self.list(argument)?;
                self.call(operator, arguments)
            }
            ArgumentForm::Named(named) => {
                let arguments = self.ignoring_errors_if(
                    |it| it.type_name_of(operator, named, argument),
                    |_| keeps_arguments(operator.name),
                )?;
                self.call(operator, arguments)
            }
            ArgumentForm::Own(parse) => self.ignoring_errors_if(
                |it| parse(it, operator, argument),
                |_| keeps_arguments(operator.name),
            ),
        }
    }

    /// Parses positional arguments: an array, or a single one.
    pub(super) fn list(&mut self, argument: &Bson) -> Result<Vec<Option<ExpressionNode>>, Fault> {
        match argument {
            Bson::Array(array) => array.iter().map(|it| self.expression(it).map(Some)).collect(),
            one => Ok(vec![Some(self.expression(one)?)]),
        }
    }

    /// Parses named arguments.
    pub(super) fn type_name_of(
        &mut self,
        operator: &'static AggregationOperator,
        named: &NamedArguments,
        argument: &Bson,
    ) -> Result<Vec<Option<ExpressionNode>>, Fault> {
        let mut arguments = vec![None; named.fields.len()];
        for (index, value) in named.given(operator.name, argument)? {
            arguments[index] = Some(self.expression(value)?);
        }
        named.complete(operator.name, |index| arguments[index].is_some())?;
        Ok(arguments)
    }

    fn path(&mut self, text: &str) -> Result<ExpressionNode, Fault> {
        if let Some(rest) = text.strip_prefix("$$") {
            let (name, fields) = match rest.split_once('.') {
                Some((name, fields)) => (name, Some(fields)),
                None => (rest, None),
            };
            variable_reference(name)?;
            if rest.ends_with('.') {
                return Err(ends_with_dot());
            }
            let fields = fields.map_or(Ok(Vec::new()), path_fields)?;
            return self.variable(name, fields);
        }
        let path = &text[1..];
        if path.is_empty() {
            return Err(Fault::location(16872, "'$' by itself is not a valid FieldPath"));
        }
        Ok(ExpressionNode::Path { variable: self.current(), fields: path_fields(path)? })
    }

    fn current(&self) -> Variable {
        if self.is_bound("CURRENT") {
            Variable::Named("CURRENT".to_owned())
        } else {
            Variable::Root
        }
    }

    fn is_bound(&self, name: &str) -> bool {
        self.bound.iter().any(|it| it == name)
    }

    fn variable(&self, name: &str, fields: Vec<String>) -> Result<ExpressionNode, Fault> {
        let variable = match name {
            _ if self.is_bound(name) || self.env.defines(name) => Variable::Named(name.to_owned()),
            "ROOT" | "CURRENT" => Variable::Root,
            "NOW" => Variable::Now,
            "CLUSTER_TIME" => Variable::ClusterTime,
            "REMOVE" => return Ok(ExpressionNode::Constant(None)),
            _ => {
                return Err(Fault::location(17276, format!("Use of undefined variable: {name}")));
            }
        };
        Ok(ExpressionNode::Path { variable, fields })
    }

    /// Returns the document at which paths start.
    pub(super) fn current_document(&self) -> ExpressionNode {
        ExpressionNode::Path { variable: self.current(), fields: Vec::new() }
    }
}

/// Returns `true` if servers do not fold the arguments of this operator.
fn keeps_arguments(operator: &str) -> bool {
    matches!(operator, "$firstN" | "$lastN" | "$maxN" | "$minN" | "$setField" | "$unsetField")
}

fn is_commutative(operator: &str, dialect: Dialect) -> bool {
    match operator {
        "$add" | "$multiply" => dialect < Dialect::V8_2,
        "$setUnion" | "$setIntersection" => true,
        _ => false,
    }
}

/// Folds an array or a document with only constant parts.
fn folded(node: ExpressionNode) -> ExpressionNode {
    match node {
        ExpressionNode::Array(nodes) if nodes.iter().all(|it| it.constant().is_some()) => {
            let constants = nodes.iter().filter_map(ExpressionNode::constant);
            let array = constants.map(|it| it.clone().unwrap_or(Bson::Null));
            ExpressionNode::Constant(Some(Bson::Array(array.collect())))
        }
        ExpressionNode::Document(fields)
            if fields.iter().all(|(_, it)| it.constant().is_some()) =>
        {
            let constant = |(name, node): (String, ExpressionNode)| match node {
                ExpressionNode::Constant(Some(value)) => Some((name, value)),
                _ => None,
            };
            let document = fields.into_iter().filter_map(constant).collect::<Document>();
            ExpressionNode::Constant(Some(document.into()))
        }
        other => other,
    }
}

/// Checks the name of a user variable.
pub(crate) fn variable_name(name: &str) -> Result<(), Fault> {
    if name == "CURRENT" {
        return Ok(());
    }
    let lower = |first: char| first.is_ascii_lowercase() || !first.is_ascii();
    check_variable(name, lower)
}

fn variable_reference(name: &str) -> Result<(), Fault> {
    check_variable(name, |first| first.is_ascii_alphabetic() || !first.is_ascii())
}

fn check_variable(name: &str, may_begin: fn(char) -> bool) -> Result<(), Fault> {
    let Some(first) = name.chars().next() else {
        return Err(Fault::failed_to_parse("empty variable names are not allowed"));
    };
    if !may_begin(first) {
        return Err(Fault::failed_to_parse(format!(
            "'{name}' starts with an invalid character for a user variable name"
        )));
    }
    let allowed = |it: &char| it.is_ascii_alphanumeric() || *it == '_' || !it.is_ascii();
    match name.chars().find(|it| !allowed(it)) {
        Some(bad) => Err(Fault::failed_to_parse(format!(
            "'{name}' contains an invalid character for a variable name: '{bad}'"
        ))),
        None => Ok(()),
    }
}

/// Splits a dotted path into checked names.
pub(super) fn path_fields(path: &str) -> Result<Vec<String>, Fault> {
    if path.ends_with('.') {
        return Err(ends_with_dot());
    }
    if path.contains('\0') {
        return Err(Fault::location(16411, "FieldPath field names may not contain '\\0'."));
    }
    crate::path::check_length(path)?;
    path.split('.')
        .map(|name| {
            if name.is_empty() {
                return Err(empty_name());
            }
            dollar_name(name)?;
            Ok(name.to_owned())
        })
        .collect()
}

/// Splits a path of a stage. The path must not be empty.
pub(crate) fn field_path(path: &str) -> Result<Vec<String>, Fault> {
    if path.is_empty() {
        return Err(Fault::location(40352, "FieldPath cannot be constructed with empty string"));
    }
    path_fields(path)
}

/// Checks a field name of a document that a stage creates.
pub(crate) fn plain_field(name: &str) -> Result<(), Fault> {
    field_name(name)
}

/// Returns `true` if the operator exists.
pub(crate) fn is_operator(name: &str) -> bool {
    find(name).is_some()
}

/// Checks a field name in an object expression.
fn field_name(name: &str) -> Result<(), Fault> {
    if name.is_empty() {
        return Err(empty_name());
    }
    dollar_name(name)?;
    if name.contains('.') {
        return Err(Fault::location(
            16412,
            "FieldPath field names may not contain '.'. Consider using $getField or $setField.",
        ));
    }
    Ok(())
}

fn dollar_name(name: &str) -> Result<(), Fault> {
    if name.starts_with('$') {
        return Err(Fault::location(
            16410,
            "FieldPath field names may not start with '$'. Consider using $getField or $setField.",
        ));
    }
    Ok(())
}

fn ends_with_dot() -> Fault {
    Fault::location(40353, "FieldPath must not end with a '.'.")
}

fn empty_name() -> Fault {
    Fault::location(15998, "FieldPath field names may not be empty strings.")
}

impl NamedArguments {
    /// Returns the given arguments with their positions.
    pub(super) fn given<'b>(
        &self,
        operator: &str,
        argument: &'b Bson,
    ) -> Result<Vec<(usize, &'b Bson)>, Fault> {
        let Bson::Document(document) = argument else {
            return Err(Fault::new(
                Code::numbered(self.not_an_object),
                format!(
                    "{operator} only supports an object as an argument, found {}",
                    type_name(argument)
                ),
            ));
        };
        let place = |name: &str| self.fields.iter().position(|(field, _)| *field == name);
        document
            .iter()
            .map(|(name, value)| match place(name) {
                Some(index) => Ok((index, value)),
                None => Err(Fault::new(
                    Code::numbered(self.unknown),
                    format!("{operator} found an unknown argument: {name}"),
                )),
            })
            .collect()
    }

    /// Fails if a required argument is missing.
    pub(super) fn complete(
        &self,
        operator: &str,
        given: impl Fn(usize) -> bool,
    ) -> Result<(), Fault> {
        for (index, (name, required)) in self.fields.iter().enumerate() {
            if let Some(code) = required
                && !given(index)
            {
                return Err(Fault::new(
                    Code::numbered(*code),
                    format!("Missing '{name}' parameter to {operator}"),
                ));
            }
        }
        Ok(())
    }
}

/// Returns a literal value. Computed values are `None`, even if they are constant.
pub(super) fn plain_constant(argument: &Bson) -> Option<Value> {
    match argument {
        Bson::Document(document) => match document.iter().next() {
            Some((name, value)) if name == "$literal" || name == "$const" => {
                Some(Some(value.clone()))
            }
            _ => None,
        },
        Bson::Array(_) => None,
        Bson::String(text) if text.starts_with('$') => None,
        other => Some(Some(other.clone())),
    }
}
