//! Update operators as a tree of fields. No two operators can change the same field.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use crate::{Code, Fault};

use super::{array_filters::ArrayFilters, operator::UpdateOperator};

/// Updates at a field and below it.
#[derive(Clone, Debug)]
pub(super) enum UpdateNode {
    /// Updates of nested fields.
    Fields(FieldUpdates),
    /// Updates of array elements.
    Elements(ElementUpdates),
    /// UpdateOperator on the field itself.
    Leaf(Arc<UpdateOperator>),
}

/// Updates of fields, in the order of servers, which is the order of new fields.
#[derive(Clone, Debug, Default)]
pub(super) struct FieldUpdates {
    pub(super) named: BTreeMap<OrderedFieldName, UpdateNode>,
    /// Update of the matched element (`$`).
    pub(super) matched: Option<Box<UpdateNode>>,
}

/// Updates of array elements: all (`$[]`, the empty name) or those that match an array filter
/// (`$[name]`).
#[derive(Clone, Debug, Default)]
pub(super) struct ElementUpdates {
    pub(super) filtered: BTreeMap<String, UpdateNode>,
}

/// A field name. Names that start with a digit from 1 to 9 are ordered by length first, so `9`
/// precedes `10`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OrderedFieldName(pub(super) String);

impl Ord for OrderedFieldName {
    fn cmp(&self, other: &Self) -> Ordering {
        let numeric = |it: &Self| matches!(it.0.as_bytes().first(), Some(b'1'..=b'9'));
        if numeric(self) && numeric(other) {
            return self.0.len().cmp(&other.0.len()).then_with(|| self.0.cmp(&other.0));
        }
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for OrderedFieldName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FieldUpdates {
    /// Adds an operator at a dotted path.
    pub(super) fn add(
        &mut self,
        path: &str,
        operator: UpdateOperator,
        filters: &mut ArrayFilters,
    ) -> Result<(), Fault> {
        let parts: Vec<&str> = path.split('.').collect();
        add_below(ParentNode::FieldUpdates(self), &parts, operator, filters)
    }
}

/// A node with children.
enum ParentNode<'n> {
    FieldUpdates(&'n mut FieldUpdates),
    ElementUpdates(&'n mut ElementUpdates),
}

impl<'n> ParentNode<'n> {
    fn child(self, part: &str) -> ChildSlot<'n> {
        match self {
            Self::FieldUpdates(fields) if part == "$" => ChildSlot::Matched(&mut fields.matched),
            Self::FieldUpdates(fields) => ChildSlot::Named(&mut fields.named, part.to_owned()),
            Self::ElementUpdates(elements) => {
                let identifier = identifier(part).unwrap_or(part);
                ChildSlot::Filtered(&mut elements.filtered, identifier.to_owned())
            }
        }
    }
}

/// Position of a child, existing or new.
enum ChildSlot<'n> {
    Matched(&'n mut Option<Box<UpdateNode>>),
    Named(&'n mut BTreeMap<OrderedFieldName, UpdateNode>, String),
    Filtered(&'n mut BTreeMap<String, UpdateNode>, String),
}

impl<'n> ChildSlot<'n> {
    fn is_taken(&self) -> bool {
        match self {
            Self::Matched(node) => node.is_some(),
            Self::Named(nodes, name) => nodes.contains_key(&OrderedFieldName(name.clone())),
            Self::Filtered(nodes, name) => nodes.contains_key(name),
        }
    }

    fn or_insert(self, node: UpdateNode) -> &'n mut UpdateNode {
        match self {
            Self::Matched(slot) => slot.get_or_insert_with(|| Box::new(node)),
            Self::Named(nodes, name) => nodes.entry(OrderedFieldName(name)).or_insert(node),
            Self::Filtered(nodes, name) => nodes.entry(name).or_insert(node),
        }
    }
}

fn add_below(
    mut below: ParentNode<'_>,
    parts: &[&str],
    operator: UpdateOperator,
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
            UpdateNode::Elements(ElementUpdates::default())
        } else {
            UpdateNode::Fields(FieldUpdates::default())
        };
        below = match (below.child(parts[at]).or_insert(empty), of_elements) {
            (UpdateNode::Fields(fields), false) => ParentNode::FieldUpdates(fields),
            (UpdateNode::Elements(elements), true) => ParentNode::ElementUpdates(elements),
            (UpdateNode::Fields(_) | UpdateNode::Elements(_) | UpdateNode::Leaf(_), _) => {
                return Err(conflict(at));
            }
        };
    }
    check(last)?;
    let slot = below.child(parts[last]);
    if slot.is_taken() {
        return Err(conflict(last));
    }
    slot.or_insert(UpdateNode::Leaf(Arc::new(operator)));
    Ok(())
}

/// Returns the name of an array filter in a path component (`$[name]`). Empty for `$[]`.
pub(super) fn identifier(part: &str) -> Option<&str> {
    part.strip_prefix("$[")?.strip_suffix(']')
}

/// Merges updates that apply to the same element, by `$` and an index or by two array filters.
pub(super) fn merged(
    left: &UpdateNode,
    right: &UpdateNode,
    path: &mut Vec<String>,
) -> Result<UpdateNode, Fault> {
    match (left, right) {
        (UpdateNode::Fields(left), UpdateNode::Fields(right)) => {
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
            Ok(UpdateNode::Fields(both))
        }
        (UpdateNode::Elements(left), UpdateNode::Elements(right)) => {
            let mut both = left.clone();
            for (name, node) in &right.filtered {
                let node = match left.filtered.get(name) {
                    Some(other) => merged_below(other, node, &format!("$[{name}]"), path)?,
                    None => node.clone(),
                };
                both.filtered.insert(name.clone(), node);
            }
            Ok(UpdateNode::Elements(both))
        }
        (UpdateNode::Fields(_) | UpdateNode::Elements(_) | UpdateNode::Leaf(_), _) => {
            let message = format!("Update created a conflict at '{}'", path.join("."));
            Err(Fault::new(Code::CONFLICTING_UPDATE_OPERATORS, message))
        }
    }
}

fn merged_below(
    left: &UpdateNode,
    right: &UpdateNode,
    name: &str,
    path: &mut Vec<String>,
) -> Result<UpdateNode, Fault> {
    path.push(name.to_owned());
    let both = merged(left, right, path)?;
    path.pop();
    Ok(both)
}
