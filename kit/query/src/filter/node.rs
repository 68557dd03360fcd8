//! Tree of a filter, and its evaluation.

use bson::{Bson, Document};

use super::clause::{Clause, Comparison, Predicate};
use crate::{
    Collation, Environment, Expression, Fault,
    path::{Path, TrailingArray},
};

/// A node of a filter.
#[derive(Clone, Debug)]
pub(super) enum FilterNode {
    /// All of them (`$and`).
    And(Vec<FilterNode>),
    /// At least one of them (`$or`).
    Or(Vec<FilterNode>),
    /// None of them (`$nor`).
    Nor(Vec<FilterNode>),
    /// Condition on a path.
    Field(Path, Clause),
    /// `$expr`.
    Expression(Box<Expression>),
    /// Matches everything (`true`) or nothing.
    Always(bool),
}

/// Evaluation of a filter for one document.
pub(super) struct FilterSearch<'s> {
    collation: &'s Collation,
    env: &'s Environment,
    /// Array index of the last condition that matched an element.
    pub(super) position: Option<usize>,
}

impl<'s> FilterSearch<'s> {
    pub(super) fn new(collation: &'s Collation, env: &'s Environment) -> Self {
        Self { collation, env, position: None }
    }

    pub(super) fn matches(
        &mut self,
        node: &FilterNode,
        document: &Document,
    ) -> Result<bool, Fault> {
        match node {
            FilterNode::And(nodes) => {
                for node in nodes {
                    if !self.matches(node, document)? {
                        self.position = None;
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            FilterNode::Or(nodes) => self.any(nodes, document),
            FilterNode::Nor(nodes) => Ok(!self.any(nodes, document)?),
            FilterNode::Field(path, clause) => Ok(self.field(path, clause, document)),
            FilterNode::Expression(expression) => {
                let value = expression.evaluate(document, self.env)?;
                Ok(value.is_some_and(|it| crate::value::is_truthy(&it)))
            }
            FilterNode::Always(answer) => Ok(*answer),
        }
    }

    /// Evaluates alternatives. They set no position.
    fn any(&self, nodes: &[FilterNode], document: &Document) -> Result<bool, Fault> {
        for node in nodes {
            if FilterSearch::new(self.collation, self.env).matches(node, document)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn field(&mut self, path: &Path, clause: &Clause, document: &Document) -> bool {
        match clause {
            Clause::Test(test) => self.test(path, test, document),
            Clause::Not(clause) => {
                !FilterSearch::new(self.collation, self.env).field(path, clause, document)
            }
            Clause::And(clauses) => clauses.iter().all(|clause| self.field(path, clause, document)),
        }
    }

    fn test(&mut self, path: &Path, test: &Predicate, document: &Document) -> bool {
        let leaf = if test.is_of_arrays() { TrailingArray::Whole } else { TrailingArray::Elements };
        let (collation, env) = (self.collation, self.env);
        let mut position = None;
        let found = path.visit(document, leaf, &mut |path_value| {
            let Some(element) = test.element(path_value.value, collation, env) else {
                return false;
            };
            position = path_value.position.or(element);
            true
        });
        if found && position.is_some() {
            self.position = position;
        }
        found
    }
}

impl FilterNode {
    /// Visits equality conditions.
    pub(super) fn equalities<'n>(&'n self, visit: &mut dyn FnMut(&'n Path, &'n Bson)) {
        match self {
            FilterNode::And(nodes) => nodes.iter().for_each(|it| it.equalities(visit)),
            FilterNode::Field(path, Clause::Test(Predicate::Compare(Comparison::Equal, value))) => {
                visit(path, value);
            }
            FilterNode::Or(_)
            | FilterNode::Nor(_)
            | FilterNode::Field(..)
            | FilterNode::Expression(_)
            | FilterNode::Always(_) => {}
        }
    }

    /// Visits conditions that restrict a field to a list of values.
    pub(super) fn alternatives<'n>(&'n self, visit: &mut dyn FnMut(&'n Path, &'n [Bson])) {
        match self {
            FilterNode::And(nodes) => nodes.iter().for_each(|it| it.alternatives(visit)),
            FilterNode::Field(path, Clause::Test(Predicate::Compare(Comparison::Equal, value))) => {
                visit(path, std::slice::from_ref(value));
            }
            FilterNode::Field(path, Clause::Test(Predicate::AnyOf { values, patterns, .. }))
                if patterns.is_empty() =>
            {
                visit(path, values);
            }
            FilterNode::Or(_)
            | FilterNode::Nor(_)
            | FilterNode::Field(..)
            | FilterNode::Expression(_)
            | FilterNode::Always(_) => {}
        }
    }

    pub(super) fn has_expression(&self) -> bool {
        match self {
            FilterNode::And(nodes) | FilterNode::Or(nodes) | FilterNode::Nor(nodes) => {
                nodes.iter().any(FilterNode::has_expression)
            }
            FilterNode::Expression(_) => true,
            FilterNode::Field(..) | FilterNode::Always(_) => false,
        }
    }

    /// Restructures the tree as servers do. The result determines the positional operator and the
    /// start of an upsert.
    pub(super) fn optimized(self, collation: &Collation) -> Self {
        let each = |nodes: Vec<FilterNode>| nodes.into_iter().map(|it| it.optimized(collation));
        match self {
            FilterNode::And(nodes) => conjunction(each(nodes)),
            FilterNode::Or(nodes) => {
                let mut nodes: Vec<FilterNode> = each(nodes).collect();
                if nodes.len() == 1 {
                    return nodes.remove(0);
                }
                equal_to_any(&nodes, collation).unwrap_or(FilterNode::Or(nodes))
            }
            FilterNode::Nor(nodes) => FilterNode::Nor(each(nodes).collect()),
            FilterNode::Field(path, Clause::And(clauses)) => {
                let field = |clause| FilterNode::Field(path.clone(), clause);
                FilterNode::And(clauses.into_iter().map(field).collect()).optimized(collation)
            }
            FilterNode::Field(..) | FilterNode::Expression(_) | FilterNode::Always(_) => self,
        }
    }

    /// Sorts conditions in the order of servers: by kind, then by path. `None` without parts.
    pub(super) fn sorted(&self) -> Option<Self> {
        let each = |nodes: &[FilterNode]| {
            let sorted = |it: &FilterNode| it.sorted().unwrap_or_else(|| it.clone());
            let mut nodes: Vec<FilterNode> = nodes.iter().map(sorted).collect();
            nodes.sort_by(|left, right| left.order().cmp(&right.order()));
            nodes
        };
        match self {
            FilterNode::And(nodes) => Some(FilterNode::And(each(nodes))),
            FilterNode::Or(nodes) => Some(FilterNode::Or(each(nodes))),
            FilterNode::Nor(nodes) => Some(FilterNode::Nor(each(nodes))),
            FilterNode::Field(..) | FilterNode::Expression(_) | FilterNode::Always(_) => None,
        }
    }

    fn is_never(&self) -> bool {
        matches!(
            self,
            FilterNode::Always(false) | FilterNode::Field(_, Clause::Test(Predicate::Never))
        )
    }

    /// Order of evaluation in a conjunction, as in servers: kind, then path.
    fn order(&self) -> (u8, Option<&Path>) {
        match self {
            FilterNode::And(_) => (0, None),
            FilterNode::Or(_) => (1, None),
            FilterNode::Field(path, clause) => (clause.order(), Some(path)),
            FilterNode::Nor(_) => (31, None),
            FilterNode::Expression(_) => (43, None),
            FilterNode::Always(false) => (44, None),
            FilterNode::Always(true) => (45, None),
        }
    }
}

/// Flattens nested conjunctions. Their conditions follow the others.
fn conjunction(nodes: impl Iterator<Item = FilterNode>) -> FilterNode {
    let (mut flat, mut absorbed) = (Vec::new(), Vec::new());
    for node in nodes {
        match node {
            FilterNode::And(nodes) => absorbed.extend(nodes),
            other => flat.push(other),
        }
    }
    flat.extend(absorbed);
    if flat.iter().any(FilterNode::is_never) {
        return FilterNode::Always(false);
    }
    if flat.len() == 1 { flat.remove(0) } else { FilterNode::And(flat) }
}

/// Rewrites `{$or: [{a: 1}, {a: 2}]}` to `{a: {$in: [1, 2]}}`.
fn equal_to_any(nodes: &[FilterNode], collation: &Collation) -> Option<FilterNode> {
    let FilterNode::Field(path, _) = nodes.first()? else { return None };
    let values: Option<Vec<Bson>> = nodes
        .iter()
        .map(|node| match node {
            FilterNode::Field(
                other,
                Clause::Test(Predicate::Compare(Comparison::Equal, value)),
            ) if other == path => Some(value.clone()),
            _ => None,
        })
        .collect();
    Some(FilterNode::Field(
        path.clone(),
        Clause::Test(Predicate::any_of(values?, Vec::new(), collation)),
    ))
}
