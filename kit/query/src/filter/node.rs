//! The tree of a filter, and its search through a document.

use bson::{Bson, Document};

use super::clause::{Clause, Comparison, Test};
use crate::{
    Collation, Environment, Expression, Fault,
    path::{Leaf, Path},
};

/// What a filter demands of a document.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// All of them.
    And(Vec<Node>),
    /// At least one of them.
    Or(Vec<Node>),
    /// None of them.
    Nor(Vec<Node>),
    /// Something of a field.
    Field(Path, Clause),
    /// `$expr`.
    Expression(Box<Expression>),
    /// Everything, or nothing.
    Always(bool),
}

/// A search for a match in one document.
pub(super) struct Search<'s> {
    collation: &'s Collation,
    env: &'s Environment,
    /// Which element of an array the last clause matched that looked into one.
    pub(super) position: Option<usize>,
}

impl<'s> Search<'s> {
    pub(super) fn new(collation: &'s Collation, env: &'s Environment) -> Self {
        Self { collation, env, position: None }
    }

    pub(super) fn matches(&mut self, node: &Node, document: &Document) -> Result<bool, Fault> {
        match node {
            Node::And(nodes) => {
                for node in nodes {
                    if !self.matches(node, document)? {
                        self.position = None;
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Node::Or(nodes) => self.any(nodes, document),
            Node::Nor(nodes) => Ok(!self.any(nodes, document)?),
            Node::Field(path, clause) => Ok(self.field(path, clause, document)),
            Node::Expression(expression) => {
                let value = expression.evaluate(document, self.env)?;
                Ok(value.is_some_and(|it| crate::value::truthy(&it)))
            }
            Node::Always(answer) => Ok(*answer),
        }
    }

    /// Alternatives say nothing of a position.
    fn any(&self, nodes: &[Node], document: &Document) -> Result<bool, Fault> {
        for node in nodes {
            if Search::new(self.collation, self.env).matches(node, document)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn field(&mut self, path: &Path, clause: &Clause, document: &Document) -> bool {
        match clause {
            Clause::Test(test) => self.test(path, test, document),
            Clause::Not(clause) => {
                !Search::new(self.collation, self.env).field(path, clause, document)
            }
            Clause::And(clauses) => clauses.iter().all(|clause| self.field(path, clause, document)),
        }
    }

    fn test(&mut self, path: &Path, test: &Test, document: &Document) -> bool {
        let leaf = if test.is_of_arrays() { Leaf::Whole } else { Leaf::Elements };
        let (collation, env) = (self.collation, self.env);
        let mut position = None;
        let found = path.visit(document, leaf, &mut |place| {
            let Some(element) = test.element(place.value, collation, env) else { return false };
            position = place.position.or(element);
            true
        });
        if found && position.is_some() {
            self.position = position;
        }
        found
    }
}

impl Node {
    /// Visits what fields must equal.
    pub(super) fn equalities<'n>(&'n self, visit: &mut dyn FnMut(&'n Path, &'n Bson)) {
        match self {
            Node::And(nodes) => nodes.iter().for_each(|it| it.equalities(visit)),
            Node::Field(path, Clause::Test(Test::Compare(Comparison::Equal, value))) => {
                visit(path, value);
            }
            Node::Or(_)
            | Node::Nor(_)
            | Node::Field(..)
            | Node::Expression(_)
            | Node::Always(_) => {}
        }
    }

    /// Visits the values of which fields must equal one.
    pub(super) fn alternatives<'n>(&'n self, visit: &mut dyn FnMut(&'n Path, &'n [Bson])) {
        match self {
            Node::And(nodes) => nodes.iter().for_each(|it| it.alternatives(visit)),
            Node::Field(path, Clause::Test(Test::Compare(Comparison::Equal, value))) => {
                visit(path, std::slice::from_ref(value));
            }
            Node::Field(path, Clause::Test(Test::AnyOf { values, patterns, .. }))
                if patterns.is_empty() =>
            {
                visit(path, values);
            }
            Node::Or(_)
            | Node::Nor(_)
            | Node::Field(..)
            | Node::Expression(_)
            | Node::Always(_) => {}
        }
    }

    pub(super) fn has_expression(&self) -> bool {
        match self {
            Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => {
                nodes.iter().any(Node::has_expression)
            }
            Node::Expression(_) => true,
            Node::Field(..) | Node::Always(_) => false,
        }
    }

    /// The same in the shape that a server gives it, on which depends what the positional operator stands
    /// for and what an upsert begins with.
    pub(super) fn optimized(self, collation: &Collation) -> Self {
        let each = |nodes: Vec<Node>| nodes.into_iter().map(|it| it.optimized(collation));
        match self {
            Node::And(nodes) => conjunction(each(nodes)),
            Node::Or(nodes) => {
                let mut nodes: Vec<Node> = each(nodes).collect();
                if nodes.len() == 1 {
                    return nodes.remove(0);
                }
                equal_to_any(&nodes, collation).unwrap_or(Node::Or(nodes))
            }
            Node::Nor(nodes) => Node::Nor(each(nodes).collect()),
            Node::Field(path, Clause::And(clauses)) => {
                let field = |clause| Node::Field(path.clone(), clause);
                Node::And(clauses.into_iter().map(field).collect()).optimized(collation)
            }
            Node::Field(..) | Node::Expression(_) | Node::Always(_) => self,
        }
    }

    /// The same in the order that a server searches in: by kind, then by path. `None` if it has no parts.
    pub(super) fn sorted(&self) -> Option<Self> {
        let each = |nodes: &[Node]| {
            let sorted = |it: &Node| it.sorted().unwrap_or_else(|| it.clone());
            let mut nodes: Vec<Node> = nodes.iter().map(sorted).collect();
            nodes.sort_by(|left, right| left.order().cmp(&right.order()));
            nodes
        };
        match self {
            Node::And(nodes) => Some(Node::And(each(nodes))),
            Node::Or(nodes) => Some(Node::Or(each(nodes))),
            Node::Nor(nodes) => Some(Node::Nor(each(nodes))),
            Node::Field(..) | Node::Expression(_) | Node::Always(_) => None,
        }
    }

    fn is_never(&self) -> bool {
        matches!(self, Node::Always(false) | Node::Field(_, Clause::Test(Test::Never)))
    }

    /// By which a server orders the parts of a conjunction: what kind it is, then its path.
    fn order(&self) -> (u8, Option<&Path>) {
        match self {
            Node::And(_) => (0, None),
            Node::Or(_) => (1, None),
            Node::Field(path, clause) => (clause.order(), Some(path)),
            Node::Nor(_) => (31, None),
            Node::Expression(_) => (43, None),
            Node::Always(false) => (44, None),
            Node::Always(true) => (45, None),
        }
    }
}

/// Conjunctions in a conjunction become part of it, after the others.
fn conjunction(nodes: impl Iterator<Item = Node>) -> Node {
    let (mut flat, mut absorbed) = (Vec::new(), Vec::new());
    for node in nodes {
        match node {
            Node::And(nodes) => absorbed.extend(nodes),
            other => flat.push(other),
        }
    }
    flat.extend(absorbed);
    if flat.iter().any(Node::is_never) {
        return Node::Always(false);
    }
    if flat.len() == 1 { flat.remove(0) } else { Node::And(flat) }
}

/// `{$or: [{a: 1}, {a: 2}]}` is `{a: {$in: [1, 2]}}`.
fn equal_to_any(nodes: &[Node], collation: &Collation) -> Option<Node> {
    let Node::Field(path, _) = nodes.first()? else { return None };
    let values: Option<Vec<Bson>> = nodes
        .iter()
        .map(|node| match node {
            Node::Field(other, Clause::Test(Test::Compare(Comparison::Equal, value)))
                if other == path =>
            {
                Some(value.clone())
            }
            _ => None,
        })
        .collect();
    Some(Node::Field(path.clone(), Clause::Test(Test::any_of(values?, Vec::new(), collation))))
}
