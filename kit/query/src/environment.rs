//! What a query can see besides documents: the time, chance, and variables.

use std::cell::Cell;

use bson::{Bson, DateTime, Document, Timestamp, oid::ObjectId};

use crate::{Collation, Expression, Fault, expression::variable_name};

/// The version of MongoDB whose query language is meant, where versions differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Dialect {
    /// MongoDB 6.0, and what came before 8.2.
    #[default]
    V6_0,
    /// MongoDB 8.2.
    V8_2,
}

/// What a query can see besides documents. One for each command.
#[derive(Debug)]
pub struct Environment {
    /// `$$NOW`, the same for a whole command.
    pub now: DateTime,
    /// `$$CLUSTER_TIME`, and the time that `$currentDate` sets as a timestamp.
    pub cluster_time: Timestamp,
    /// The `let` of a command, by names without `$$`.
    pub variables: Document,
    /// How strings compare.
    pub collation: Collation,
    /// The version of the query language.
    pub dialect: Dialect,
    /// Whether what is constant in an expression may fail before there is a document.
    pub(crate) fails_early: bool,
    dice: Cell<u64>,
}

impl Environment {
    /// One at this time, with chances that come from this seed.
    pub fn new(now: DateTime, cluster_time: Timestamp, seed: u64) -> Self {
        Self {
            now,
            cluster_time,
            variables: Document::new(),
            collation: Collation::simple(),
            dialect: Dialect::default(),
            fails_early: true,
            dice: Cell::new(seed),
        }
    }

    /// Defines the variables of a command's `let`: expressions that see no document.
    pub fn define(&mut self, variables: &Document) -> Result<(), Fault> {
        let mut defined = Document::new();
        for (name, expression) in variables {
            variable_name(name)?;
            let expression = Expression::parse(expression, self)?;
            let value = expression.evaluate(&Document::new(), self)?;
            defined.insert(name.as_str(), value.unwrap_or(Bson::Null));
        }
        self.variables.extend(defined);
        Ok(())
    }

    /// The same with these variables besides; what has no value is as good as not there.
    pub(crate) fn with_variables(&self, variables: Vec<(String, Option<Bson>)>) -> Self {
        let mut all = self.variables.clone();
        for (name, value) in variables {
            match value {
                Some(value) => all.insert(name, value),
                None => all.remove(name),
            };
        }
        Self {
            now: self.now,
            cluster_time: self.cluster_time,
            variables: all,
            collation: self.collation.clone(),
            dialect: self.dialect,
            fails_early: self.fails_early,
            dice: Cell::new(self.roll()),
        }
    }

    /// The same where an expression fails only when it is evaluated: a server computes nothing
    /// beforehand of an update.
    pub(crate) fn failing_late(&self) -> Self {
        Self { fails_early: false, ..self.with_variables(Vec::new()) }
    }

    /// Whether there is a variable of this name.
    pub(crate) fn defines(&self, name: &str) -> bool {
        self.variables.contains_key(name)
    }

    /// The next number by chance.
    pub fn roll(&self) -> u64 {
        // SplitMix64.
        let state = self.dice.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.dice.set(state);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A new id for a document that has none.
    pub fn object_id(&self) -> ObjectId {
        let seconds = u32::try_from(self.now.timestamp_millis() / 1000).unwrap_or(0);
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&seconds.to_be_bytes());
        bytes[4..].copy_from_slice(&self.roll().to_be_bytes());
        ObjectId::from_bytes(bytes)
    }
}
