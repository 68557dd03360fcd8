//! Indexes, case by case: what a server was seen to answer.

mod definitions;
mod keys;

use bson::{DateTime, Document, Timestamp};

use crate::{Environment, Fault, Index};

fn env() -> Environment {
    Environment::new(DateTime::from_millis(0), Timestamp { time: 1, increment: 1 }, 1)
}

fn parsed(specification: Document) -> Result<Index, Fault> {
    Index::parse(&specification, &env())
}
