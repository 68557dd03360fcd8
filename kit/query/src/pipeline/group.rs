//! `$group`, and the grouping part of `$sortByCount` and `$bucket`.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use bson::{Bson, Document};

use super::{
    accumulator::{Accumulator, AccumulatorState},
    bucket::Buckets,
};
use crate::{Collation, Environment, Expression, Fault, value};

#[derive(Clone, Debug)]
pub(super) struct Group {
    key: GroupKey,
    fields: Vec<(String, Accumulator)>,
    sorted: bool,
}

/// Group key of a document.
#[derive(Clone, Debug)]
enum GroupKey {
    Value(Expression),
    /// A document of expressions. Missing values are left out, except that a single one becomes
    /// null.
    Fields(Vec<(String, Expression)>),
    Bucket(Buckets),
}

impl Group {
    pub(super) fn parse(specification: &Document, env: &Environment) -> Result<Self, Fault> {
        let mut key = None;
        let mut fields = Vec::new();
        for (name, value) in specification {
            match name.as_str() {
                "_id" => key = Some(GroupKey::parse(value, env)?),
                // Set by mongos for shards; no effect here.
                "$doingMerge" => {}
                name => fields.push((name.to_owned(), Accumulator::parse(name, value, env)?)),
            }
        }
        match key {
            Some(key) => Ok(Self { key, fields, sorted: false }),
            None => Err(Fault::location(15955, "a group specification must include an _id")),
        }
    }

    /// Group of a `$sortByCount`.
    pub(super) fn counting(by: &Bson, env: &Environment) -> Result<Self, Fault> {
        let key = GroupKey::Value(Expression::parse(by, env)?);
        let fields = vec![("count".to_owned(), Accumulator::counting())];
        Ok(Self { key, fields, sorted: false })
    }

    /// Group of a `$bucket`.
    pub(super) fn bucketed(buckets: Buckets, fields: Vec<(String, Accumulator)>) -> Self {
        Self { key: GroupKey::Bucket(buckets), fields, sorted: true }
    }

    pub(super) fn apply(
        &self,
        rows: &[Arc<Document>],
        env: &Environment,
    ) -> Result<Vec<Arc<Document>>, Fault> {
        let collation = &env.collation;
        let mut places: BTreeMap<Collated<'_>, usize> = BTreeMap::new();
        let mut groups: Vec<(Bson, Vec<AccumulatorState>)> = Vec::new();
        for row in rows {
            let key = self.key.of(row, env)?;
            let place = match places.entry(Collated { value: key, collation }) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let key = new.key().value.clone();
                    let states = self.states(&key, env)?;
                    groups.push((key, states));
                    *new.insert(groups.len() - 1)
                }
            };
            for ((_, accumulator), state) in self.fields.iter().zip(&mut groups[place].1) {
                state.add(accumulator.value(row, env)?, row, collation)?;
            }
        }
        if self.sorted {
            groups.sort_by(|(left, _), (right, _)| value::compare(left, right, collation));
        }
        Ok(groups.into_iter().map(|it| Arc::new(self.outcome(it, collation))).collect())
    }

    fn states(&self, key: &Bson, env: &Environment) -> Result<Vec<AccumulatorState>, Fault> {
        self.fields.iter().map(|(_, it)| it.state(key, env)).collect()
    }

    fn outcome(
        &self,
        (key, states): (Bson, Vec<AccumulatorState>),
        collation: &Collation,
    ) -> Document {
        let mut document = Document::new();
        document.insert("_id", key);
        for ((name, _), state) in self.fields.iter().zip(states) {
            document.insert(name.as_str(), state.finish(collation));
        }
        document
    }
}

impl GroupKey {
    fn parse(value: &Bson, env: &Environment) -> Result<Self, Fault> {
        if let Bson::Document(document) = value {
            let operators = document.keys().filter(|it| it.starts_with('$')).count();
            if operators == 0 {
                // Checks the field names first.
                Expression::parse(value, env)?;
                let field = |(name, value): (&String, &Bson)| {
                    Expression::parse(value, env).map(|it| (name.clone(), it))
                };
                return Ok(Self::Fields(document.iter().map(field).collect::<Result<_, _>>()?));
            }
            if document.len() > 1 {
                let message = "$group does not support inclusion-style expressions";
                return Err(Fault::location(17390, message));
            }
        }
        Expression::parse(value, env).map(Self::Value)
    }

    fn of(&self, document: &Document, env: &Environment) -> Result<Bson, Fault> {
        match self {
            Self::Value(expression) => {
                Ok(expression.evaluate(document, env)?.unwrap_or(Bson::Null))
            }
            Self::Fields(fields) => {
                let mut key = Document::new();
                for (name, expression) in fields {
                    let alone = (fields.len() == 1).then_some(Bson::Null);
                    if let Some(value) = expression.evaluate(document, env)?.or(alone) {
                        key.insert(name.as_str(), value);
                    }
                }
                Ok(key.into())
            }
            Self::Bucket(buckets) => buckets.of(document, env),
        }
    }
}

/// A value ordered by a collation.
pub(super) struct Collated<'a> {
    pub(super) value: Bson,
    pub(super) collation: &'a Collation,
}

impl Ord for Collated<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        value::compare(&self.value, &other.value, self.collation)
    }
}

impl PartialOrd for Collated<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Collated<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Collated<'_> {}
