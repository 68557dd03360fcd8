//! `$project`, `$addFields` and `$unset`: documents of another shape.

use bson::{Bson, Document};

use crate::{
    Code, Environment, Expression, Fault,
    expression::{field_path, is_operator},
    value::truthy,
};

/// What a document is to look like.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    kind: Kind,
    tree: Tree,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// What is named stays, and what is computed comes to it.
    Inclusion,
    /// What is named goes.
    Exclusion,
    /// All stays, and what is computed comes to it.
    Addition,
}

/// Fields, in the order in which they were named.
#[derive(Clone, Debug, Default)]
struct Tree {
    fields: Vec<(String, Branch)>,
}

#[derive(Clone, Debug)]
enum Branch {
    /// It stays, or it goes.
    Named,
    Computed(Expression),
    Nested(Tree),
}

impl Shape {
    /// Reads a `$project`.
    pub(super) fn project(specification: &Document, env: &Environment) -> Result<Self, Fault> {
        if specification.is_empty() {
            let message = "projection specification must have at least one field";
            return Err(Fault::location(51272, message));
        }
        let mut reading = Reading { env, kind: None, id: None, tree: Tree::default() };
        reading.projection(specification, &[])?;
        reading.finish()
    }

    /// Reads a `$unset`.
    pub(super) fn unset(fields: &[&str]) -> Result<Self, Fault> {
        let mut tree = Tree::default();
        for field in fields {
            tree.insert(&field_path(field)?, Branch::Named, project_collision)?;
        }
        Ok(Self { kind: Kind::Exclusion, tree })
    }

    /// Reads a `$addFields`.
    pub(super) fn addition(specification: &Document, env: &Environment) -> Result<Self, Fault> {
        let mut tree = Tree::default();
        add_fields(&mut tree, specification, &[], env)?;
        Ok(Self { kind: Kind::Addition, tree })
    }

    pub(super) fn apply(&self, document: &Document, env: &Environment) -> Result<Document, Fault> {
        match self.kind {
            Kind::Exclusion => Ok(self.tree.without(document)),
            Kind::Inclusion => {
                let mut shaped = self.tree.only(document);
                self.tree.compute(&mut shaped, document, env)?;
                Ok(shaped)
            }
            Kind::Addition => {
                let mut shaped = document.clone();
                self.tree.compute(&mut shaped, document, env)?;
                Ok(shaped)
            }
        }
    }
}

impl Tree {
    fn get(&self, name: &str) -> Option<&Branch> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, branch)| branch)
    }

    fn computes(&self) -> bool {
        self.fields.iter().any(|(_, branch)| match branch {
            Branch::Named => false,
            Branch::Computed(_) => true,
            Branch::Nested(tree) => tree.computes(),
        })
    }

    /// Puts a branch at a path where there is none yet, else the error for a collision: whether it is
    /// on the way, and the path.
    fn insert(
        &mut self,
        path: &[String],
        branch: Branch,
        collision: fn(bool, &[String]) -> Fault,
    ) -> Result<(), Fault> {
        let mut tree = self;
        for (depth, name) in path.iter().enumerate() {
            let last = depth + 1 == path.len();
            let at = tree.fields.iter().position(|(field, _)| field == name);
            match at {
                Some(at) => match &mut tree.fields[at].1 {
                    Branch::Nested(inner) if !last => tree = inner,
                    Branch::Named | Branch::Computed(_) | Branch::Nested(_) => {
                        return Err(collision(!last, path));
                    }
                },
                None if last => {
                    tree.fields.push((name.clone(), branch));
                    return Ok(());
                }
                None => {
                    tree.fields.push((name.clone(), Branch::Nested(Tree::default())));
                    let Some((_, Branch::Nested(inner))) = tree.fields.last_mut() else { break };
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
                Some(Branch::Named) => {
                    kept.insert(name.as_str(), value.clone());
                }
                Some(Branch::Nested(tree)) => {
                    // What is computed comes to the place of what was there.
                    let place = tree.computes().then_some(Bson::Null);
                    if let Some(value) = tree.only_of(value).or(place) {
                        kept.insert(name.as_str(), value);
                    }
                }
                Some(Branch::Computed(_)) | None => {}
            }
        }
        kept
    }

    fn only_of(&self, value: &Bson) -> Option<Bson> {
        match value {
            Bson::Document(document) => Some(self.only(document).into()),
            Bson::Array(array) => {
                // What is no document goes, unless something is computed in its place.
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
                Some(Branch::Nested(tree)) => tree.without_of(value),
                Some(Branch::Named | Branch::Computed(_)) => continue,
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

    /// Puts what is computed into a document.
    fn compute(
        &self,
        document: &mut Document,
        root: &Document,
        env: &Environment,
    ) -> Result<(), Fault> {
        for (name, branch) in &self.fields {
            match branch {
                Branch::Named => {}
                Branch::Computed(expression) => match expression.evaluate(root, env)? {
                    Some(value) => {
                        document.insert(name.as_str(), value);
                    }
                    None => {
                        document.remove(name);
                    }
                },
                Branch::Nested(tree) if tree.computes() => {
                    // Taken out and put back at its place.
                    let old = document.get_mut(name).map(|it| std::mem::replace(it, Bson::Null));
                    let new = tree.compute_in(old.unwrap_or(Bson::Null), root, env)?;
                    document.insert(name.as_str(), new);
                }
                Branch::Nested(_) => {}
            }
        }
        Ok(())
    }

    /// What is no document becomes one; an array's elements become such.
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

/// A `$project` while it is read.
struct Reading<'a> {
    env: &'a Environment,
    kind: Option<Kind>,
    /// Whether `_id` is to stay, if that is said.
    id: Option<bool>,
    tree: Tree,
}

impl Reading<'_> {
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
                    if self.kind == Some(Kind::Exclusion) {
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
            | Bson::Decimal128(_) => self.named(path, truthy(value)),
            other => self.computed(path, other),
        }
    }

    fn computed(&mut self, path: &[String], value: &Bson) -> Result<(), Fault> {
        if self.kind == Some(Kind::Exclusion) {
            let path = path.join(".");
            let message = format!("Cannot use an expression {path} in an exclusion projection");
            return Err(Fault::location(31310, message));
        }
        self.kind = Some(Kind::Inclusion);
        let expression = Expression::parse(value, self.env)?;
        self.tree.insert(path, Branch::Computed(expression), project_collision)
    }

    fn named(&mut self, path: &[String], stays: bool) -> Result<(), Fault> {
        if matches!(path, [only] if only == "_id") {
            self.id = Some(stays);
            return Ok(());
        }
        let kind = if stays { Kind::Inclusion } else { Kind::Exclusion };
        match self.kind {
            Some(Kind::Exclusion) if stays => Err(Fault::location(
                31253,
                format!("Cannot do inclusion on field {} in exclusion projection", path.join(".")),
            )),
            Some(Kind::Inclusion) if !stays => Err(Fault::location(
                31254,
                format!("Cannot do exclusion on field {} in inclusion projection", path.join(".")),
            )),
            _ => {
                self.kind = Some(kind);
                self.tree.insert(path, Branch::Named, project_collision)
            }
        }
    }

    fn finish(mut self) -> Result<Shape, Fault> {
        let kind = match (self.kind, self.id) {
            (Some(kind), _) => kind,
            (None, Some(false)) => Kind::Exclusion,
            (None, _) => Kind::Inclusion,
        };
        let id = ["_id".to_owned()];
        let named = match kind {
            Kind::Inclusion | Kind::Addition => match self.id {
                None => self.tree.get("_id").is_none(),
                Some(stays) => stays,
            },
            Kind::Exclusion => self.id == Some(false),
        };
        if named {
            self.tree.insert(&id, Branch::Named, project_collision)?;
        }
        Ok(Shape { kind, tree: self.tree })
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
    tree: &mut Tree,
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
                tree.insert(&path, Branch::Computed(expression), |_, path| {
                    let message = "specification contains two conflicting paths";
                    Fault::location(40176, format!("{message} at '{}'", path.join(".")))
                })?;
            }
        }
    }
    Ok(())
}

/// Whether a document is an operator with its arguments; else it has fields of its own.
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
