//! The operators of an update, arranged by the fields that they change. No two change the same.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use crate::{Code, Fault};

use super::{array_filters::ArrayFilters, operator::Operator};

/// What is to be done at a place and below it.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Something at fields of it.
    Fields(Fields),
    /// Something at elements of it.
    Elements(Elements),
    /// This, at the place itself.
    Leaf(Arc<Operator>),
}

/// What is to be done at fields. They come in the order in which a server goes through them: it is
/// the order in which new fields appear.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    pub(super) named: BTreeMap<Name, Node>,
    /// At the element that the filter matched: `$`.
    pub(super) matched: Option<Box<Node>>,
}

/// What is to be done at elements: at all of them (`$[]`, the empty name) and at those that an array
/// filter of this name matches (`$[name]`).
#[derive(Clone, Debug, Default)]
pub(super) struct Elements {
    pub(super) filtered: BTreeMap<String, Node>,
}

/// A name of a field. Names that begin like a number are ordered by their length first, so that `9`
/// comes before `10`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(pub(super) String);

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        let numeric = |it: &Self| matches!(it.0.as_bytes().first(), Some(b'1'..=b'9'));
        if numeric(self) && numeric(other) {
            return self.0.len().cmp(&other.0.len()).then_with(|| self.0.cmp(&other.0));
        }
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Fields {
    /// Adds an operator at a dotted path.
    pub(super) fn add(
        &mut self,
        path: &str,
        operator: Operator,
        filters: &mut ArrayFilters,
    ) -> Result<(), Fault> {
        let parts: Vec<&str> = path.split('.').collect();
        add_below(Below::Fields(self), &parts, operator, filters)
    }
}

/// A place that has others below it.
enum Below<'n> {
    Fields(&'n mut Fields),
    Elements(&'n mut Elements),
}

impl<'n> Below<'n> {
    fn child(self, part: &str) -> Slot<'n> {
        match self {
            Self::Fields(fields) if part == "$" => Slot::Matched(&mut fields.matched),
            Self::Fields(fields) => Slot::Named(&mut fields.named, part.to_owned()),
            Self::Elements(elements) => {
                let identifier = identifier(part).unwrap_or(part);
                Slot::Filtered(&mut elements.filtered, identifier.to_owned())
            }
        }
    }
}

/// Where a child is, or could be.
enum Slot<'n> {
    Matched(&'n mut Option<Box<Node>>),
    Named(&'n mut BTreeMap<Name, Node>, String),
    Filtered(&'n mut BTreeMap<String, Node>, String),
}

impl<'n> Slot<'n> {
    fn is_taken(&self) -> bool {
        match self {
            Self::Matched(node) => node.is_some(),
            Self::Named(nodes, name) => nodes.contains_key(&Name(name.clone())),
            Self::Filtered(nodes, name) => nodes.contains_key(name),
        }
    }

    fn or_insert(self, node: Node) -> &'n mut Node {
        match self {
            Self::Matched(slot) => slot.get_or_insert_with(|| Box::new(node)),
            Self::Named(nodes, name) => nodes.entry(Name(name)).or_insert(node),
            Self::Filtered(nodes, name) => nodes.entry(name).or_insert(node),
        }
    }
}

fn add_below(
    mut below: Below<'_>,
    parts: &[&str],
    operator: Operator,
    filters: &mut ArrayFilters,
) -> Result<(), Fault> {
    let conflict = |at: usize| {
        let (path, place) = (parts.join("."), parts[..=at].join("."));
        let message = format!("Updating the path '{path}' would create a conflict at '{place}'");
        Fault::new(Code::CONFLICTING_UPDATE_OPERATORS, message)
    };
    let mut check = |at: usize| match identifier(parts[at]) {
        Some(identifier) => filters.mark_used(identifier, at, &parts.join(".")),
        None => Ok(()),
    };
    let last = parts.len() - 1;
    for at in 0..last {
        check(at)?;
        let of_elements = identifier(parts[at + 1]).is_some();
        let empty = if of_elements {
            Node::Elements(Elements::default())
        } else {
            Node::Fields(Fields::default())
        };
        below = match (below.child(parts[at]).or_insert(empty), of_elements) {
            (Node::Fields(fields), false) => Below::Fields(fields),
            (Node::Elements(elements), true) => Below::Elements(elements),
            (Node::Fields(_) | Node::Elements(_) | Node::Leaf(_), _) => return Err(conflict(at)),
        };
    }
    check(last)?;
    let slot = below.child(parts[last]);
    if slot.is_taken() {
        return Err(conflict(last));
    }
    slot.or_insert(Node::Leaf(Arc::new(operator)));
    Ok(())
}

/// The name of the array filter that a component of a path stands for: `$[name]`. It is empty for
/// `$[]`.
pub(super) fn identifier(part: &str) -> Option<&str> {
    part.strip_prefix("$[")?.strip_suffix(']')
}

/// Puts together what two ways lead to: the matched element and its index, two array filters.
pub(super) fn merged(left: &Node, right: &Node, path: &mut Vec<String>) -> Result<Node, Fault> {
    match (left, right) {
        (Node::Fields(left), Node::Fields(right)) => {
            let mut both = left.clone();
            for (name, node) in &right.named {
                let node = match left.named.get(name) {
                    Some(other) => merged_below(other, node, &name.0, path)?,
                    None => node.clone(),
                };
                both.named.insert(name.clone(), node);
            }
            both.matched = match (&left.matched, &right.matched) {
                (Some(left), Some(right)) => Some(Box::new(merged_below(left, right, "$", path)?)),
                (left, right) => left.clone().or_else(|| right.clone()),
            };
            Ok(Node::Fields(both))
        }
        (Node::Elements(left), Node::Elements(right)) => {
            let mut both = left.clone();
            for (name, node) in &right.filtered {
                let node = match left.filtered.get(name) {
                    Some(other) => merged_below(other, node, &format!("$[{name}]"), path)?,
                    None => node.clone(),
                };
                both.filtered.insert(name.clone(), node);
            }
            Ok(Node::Elements(both))
        }
        (Node::Fields(_) | Node::Elements(_) | Node::Leaf(_), _) => {
            let message = format!("Update created a conflict at '{}'", path.join("."));
            Err(Fault::new(Code::CONFLICTING_UPDATE_OPERATORS, message))
        }
    }
}

fn merged_below(
    left: &Node,
    right: &Node,
    name: &str,
    path: &mut Vec<String>,
) -> Result<Node, Fault> {
    path.push(name.to_owned());
    let both = merged(left, right, path)?;
    path.pop();
    Ok(both)
}
