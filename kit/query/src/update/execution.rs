//! Execution of update operators on a document.

use bson::{Bson, Document};

use crate::{Code, Environment, Fault, text};

use super::{
    array_filters::ArrayFilters,
    navigation::{self, can_have_child, existing, existing_mut, named, reached},
    operator::UpdateOperator,
    storage,
    tree::{ElementUpdates, FieldUpdates, OrderedFieldName, UpdateNode, merged},
};

/// A document during an update.
pub(super) struct Execution<'u> {
    /// Always a document.
    root: Bson,
    filters: &'u ArrayFilters,
    /// Array index of the positional operator `$`.
    position: Option<OrderedFieldName>,
    /// `true` for an upsert: `$setOnInsert` applies.
    inserting: bool,
    changed: bool,
    /// `true` if elements were added to a missing `_id`. Servers report that at the end.
    id_became_array: bool,
    env: &'u Environment,
}

impl<'u> Execution<'u> {
    pub(super) fn new(
        document: Document,
        filters: &'u ArrayFilters,
        position: Option<usize>,
        inserting: bool,
        env: &'u Environment,
    ) -> Self {
        Self {
            root: Bson::Document(document),
            filters,
            position: position.map(|it| OrderedFieldName(it.to_string())),
            inserting,
            changed: false,
            id_became_array: false,
            env,
        }
    }

    /// Applies all operators. The flag is `true` if the document changed.
    pub(super) fn run(mut self, tree: &FieldUpdates) -> Result<(Document, bool), Fault> {
        self.fields(tree, &mut Vec::new())?;
        if self.id_became_array {
            return Err(id_became_array());
        }
        match self.root {
            Bson::Document(document) => Ok((document, self.changed)),
            _ => Err(Fault::bad_value("the document became something else")),
        }
    }

    fn node(&mut self, node: &UpdateNode, path: &mut Vec<String>) -> Result<(), Fault> {
        match node {
            UpdateNode::Fields(fields) => self.fields(fields, path),
            UpdateNode::Elements(elements) => self.elements(elements, path),
            UpdateNode::Leaf(operator) => self.operator(operator, path),
        }
    }

    fn below(
        &mut self,
        name: &str,
        node: &UpdateNode,
        path: &mut Vec<String>,
    ) -> Result<(), Fault> {
        path.push(name.to_owned());
        self.node(node, path)?;
        path.pop();
        Ok(())
    }

    fn fields(&mut self, fields: &FieldUpdates, path: &mut Vec<String>) -> Result<(), Fault> {
        // Operators at `$`, until they are merged or applied.
        let mut matched = match &fields.matched {
            None => None,
            Some(node) => {
                let position = self.position.clone().ok_or_else(|| {
                    Fault::bad_value(
                        "The positional operator did not find the match needed from the query.",
                    )
                })?;
                Some((position, node))
            }
        };
        for (name, node) in &fields.named {
            match matched.take_if(|(position, _)| position == name) {
                Some((_, other)) => {
                    path.push(name.0.clone());
                    let both = merged(node, other, path)?;
                    self.node(&both, path)?;
                    path.pop();
                }
                None => self.below(&name.0, node, path)?,
            }
        }
        match matched {
            Some((position, node)) => self.below(&position.0, node, path),
            None => Ok(()),
        }
    }

    fn elements(&mut self, elements: &ElementUpdates, path: &mut Vec<String>) -> Result<(), Fault> {
        if reached(&self.root, path) < path.len() {
            return Err(Fault::bad_value(format!(
                "The path '{}' must exist in the document in order to apply array updates.",
                path.join(".")
            )));
        }
        let value = existing(&self.root, path);
        let Bson::Array(array) = value else {
            return Err(Fault::bad_value(format!(
                "Cannot apply array updates to non-array element {}",
                text::field(path.last().map_or("", String::as_str), value)
            )));
        };
        let mut meant: Vec<(usize, Vec<&UpdateNode>)> = Vec::new();
        for (index, element) in array.iter().enumerate() {
            let mut nodes = Vec::new();
            for (name, node) in &elements.filtered {
                if self.filters.matches(name, element, self.env)? {
                    nodes.push(node);
                }
            }
            meant.push((index, nodes));
        }
        for (index, nodes) in meant {
            let [first, others @ ..] = &nodes[..] else { continue };
            path.push(index.to_string());
            if others.is_empty() {
                self.node(first, path)?;
            } else {
                let mut both = (*first).clone();
                for other in others {
                    both = merged(&both, other, path)?;
                }
                self.node(&both, path)?;
            }
            path.pop();
        }
        Ok(())
    }

    fn operator(&mut self, operator: &UpdateOperator, path: &[String]) -> Result<(), Fault> {
        match operator {
            UpdateOperator::SetOnInsert(_) if !self.inserting => Ok(()),
            UpdateOperator::Renamed => Ok(()),
            UpdateOperator::Rename { from } => self.rename(from, path),
            UpdateOperator::Unset => {
                if reached(&self.root, path) == path.len() {
                    self.remove(path)?;
                }
                Ok(())
            }
            _ => {
                let reached = reached(&self.root, path);
                if reached == path.len() {
                    self.change(operator, path)
                } else {
                    self.create(operator, path, reached)
                }
            }
        }
    }

    fn change(&mut self, operator: &UpdateOperator, path: &[String]) -> Result<(), Fault> {
        let Bson::Document(document) = &self.root else { return Ok(()) };
        let value = existing(&self.root, path);
        match operator.changed(value, path, document, self.env)? {
            Some(new) => self.replace(path, new),
            None => Ok(()),
        }
    }

    /// Replaces an existing value.
    fn replace(&mut self, path: &[String], value: Bson) -> Result<(), Fault> {
        check_immutable(path)?;
        storage::check_depth(path.len(), &value)?;
        *existing_mut(&mut self.root, path) = value;
        self.changed = true;
        self.check_top_level(path, path.len())
    }

    fn create(
        &mut self,
        operator: &UpdateOperator,
        path: &[String],
        reached: usize,
    ) -> Result<(), Fault> {
        if let Some(value) = operator.created(self.env) {
            self.id_became_array |= path == ["_id"] && operator.adds_elements();
            return self.put(path, reached, value);
        }
        // Operators that create nothing still fail if the path cannot exist.
        let there = &path[..reached];
        let element = existing(&self.root, there);
        if can_have_child(element, &path[reached]) {
            return Ok(());
        }
        let message = format!(
            "Cannot use the part ({}) of ({}) to traverse the element ({})",
            path[reached],
            path.join("."),
            named(there, element)
        );
        Err(Fault::new(Code::PATH_NOT_VIABLE, message))
    }

    /// Creates a missing value.
    fn put(&mut self, path: &[String], reached: usize, value: Bson) -> Result<(), Fault> {
        navigation::create(&mut self.root, path, reached, value)?;
        if reached > 0 && path[0] == "_id" {
            let id = existing(&self.root, &path[..1]);
            let message = format!(
                "Updating the path '_id' to {} would modify the immutable field '_id'",
                text::field("_id", id)
            );
            return Err(Fault::new(Code::IMMUTABLE_FIELD, message));
        }
        storage::check_depth(path.len(), existing(&self.root, path))?;
        self.changed = true;
        self.check_top_level(path, reached + 1)
    }

    fn remove(&mut self, path: &[String]) -> Result<(), Fault> {
        check_immutable(path)?;
        navigation::remove(&mut self.root, path);
        self.changed = true;
        Ok(())
    }

    /// Checks a new top-level field name, which must not start with `$`.
    fn check_top_level(&self, path: &[String], new_from: usize) -> Result<(), Fault> {
        match &self.root {
            Bson::Document(document) if !self.inserting && new_from == 1 => {
                storage::check_top_level_name(&path[0], document)
            }
            _ => Ok(()),
        }
    }

    fn rename(&mut self, from: &str, to: &[String]) -> Result<(), Fault> {
        let from: Vec<String> = from.split('.').map(str::to_owned).collect();
        let found = reached(&self.root, &from);
        if found < from.len() {
            let there = &from[..found];
            let element = existing(&self.root, there);
            if can_have_child(element, &from[found]) {
                return Ok(());
            }
            let message = format!(
                "cannot use the part ({} of {}) to traverse the element ({})",
                there.last().map_or("", String::as_str),
                from.join("."),
                named(there, element)
            );
            return Err(Fault::new(Code::PATH_NOT_VIABLE, message));
        }
        self.check_no_arrays("source", &from, &from[..from.len() - 1])?;
        let reached = reached(&self.root, to);
        self.check_no_arrays("destination", to, &to[..reached.min(to.len() - 1)])?;
        let value = existing(&self.root, &from).clone();
        if reached == to.len() {
            self.replace(to, value)?;
        } else {
            self.put(to, reached, value)?;
        }
        self.remove(&from)
    }

    /// Fails if a path of `$rename` contains an array.
    fn check_no_arrays(&self, what: &str, path: &[String], way: &[String]) -> Result<(), Fault> {
        let array = (1..=way.len())
            .rev()
            .find(|end| matches!(existing(&self.root, &way[..*end]), Bson::Array(_)));
        let Some(end) = array else { return Ok(()) };
        let id = match &self.root {
            Bson::Document(document) => document.get("_id").map(|id| text::field("_id", id)),
            _ => None,
        };
        Err(Fault::bad_value(format!(
            "The {what} field cannot be an array element, '{}' in doc with {} has an array field \
             called '{}'",
            path.join("."),
            id.as_deref().unwrap_or("no id"),
            way[end - 1]
        )))
    }
}

fn id_became_array() -> Fault {
    let message = "After applying the update to the document, the field '_id' was found to be an \
                   array or array descendant.";
    Fault::new(Code::named(54, "NotSingleValueField"), message)
}

fn check_immutable(path: &[String]) -> Result<(), Fault> {
    if path[0] != "_id" {
        return Ok(());
    }
    let path = path.join(".");
    let message =
        format!("Performing an update on the path '{path}' would modify the immutable field '_id'");
    Err(Fault::new(Code::IMMUTABLE_FIELD, message))
}
