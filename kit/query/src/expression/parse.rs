//! How an expression is read.

use bson::{Bson, Document};

use super::{
    node::{Call, Context, Known, Node, Value, Variable},
    operators::{Form, Named, Operator, find},
};
use crate::{Code, Dialect, Environment, Fault, value::type_name};

/// Reads an expression, knowing which variables are defined where it reads.
pub(super) struct Parser<'a> {
    env: &'a Environment,
    bound: Vec<String>,
    /// The first error of what was computed beforehand. A server computes when all is read, so that
    /// what cannot be read comes before it.
    failed: Option<Fault>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(env: &'a Environment, variables: &[&str]) -> Self {
        Self { env, bound: variables.iter().map(|it| (*it).to_owned()).collect(), failed: None }
    }

    /// Reads an expression to its end.
    pub(super) fn whole(mut self, expression: &Bson) -> Result<Node, Fault> {
        let node = self.expression(expression)?;
        match self.failed {
            Some(fault) if self.env.fails_early => Err(fault),
            Some(_) | None => Ok(node),
        }
    }

    /// Whether a server would compute beforehand what it can.
    pub(super) fn computes_early(&self) -> bool {
        self.env.fails_early
    }

    /// Reads what a server may never compute beforehand: an error in it is forgotten if this is so for
    /// what was read.
    pub(super) fn forgiving<T>(
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

    /// Notes an error of what was computed beforehand.
    pub(super) fn fail(&mut self, fault: Fault) {
        self.failed.get_or_insert(fault);
    }

    pub(super) fn expression(&mut self, expression: &Bson) -> Result<Node, Fault> {
        match expression {
            Bson::String(text) if text.starts_with('$') => self.path(text),
            Bson::Document(document) => self.document(document),
            Bson::Array(array) => {
                let nodes = array.iter().map(|it| self.expression(it));
                Ok(folded(Node::Array(nodes.collect::<Result<_, _>>()?)))
            }
            other => Ok(Node::Constant(Some(other.clone()))),
        }
    }

    /// Reads what sees these variables besides.
    pub(super) fn scoped(&mut self, names: &[&str], inner: &Bson) -> Result<Node, Fault> {
        let outer = self.bound.len();
        self.bound.extend(names.iter().map(|it| (*it).to_owned()));
        let node = self.expression(inner);
        self.bound.truncate(outer);
        node
    }

    /// A call of this operator, or its value if that is the same for all documents.
    pub(super) fn call(
        &mut self,
        operator: &'static Operator,
        mut arguments: Vec<Option<Node>>,
    ) -> Result<Node, Fault> {
        let constant = |it: &Option<Node>| it.as_ref().is_none_or(|it| it.constant().is_some());
        // Of these, a server computes what is constant last.
        if self.computes_early() && is_commutative(operator.name, self.env.dialect) {
            arguments.sort_by_key(constant);
        }
        let folds = operator.folds && arguments.iter().all(constant);
        let call = Call { operator, arguments, names: Vec::new(), known: Known::Nothing };
        let node = Node::Call(Box::new(call));
        if folds {
            match node.evaluate(Context::new(&Document::new(), self.env)) {
                Ok(value) => return Ok(Node::Constant(value)),
                Err(fault) => self.fail(fault),
            }
        }
        Ok(node)
    }

    /// A call that keeps more than arguments.
    pub(super) fn call_knowing(
        &self,
        operator: &'static Operator,
        arguments: Vec<Option<Node>>,
        known: Known,
    ) -> Node {
        Node::Call(Box::new(Call { operator, arguments, names: Vec::new(), known }))
    }

    fn document(&mut self, document: &Document) -> Result<Node, Fault> {
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

    /// A document whose fields are expressions.
    pub(super) fn object(&mut self, document: &Document) -> Result<Node, Fault> {
        let mut fields = Vec::with_capacity(document.len());
        for (name, value) in document {
            field_name(name)?;
            fields.push((name.clone(), self.expression(value)?));
        }
        Ok(folded(Node::Document(fields)))
    }

    fn operator(&mut self, name: &str, argument: &Bson) -> Result<Node, Fault> {
        let Some(operator) = find(name) else {
            return Err(Fault::new(
                Code::named(168, "InvalidPipelineOperator"),
                format!("Unrecognized expression '{name}'"),
            ));
        };
        match &operator.form {
            Form::Exactly(count) => {
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
            Form::Between(least, most) => {
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
            Form::AtLeastTwo(code) => {
                let arguments = self.list(argument)?;
                if arguments.len() < 2 {
                    let count = arguments.len();
                    let message = format!("{name} needs at least two arguments, had: {count}");
                    return Err(Fault::location(*code, message));
                }
                self.call(operator, arguments)
            }
            Form::Single => {
                let arguments = self.list(argument)?;
                if arguments.len() != 1 {
                    let count = arguments.len();
                    let message = format!("{name} requires a single argument, got {count}");
                    return Err(Fault::location(50723, message));
                }
                self.call(operator, arguments)
            }
            Form::Any => {
                let arguments = self.list(argument)?;
                self.call(operator, arguments)
            }
            Form::Named(named) => {
                let arguments = self.forgiving(
                    |it| it.named(operator, named, argument),
                    |_| keeps_arguments(operator.name),
                )?;
                self.call(operator, arguments)
            }
            Form::Own(parse) => self
                .forgiving(|it| parse(it, operator, argument), |_| keeps_arguments(operator.name)),
        }
    }

    /// Arguments by position: an array of them, or one alone.
    pub(super) fn list(&mut self, argument: &Bson) -> Result<Vec<Option<Node>>, Fault> {
        match argument {
            Bson::Array(array) => array.iter().map(|it| self.expression(it).map(Some)).collect(),
            one => Ok(vec![Some(self.expression(one)?)]),
        }
    }

    /// Arguments by name.
    pub(super) fn named(
        &mut self,
        operator: &'static Operator,
        named: &Named,
        argument: &Bson,
    ) -> Result<Vec<Option<Node>>, Fault> {
        let mut arguments = vec![None; named.fields.len()];
        for (index, value) in named.given(operator.name, argument)? {
            arguments[index] = Some(self.expression(value)?);
        }
        named.complete(operator.name, |index| arguments[index].is_some())?;
        Ok(arguments)
    }

    fn path(&mut self, text: &str) -> Result<Node, Fault> {
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
        Ok(Node::Path { variable: self.current(), fields: path_fields(path)? })
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

    fn variable(&self, name: &str, fields: Vec<String>) -> Result<Node, Fault> {
        let variable = match name {
            _ if self.is_bound(name) || self.env.defines(name) => Variable::Named(name.to_owned()),
            "ROOT" | "CURRENT" => Variable::Root,
            "NOW" => Variable::Now,
            "CLUSTER_TIME" => Variable::ClusterTime,
            "REMOVE" => return Ok(Node::Constant(None)),
            _ => {
                return Err(Fault::location(17276, format!("Use of undefined variable: {name}")));
            }
        };
        Ok(Node::Path { variable, fields })
    }

    /// The document that paths without a variable begin with.
    pub(super) fn current_document(&self) -> Node {
        Node::Path { variable: self.current(), fields: Vec::new() }
    }
}

/// Whether a server leaves the arguments of this operator as they are.
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

/// Computes what has constant parts alone.
fn folded(node: Node) -> Node {
    match node {
        Node::Array(nodes) if nodes.iter().all(|it| it.constant().is_some()) => {
            let constants = nodes.iter().filter_map(Node::constant);
            let array = constants.map(|it| it.clone().unwrap_or(Bson::Null));
            Node::Constant(Some(Bson::Array(array.collect())))
        }
        Node::Document(fields) if fields.iter().all(|(_, it)| it.constant().is_some()) => {
            let constant = |(name, node): (String, Node)| match node {
                Node::Constant(Some(value)) => Some((name, value)),
                _ => None,
            };
            let document = fields.into_iter().filter_map(constant).collect::<Document>();
            Node::Constant(Some(document.into()))
        }
        other => other,
    }
}

/// Checks the name of a variable that an expression or a `let` defines.
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

/// The names in a dotted path.
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

/// The same for a path that a stage names: there it may not be empty either.
pub(crate) fn field_path(path: &str) -> Result<Vec<String>, Fault> {
    if path.is_empty() {
        return Err(Fault::location(40352, "FieldPath cannot be constructed with empty string"));
    }
    path_fields(path)
}

/// Checks the name of a field in a document that a stage makes.
pub(crate) fn plain_field(name: &str) -> Result<(), Fault> {
    field_name(name)
}

/// Whether there is an operator of this name.
pub(crate) fn is_operator(name: &str) -> bool {
    find(name).is_some()
}

/// The name of a field in a document that is an expression.
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

impl Named {
    /// The arguments that were given, each with its place.
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

    /// Refuses if one is missing that must be there.
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

/// A value that must be known before there is a document: not computed, whatever it is computed from.
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
