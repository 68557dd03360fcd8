//! `$project`, `$addFields` and `$unset`.

use bson::{Bson, Document};

use crate::{
    Code, Environment, Expression, Fault,
    expression::{field_path, is_operator},
    value::is_truthy,
};

/// New shape of a document.
#[derive(Clone, Debug)]
pub(super) struct Reshape {
    kind: ReshapeKind,
    tree: FieldTree,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ReshapeKind {
    /// Keeps named fields and adds computed ones.
    Inclusion,
    /// Removes named fields.
    Exclusion,
    /// Keeps all fields and adds computed ones.
    Addition,
}

/// Fields in the written order.
#[derive(Clone, Debug, Default)]
struct FieldTree {
    fields: Vec<(String, FieldAction)>,
}

#[derive(Clone, Debug)]
enum FieldAction {
    /// Included or excluded.
    Named,
    Computed(Expression),
    Nested(FieldTree),
}

impl Reshape {
    /// Parses a `$project`.
    pub(super) fn project(specification: &Document, env: &Environment) -> Result<Self, Fault> {
        if specification.is_empty() {
            let message = "projection specification must have at least one field";
            return Err(Fault::location(51272, message));
        }
        let mut reading = ProjectDraft { env, kind: None, id: None, tree: FieldTree::default() };
        reading.projection(specification, &[])?;
        reading.finish()
    }

    /// Parses a `$unset`.
    pub(super) fn unset(fields: &[&str]) -> Result<Self, Fault> {
        let mut tree = FieldTree::default();
        for field in fields {
            tree.insert(&field_path(field)?, FieldAction::Named, project_collision)?;
        }
        Ok(Self { kind: ReshapeKind::Exclusion, tree })
    }

    /// Parses a `$addFields`.
    pub(super) fn addition(specification: &Document, env: &Environment) -> Result<Self, Fault> {
        let mut tree = FieldTree::default();
        add_fields(&mut tree, specification, &[], env)?;
        Ok(Self { kind: ReshapeKind::Addition, tree })
    }

    pub(super) fn apply(&self, document: &Document, env: &Environment) -> Result<Document, Fault> {
        match self.kind {
            ReshapeKind::Exclusion => Ok(self.tree.without(document)),
            ReshapeKind::Inclusion => {
                let mut shaped = self.tree.only(document);
                self.tree.compute(&mut shaped, document, env)?;
                Ok(shaped)
            }
            ReshapeKind::Addition => {
                let mut shaped = document.clone();
                self.tree.compute(&mut shaped, document, env)?;
                Ok(shaped)
            }
        }
    }
}

impl FieldTree {
    fn get(&self, name: &str) -> Option<&FieldAction> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, branch)| branch)
    }

    fn computes(&self) -> bool {
        self.fields.iter().any(|(_, branch)| match branch {
            FieldAction::Named => false,
            FieldAction::Computed(_) => true,
            FieldAction::Nested(tree) => tree.computes(),
        })
    }

    /// Inserts a branch at a free path. `collision` creates the error; its flag is `true` if the
    /// collision is inside the path.
    fn insert(
        &mut self,
        path: &[String],
        branch: FieldAction,
        collision: fn(bool, &[String]) -> Fault,
    ) -> Result<(), Fault> {
        let mut tree = self;
        for (depth, name) in path.iter().enumerate() {
            let last = depth + 1 == path.len();
            let at = tree.fields.iter().position(|(field, _)| field == name);
            match at {
                Some(at) => match &mut tree.fields[at].1 {
                    FieldAction::Nested(inner) if !last => tree = inner,
                    FieldAction::Named | FieldAction::Computed(_) | FieldAction::Nested(_) => {
                        return Err(collision(!last, path));
                    }
                },
                None if last => {
                    tree.fields.push((name.clone(), branch));
                    return Ok(());
                }
                None => {
                    tree.fields.push((name.clone(), FieldAction::Nested(FieldTree::default())));
                    let Some((_, FieldAction::Nested(inner))) = tree.fields.last_mut() else {
                        break;
                    };
                    tree = inner;
                }
            }
        }
        Ok(())
    }

    fn only(&self, document: &Document) -> Document {
        let mut kept = Document::new();
        for (name, value) in document {
            match self.get(name) {
                Some(FieldAction::Named) => {
                    kept.insert(name.as_str(), value.clone());
                }
                Some(FieldAction::Nested(tree)) => {
                    // A computed field takes the position of the existing one.
                    let place = tree.computes().then_some(Bson::Null);
                    if let Some(value) = tree.only_of(value).or(place) {
                        kept.insert(name.as_str(), value);
                    }
                }
                Some(FieldAction::Computed(_)) | None => {}
            }
        }
        kept
    }

    fn only_of(&self, value: &Bson) -> Option<Bson> {
        match value {
            Bson::Document(document) => Some(self.only(document).into()),
            Bson::Array(array) => {
                // Other values are removed, unless a computed field replaces them.
                let place = self.computes().then_some(Bson::Null);
                let kept = array.iter().filter_map(|it| self.only_of(it).or_else(|| place.clone()));
                Some(Bson::Array(kept.collect()))
            }
            _ => None,
        }
    }

    fn without(&self, document: &Document) -> Document {
        let mut kept = Document::new();
        for (name, value) in document {
            let value = match self.get(name) {
                None => value.clone(),
                Some(FieldAction::Nested(tree)) => tree.without_of(value),
                Some(FieldAction::Named | FieldAction::Computed(_)) => continue,
            };
            kept.insert(name.as_str(), value);
        }
        kept
    }

    fn without_of(&self, value: &Bson) -> Bson {
        match value {
            Bson::Document(document) => self.without(document).into(),
            Bson::Array(array) => Bson::Array(array.iter().map(|it| self.without_of(it)).collect()),
            other => other.clone(),
        }
    }

    /// Adds computed fields to a document.
    fn compute(
        &self,
        document: &mut Document,
        root: &Document,
        env: &Environment,
    ) -> Result<(), Fault> {
        for (name, branch) in &self.fields {
            match branch {
                FieldAction::Named => {}
                FieldAction::Computed(expression) => match expression.evaluate(root, env)? {
                    Some(value) => {
                        document.insert(name.as_str(), value);
                    }
                    None => {
                        document.remove(name);
                    }
                },
                FieldAction::Nested(tree) if tree.computes() => {
                    // The field keeps its position.
                    let old = document.get_mut(name).map(|it| std::mem::replace(it, Bson::Null));
                    let new = tree.compute_in(old.unwrap_or(Bson::Null), root, env)?;
                    document.insert(name.as_str(), new);
                }
                FieldAction::Nested(_) => {}
            }
        }
        Ok(())
    }

    /// Computes inside a value. Values other than documents and arrays become documents.
    fn compute_in(&self, value: Bson, root: &Document, env: &Environment) -> Result<Bson, Fault> {
        match value {
            Bson::Array(array) => {
                let inner = array.into_iter().map(|it| self.compute_in(it, root, env));
                Ok(Bson::Array(inner.collect::<Result<_, _>>()?))
            }
            Bson::Document(mut document) => {
                self.compute(&mut document, root, env)?;
                Ok(document.into())
            }
            _ => {
                let mut document = Document::new();
                self.compute(&mut document, root, env)?;
                Ok(document.into())
            }
        }
    }
}

/// Options of a `$project` parsed so far.
struct ProjectDraft<'a> {
    env: &'a Environment,
    kind: Option<ReshapeKind>,
    /// `_id` included or excluded, if it is named.
    id: Option<bool>,
    tree: FieldTree,
}

impl ProjectDraft<'_> {
    fn projection(&mut self, specification: &Document, above: &[String]) -> Result<(), Fault> {
        for (name, value) in specification {
            let mut path = above.to_vec();
            path.extend(projected_path(name)?);
            self.field(&path, value)?;
        }
        Ok(())
    }

    fn field(&mut self, path: &[String], value: &Bson) -> Result<(), Fault> {
        match value {
            Bson::Document(document) => match document.keys().next() {
                None => {
                    Err(Fault::location(51270, "An empty sub-projection is not a valid value."))
                }
                Some(name) if name.starts_with('$') && document.len() == 1 => {
                    if !is_operator(name) {
                        return Err(unknown_operator(name));
                    }
                    if self.kind == Some(ReshapeKind::Exclusion) {
                        let message =
                            "Cannot use expression other than $meta in exclusion projection";
                        return Err(Fault::location(31252, message));
                    }
                    self.computed(path, value)
                }
                Some(_) => self.projection(document, path),
            },
            Bson::Boolean(_)
            | Bson::Int32(_)
            | Bson::Int64(_)
            | Bson::Double(_)
            | Bson::Decimal128(_) => self.named(path, is_truthy(value)),
            other => self.computed(path, other),
        }
    }

    fn computed(&mut self, path: &[String], value: &Bson) -> Result<(), Fault> {
        if self.kind == Some(ReshapeKind::Exclusion) {
            let path = path.join(".");
            let message = format!("Cannot use an expression {path} in an exclusion projection");
            return Err(Fault::location(31310, message));
        }
        self.kind = Some(ReshapeKind::Inclusion);
        let expression = Expression::parse(value, self.env)?;
        self.tree.insert(path, FieldAction::Computed(expression), project_collision)
    }

    fn named(&mut self, path: &[String], stays: bool) -> Result<(), Fault> {
        if matches!(path, [only] if only == "_id") {
            self.id = Some(stays);
            return Ok(());
        }
        let kind = if stays { ReshapeKind::Inclusion } else { ReshapeKind::Exclusion };
        match self.kind {
            Some(ReshapeKind::Exclusion) if stays => Err(Fault::location(
                31253,
                format!("Cannot do inclusion on field {} in exclusion projection", path.join(".")),
            )),
            Some(ReshapeKind::Inclusion) if !stays => Err(Fault::location(
                31254,
                format!("Cannot do exclusion on field {} in inclusion projection", path.join(".")),
            )),
            _ => {
                self.kind = Some(kind);
                self.tree.insert(path, FieldAction::Named, project_collision)
            }
        }
    }

    fn finish(mut self) -> Result<Reshape, Fault> {
        let kind = match (self.kind, self.id) {
            (Some(kind), _) => kind,
            (None, Some(false)) => ReshapeKind::Exclusion,
            (None, _) => ReshapeKind::Inclusion,
        };
        let id = ["_id".to_owned()];
        let named = match kind {
            ReshapeKind::Inclusion | ReshapeKind::Addition => match self.id {
                None => self.tree.get("_id").is_none(),
                Some(stays) => stays,
            },
            ReshapeKind::Exclusion => self.id == Some(false),
        };
        if named {
            self.tree.insert(&id, FieldAction::Named, project_collision)?;
        }
        Ok(Reshape { kind, tree: self.tree })
    }
}

fn projected_path(name: &str) -> Result<Vec<String>, Fault> {
    if name.ends_with(".$") {
        let message = "Cannot use positional projection in aggregation projection";
        return Err(Fault::location(31324, message));
    }
    field_path(name)
}

fn unknown_operator(name: &str) -> Fault {
    if name == "$elemMatch" {
        let message = "Cannot use $elemMatch in this context";
        return Fault::new(Code::named(168, "InvalidPipelineOperator"), message);
    }
    Fault::location(31325, format!("Unknown expression {name}"))
}

fn project_collision(on_the_way: bool, path: &[String]) -> Fault {
    let code = if on_the_way { 31249 } else { 31250 };
    Fault::location(code, format!("Path collision at {}", path.join(".")))
}

fn add_fields(
    tree: &mut FieldTree,
    specification: &Document,
    above: &[String],
    env: &Environment,
) -> Result<(), Fault> {
    for (name, value) in specification {
        let mut path = above.to_vec();
        path.extend(field_path(name)?);
        match value {
            Bson::Document(document) if !is_call(document)? => {
                add_fields(tree, document, &path, env)?;
            }
            other => {
                let expression = Expression::parse(other, env)?;
                tree.insert(&path, FieldAction::Computed(expression), |_, path| {
                    let message = "specification contains two conflicting paths";
                    Fault::location(40176, format!("{message} at '{}'", path.join(".")))
                })?;
            }
        }
    }
    Ok(())
}

/// Returns `true` for an operator with arguments, and `false` for nested fields.
fn is_call(document: &Document) -> Result<bool, Fault> {
    if document.is_empty() {
        return Err(Fault::location(40180, "an empty object is not a valid value"));
    }
    let operators = document.keys().any(|name| name.starts_with('$'));
    if operators && document.len() > 1 {
        let message = "an expression specification must contain exactly one field";
        return Err(Fault::location(40181, message));
    }
    Ok(operators)
}
