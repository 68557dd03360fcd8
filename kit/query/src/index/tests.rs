//! Index definitions and keys. Expected results are those of servers.

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
