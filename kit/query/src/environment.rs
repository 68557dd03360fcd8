//! Inputs of a query apart from documents: time, random numbers, variables, collation.

use std::cell::Cell;

use bson::{Bson, DateTime, Document, Timestamp, oid::ObjectId};

use crate::{Collation, Expression, Fault, expression::variable_name};

/// Version of MongoDB's query language, where versions differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Dialect {
    /// MongoDB 6.0, and all versions before 8.2.
    #[default]
    V6_0,
    /// MongoDB 8.2.
    V8_2,
}

/// Inputs of a query apart from documents. Create one for each command.
#[derive(Debug)]
pub struct Environment {
    /// `$$NOW`: the same for a whole command.
    pub now: DateTime,
    /// `$$CLUSTER_TIME`. `$currentDate` with type `timestamp` also uses it.
    pub cluster_time: Timestamp,
    /// Variables of the command's `let`, by names without `$$`.
    pub variables: Document,
    /// Collation of the command.
    pub collation: Collation,
    /// Version of the query language.
    pub dialect: Dialect,
    /// Evaluates constant expressions while they are parsed and reports their errors.
    pub(crate) folds_constants: bool,
    rng_state: Cell<u64>,
}

impl Environment {
    /// Creates an environment at a time, with random numbers from a seed.
    pub fn new(now: DateTime, cluster_time: Timestamp, seed: u64) -> Self {
        Self {
            now,
            cluster_time,
            variables: Document::new(),
            collation: Collation::simple(),
            dialect: Dialect::default(),
            folds_constants: true,
            rng_state: Cell::new(seed),
        }
    }

    /// Evaluates and defines the variables of a command's `let`. Their expressions cannot read
    /// documents.
    ///
    /// # Errors
    ///
    /// Fails if a name is invalid or an expression fails.
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

    /// Returns a copy with further variables. A variable without a value becomes undefined.
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
            folds_constants: self.folds_constants,
            rng_state: Cell::new(self.next_random()),
        }
    }

    /// Returns a copy that evaluates constant expressions only with a document. Servers do not fold
    /// constants in updates.
    pub(crate) fn without_constant_folding(&self) -> Self {
        Self { folds_constants: false, ..self.with_variables(Vec::new()) }
    }

    /// Returns `true` if the variable is defined.
    pub(crate) fn defines(&self, name: &str) -> bool {
        self.variables.contains_key(name)
    }

    /// Returns the next random number.
    pub fn next_random(&self) -> u64 {
        // SplitMix64.
        let state = self.rng_state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.rng_state.set(state);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Creates an ObjectId from the time and random numbers.
    pub fn object_id(&self) -> ObjectId {
        let seconds = u32::try_from(self.now.timestamp_millis() / 1000).unwrap_or(0);
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&seconds.to_be_bytes());
        bytes[4..].copy_from_slice(&self.next_random().to_be_bytes());
        ObjectId::from_bytes(bytes)
    }
}
